# Files of tests/programs/, included by the top Makefile.am.

# Routes: programs that ask for the driver's functions in every way, and the libraries that stand
# around them. The libraries are made by hand, because each needs a name, a place and neighbours
# of its own; check-routes.sh is what runs them, and route_program opens them.
route_standin = tests/standin/13.0/libcuda.so.1
route_programs = \
	tests/programs/route_addresses \
	tests/programs/route_calls \
	tests/programs/route_copies \
	tests/programs/route_environ \
	tests/programs/route_linked \
	tests/programs/route_program \
	tests/programs/route_threads
check_PROGRAMS += $(route_programs)
tests_programs_route_addresses_SOURCES = tests/programs/route_addresses.c tests/programs/route_report.h
tests_programs_route_addresses_LDADD = -ldl
tests_programs_route_calls_SOURCES = tests/programs/route_calls.c tests/programs/route_report.h
tests_programs_route_calls_LDFLAGS = -Wl,--no-as-needed
tests_programs_route_calls_LDADD = $(route_standin) -ldl
tests_programs_route_copies_SOURCES = tests/programs/route_copies.c
tests_programs_route_copies_LDADD = -ldl
tests_programs_route_environ_SOURCES = tests/programs/route_environ.c
tests_programs_route_environ_LDADD = -ldl
tests_programs_route_linked_SOURCES = tests/programs/route_program.c tests/programs/route_report.h
tests_programs_route_linked_LDFLAGS = -Wl,--no-as-needed
tests_programs_route_linked_LDADD = $(route_standin) -ldl
tests_programs_route_program_SOURCES = tests/programs/route_program.c tests/programs/route_report.h
tests_programs_route_program_LDADD = -ldl
EXTRA_tests_programs_route_program_DEPENDENCIES = $(route_libraries)
tests_programs_route_threads_SOURCES = tests/programs/route_threads.c
tests_programs_route_threads_LDADD = -ldl

route_libraries = \
	tests/programs/route/libroute_cuda_plugin.so \
	tests/programs/route/libroute_dependency.so \
	tests/programs/route/libroute_interposer_a.so \
	tests/programs/route/libroute_interposer_b.so \
	tests/programs/route/libroute_interposer_plugin.so \
	tests/programs/route/libroute_origin.so \
	tests/programs/route/libroute_plugin.so \
	tests/programs/route/libroute_root.so \
	tests/programs/route/self/libcuda.so.1
route_compile = $(AM_V_CCLD)$(MKDIR_P) `dirname $@` && $(CC) $(DEFS) $(DEFAULT_INCLUDES) \
	$(AM_CPPFLAGS) $(CPPFLAGS) $(AM_CFLAGS) $(CFLAGS) -fPIC -shared $(LDFLAGS) \
	-Wl,--no-as-needed -o $@
route_inputs = \
	$(srcdir)/tests/programs/route_report.h $(srcdir)/src/interpose/entries.def $(route_standin)
route_dir = $(srcdir)/tests/programs

tests/programs/route/libroute_plugin.so: $(route_dir)/route_plugin.c $(route_inputs)
	$(route_compile) $(route_dir)/route_plugin.c -ldl
tests/programs/route/libroute_dependency.so: $(route_dir)/route_plugin.c $(route_inputs)
	$(route_compile) $(route_dir)/route_plugin.c -Wl,-soname,libroute_dependency.so -ldl
tests/programs/route/libroute_cuda_plugin.so: $(route_dir)/route_plugin.c $(route_inputs)
	$(route_compile) $(route_dir)/route_plugin.c $(route_standin) -ldl
tests/programs/route/libroute_root.so: $(route_dir)/route_root.c tests/programs/route/libroute_dependency.so $(route_inputs)
	$(route_compile) $(route_dir)/route_root.c tests/programs/route/libroute_dependency.so \
		$(route_standin) -Wl,-rpath,'$$ORIGIN' -ldl
tests/programs/route/libroute_origin.so: $(route_dir)/route_root.c
	$(route_compile) -DROUTE_ORIGIN $(route_dir)/route_root.c -Wl,-rpath,'$$ORIGIN/sub' -ldl
