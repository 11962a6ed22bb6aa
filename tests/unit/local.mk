# Files of tests/unit/, included by the top Makefile.am.

if HAVE_CHECK
gb_config_tests = \
	tests/unit/check_job \
	tests/unit/check_job_budget \
	tests/unit/check_job_crowd \
	tests/unit/check_limit \
	tests/unit/check_log \
	tests/unit/check_message \
	tests/unit/check_settings \
	tests/unit/check_size \
	tests/unit/check_visible
check_PROGRAMS += $(gb_config_tests)
TESTS += $(gb_config_tests)
tests_unit_check_job_SOURCES = tests/unit/check_job.c tests/unit/job_unit.h tests/unit/unit.h
tests_unit_check_job_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
tests_unit_check_job_LDADD = libgbcore.la $(CHECK_LIBS)
tests_unit_check_job_budget_SOURCES = \
	tests/unit/check_job_budget.c tests/unit/job_unit.h tests/unit/unit.h
tests_unit_check_job_budget_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
tests_unit_check_job_budget_LDADD = libgbcore.la $(CHECK_LIBS)
tests_unit_check_job_crowd_SOURCES = \
	tests/unit/check_job_crowd.c tests/unit/job_unit.h tests/unit/unit.h
tests_unit_check_job_crowd_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
tests_unit_check_job_crowd_LDADD = libgbcore.la $(CHECK_LIBS)
tests_unit_check_limit_SOURCES = tests/unit/check_limit.c
tests_unit_check_limit_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
tests_unit_check_limit_LDADD = libgbcore.la $(CHECK_LIBS)
tests_unit_check_visible_SOURCES = tests/unit/check_visible.c
tests_unit_check_visible_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
tests_unit_check_visible_LDADD = libgbcore.la $(CHECK_LIBS)
tests_unit_check_log_SOURCES = tests/unit/captured.h tests/unit/check_log.c
tests_unit_check_log_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
tests_unit_check_log_LDADD = libgbcore.la $(CHECK_LIBS)
tests_unit_check_message_SOURCES = tests/unit/captured.h tests/unit/check_message.c
tests_unit_check_message_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
tests_unit_check_message_LDADD = libgbcore.la $(CHECK_LIBS)
tests_unit_check_settings_SOURCES = tests/unit/check_settings.c
tests_unit_check_settings_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
tests_unit_check_settings_LDADD = libgbcore.la $(CHECK_LIBS)
tests_unit_check_size_SOURCES = tests/unit/check_size.c
tests_unit_check_size_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
tests_unit_check_size_LDADD = libgbcore.la $(CHECK_LIBS)
endif

# src/resource/, module by module. Those with a driver run on the stand-in, which they are linked
# with: nothing has to be set to run one alone.
if HAVE_CHECK
gb_resource_tests = \
	tests/unit/check_backend \
	tests/unit/check_block_table \
	tests/unit/check_budget \
	tests/unit/check_array_size \
	tests/unit/check_contexts \
	tests/unit/check_exports \
	tests/unit/check_estimates \
	tests/unit/check_credit \
	tests/unit/check_handles \
	tests/unit/check_ledger \
	tests/unit/check_limits \
	tests/unit/check_measured \
	tests/unit/check_inherited \
	tests/unit/check_other \
	tests/unit/check_mappings \
	tests/unit/check_orders \
	tests/unit/check_uses \
	tests/unit/check_pending \
	tests/unit/check_pools \
	tests/unit/check_regions \
	tests/unit/check_sole \
	tests/unit/check_resource
check_PROGRAMS += $(gb_resource_tests)
TESTS += $(gb_resource_tests)
unit_cppflags = $(AM_CPPFLAGS) -I$(top_srcdir)/tests/standin $(CHECK_CFLAGS)
unit_ldadd = libgbcore.la $(CHECK_LIBS) -ldl
unit_standin_ldadd = libgbcore.la tests/standin/13.0/libcuda.so.1 $(CHECK_LIBS) -ldl
unit_ldflags = $(AM_LDFLAGS) -Wl,--wrap=malloc -Wl,--wrap=calloc
unit_standin_ldflags = $(unit_ldflags) -Wl,-rpath,$(abs_builddir)/tests/standin/13.0

tests_unit_check_backend_SOURCES = tests/unit/check_backend.c tests/unit/failing_malloc.h \
	tests/unit/standin_unit.h tests/unit/unit.h
tests_unit_check_backend_CPPFLAGS = $(unit_cppflags)
tests_unit_check_backend_LDFLAGS = $(unit_standin_ldflags)
tests_unit_check_backend_LDADD = $(unit_standin_ldadd)
tests_unit_check_block_table_SOURCES = tests/unit/check_block_table.c \
	tests/unit/failing_malloc.h tests/unit/unit.h
