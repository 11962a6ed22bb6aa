/*
 * entry_graph.c: executables with allocation nodes take their memory before they run.
 *
 * Footprint mode: before its first launch, and after a trim, an executable is uploaded as a
 * request of its device's stack: where that does not fit it is trimmed again, the program gets
 * out of memory, and nothing is launched. Requested mode: the nodes are charged from
 * instantiation to the executable's end. Graphs without allocation nodes pass through.
 */
#include "interpose/estimated.h"
#include "interpose/graph_call.h"
#include "interpose/local_memory.h"

#include <stddef.h>

#include "resource/capture.h"
#include "resource/nap.h"
#include "resource/resource.h"

/* While others trim: so often an executable is given its memory anew, and so long in between.
 */
enum { LAUNCH_TRIES = 500, LAUNCH_NAP_NS = 20000 };

/* Memory that was taken by an upload alone goes at a trim. */
static CUresult trim_again(struct gb_graph_call *graph)
{
    const struct gb_driver_api *api = &graph->call.drv->api;

    gb_graphs_make_room(&graph->call.device->backend.graphs, api, true);
    return CUDA_SUCCESS;
}

static CUresult upload(struct gb_graph_call *graph)
{
    return graph->upload(graph->handle, graph->stream);
}

/* The program has asked for a launch only: beside a capture this is a call of ours. */
static CUresult upload_before_launch(struct gb_graph_call *graph)
{
    const struct gb_driver_api *api = &graph->call.drv->api;
    struct gb_capture_mode saved = gb_capture_relax(api);
    CUresult code = upload(graph);

    gb_capture_restore(api, &saved);
    return code;
}

static struct gb_launch_need kernels_of(const struct gb_executable *executable)
{
    return (struct gb_launch_need){.local = atomic_load(&executable->local),
                                   .heap = atomic_load(&executable->heap)};
}

struct asking {
    struct gb_graph_call *graph;
    struct gb_device *device;
    const struct gb_graph_need *need;
};

static CUresult ask(void *arg)
{
    const struct asking *asking = arg;

    return gb_graph_ask(asking->graph, asking->device, asking->need);
}

/*
 * Gives the executable its memory on every device where a trim may have taken it. On success
 * `uploaded` tells whether the driver has done so now. An upload brings the local memory of the
 * kernels, too, where it is gone since the instantiation (measured).
 */
static CUresult prepare(struct gb_graph_call *graph, struct gb_executable *executable,
                        bool *uploaded)
{
    const struct gb_launch_need kernels = kernels_of(executable);

    *uploaded = false;
    for (int i = 0; i < executable->needs.count; i++) {
        const struct gb_graph_need *need = &executable->needs.need[i];
        struct gb_device *device;
        uint64_t era;
        CUresult code;

        if (gb_process_device(graph->call.drv, need->device, &device) != GB_RULING_BUDGET)
            continue;
        era = atomic_load(&device->backend.graphs.trims) + 1;
        if (atomic_load(&executable->prepared[i]) == era)
            continue;
        code = gb_local_prepare(graph->call.drv, &kernels, ask,
                                &(struct asking){graph, device, need}, graph->call.name);
        if (code != CUDA_SUCCESS)
            return code;
        *uploaded = true;
        atomic_store(&executable->prepared[i], era);
    }
    return CUDA_SUCCESS;
}

struct graph_launch {
    gb_fn_cuGraphLaunch *real;
    CUgraphExec handle;
    CUstream stream;
};

static CUresult run(void *arg)
{
    const struct graph_launch *launch = arg;

    return launch->real(launch->handle, launch->stream);
}

/* The device that the executable was given its memory on; NULL: none that has a budget. */
static struct gb_device *prepared_on(const struct gb_executable *executable, int i)
{
    return atomic_load(&executable->prepared[i]) > 0
               ? gb_process_device_at(executable->needs.need[i].device)
               : NULL;
}

static void launched(const struct gb_executable *executable, int count)
{
    for (int i = 0; i < count; i++) {
        struct gb_device *device = prepared_on(executable, i);

        if (device)
            gb_graphs_launch_ends(&device->backend.graphs);
    }
}

/* From now on no trim of ours, and none of the program's that we can hold up, takes back what
 * the executable was given. False: one has. */
static bool may_launch(const struct gb_executable *executable, bool anyway)
{
    for (int i = 0; i < executable->needs.count; i++) {
        struct gb_device *device = prepared_on(executable, i);

        if (device &&
            !gb_graphs_launch_begins(&device->backend.graphs,
                                     atomic_load(&executable->prepared[i]) - 1, anyway)) {
            launched(executable, i);
            return false;
        }
    }
    return true;
}

/* Graph memory first, on every device; then local memory with the launch itself. */
static CUresult launch_prepared(struct gb_graph_call *graph, struct gb_executable *executable,
                                struct graph_launch *launch)
{
    struct gb_launch_need kernels;
    CUresult code;
    bool uploaded;

    for (int i = 0;; i++) {
        code = prepare(graph, executable, &uploaded);
        if (code != CUDA_SUCCESS)
            return code;
        if (may_launch(executable, i == LAUNCH_TRIES))
            break;
        gb_nap(LAUNCH_NAP_NS);
    }
    kernels = kernels_of(executable);
    code = gb_local_launch_needing(graph->call.drv, &kernels, run, launch, "cuGraphLaunch");
    launched(executable, executable->needs.count);
    return code;
}

