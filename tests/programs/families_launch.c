/*
 * families_launch.c: launches of kernels that need local memory, of modules and of libraries,
 * on streams of the current context and of another one.
 */
#include "families.h"

/* The card has room for 270,336 threads: 16.5 MiB for each 64 bytes beyond the usual 1 KiB. */
#define FRAME(name, bytes)                                                                     \
    ".visible .entry " name "()\n{\n\t.local .align 16 .b8 depot[" bytes "];\n\tret;\n}\n"

static const char text[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                           ".visible .entry none()\n{\n\tret;\n}\n" FRAME("first", "1088")
                               FRAME("second", "1152") FRAME("third", "1280");
static const char *const names[KERNELS_OF_FRAMES] = {"none", "first", "second", "third"};

static CUresult launch_by_form(struct worker *worker, CUfunction function, CUstream stream)
{
    const CUlaunchConfig config = {.gridDimX = 1,
                                   .gridDimY = 1,
                                   .gridDimZ = 1,
                                   .blockDimX = 32,
                                   .blockDimY = 1,
                                   .blockDimZ = 1,
                                   .hStream = stream};

    switch (below(worker, 5)) {
    case 0:
        return cuLaunchKernel_ptsz(function, 1, 1, 1, 32, 1, 1, 0, stream, NULL, NULL);
    case 1:
        return cuLaunchKernelEx(&config, function, NULL, NULL);
    case 2:
        return cuLaunchCooperativeKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, NULL);
    default:
        return cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, NULL, NULL);
    }
}

bool launch_on(struct worker *worker, CUfunction function, bool inner)
{
    const bool leaves = worker->context && one_of(worker, 2);
    const bool is_there = inner == (worker->context && !leaves);
    const uint64_t choice = below(worker, STREAMS + 2);
    CUstream stream = inner ? worker->inner_stream : worker->streams[choice % STREAMS];
    bool done;

    if (is_there && choice >= STREAMS)
        stream = choice == STREAMS ? NULL : CU_STREAM_PER_THREAD;
    if (leaves)
        MUST(cuCtxSetCurrent(primary));
    done = did(worker, is_there ? "kernel" : "kernel elsewhere",
               launch_by_form(worker, function, stream));
    if (leaves)
        MUST(cuCtxSetCurrent(worker->context));
    return done;
}

static bool is_loaded(const struct frames *frames)
{
    return frames->module || frames->library;
}

void end_frames(struct worker *worker, struct frames *frames)
{
    end_runs_of(worker, 1u << (frames - worker->frames));
    if (did(worker, "frames unload",
            frames->module ? cuModuleUnload(frames->module) : cuLibraryUnload(frames->library)))
        *frames = (struct frames){0};
}

/* Its kernels; false: the driver failed to find one. */
static bool find_kernels(struct frames *frames)
{
    for (int i = 0; i < KERNELS_OF_FRAMES; i++) {
        CUkernel kernel = NULL;
        CUresult code;

        if (frames->module) {
            code = cuModuleGetFunction(&frames->functions[i], frames->module, names[i]);
        } else {
            code = cuLibraryGetKernel(&kernel, frames->library, names[i]);
            frames->functions[i] = (CUfunction)(void *)kernel;
        }
        if (code != CUDA_SUCCESS)
            return false;
    }
    return true;
}

static void begin_frames(struct worker *worker, struct frames *frames)
{
    CUlibrary library = UNTOUCHED;
    CUmodule module = UNTOUCHED;

    if (one_of(worker, 2)) {
        if (!gave(worker, "frames library",
                  cuLibraryLoadData(&library, text, NULL, NULL, 0, NULL, NULL, 0),
                  library != UNTOUCHED))
            return;
        frames->library = library;
    } else {
        if (!gave(worker, "frames module", cuModuleLoadData(&module, text),
                  module != UNTOUCHED))
            return;
        frames->module = module;
        frames->inner = worker->context != NULL;
    }
    if (!find_kernels(frames))
        while (is_loaded(frames))
            end_frames(worker, frames);
}

CUfunction some_frame(struct worker *worker, bool inner, unsigned *index)
{
    struct frames *frames;

    *index = (unsigned)below(worker, FRAMES);
    frames = &worker->frames[*index];
    if (!is_loaded(frames) || (frames->module && frames->inner != inner))
        return NULL;
    return frames->functions[below(worker, KERNELS_OF_FRAMES)];
}

void change_frames(struct worker *worker)
{
    struct frames *frames = &worker->frames[below(worker, FRAMES)];
    bool inner = frames->module ? frames->inner : worker->context && one_of(worker, 2);

    if (!is_loaded(frames)) {
        begin_frames(worker, frames);
    } else if (one_of(worker, 8)) {
        end_frames(worker, frames);
    } else {
        /* On a stream of another context than its own the driver launches no function. */
        if (frames->module && worker->context && one_of(worker, 16))
            inner = !inner;
        launch_on(worker, frames->functions[below(worker, KERNELS_OF_FRAMES)], inner);
    }
}
