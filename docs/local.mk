# Files of docs/, included by the top Makefile.am.
