# The stand-in driver: libcuda.so.1 of four driver versions from the same objects, and
# libnvidia-ml.so.1. Built by a plain make, never installed.
standin_sources = \
	tests/standin/standin.h \
	tests/standin/sim.h \
	tests/standin/sim_graph.h \
	tests/standin/sim_module.h \
	tests/standin/names.h \
	tests/standin/settings.h \
	tests/standin/settings.c \
	tests/standin/mig.c \
	tests/standin/state.c \
	tests/standin/faults.c \
	tests/standin/objects.c \
	tests/standin/card.c \
	tests/standin/ranges.c \
	tests/standin/heap.c \
	tests/standin/control.c \
	tests/standin/errors.c \
	tests/standin/lookup.c \
	tests/standin/device.c \
	tests/standin/context.c \
	tests/standin/context_create.c \
	tests/standin/primary.c \
	tests/standin/queue.c \
	tests/standin/stream.c \
	tests/standin/stream_info.c \
	tests/standin/wait_value.c \
	tests/standin/event.c \
	tests/standin/direct.c \
	tests/standin/late.c \
	tests/standin/managed.c \
	tests/standin/host.c \
	tests/standin/pointer.c \
	tests/standin/copy.h \
	tests/standin/copy.c \
	tests/standin/copy_sync.c \
	tests/standin/copy_shapes.c \
	tests/standin/pool.c \
	tests/standin/pool_async.c \
	tests/standin/pool_manage.c \
	tests/standin/pool_share.c \
	tests/standin/capture.c \
	tests/standin/capture_info.c \
	tests/standin/graph.c \
	tests/standin/graph_nodes.c \
	tests/standin/graph_work.c \
	tests/standin/graph_child.c \
	tests/standin/graph_edges.c \
	tests/standin/graph_exec.c \
	tests/standin/graph_launch.c \
	tests/standin/graph_update.c \
	tests/standin/physical.h \
	tests/standin/virtual.c \
	tests/standin/handle_share.c \
	tests/standin/multicast.c \
	tests/standin/array.h \
	tests/standin/array_format.c \
	tests/standin/array.c \
	tests/standin/mipmap.c \
	tests/standin/sparse.c \
	tests/standin/ptx.c \
	tests/standin/module.c \
	tests/standin/function.c \
	tests/standin/library.c \
	tests/standin/kernel.c \
	tests/standin/link.c \
	tests/standin/local.c \
	tests/standin/limit.c \
	tests/standin/launch.h \
	tests/standin/launch.c \
	tests/standin/launch_old.c \
	tests/standin/green.c \
	tests/standin/ipc.c \
	tests/standin/interop.c

standin_cflags = $(AM_CFLAGS) -fPIC -fvisibility=default

noinst_LIBRARIES = tests/standin/libstandin.a tests/standin/libstandin-nvml.a
tests_standin_libstandin_a_SOURCES = $(standin_sources)
nodist_tests_standin_libstandin_a_SOURCES = tests/standin/names.c
tests_standin_libstandin_a_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/tests/standin
tests_standin_libstandin_a_CFLAGS = $(standin_cflags)
tests_standin_libstandin_nvml_a_SOURCES = \
	tests/standin/nvml.c \
	tests/standin/nvml_describe.c \
	tests/standin/nvml_mig.c \
	tests/standin/nvml_types.h \
	tests/standin/settings.c \
	tests/standin/mig.c
tests_standin_libstandin_nvml_a_CFLAGS = $(standin_cflags)

standin_tables = $(srcdir)/tests/standin/names.tbl $(srcdir)/tests/standin/names-future.tbl
standin_libraries = \
	tests/standin/11.4/libcuda.so.1 \
	tests/standin/12.4/libcuda.so.1 \
	tests/standin/13.0/libcuda.so.1 \
	tests/standin/future/libcuda.so.1 \
	tests/standin/versioned/libcuda.so.1
standin_copies = \
	tests/standin/11.4/libnvidia-ml.so.1 \
	tests/standin/12.4/libnvidia-ml.so.1 \
	tests/standin/13.0/libnvidia-ml.so.1 \
	tests/standin/future/libnvidia-ml.so.1 \
	tests/standin/versioned/libnvidia-ml.so.1

