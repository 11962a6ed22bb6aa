/* Executables and the memory of graphs. The card gives memory at upload or launch; executables
 * that do not hold memory at the same time share it; only a trim gives it back. */
#include "sim.h"

static CUresult instantiate(CUgraphExec *phGraphExec, CUgraph hGraph, uint64_t flags)
{
    struct sim_graph *graph = sim_object_find(hGraph, SIM_GRAPH);
    struct sim_exec *exec;
    uint64_t live = 0;
    if (!phGraphExec || !graph)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_UNSAFE();
    exec = sim_new(sizeof(*exec));
    exec->steps = sim_new((graph->count + 1) * sizeof(*exec->steps));
    exec->auto_free = flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
    exec->flags = flags;
    for (struct sim_node *node = graph->nodes; node; node = node->next) {
        if (!node->memory)
            continue;
        node->memory->references++;
        exec->card = node->memory->card;
        exec->steps[exec->count].memory = node->memory;
        exec->steps[exec->count++].frees = node->type == CU_GRAPH_NODE_TYPE_MEM_FREE;
        if (node->type == CU_GRAPH_NODE_TYPE_MEM_FREE)
            live -= node->memory->bytes < live ? node->memory->bytes : live;
        else
            live += node->memory->bytes;
        if (live > exec->peak)
            exec->peak = live;
    }
    sim_object_add(exec, SIM_EXEC);
    *phGraphExec = (CUgraphExec)(void *)exec;
    return CUDA_SUCCESS;
}

CUresult cuGraphInstantiate(CUgraphExec *phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode,
                            char *logBuffer, size_t bufferSize)
{
    SIM_ENTER(cuGraphInstantiate, W(phGraphExec), W(hGraph), W(phErrorNode), W(logBuffer),
              W(bufferSize));
    return instantiate(phGraphExec, hGraph, 0);
}

CUresult cuGraphInstantiate_v2(CUgraphExec *phGraphExec, CUgraph hGraph,
                               CUgraphNode *phErrorNode, char *logBuffer, size_t bufferSize)
{
    SIM_ENTER(cuGraphInstantiate_v2, W(phGraphExec), W(hGraph), W(phErrorNode), W(logBuffer),
              W(bufferSize));
    return instantiate(phGraphExec, hGraph, 0);
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *phGraphExec, CUgraph hGraph,
                                     unsigned long long flags)
{
    SIM_ENTER(cuGraphInstantiateWithFlags, W(phGraphExec), W(hGraph), W(flags));
    return instantiate(phGraphExec, hGraph, flags);
}

/* Memory so that the executable can run once. */
static CUresult reserve(struct sim_exec *exec)
{
    struct sim_card *card = exec->card;
    uint64_t need;
    if (!card || !exec->peak)
        return CUDA_SUCCESS;
    need = card->graph_live + exec->peak;
    if (need > card->use[SIM_USE_GRAPH] &&
        !sim_card_take(card, SIM_USE_GRAPH, need - card->use[SIM_USE_GRAPH]))
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (card->use[SIM_USE_GRAPH] > card->graph_reserved_high)
        card->graph_reserved_high = card->use[SIM_USE_GRAPH];
    if (card->use[SIM_USE_GRAPH] > card->graph_used_high)
        card->graph_used_high = card->use[SIM_USE_GRAPH];
    return CUDA_SUCCESS;
}

/* Memory counts as used until a trim takes it, also when its nodes have freed it and its
 * executable is gone. */
static uint64_t used(const struct sim_card *card)
{
    return card->use[SIM_USE_GRAPH];
}

static CUresult upload(CUgraphExec hGraphExec, CUstream hStream, bool per_thread)
{
    struct sim_exec *exec = sim_object_find(hGraphExec, SIM_EXEC);
    struct sim_stream *stream;
    CUresult code = sim_stream_find(hStream, per_thread, &stream);
    if (code)
        return code;
    if (!exec)
        return CUDA_ERROR_INVALID_VALUE;
    if (stream->capture) {
        sim_spoil(stream->capture);
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    code = reserve(exec);
    if (!code)
        sim_queue_mark(stream);
    return code;
}

CUresult cuGraphUpload(CUgraphExec hGraphExec, CUstream hStream)
{
    SIM_ENTER(cuGraphUpload, W(hGraphExec), W(hStream));
    return upload(hGraphExec, hStream, false);
}

CUresult cuGraphUpload_ptsz(CUgraphExec hGraphExec, CUstream hStream)
{
    SIM_ENTER(cuGraphUpload_ptsz, W(hGraphExec), W(hStream));
    return upload(hGraphExec, hStream, true);
}

static CUresult instantiate_with(CUgraphExec *phGraphExec, CUgraph hGraph, bool per_thread,
                                 CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
    CUresult code;
    if (!params)
        return CUDA_ERROR_INVALID_VALUE;
    code = instantiate(phGraphExec, hGraph, params->flags);
    params->hErrNode_out = NULL;
    params->result_out = code ? CUDA_GRAPH_INSTANTIATE_ERROR : CUDA_GRAPH_INSTANTIATE_SUCCESS;
    if (!code && (params->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD))
        code = upload(*phGraphExec, params->hUploadStream, per_thread);
    return code;
}

CUresult cuGraphInstantiateWithParams(CUgraphExec *phGraphExec, CUgraph hGraph,
                                      CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams)
{
    SIM_ENTER(cuGraphInstantiateWithParams, W(phGraphExec), W(hGraph), W(instantiateParams));
    SIM_NOTE(instantiateParams, sizeof(*instantiateParams));
    return instantiate_with(phGraphExec, hGraph, false, instantiateParams);
}

CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec *phGraphExec, CUgraph hGraph,
                                           CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams)
{
    SIM_ENTER(cuGraphInstantiateWithParams_ptsz, W(phGraphExec), W(hGraph),
              W(instantiateParams));
    SIM_NOTE(instantiateParams, sizeof(*instantiateParams));
    return instantiate_with(phGraphExec, hGraph, true, instantiateParams);
}

