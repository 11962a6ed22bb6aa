# Files of src/report/, included by the top Makefile.am. gpubudget-run is built from them too.
gb_report_sources = \
	src/report/line.c \
	src/report/line.h \
	src/report/log.c \
	src/report/log.h \
	src/report/message.c \
	src/report/message.h
gb_core_sources += $(gb_report_sources)
