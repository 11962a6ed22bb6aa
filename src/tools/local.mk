# Files of src/tools/, included by the top Makefile.am.

# At the top of the build tree, beside .libs, where it finds an uninstalled library. From sources
# rather than from a libtool archive, so that it is the program itself and not a wrapper script.
bin_PROGRAMS += gpubudget-run gpubudget-ctl
gpubudget_ctl_SOURCES = \
	src/job/job_limit.c \
	src/job/job_limit.h \
	src/tools/gpubudget-ctl.c \
	$(gb_job_file_sources) \
	$(gb_config_sources) \
	$(gb_report_sources)
gpubudget_ctl_CPPFLAGS = $(AM_CPPFLAGS)
gpubudget_run_SOURCES = \
	src/tools/elf_file.c \
	src/tools/elf_file.h \
	src/tools/gpubudget-run.c \
	src/tools/job.c \
	src/tools/job.h \
	src/tools/library.c \
	src/tools/library.h \
	src/tools/preload_list.c \
	src/tools/preload_list.h \
	src/tools/print.c \
	src/tools/print.h \
	src/tools/target.c \
	src/tools/target.h \
	$(gb_job_file_sources) \
	$(gb_config_sources) \
	$(gb_report_sources)
gpubudget_run_CPPFLAGS = $(AM_CPPFLAGS) -DGB_PKGLIBDIR='"$(pkglibdir)"'
gpubudget_run_LDADD = -ldl
# The folder that is compiled in may change with another configure in the same build folder.
src/tools/gpubudget_run-library.$(OBJEXT): Makefile