noinst_DATA = $(standin_libraries) $(standin_copies)

tests/standin/names.c: $(standin_tables) tests/standin/names.awk
	$(AM_V_GEN)$(MKDIR_P) tests/standin && \
	$(AWK) -v want=source -f $(srcdir)/tests/standin/names.awk $(standin_tables) >$@.tmp && \
	mv -f $@.tmp $@

# Each folder's name says the driver; the version number in it follows from the name. The one in
# `versioned` is 13.0 with a symbol version, STANDIN_SYMBOL_VERSION of standin.h, on every name.
$(standin_libraries): tests/standin/libstandin.a tests/standin/version.c tests/standin/names.awk $(standin_tables)
	$(AM_V_GEN)dir=`dirname $@`; node=; case $$dir in \
	*/11.4) version=11040;; *12.4) version=12040;; *13.0) version=13000;; \
	*/versioned) version=13000 node='STANDIN_1 ';; *) version=14000;; esac; \
	$(MKDIR_P) $$dir && \
	$(AWK) -v want=map -v version=$$version -f $(srcdir)/tests/standin/names.awk \
		$(standin_tables) | sed "1s/^/$$node/" >$$dir/exports.map && \
	$(CC) $(CPPFLAGS) $(AM_CFLAGS) $(CFLAGS) -fPIC -DSIM_DRIVER_VERSION=$$version -shared \
		$(LDFLAGS) -o $@.tmp $(srcdir)/tests/standin/version.c \
		-Wl,-soname,libcuda.so.1 -Wl,-Bsymbolic -Wl,--version-script=$$dir/exports.map \
		-Wl,--whole-archive tests/standin/libstandin.a -Wl,--no-whole-archive \
		-pthread -ldl && mv -f $@.tmp $@ && ln -sf libcuda.so.1 $$dir/libcuda.so

$(standin_copies): tests/standin/libstandin-nvml.a tests/standin/nvml.map
	$(AM_V_GEN)dir=`dirname $@`; $(MKDIR_P) $$dir && \
	$(CC) $(AM_CFLAGS) $(CFLAGS) -shared $(LDFLAGS) -o $@.tmp \
		-Wl,-soname,libnvidia-ml.so.1 -Wl,-Bsymbolic \
		-Wl,--version-script=$(srcdir)/tests/standin/nvml.map \
		-Wl,--whole-archive tests/standin/libstandin-nvml.a -Wl,--no-whole-archive \
		-pthread -ldl && mv -f $@.tmp $@

EXTRA_DIST += \
	tests/standin/names.tbl \
	tests/standin/names-future.tbl \
	tests/standin/names.awk \
	tests/standin/nvml.map \
	tests/standin/version.c \
	tests/standin/profiles/h200-580.txt
CLEANFILES += \
	$(standin_libraries) $(standin_copies) tests/standin/names.c \
	tests/standin/11.4/libcuda.so tests/standin/12.4/libcuda.so \
	tests/standin/13.0/libcuda.so tests/standin/future/libcuda.so \
	tests/standin/versioned/libcuda.so tests/standin/versioned/exports.map \
	tests/standin/11.4/exports.map tests/standin/12.4/exports.map \
	tests/standin/13.0/exports.map tests/standin/future/exports.map

# Its own tests.
check_PROGRAMS += tests/standin/check_standin
tests_standin_check_standin_SOURCES = \
	tests/standin/check_standin.h \
	tests/standin/check_standin.c \
	tests/standin/check_library.c \
	tests/standin/check_streams.c \
	tests/standin/check_arrays.c \
	tests/standin/check_handles.c \
	tests/standin/check_code.h \
	tests/standin/check_code.c \
	tests/standin/check_limits.c \
	tests/standin/check_modules.c \
	tests/standin/check_graph_nodes.c \
	tests/standin/check_graphs.c \
	tests/standin/check_memory.c
tests_standin_check_standin_LDADD = tests/standin/13.0/libcuda.so.1 -ldl
TESTS += tests/preload/check-standin.sh
EXTRA_DIST += \
	tests/preload/check-standin.sh \
	tests/standin/README.md \
	tests/standin/compare-observations
