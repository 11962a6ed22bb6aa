# Files of tests/tools/, included by the top Makefile.am.

# Prints the settings table as the manual's ENVIRONMENT section must have it.
check_PROGRAMS += tests/tools/settings-table
tests_tools_settings_table_SOURCES = \
	tests/tools/settings-table.c
tests_tools_settings_table_LDADD = libgbcore.la
gb_tools_tests = \
	tests/tools/check-gpu-judge.sh \
	tests/tools/check-man.sh \
	tests/tools/check-run.sh
TESTS += $(gb_tools_tests)
EXTRA_DIST += $(gb_tools_tests)
