/* Graph memory, modules, physical handles: one look each; and what calls cost in time. */
#include "observations.h"

#include <string.h>
#include <time.h>

void observe_graph_memory(void)
{
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    CUgraphNode node = NULL, end = NULL;
    CUstream stream;
    CUDA_MEM_ALLOC_NODE_PARAMS params;
    cuuint64_t value = 0;
    uint64_t before;
    observe_begin();
    stream = observe_stream();
    before = observe_process_bytes();
    memset(&params, 0, sizeof(params));
    params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    params.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    params.bytesize = 256 * MIB;
    observe_code(cuGraphCreate(&graph, 0), "graph.create");
    observe_code(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &params), "graph.alloc_node");
    observe_code(cuGraphAddMemFreeNode(&end, graph, &node, 1, params.dptr), "graph.free_node");
    observe_code(cuGraphInstantiate(&exec, graph, 0), "graph.instantiate");
    observe_size(observe_process_bytes() - before, "graph.instantiated.process");
    observe_code(cuGraphLaunch(exec, stream), "graph.launch");
    cuStreamSynchronize(stream);
    observe_size(observe_process_bytes() - before, "graph.launched.process");
    cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &value);
    observe_size(value, "graph.launched.reserved");
    cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &value);
    observe_size(value, "graph.launched.used");
    observe_code(cuGraphExecDestroy(exec), "graph.exec_destroy");
    observe_size(observe_process_bytes() - before, "graph.destroyed.process");
    cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &value);
    observe_size(value, "graph.destroyed.used");
    observe_code(cuDeviceGraphMemTrim(0), "graph.trim");
    observe_size(observe_process_bytes() - before, "graph.trimmed.process");
    cuGraphDestroy(graph);
}

void observe_module(void)
{
    static const char text[] = ".version 6.0\n.target sm_50\n.address_size 64\n"
                               ".global .align 4 .b8 big[268435456];\n"
                               ".visible .entry nothing()\n{\n\tret;\n}\n";
    CUmodule module = NULL;
    CUfunction function = NULL;
    CUdeviceptr address = 0;
    size_t bytes = 0;
    uint64_t before;
    observe_begin();
    before = observe_process_bytes();
    observe_code(cuModuleLoadData(&module, text), "module.load");
    observe_size((observe_process_bytes() - before) / (16 * MIB) * (16 * MIB), "module.loaded");
    observe_code(cuModuleGetGlobal(&address, &bytes, module, "big"), "module.global");
    observe_size(bytes, "module.global");
    observe_code(cuMemFree(address), "module.free_global");
    observe_code(cuModuleGetFunction(&function, module, "nothing"), "module.function");
    observe_code(cuModuleGetFunction(&function, module, "missing"), "module.function_missing");
    observe_code(cuModuleUnload(module), "module.unload");
}

void observe_handles(void)
{
    CUmemAllocationProp props;
    CUmemGenericAllocationHandle handle = 0, odd = 0;
    CUdeviceptr address = 0;
    size_t granularity = 0;
    uint64_t before;
    observe_begin();
    before = observe_process_bytes();
    memset(&props, 0, sizeof(props));
    props.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    observe_code(
        cuMemGetAllocationGranularity(&granularity, &props, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
        "handle.granularity");
    observe_size(granularity, "handle.granularity");
    observe_code(cuMemCreate(&handle, 64 * MIB, &props, 0), "handle.create");
    observe_size(observe_process_bytes() - before, "handle.created.process");
    observe_code(cuMemCreate(&odd, 64 * MIB + 1, &props, 0), "handle.create_odd");
    observe_code(cuMemAddressReserve(&address, 64 * MIB, 0, 0, 0), "handle.reserve");
    observe_code(cuMemMap(address, 64 * MIB, 0, handle, 0), "handle.map");
    observe_code(cuMemRelease(handle), "handle.release_mapped");
    observe_size(observe_process_bytes() - before, "handle.released_mapped.process");
    observe_code(cuMemUnmap(address, 64 * MIB), "handle.unmap");
    observe_size(observe_process_bytes() - before, "handle.unmapped.process");
    observe_code(cuMemAddressFree(address, 64 * MIB), "handle.address_free");
}

#define ROUNDS 20000

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

#define TIME(name, call)                                                                       \
    do {                                                                                       \
        double start_;                                                                         \
        for (int i_ = 0; i_ < 100; i_++)                                                       \
            (void)(call);                                                                      \
        start_ = now();                                                                        \
        for (int i_ = 0; i_ < ROUNDS; i_++)                                                    \
            (void)(call);                                                                      \
        observe_time((now() - start_) / ROUNDS, name);                                         \
    } while (0)

void observe_times(void)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    CUstreamCaptureStatus status;
    CUcontext context;
    CUmemoryPool pool = NULL;
    CUdeviceptr block = 0, direct = 0;
    CUstream stream;
    CUevent event = NULL;
    CUdevice device;
    cuuint64_t value = UINT64_MAX;
    size_t left, total;
    observe_begin();
    stream = observe_stream();
    cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
    cuDeviceGetDefaultMemPool(&pool, 0);
    cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &value);
    cuMemAlloc(&direct, 4 * MIB);
    TIME("exchange_capture_mode", cuThreadExchangeStreamCaptureMode(&mode));
    TIME("stream_is_capturing", cuStreamIsCapturing(stream, &status));
    TIME("context_current", cuCtxGetCurrent(&context));
    TIME("context_device", cuCtxGetDevice(&device));
    TIME("stream_context", cuStreamGetCtx(stream, &context));
    TIME("pool_attribute",
         cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &value));
    TIME("device_pool", cuDeviceGetMemPool(&pool, 0));
    TIME("pointer_attribute",
         cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_BUFFER_ID, direct));
    TIME("address_range", cuMemGetAddressRange(&block, &left, direct));
    TIME("mem_get_info", cuMemGetInfo(&left, &total));
    TIME("event_record", cuEventRecord(event, stream));
    TIME("event_query", cuEventQuery(event));
    TIME("async_pair", cuMemAllocAsync(&block, 4096, stream) + cuMemFreeAsync(block, stream));
    cuStreamSynchronize(stream);
}
