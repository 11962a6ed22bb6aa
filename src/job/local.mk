# Files of src/job/, included by the top Makefile.am.

# What the tools need, too.
gb_job_file_sources = \
	src/job/job_clean.c src/job/job_clean.h \
	src/job/job_file.c src/job/job_file.h \
	src/job/job_look.c src/job/job_look.h \
	src/job/job_name.c src/job/job_name.h \
	src/job/stat.h \
	src/job/state_dir.c src/job/state_dir.h
gb_core_sources += \
	src/job/job.h \
	src/job/job_budget.c src/job/job_budget.h \
	src/job/job_reserve.c \
	src/job/job_slot.c \
	src/job/job_turn.c \
	$(gb_job_file_sources)