tests/programs/route/libroute_interposer_a.so: $(route_dir)/route_interposer.c $(route_inputs)
	$(route_compile) -DINTERPOSER=a $(route_dir)/route_interposer.c -ldl
tests/programs/route/libroute_interposer_b.so: $(route_dir)/route_interposer.c $(route_inputs)
	$(route_compile) -DINTERPOSER=b -Wl,--hash-style=sysv $(route_dir)/route_interposer.c -ldl
tests/programs/route/libroute_interposer_plugin.so: $(route_dir)/route_interposer.c $(route_inputs)
	$(route_compile) -DINTERPOSER=c $(route_dir)/route_interposer.c $(route_standin) -ldl
tests/programs/route/self/libcuda.so.1: $(route_dir)/route_driver.c
	$(route_compile) $(route_dir)/route_driver.c -Wl,-soname,libcuda.so.1 -ldl

EXTRA_DIST += \
	tests/programs/route_driver.c \
	tests/programs/route_interposer.c \
	tests/programs/route_plugin.c \
	tests/programs/route_root.c
MOSTLYCLEANFILES += $(route_libraries)

# Observations: prints how the driver behaves, on the stand-in or on a real GPU.
noinst_PROGRAMS += tests/programs/observations
tests_programs_observations_SOURCES = \
	tests/programs/observations.h \
	tests/programs/observations.c \
	tests/programs/observe_codes.c \
	tests/programs/observe_contexts.c \
	tests/programs/observe_direct.c \
	tests/programs/observe_pools.c \
	tests/programs/observe_neighbours.c \
	tests/programs/observe_growth.c \
	tests/programs/observe_order.c \
	tests/programs/observe_calls.c \
	tests/programs/observe_capture.c \
	tests/programs/observe_arrays.c \
	tests/programs/observe_handles.c \
	tests/programs/observe_code.h \
	tests/programs/observe_launch.c \
	tests/programs/observe_limits.c \
	tests/programs/observe_modules.c \
	tests/programs/observe_graphs.c \
	tests/programs/observe_frames.c \
	tests/programs/observe_nodes.c \
	tests/programs/observe_others.c
tests_programs_observations_LDADD = tests/standin/13.0/libcuda.so.1 -ldl

# Users of the core library: linked with it, with its archive, and with nothing but the preload.
core_programs = \
	tests/programs/core_by_name \
	tests/programs/core_no_driver \
	tests/programs/core_runtime \
	tests/programs/core_static
check_PROGRAMS += $(core_programs)
core_sources = tests/programs/core_runtime.c tests/programs/core_calls.h
tests_programs_core_by_name_SOURCES = $(core_sources)
tests_programs_core_by_name_CPPFLAGS = $(AM_CPPFLAGS) -DCORE_BY_NAME
tests_programs_core_by_name_LDADD = $(route_standin) -ldl
tests_programs_core_no_driver_SOURCES = tests/programs/core_no_driver.c
tests_programs_core_no_driver_LDADD = libgpubudget-core.la
tests_programs_core_runtime_SOURCES = $(core_sources)
tests_programs_core_runtime_LDADD = libgpubudget-core.la $(route_standin) -ldl
tests_programs_core_static_SOURCES = $(core_sources)
tests_programs_core_static_LDFLAGS = $(AM_LDFLAGS) -static
tests_programs_core_static_LDADD = libgpubudget-core.la $(route_standin) -ldl

# Programs under a budget; the scripts of tests/preload give them their limits.
budget_programs = \
	tests/programs/budget_arguments \
	tests/programs/budget_arrays \
	tests/programs/budget_capture \
	tests/programs/budget_contexts \
	tests/programs/budget_crowd \
	tests/programs/budget_deep \
	tests/programs/budget_devices \
	tests/programs/budget_ends \
	tests/programs/budget_errors \
	tests/programs/budget_families \
	tests/programs/budget_faults \
	tests/programs/budget_fork \
	tests/programs/budget_graphs \
	tests/programs/budget_handles \
	tests/programs/budget_hidden \
	tests/programs/budget_imports \
	tests/programs/budget_info \
	tests/programs/budget_launch \
	tests/programs/budget_loop \
	tests/programs/budget_messages \
	tests/programs/budget_libraries \
	tests/programs/budget_managed \
	tests/programs/budget_measured \
	tests/programs/budget_mig \
	tests/programs/budget_model \
	tests/programs/budget_no_nvml \
	tests/programs/budget_nodes \
	tests/programs/budget_nvml \
	tests/programs/budget_pools \
	tests/programs/budget_race \
	tests/programs/budget_routes \
	tests/programs/budget_saver \
	tests/programs/budget_settings \
	tests/programs/budget_stream_order \
	tests/programs/budget_undone
