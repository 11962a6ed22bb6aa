/* Stream-ordered allocation and free, in both forms of each name. */
#include "sim.h"

static CUresult allocate(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool handle,
                         bool from_pool, CUstream hStream, bool per_thread)
{
    struct sim_stream *stream;
    struct sim_pool *pool;
    CUresult code = sim_stream_find(hStream, per_thread, &stream);
    CUdeviceptr address;
    if (code)
        return code;
    if (!dptr)
        return CUDA_ERROR_INVALID_VALUE;
    if (!bytesize) {
        *dptr = 0;
        return CUDA_SUCCESS;
    }
    if (!stream->context)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    pool = from_pool ? sim_object_find(handle, SIM_POOL) : stream->context->card->current_pool;
    if (!pool) {
        *dptr = 0;
        return CUDA_ERROR_INVALID_VALUE;
    }
    code = sim_capture_implicit(stream);
    if (code)
        return code;
    if (stream->capture) {
        struct sim_node *node;
        if (stream->capture->spoiled)
            return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
        code =
            sim_node_add_alloc(stream->capture->graph, stream->context->card, bytesize, &node);
        if (!code)
            *dptr = node->address;
        return code;
    }
    SIM_UNSAFE();
    if (pool->imported)
        return CUDA_ERROR_INVALID_VALUE;
    code = sim_pool_alloc(pool, bytesize, stream, &address);
    *dptr = code ? 0 : address;
    return code;
}

CUresult cuMemAllocAsync(CUdeviceptr *dptr, size_t bytesize, CUstream hStream)
{
    SIM_ENTER(cuMemAllocAsync, W(dptr), W(bytesize), W(hStream));
    return allocate(dptr, bytesize, NULL, false, hStream, false);
}

CUresult cuMemAllocAsync_ptsz(CUdeviceptr *dptr, size_t bytesize, CUstream hStream)
{
    SIM_ENTER(cuMemAllocAsync_ptsz, W(dptr), W(bytesize), W(hStream));
    return allocate(dptr, bytesize, NULL, false, hStream, true);
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool,
                                 CUstream hStream)
{
    SIM_ENTER(cuMemAllocFromPoolAsync, W(dptr), W(bytesize), W(pool), W(hStream));
    return allocate(dptr, bytesize, pool, true, hStream, false);
}

CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool,
                                      CUstream hStream)
{
    SIM_ENTER(cuMemAllocFromPoolAsync_ptsz, W(dptr), W(bytesize), W(pool), W(hStream));
    return allocate(dptr, bytesize, pool, true, hStream, true);
}

static CUresult release(CUdeviceptr dptr, CUstream hStream, bool per_thread)
{
    struct sim_stream *stream;
    struct sim_block *block;
    struct sim_graph_memory *memory;
    CUresult code = sim_stream_find(hStream, per_thread, &stream);
    if (code)
        return code;
    if (!dptr)
        return CUDA_SUCCESS;
    code = sim_capture_implicit(stream);
    if (code)
        return code;
    memory = sim_graph_memory_find(dptr);
    if (stream->capture) {
        struct sim_node *node;
        if (stream->capture->spoiled)
            return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
        if (!memory)
            return CUDA_ERROR_INVALID_VALUE;
        return sim_node_add_free(stream->capture->graph, dptr, &node);
    }
    SIM_UNSAFE();
    block = sim_block_find(dptr);
    if (block && block->range->kind == SIM_RANGE_POOL) {
        sim_pool_free(block, stream);
        return CUDA_SUCCESS;
    }
    if (block && block->range->kind == SIM_RANGE_MANAGED)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (block &&
        (block->range->kind == SIM_RANGE_DIRECT || block->range->kind == SIM_RANGE_IMPORTED)) {
        /* Twice: so the driver answers, too, and then hangs at the synchronise. */
        if (block->freeing)
            return CUDA_SUCCESS;
        sim_late_add(block, stream);
        return CUDA_SUCCESS;
    }
    if (memory && memory->live) {
        struct sim_piece piece = {.work = SIM_WORK_GRAPH_FREE, .address = dptr};
        sim_queue(stream, &piece);
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream)
{
    SIM_ENTER(cuMemFreeAsync, W(dptr), W(hStream));
    return release(dptr, hStream, false);
}

CUresult cuMemFreeAsync_ptsz(CUdeviceptr dptr, CUstream hStream)
{
    SIM_ENTER(cuMemFreeAsync_ptsz, W(dptr), W(hStream));
    return release(dptr, hStream, true);
}