static CUresult launch_executable(struct gb_driver *drv, struct gb_executable *executable,
                                  struct graph_launch *launch, bool is_thread,
                                  gb_fn_cuGraphUpload *upload_fn)
{
    struct gb_graph_call graph = {.call = {.drv = drv, .name = "cuGraphLaunch"},
                                  .take = upload_before_launch,
                                  .undo = trim_again,
                                  .handle = launch->handle,
                                  .stream = launch->stream,
                                  .upload = upload_fn};
    const struct gb_stream_call call = {.stream = launch->stream, .is_thread = is_thread};
    CUresult code;

    /* A launch that is captured becomes a node: nothing is taken yet. */
    code = gb_process_capturing(drv, &call) ? run(launch)
                                            : launch_prepared(&graph, executable, launch);
    gb_graph_look(drv, executable);
    return code;
}

/* Comes here only while there are executables to know of (GB_ENTRY_QUICK). */
static CUresult launch(struct gb_driver *drv, CUgraphExec handle, CUstream stream,
                       bool is_thread, gb_fn_cuGraphLaunch *real,
                       gb_fn_cuGraphUpload *upload_fn)
{
    struct graph_launch launch = {real, handle, stream};
    struct gb_executable *executable;
    CUresult code;

    if (gb_graph_is_requested() || !upload_fn)
        return real(handle, stream);
    executable = gb_executable_get(drv, handle);
    if (!executable)
        return real(handle, stream);
    code = launch_executable(drv, executable, &launch, is_thread, upload_fn);
    gb_executable_put(executable);
    return code;
}

CUresult gb_enter_cuGraphLaunch(struct gb_driver *drv, CUgraphExec hGraphExec, CUstream hStream)
{
    return launch(drv, hGraphExec, hStream, false, GB_REAL(drv, cuGraphLaunch),
                  GB_REAL(drv, cuGraphUpload));
}

CUresult gb_enter_cuGraphLaunch_ptsz(struct gb_driver *drv, CUgraphExec hGraphExec,
                                     CUstream hStream)
{
    return launch(drv, hGraphExec, hStream, true, GB_REAL(drv, cuGraphLaunch_ptsz),
                  GB_REAL(drv, cuGraphUpload_ptsz));
}

static CUresult upload_only(void *arg)
{
    return upload(arg);
}

/* The program's own upload: the same, but that the driver's call is its own and made in any
 * case. */
static CUresult program_upload(struct gb_driver *drv, CUgraphExec handle, CUstream stream,
                               bool is_thread, gb_fn_cuGraphUpload *real)
{
    struct gb_graph_call graph = {.call = {.drv = drv, .name = "cuGraphUpload"},
                                  .take = upload,
                                  .undo = trim_again,
                                  .handle = handle,
                                  .stream = stream,
                                  .upload = real};
    const struct gb_stream_call call = {.stream = stream, .is_thread = is_thread};
    struct gb_launch_need kernels;
    struct gb_executable *executable;
    CUresult code;
    bool uploaded = false;

    if (gb_executables_none() || gb_graph_is_requested())
        return real(handle, stream);
    executable = gb_executable_get(drv, handle);
    if (!executable)
        return real(handle, stream);
    if (gb_process_capturing(drv, &call)) {
        code = real(handle, stream);
    } else {
        kernels = kernels_of(executable);
        code = prepare(&graph, executable, &uploaded);
        if (code == CUDA_SUCCESS && !uploaded)
            code = gb_local_prepare(drv, &kernels, upload_only, &graph, graph.call.name);
    }
    gb_graph_look(drv, executable);
    gb_executable_put(executable);
    return code;
}

CUresult gb_enter_cuGraphUpload(struct gb_driver *drv, CUgraphExec hGraphExec, CUstream hStream)
{
    return program_upload(drv, hGraphExec, hStream, false, GB_REAL(drv, cuGraphUpload));
}

CUresult gb_enter_cuGraphUpload_ptsz(struct gb_driver *drv, CUgraphExec hGraphExec,
                                     CUstream hStream)
{
    return program_upload(drv, hGraphExec, hStream, true, GB_REAL(drv, cuGraphUpload_ptsz));
}

CUresult gb_enter_cuGraphExecDestroy(struct gb_driver *drv, CUgraphExec hGraphExec)
{
    struct gb_ending ending = gb_ending_begins(GB_MEASURED_GRAPH, hGraphExec);
    struct gb_executable *executable;
    CUresult code;

    executable = gb_executable_take(drv, hGraphExec);
    code = GB_REAL(drv, cuGraphExecDestroy)(hGraphExec);
    if (code != CUDA_SUCCESS) {
        if (executable && !gb_executable_add(executable, drv, hGraphExec))
            gb_executable_end(executable);
    } else if (executable) {
        gb_graph_give_back(executable);
        gb_executable_uncount(executable);
        gb_graph_look(drv, executable);
        gb_executable_end(executable);
    }
    gb_ending_done(&ending, code == CUDA_SUCCESS);
    return code;
}

CUresult gb_enter_cuDeviceGraphMemTrim(struct gb_driver *drv, CUdevice device)
{
    struct gb_device *ours = gb_process_device_at(device);
    CUresult code;

    if (ours)
        gb_graphs_trim_begins(&ours->backend.graphs);
    code = GB_REAL(drv, cuDeviceGraphMemTrim)(device);
    if (ours)
        gb_graphs_trim_ends(&ours->backend.graphs, &drv->api, code == CUDA_SUCCESS);
    return code;
}