check_PROGRAMS += $(budget_programs)
noinst_HEADERS += tests/programs/budget_program.h tests/programs/held_streams.h tests/programs/nvml_program.h tests/programs/nvml_sizes.h
tests_programs_budget_undone_LDADD = $(route_standin) -ldl
tests_programs_budget_nvml_LDADD = $(route_standin) -ldl

# What processes of a job do.
check_PROGRAMS += tests/programs/job_worker tests/programs/budget_job
tests_programs_budget_job_LDADD = $(route_standin) -ldl
tests_programs_job_worker_LDADD = $(route_standin) -ldl

# A program of NVML alone.
noinst_PROGRAMS += tests/programs/visible_lists
tests_programs_visible_lists_SOURCES = tests/programs/visible_lists.c tests/programs/visible_cases.h
tests_programs_visible_lists_LDADD = -ldl
check_PROGRAMS += tests/programs/nvml_linked
tests_programs_nvml_linked_SOURCES = tests/programs/nvml_linked.c
tests_programs_nvml_linked_LDADD = tests/standin/13.0/libnvidia-ml.so.1 -ldl
EXTRA_tests_programs_nvml_linked_DEPENDENCIES = tests/programs/others/libnvmlshim.so
tests_programs_budget_arguments_LDADD = $(route_standin) -ldl
tests_programs_budget_arrays_LDADD = $(route_standin) -ldl
tests_programs_budget_capture_LDADD = $(route_standin) -ldl
tests_programs_budget_contexts_LDADD = $(route_standin) -ldl
tests_programs_budget_crowd_LDADD = $(route_standin) -ldl
tests_programs_budget_deep_LDADD = $(route_standin) -ldl
EXTRA_tests_programs_budget_deep_DEPENDENCIES = tests/programs/others/libdeep.so
tests_programs_budget_devices_LDADD = $(route_standin) -ldl
tests_programs_budget_ends_LDADD = $(route_standin) -ldl
tests_programs_budget_errors_LDADD = $(route_standin) -ldl
# Its clock is to be found by the library.
tests_programs_budget_families_SOURCES = \
	tests/programs/budget_families.c \
	tests/programs/families.h \
	tests/programs/families_launch.c \
	tests/programs/families_runs.c \
	tests/programs/families_sparse.c
tests_programs_budget_families_LDFLAGS = $(AM_LDFLAGS) -rdynamic
tests_programs_budget_families_LDADD = $(route_standin) -ldl
tests_programs_budget_faults_LDADD = $(route_standin) -ldl
tests_programs_budget_fork_LDADD = $(route_standin) -ldl
tests_programs_budget_graphs_LDADD = $(route_standin) -ldl
tests_programs_budget_handles_LDADD = $(route_standin) -ldl
tests_programs_budget_hidden_LDADD = $(route_standin) -ldl
tests_programs_budget_imports_LDADD = $(route_standin) -ldl
tests_programs_budget_info_LDADD = $(route_standin) -ldl
tests_programs_budget_launch_LDADD = $(route_standin) -ldl
tests_programs_budget_loop_LDADD = $(route_standin) -ldl
tests_programs_budget_messages_LDADD = $(route_standin) -ldl
tests_programs_budget_libraries_LDADD = $(route_standin) -ldl
tests_programs_budget_managed_LDADD = $(route_standin) -ldl
tests_programs_budget_measured_LDADD = $(route_standin) -ldl
tests_programs_budget_mig_LDADD = $(route_standin) -ldl
tests_programs_budget_model_LDADD = $(route_standin) -ldl
tests_programs_budget_no_nvml_LDADD = $(route_standin) -ldl
tests_programs_budget_nodes_LDADD = $(route_standin) -ldl
tests_programs_budget_pools_LDADD = $(route_standin) -ldl
tests_programs_budget_race_LDADD = $(route_standin) -ldl
tests_programs_budget_routes_LDADD = $(route_standin) -ldl
tests_programs_budget_saver_LDADD = $(route_standin) -ldl
EXTRA_tests_programs_budget_saver_DEPENDENCIES = tests/programs/others/libsaver.so
tests_programs_budget_settings_LDADD = $(route_standin) -ldl
tests_programs_budget_stream_order_SOURCES = \
	tests/programs/budget_stream_order.c \
	tests/programs/order_forms.c tests/programs/order_forms.h
