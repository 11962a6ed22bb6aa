# Files of src/driver/, included by the top Makefile.am.

gb_core_sources += \
	src/driver/api.c src/driver/api.h src/driver/cuda_api.h \
	src/driver/open.c src/driver/open.h \
	src/driver/nvml.c src/driver/nvml.h src/driver/nvml_types.h src/driver/symbol.h \
	src/driver/version.c

gb_preload_sources += src/driver/driver.c src/driver/driver.h src/driver/glibc_compat.h

# Libraries

# The objects of the core as one archive: the core library is made of it, and unit tests link
# it, since they need the hidden names.
noinst_LTLIBRARIES += libgbcore.la
libgbcore_la_SOURCES = $(gb_core_sources) src/driver/symbol_plain.c

lib_LTLIBRARIES += libgpubudget-core.la
libgpubudget_core_la_SOURCES =
libgpubudget_core_la_LIBADD = libgbcore.la
libgpubudget_core_la_LDFLAGS = $(AM_LDFLAGS) -version-info 0:0:0 -no-undefined \
	-export-symbols-regex '^gpubudget_' -Wl,-z,now -Wl,-z,relro

gpubudgetincludedir = $(includedir)/gpubudget
gpubudgetinclude_HEADERS = \
	include/gpubudget/accounting.h \
	include/gpubudget/budget.h \
	include/gpubudget/driver_resource.h \
	include/gpubudget/gpubudget.h \
	include/gpubudget/resource.h \
	include/gpubudget/status.h

pkgconfigdir = $(libdir)/pkgconfig
pkgconfig_DATA = gpubudget.pc gpubudget-core.pc

# Nothing uses the libtool archives of what is installed: the preload is never linked, the core
# library is found by pkg-config. Without them libtool cannot uninstall, so that is done here.
install-exec-hook:
	rm -f '$(DESTDIR)$(libdir)/libgpubudget-core.la'

uninstall-hook:
	rm -f '$(DESTDIR)$(pkglibdir)/libgpubudget.so' \
		'$(DESTDIR)$(libdir)/libgpubudget-core.a' \
		'$(DESTDIR)$(libdir)/libgpubudget-core.so' \
		'$(DESTDIR)$(libdir)/libgpubudget-core.so.0' \
		'$(DESTDIR)$(libdir)/libgpubudget-core.so.0.0.0'
	-rmdir '$(DESTDIR)$(pkglibdir)' '$(DESTDIR)$(gpubudgetincludedir)' 2>/dev/null