tests_unit_check_block_table_CPPFLAGS = $(unit_cppflags)
tests_unit_check_block_table_LDFLAGS = $(unit_ldflags)
tests_unit_check_block_table_LDADD = $(unit_ldadd)
tests_unit_check_budget_SOURCES = tests/unit/check_budget.c tests/unit/unit.h
tests_unit_check_budget_CPPFLAGS = $(unit_cppflags)
tests_unit_check_budget_LDADD = $(unit_ldadd)
tests_unit_check_array_size_SOURCES = tests/unit/check_array_size.c tests/unit/unit.h
tests_unit_check_array_size_CPPFLAGS = $(unit_cppflags)
tests_unit_check_array_size_LDADD = $(unit_ldadd)
tests_unit_check_inherited_SOURCES = tests/unit/check_inherited.c tests/unit/unit.h
tests_unit_check_inherited_CPPFLAGS = $(unit_cppflags)
tests_unit_check_inherited_LDADD = $(unit_ldadd)
tests_unit_check_other_SOURCES = tests/unit/check_other.c tests/unit/unit.h
tests_unit_check_other_CPPFLAGS = $(unit_cppflags)
tests_unit_check_other_LDADD = $(unit_ldadd)
tests_unit_check_contexts_SOURCES = tests/unit/check_contexts.c tests/unit/failing_malloc.h \
	tests/unit/unit.h
tests_unit_check_contexts_CPPFLAGS = $(unit_cppflags)
tests_unit_check_contexts_LDFLAGS = $(unit_ldflags)
tests_unit_check_contexts_LDADD = $(unit_ldadd)
tests_unit_check_limits_SOURCES = tests/unit/check_limits.c tests/unit/unit.h
tests_unit_check_limits_CPPFLAGS = $(unit_cppflags)
tests_unit_check_limits_LDADD = $(unit_ldadd)
tests_unit_check_measured_SOURCES = tests/unit/check_measured.c tests/unit/unit.h
tests_unit_check_measured_CPPFLAGS = $(unit_cppflags)
tests_unit_check_measured_LDADD = $(unit_ldadd)
tests_unit_check_exports_SOURCES = tests/unit/check_exports.c tests/unit/unit.h
tests_unit_check_exports_CPPFLAGS = $(unit_cppflags)
tests_unit_check_exports_LDADD = $(unit_ldadd)
tests_unit_check_handles_SOURCES = tests/unit/check_handles.c tests/unit/failing_malloc.h \
	tests/unit/unit.h
tests_unit_check_handles_CPPFLAGS = $(unit_cppflags)
tests_unit_check_handles_LDFLAGS = $(unit_ldflags)
tests_unit_check_handles_LDADD = $(unit_ldadd)
tests_unit_check_estimates_SOURCES = tests/unit/check_estimates.c tests/unit/failing_malloc.h \
	tests/unit/unit.h
tests_unit_check_estimates_CPPFLAGS = $(unit_cppflags)
tests_unit_check_estimates_LDFLAGS = $(unit_ldflags)
tests_unit_check_estimates_LDADD = $(unit_ldadd)
tests_unit_check_mappings_SOURCES = tests/unit/check_mappings.c tests/unit/unit.h
tests_unit_check_mappings_CPPFLAGS = $(unit_cppflags)
tests_unit_check_mappings_LDADD = $(unit_ldadd)
tests_unit_check_ledger_SOURCES = tests/unit/check_ledger.c tests/unit/unit.h
tests_unit_check_ledger_CPPFLAGS = $(unit_cppflags)
tests_unit_check_ledger_LDADD = $(unit_ldadd)
tests_unit_check_pending_SOURCES = tests/unit/check_pending.c tests/unit/failing_malloc.h \
	tests/unit/standin_unit.h tests/unit/unit.h
tests_unit_check_pending_CPPFLAGS = $(unit_cppflags)
tests_unit_check_pending_LDFLAGS = $(unit_standin_ldflags)
tests_unit_check_pending_LDADD = $(unit_standin_ldadd)
tests_unit_check_orders_SOURCES = tests/unit/check_orders.c tests/unit/standin_unit.h \
	tests/unit/unit.h
tests_unit_check_orders_CPPFLAGS = $(unit_cppflags)
tests_unit_check_orders_LDFLAGS = $(AM_LDFLAGS) -Wl,-rpath,$(abs_builddir)/tests/standin/13.0
tests_unit_check_orders_LDADD = $(unit_standin_ldadd)
tests_unit_check_uses_SOURCES = tests/unit/check_uses.c tests/unit/failing_malloc.h \
	tests/unit/standin_unit.h tests/unit/unit.h