tests_programs_budget_stream_order_LDADD = $(route_standin) -ldl

# Libraries that stand beside the preload.
tests/programs/others/libsaver.so: $(route_dir)/saver.c $(route_standin)
	$(route_compile) $(route_dir)/saver.c $(route_standin)
tests/programs/others/libdeep.so: $(route_dir)/budget_deep.c $(route_standin)
	$(route_compile) -DLIBRARY $(route_dir)/budget_deep.c $(route_standin) -ldl
tests/programs/others/libnvmlshim.so: $(route_dir)/nvml_shim.c $(route_dir)/nvml_sizes.h
	$(route_compile) $(route_dir)/nvml_shim.c -ldl
EXTRA_DIST += tests/programs/saver.c tests/programs/nvml_shim.c
MOSTLYCLEANFILES += tests/programs/others/libsaver.so tests/programs/others/libdeep.so \
	tests/programs/others/libnvmlshim.so

# Programs that do what they should not; check-attack.sh runs them.
attack_programs = \
	tests/programs/attack_calls \
	tests/programs/attack_cancel \
	tests/programs/attack_few \
	tests/programs/attack_moments \
	tests/programs/attack_stderr \
	tests/programs/attack_two_routes
check_PROGRAMS += $(attack_programs)
tests_programs_attack_calls_LDADD = $(route_standin)
tests_programs_attack_cancel_LDADD = $(route_standin) -ldl
tests_programs_attack_few_CPPFLAGS = $(AM_CPPFLAGS) -DPROGRAM
tests_programs_attack_few_LDADD = -ldl
EXTRA_tests_programs_attack_few_DEPENDENCIES = tests/programs/attack/few/libcuda.so.1
tests_programs_attack_moments_LDADD = $(route_standin)
tests_programs_attack_two_routes_LDADD = $(route_standin) -ldl

tests/programs/attack/few/libcuda.so.1: $(route_dir)/attack_few.c
	$(route_compile) $(route_dir)/attack_few.c -Wl,-soname,libcuda.so.1
MOSTLYCLEANFILES += tests/programs/attack/few/libcuda.so.1

# Requests for memory whose free is pending, here and on a real GPU: linked as an ordinary program is.
noinst_PROGRAMS += tests/programs/budget_follow
tests_programs_budget_follow_SOURCES = tests/programs/budget_follow.c
tests_programs_budget_follow_LDADD = $(gb_link_cuda) -ldl
tests_programs_budget_follow_DEPENDENCIES = $(gb_standin_driver)

# A free in the wrong order, for a real GPU: linked as an ordinary program is.
noinst_PROGRAMS += tests/programs/stream_order_demo
tests_programs_stream_order_demo_SOURCES = tests/programs/stream_order_demo.c
tests_programs_stream_order_demo_LDADD = $(gb_link_cuda)
tests_programs_stream_order_demo_DEPENDENCIES = $(gb_standin_driver)

# The escape matrix, here and on a real GPU: linked as an ordinary program is.
noinst_PROGRAMS += tests/programs/escape
tests_programs_escape_SOURCES = \
	tests/programs/escape.c \
	tests/programs/escape.h \
	tests/programs/escape_ways.c \
	tests/programs/escape_work.c
tests_programs_escape_LDADD = $(gb_link_cuda)
tests_programs_escape_DEPENDENCIES = $(gb_standin_driver)
