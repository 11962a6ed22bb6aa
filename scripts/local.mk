# Files of scripts/, included by the top Makefile.am.
EXTRA_DIST += scripts/with-standin
EXTRA_DIST += \
	.ci/run \
	scripts/bench \
	scripts/check \
	scripts/coverage \
	scripts/demo \
	scripts/gpu-check \
	scripts/gpu-judge.sh \
	scripts/lib.sh \
	scripts/old-root \
	scripts/soak

# Programs of an ordinary user, for the demonstration, the measurements and the real GPU. Linked
# with -lcuda where they are linked: at run time libcuda.so.1 is the real one, or the stand-in's.
gb_standin_driver = tests/standin/13.0/libcuda.so.1
gb_link_cuda = -Ltests/standin/13.0 -lcuda -ldl

noinst_PROGRAMS += tests/programs/take tests/programs/take_loader
tests_programs_take_SOURCES = \
	tests/programs/take.c tests/programs/take.h tests/programs/take_run.c
tests_programs_take_LDADD = $(gb_link_cuda)
tests_programs_take_DEPENDENCIES = $(gb_standin_driver)
tests_programs_take_loader_SOURCES = \
	tests/programs/take_loader.c tests/programs/take.h tests/programs/take_run.c
tests_programs_take_loader_LDADD = -ldl

noinst_PROGRAMS += tests/programs/bench_pairs
tests_programs_bench_pairs_SOURCES = tests/programs/bench_pairs.c
tests_programs_bench_pairs_LDADD = $(gb_link_cuda)
tests_programs_bench_pairs_DEPENDENCIES = $(gb_standin_driver)

noinst_PROGRAMS += tests/programs/bench_job
tests_programs_bench_job_SOURCES = tests/programs/bench_job.c
tests_programs_bench_job_LDADD = libgbcore.la

noinst_PROGRAMS += tests/programs/gpu_watch
tests_programs_gpu_watch_SOURCES = tests/programs/gpu_watch.c
tests_programs_gpu_watch_LDADD = -ldl

# Ratios with and without the library, on the stand-in and, where there is one, on a real GPU.
# BENCH_FLAGS: options of scripts/bench, for both.
bench: all
	@echo 'On the simulated driver:'
	@GB_BUILDDIR='$(abs_builddir)' $(srcdir)/scripts/bench $(BENCH_FLAGS)
	@if probe=`tests/programs/take_loader --probe 2>&1` && \
		! printf '%s\n' "$$probe" | grep -q '^library: .*/tests/standin/'; then \
		printf 'On the GPU of this machine:\n'; \
		GB_BUILDDIR='$(abs_builddir)' $(srcdir)/scripts/bench --gpu $(BENCH_FLAGS); \
	else \
		printf 'No usable GPU here: %s\n' "`printf '%s\n' "$$probe" | tail -n 1`"; \
	fi

# With nvcc: programs of the CUDA runtime, linked with it statically and dynamically.
gpu-programs: tests/programs/gpu/runtime_take_static tests/programs/gpu/runtime_take_shared \
	tests/programs/gpu/runtime_variables
gb_nvcc = $${NVCC:-nvcc}
tests/programs/gpu/runtime_take_static: $(srcdir)/tests/programs/gpu/runtime_take.cu
	$(MKDIR_P) tests/programs/gpu && $(gb_nvcc) -O2 -cudart static -o $@ \
		$(srcdir)/tests/programs/gpu/runtime_take.cu
tests/programs/gpu/runtime_take_shared: $(srcdir)/tests/programs/gpu/runtime_take.cu
	$(MKDIR_P) tests/programs/gpu && $(gb_nvcc) -O2 -cudart shared -o $@ \
		$(srcdir)/tests/programs/gpu/runtime_take.cu
tests/programs/gpu/runtime_variables: $(srcdir)/tests/programs/gpu/runtime_variables.cu
	$(MKDIR_P) tests/programs/gpu && $(gb_nvcc) -O2 -o $@ \
		$(srcdir)/tests/programs/gpu/runtime_variables.cu
.PHONY: bench gpu-programs

EXTRA_DIST += \
	tests/programs/gpu/conv_take.py \
	tests/programs/gpu/cupy_take.py \
	tests/programs/gpu/graph_beside.py \
	tests/programs/gpu/graph_take.py \
	tests/programs/gpu/graph_words.py \
	tests/programs/gpu/jax_take.py \
	tests/programs/gpu/nccl_reduce.py \
	tests/programs/gpu/numba_take.py \
	tests/programs/gpu/nvml_tells.py \
	tests/programs/gpu/runtime_take.cu \
	tests/programs/gpu/runtime_variables.cu \
	tests/programs/gpu/take_words.py \
	tests/programs/gpu/torch_engine.py \
	tests/programs/gpu/torch_same.py \
	tests/programs/gpu/torch_step.py \
	tests/programs/gpu/torch_take.py \
	tests/programs/gpu/two_devices.py
MOSTLYCLEANFILES += \
	tests/programs/gpu/runtime_take_static \
	tests/programs/gpu/runtime_take_shared \
	tests/programs/gpu/runtime_variables

# Written by scripts/gpu-check on a machine with a GPU.
EXTRA_DIST += docs/gpu-results.md scripts/README.md
