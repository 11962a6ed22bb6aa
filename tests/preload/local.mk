# Files of tests/preload/, included by the top Makefile.am.

# Interposition, on the stand-in and on no driver at all.
gb_route_tests = \
	tests/preload/check-aarch64.sh \
	tests/preload/check-routes.sh \
	tests/preload/check-silence.sh \
	tests/preload/check-symbols.sh
TESTS += $(gb_route_tests)
EXTRA_DIST += tests/preload/cases.sh $(gb_route_tests)

# For check-aarch64.sh, which compiles the preload for the other processor.
gb-print-preload-sources:
	@echo $(gb_core_sources) $(gb_preload_sources) $(libgblookup_la_SOURCES)
gb-print-preload-flags:
	@echo $(CUDA_CPPFLAGS)

# The core library as a product, and inside a preloaded process.
TESTS += tests/preload/check-core.sh
EXTRA_DIST += tests/preload/check-core.sh

# The budget on real programs.
gb_budget_tests = \
	tests/preload/check-arguments.sh \
	tests/preload/check-arrays.sh \
	tests/preload/check-budget.sh \
	tests/preload/check-capture.sh \
	tests/preload/check-contexts.sh \
	tests/preload/check-crowd.sh \
	tests/preload/check-ends.sh \
	tests/preload/check-families.sh \
	tests/preload/check-faults.sh \
	tests/preload/check-follow.sh \
	tests/preload/check-fork.sh \
	tests/preload/check-graphs.sh \
	tests/preload/check-handles.sh \
	tests/preload/check-imports.sh \
	tests/preload/check-ctl.sh \
	tests/preload/check-info.sh \
	tests/preload/check-job.sh \
	tests/preload/check-launch.sh \
	tests/preload/check-measured.sh \
	tests/preload/check-messages.sh \
	tests/preload/check-mig.sh \
	tests/preload/check-model.sh \
	tests/preload/check-no-nvml.sh \
	tests/preload/check-nvml.sh \
	tests/preload/check-others.sh \
	tests/preload/check-pools.sh \
	tests/preload/check-ptx.sh \
	tests/preload/check-race.sh \
	tests/preload/check-settings.sh \
	tests/preload/check-stream-order.sh
TESTS += $(gb_budget_tests)
EXTRA_DIST += tests/preload/README.md tests/preload/budget.sh tests/preload/job.sh $(gb_budget_tests)

# A driver that does not tell.
TESTS += tests/preload/check-unlearned.sh
EXTRA_DIST += tests/preload/check-unlearned.sh

# Processes share nothing; a new library takes the place of an old one.
TESTS += tests/preload/check-alone.sh tests/preload/check-install.sh
EXTRA_DIST += tests/preload/check-alone.sh tests/preload/check-install.sh

# What a program, its surroundings or the driver should not do.
TESTS += tests/preload/check-attack.sh
EXTRA_DIST += tests/preload/check-attack.sh

# The escape matrix; scripts/gpu-check judges by the same rules.
TESTS += tests/preload/check-escape.sh
EXTRA_DIST += tests/preload/check-escape.sh tests/preload/escape-rows.sh
