# Files of src/interpose/, included by the top Makefile.am.

gb_preload_sources += \
	src/interpose/call.c src/interpose/call.h \
	src/interpose/capacity.c src/interpose/capacity.h \
	src/interpose/captures.c src/interpose/captures.h \
	src/interpose/code.c src/interpose/code.h \
	src/interpose/device_identity.c src/interpose/device_identity.h \
	src/interpose/device_stack.c src/interpose/device_stack.h \
	src/interpose/entries.c src/interpose/entries.def src/interpose/entries.h \
	src/interpose/entry_array.c \
	src/interpose/entry_async.c \
	src/interpose/entry_binding.c \
	src/interpose/entry_capture.c \
	src/interpose/entry_context.c \
	src/interpose/entry_copy.c \
	src/interpose/entry_function.c \
	src/interpose/entry_graph.c \
	src/interpose/entry_graph_nodes.c \
	src/interpose/entry_graph_update.c \
	src/interpose/entry_graphics.c \
	src/interpose/entry_green.c \
	src/interpose/entry_handle.c \
	src/interpose/entry_import.c \
	src/interpose/entry_info.c \
	src/interpose/entry_init.c \
	src/interpose/entry_instantiate.c \
	src/interpose/entry_launch.c \
	src/interpose/entry_library.c \
	src/interpose/entry_lookup.c \
	src/interpose/entry_measured.c \
	src/interpose/entry_memory.c \
	src/interpose/entry_peer.c \
	src/interpose/entry_pool.c \
	src/interpose/entry_stream.c \
	src/interpose/estimated.c src/interpose/estimated.h \
	src/interpose/executables.c src/interpose/executables.h \
	src/interpose/fork.c src/interpose/fork.h \
	src/interpose/functions_known.c src/interpose/functions_known.h \
	src/interpose/graph_call.c src/interpose/graph_call.h \
	src/interpose/graph_width.c src/interpose/graph_width.h \
	src/interpose/group.c src/interpose/group.h \
	src/interpose/handlers.h \
	src/interpose/image.c src/interpose/image.h src/interpose/image_ptx.c \
	src/interpose/imports.c src/interpose/imports.h \
	src/interpose/job_of.c src/interpose/job_of.h \
	src/interpose/kernel_params.c src/interpose/kernel_params.h \
	src/interpose/library_use.c src/interpose/library_use.h \
	src/interpose/managed_code.c src/interpose/managed_code.h \
	src/interpose/measured_call.c src/interpose/measured_call.h \
	src/interpose/own_imports.c src/interpose/own_imports.h \
	src/interpose/local_memory.c src/interpose/local_memory.h \
	src/interpose/local_size.c src/interpose/local_size.h \
	src/interpose/nvml_answer.c src/interpose/nvml_answer.h \
	src/interpose/nvml_card.c src/interpose/nvml_card.h \
	src/interpose/nvml_calls.c src/interpose/nvml_calls.h \
	src/interpose/orphans.c src/interpose/orphans.h \
	src/interpose/pool_owner.c src/interpose/pool_owner.h \
	src/interpose/preload.c \
	src/interpose/process.c src/interpose/process.h \
	src/interpose/scope.c src/interpose/scope.h \
	src/interpose/stream_order.c src/interpose/stream_order.h \
	src/interpose/substitute.c src/interpose/substitute.h \
	src/interpose/text.h \
	src/interpose/thunks.c \
	src/interpose/twice.c src/interpose/twice.h \
	src/interpose/twins.c

if CPU_X86_64
gb_preload_sources += src/interpose/dlsym_x86_64.S
endif
if CPU_AARCH64
gb_preload_sources += src/interpose/dlsym_aarch64.S
endif
EXTRA_DIST += src/interpose/dlsym_x86_64.S src/interpose/dlsym_aarch64.S

# What becomes of each function of the driver, and how docs/coverage.md says it.
EXTRA_DIST += src/interpose/functions.awk src/interpose/functions.tbl

# What runs at every look-up, also of a sanitizer's runtime that is not ready yet: never itself
# instrumented (see text.h).
noinst_LTLIBRARIES += libgblookup.la
libgblookup_la_SOURCES = \
	src/interpose/dlsym.c src/interpose/dlsym.h \
	src/interpose/elf.c src/interpose/elf.h \
	src/interpose/real.c src/interpose/real.h
libgblookup_la_CFLAGS = $(GB_CFLAGS) -include $(top_srcdir)/src/driver/glibc_compat.h
libgblookup_la_LDFLAGS =

# The preload. NEEDED is exactly libc, libdl and libpthread, by name: a newer glibc has the
# functions of the latter two in libc, but under glibc 2.17 a program without them would not start.
# Not one of automake's installed libraries: those are unlinked and then written, and a program that
# starts in between runs without a limit. Here the new file is renamed over the old one.
noinst_LTLIBRARIES += libgpubudget.la
libgpubudget_la_SOURCES = $(gb_core_sources) $(gb_preload_sources)
# -shared is libtool's: only the objects of a shared library are made.
libgpubudget_la_CFLAGS = $(AM_CFLAGS) -include $(top_srcdir)/src/driver/glibc_compat.h -shared
libgpubudget_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -no-undefined \
	-rpath $(pkglibdir) \
	-Wl,-z,defs -Wl,-z,now -Wl,-z,relro -Wl,-z,nodelete -Wl,-z,noexecstack \
	-Wl,--version-script=src/interpose/libgpubudget.map \
	-Wl,--no-as-needed -Wl,-l:libdl.so.2 -Wl,-l:libpthread.so.0
libgpubudget_la_LIBADD = libgblookup.la
libgpubudget_la_DEPENDENCIES = libgblookup.la src/interpose/libgpubudget.map

# The export list comes from the table of entry points. Anonymous: a program that is linked
# against nothing of ours must not bind to a version of ours.
src/interpose/libgpubudget.map: src/interpose/entries.def $(srcdir)/src/interpose/local.mk
	$(AM_V_GEN)$(MKDIR_P) src/interpose && { \
		echo '{ global: dlsym; dlvsym; nvmlDeviceGetMemoryInfo; nvmlDeviceGetMemoryInfo_v2; gpubudget_*;'; \
		sed -n 's/^GB_ENTRY[_A-Z]*(\([A-Za-z0-9_]*\),.*/\1;/p' $(srcdir)/src/interpose/entries.def; \
		echo 'local: *; };'; \
	} >$@.tmp && mv $@.tmp $@
MOSTLYCLEANFILES += src/interpose/libgpubudget.map src/interpose/libgpubudget.map.tmp

install-exec-local: libgpubudget.la
	$(MKDIR_P) '$(DESTDIR)$(pkglibdir)'
	$(INSTALL_DATA) .libs/libgpubudget.so '$(DESTDIR)$(pkglibdir)/libgpubudget.so.new'
	mv -f '$(DESTDIR)$(pkglibdir)/libgpubudget.so.new' '$(DESTDIR)$(pkglibdir)/libgpubudget.so'
