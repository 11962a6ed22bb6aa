# Files of scripts/, included by the top Makefile.am.
EXTRA_DIST += scripts/with-standin
