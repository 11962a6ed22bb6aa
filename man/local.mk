# Files of man/, included by the top Makefile.am.
dist_man_MANS += \
	man/gpubudget-ctl.1 \
	man/gpubudget-run.1 \
	man/gpubudget.7