static CUresult launch(CUgraphExec hGraphExec, CUstream hStream, bool per_thread)
{
    struct sim_exec *exec = sim_object_find(hGraphExec, SIM_EXEC);
    struct sim_stream *stream;
    CUresult code = sim_stream_find(hStream, per_thread, &stream);
    bool captured = false;
    if (code)
        return code;
    if (!exec)
        return CUDA_ERROR_INVALID_VALUE;
    code = sim_capture_work(stream, &captured);
    if (code || captured)
        return code;
    for (unsigned i = 0; i < exec->count; i++) {
        if (exec->steps[i].frees || !exec->steps[i].memory->live)
            continue;
        if (!exec->auto_free)
            return CUDA_ERROR_INVALID_VALUE;
        sim_graph_memory_free(exec->steps[i].memory);
    }
    code = reserve(exec);
    if (code)
        return code;
    for (unsigned i = 0; i < exec->count; i++) {
        struct sim_graph_memory *memory = exec->steps[i].memory;
        if (exec->steps[i].frees) {
            sim_graph_memory_free(memory);
        } else {
            memory->live = true;
            memory->card->graph_live += memory->bytes;
            memory->card->blocks++;
        }
    }
    sim_queue_mark(stream);
    return CUDA_SUCCESS;
}

CUresult cuGraphLaunch(CUgraphExec hGraphExec, CUstream hStream)
{
    SIM_ENTER(cuGraphLaunch, W(hGraphExec), W(hStream));
    return launch(hGraphExec, hStream, false);
}

CUresult cuGraphLaunch_ptsz(CUgraphExec hGraphExec, CUstream hStream)
{
    SIM_ENTER(cuGraphLaunch_ptsz, W(hGraphExec), W(hStream));
    return launch(hGraphExec, hStream, true);
}

CUresult cuGraphExecDestroy(CUgraphExec hGraphExec)
{
    SIM_ENTER(cuGraphExecDestroy, W(hGraphExec));
    struct sim_exec *exec = sim_object_find(hGraphExec, SIM_EXEC);
    if (!exec)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < exec->count; i++)
        sim_graph_memory_drop(exec->steps[i].memory);
    sim_object_remove(exec);
    free(exec->steps);
    free(exec);
    return CUDA_SUCCESS;
}

CUresult cuGraphExecGetFlags(CUgraphExec hGraphExec, cuuint64_t *flags)
{
    SIM_ENTER(cuGraphExecGetFlags, W(hGraphExec), W(flags));
    struct sim_exec *exec = sim_object_find(hGraphExec, SIM_EXEC);
    if (!exec || !flags)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = exec->flags;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGraphMemTrim(CUdevice device)
{
    SIM_ENTER(cuDeviceGraphMemTrim, W(device));
    struct sim_card *card = sim_card_of(device);
    if (!card)
        return CUDA_ERROR_INVALID_DEVICE;
    SIM_UNSAFE();
    if (card->use[SIM_USE_GRAPH] > card->graph_live)
        sim_card_give(card, SIM_USE_GRAPH, card->use[SIM_USE_GRAPH] - card->graph_live);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void *value)
{
    SIM_ENTER(cuDeviceGetGraphMemAttribute, W(device), W(attr), W(value));
    struct sim_card *card = sim_card_of(device);
    cuuint64_t *result = value;
    if (!card)
        return CUDA_ERROR_INVALID_DEVICE;
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    switch (attr) {
    case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT:
        *result = used(card);
        break;
    case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
        *result = card->graph_used_high;
        break;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT:
        *result = card->use[SIM_USE_GRAPH];
        break;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
        *result = card->graph_reserved_high;
        break;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

CUresult cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void *value)
{
    SIM_ENTER(cuDeviceSetGraphMemAttribute, W(device), W(attr), W(value));
    struct sim_card *card = sim_card_of(device);
    const cuuint64_t *wanted = value;
    if (!card)
        return CUDA_ERROR_INVALID_DEVICE;
    if (!value || *wanted)
        return CUDA_ERROR_INVALID_VALUE;
    if (attr == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH)
        card->graph_used_high = used(card);
    else if (attr == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)
        card->graph_reserved_high = card->use[SIM_USE_GRAPH];
    else
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}
