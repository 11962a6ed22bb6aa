# Files of tests/unit/, included by the top Makefile.am.

if HAVE_CHECK
gb_config_tests = \
	tests/unit/check_limit \
	tests/unit/check_log \
	tests/unit/check_message \
	tests/unit/check_settings \
	tests/unit/check_size
check_PROGRAMS += $(gb_config_tests)
TESTS += $(gb_config_tests)
tests_unit_check_limit_SOURCES = tests/unit/check_limit.c
tests_unit_check_limit_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
tests_unit_check_limit_LDADD = libgbcore.la $(CHECK_LIBS)
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
