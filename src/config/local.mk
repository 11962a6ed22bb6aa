# Files of src/config/, included by the top Makefile.am. gpubudget-run is built from them too.
gb_config_sources = \
	src/config/characters.h \
	src/config/device_key.c \
	src/config/device_key.h \
	src/config/limit.c \
	src/config/limit.h \
	src/config/limit_match.c \
	src/config/mps_limit.c \
	src/config/mps_limit.h \
	src/config/settings.c \
	src/config/settings.h \
	src/config/settings_parse.c \
	src/config/settings_parse.h \
	src/config/settings_table.c \
	src/config/settings_table.h \
	src/config/size.c \
	src/config/size.h \
	src/config/visible.c \
	src/config/visible.h
gb_core_sources += $(gb_config_sources)