tests_unit_check_uses_CPPFLAGS = $(unit_cppflags)
tests_unit_check_uses_LDFLAGS = $(unit_standin_ldflags)
tests_unit_check_uses_LDADD = $(unit_standin_ldadd)
tests_unit_check_credit_SOURCES = tests/unit/check_credit.c tests/unit/standin_unit.h \
	tests/unit/unit.h
tests_unit_check_credit_CPPFLAGS = $(unit_cppflags)
tests_unit_check_credit_LDFLAGS = -Wl,-rpath,$(abs_builddir)/tests/standin/13.0
tests_unit_check_credit_LDADD = $(unit_standin_ldadd)
tests_unit_check_pools_SOURCES = tests/unit/check_pools.c tests/unit/failing_malloc.h \
	tests/unit/standin_unit.h tests/unit/unit.h
tests_unit_check_pools_CPPFLAGS = $(unit_cppflags)
tests_unit_check_pools_LDFLAGS = $(unit_standin_ldflags)
tests_unit_check_pools_LDADD = $(unit_standin_ldadd)
tests_unit_check_regions_SOURCES = tests/unit/check_regions.c tests/unit/failing_malloc.h \
	tests/unit/unit.h
tests_unit_check_regions_CPPFLAGS = $(unit_cppflags)
tests_unit_check_regions_LDFLAGS = $(unit_ldflags)
tests_unit_check_regions_LDADD = $(unit_ldadd)
tests_unit_check_sole_SOURCES = tests/unit/check_sole.c tests/unit/unit.h
tests_unit_check_sole_CPPFLAGS = $(unit_cppflags)
tests_unit_check_sole_LDADD = $(unit_ldadd)
tests_unit_check_resource_SOURCES = tests/unit/check_resource.c tests/unit/unit.h
tests_unit_check_resource_CPPFLAGS = $(unit_cppflags)
tests_unit_check_resource_LDADD = $(unit_ldadd)
endif

# The public face: headers, exports, the table of functions, and the documents that name them.
# Without Check the tests by module are left out.
if !HAVE_CHECK
check-local:
	@echo 'No unit tests: install the Debian package check, then run configure again.'
endif

gb_face_tests = \
	tests/unit/check_documents.sh \
	tests/unit/check_headers.sh \
	tests/unit/check_table.sh
TESTS += $(gb_face_tests)
EXTRA_DIST += $(gb_face_tests) tests/unit/declared.awk

# Finding symbols, the driver and NVML.
if HAVE_CHECK
gb_driver_tests = \
	tests/unit/check_driver \
	tests/unit/check_elf \
	tests/unit/check_graph_width \
	tests/unit/check_image
check_PROGRAMS += $(gb_driver_tests)
TESTS += $(gb_driver_tests)
tests_unit_check_driver_SOURCES = tests/unit/check_driver.c
tests_unit_check_driver_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
# Linked, though it only opens them by name: a sanitizer's dlopen does not look at our rpath.
tests_unit_check_driver_LDFLAGS = $(AM_LDFLAGS) -Wl,-rpath,$(abs_builddir)/tests/standin/13.0 \
	-Wl,--no-as-needed
tests_unit_check_driver_LDADD = libgbcore.la tests/standin/13.0/libcuda.so.1 \
	tests/standin/13.0/libnvidia-ml.so.1 $(CHECK_LIBS) -ldl
EXTRA_tests_unit_check_driver_DEPENDENCIES = \
	tests/standin/13.0/libcuda.so.1 tests/standin/13.0/libnvidia-ml.so.1
tests_unit_check_elf_SOURCES = tests/unit/check_elf.c \
	src/interpose/elf.c src/interpose/elf.h src/interpose/text.h
tests_unit_check_elf_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
tests_unit_check_elf_LDFLAGS = $(AM_LDFLAGS) -rdynamic -Wl,--hash-style=sysv
tests_unit_check_elf_LDADD = $(CHECK_LIBS) -ldl
tests_unit_check_graph_width_SOURCES = tests/unit/check_graph_width.c \
	tests/unit/failing_malloc.h tests/unit/unit.h \
	src/interpose/graph_width.c src/interpose/graph_width.h
tests_unit_check_graph_width_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
tests_unit_check_graph_width_LDFLAGS = $(unit_ldflags)
tests_unit_check_graph_width_LDADD = $(CHECK_LIBS)
tests_unit_check_image_SOURCES = tests/unit/check_image.c tests/unit/unit.h \
	src/interpose/image.c src/interpose/image.h src/interpose/image_ptx.c
tests_unit_check_image_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
tests_unit_check_image_LDADD = $(CHECK_LIBS)
endif
