/* What graphs take of the card. It gives memory to allocation nodes at upload or launch;
 * executables that do not hold memory at the same time share it; only a trim gives it back. It
 * comes and goes in whole steps. What kernel nodes need is in graph_exec.c. */
#include "sim.h"

static uint64_t in_steps(uint64_t bytes)
{
    return sim_round_up(bytes, sim_settings.profile->pool_step);
}

/* Memory so that the executable can run once. */
static CUresult reserve(const struct sim_exec *exec)
{
    for (int i = 0; i < SIM_MAX_CARDS; i++) {
        struct sim_card *card = &sim_cards[i];
        const uint64_t need = in_steps(card->graph_live + exec->peak[i]);
        uint64_t *held = &card->use[SIM_USE_GRAPH];
        if (!exec->peak[i])
            continue;
        if (need > *held && !sim_card_take(card, SIM_USE_GRAPH, need - *held))
            return CUDA_ERROR_OUT_OF_MEMORY;
        if (*held > card->graph_reserved_high)
            card->graph_reserved_high = *held;
        if (*held > card->graph_used_high)
            card->graph_used_high = *held;
    }
    return CUDA_SUCCESS;
}

/* Memory counts as used until a trim takes it, also when its nodes have freed it and its
 * executable is gone. */
static uint64_t used(const struct sim_card *card)
{
    return card->use[SIM_USE_GRAPH];
}

CUresult sim_exec_upload(struct sim_exec *exec, CUstream hStream, bool per_thread)
{
    struct sim_stream *stream;
    CUresult code = sim_stream_find(hStream, per_thread, &stream);
    if (code)
        return code;
    if (stream->capture) {
        sim_spoil(stream->capture);
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    code = sim_steps_come(exec->steps, exec->count, false);
    if (!code) /* it may have waited */
        code = sim_stream_find(hStream, per_thread, &stream);
    if (!code)
        code = reserve(exec);
    if (!code)
        sim_queue_mark(stream);
    return code;
}

static CUresult upload(CUgraphExec hGraphExec, CUstream hStream, bool per_thread)
{
    struct sim_exec *exec = sim_object_find(hGraphExec, SIM_EXEC);
    struct sim_stream *stream;
    CUresult code = sim_stream_find(hStream, per_thread, &stream);
    if (code)
        return code;
    return exec ? sim_exec_upload(exec, hStream, per_thread) : CUDA_ERROR_INVALID_VALUE;
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

/* Captured, a launch becomes a child graph, which has no memory nodes. */
static CUresult capture(const struct sim_exec *exec, struct sim_stream *stream)
{
    struct sim_node *node;
    CUresult code;
    if (exec->has_memory) {
        sim_spoil(stream->capture);
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    code = sim_capture_node(stream, CU_GRAPH_NODE_TYPE_GRAPH, &node);
    if (code)
        return code;
    sim_node_own(node, 1);
    for (unsigned i = 0; i < exec->count; i++) {
        const struct sim_step *step = &exec->steps[i];
        struct sim_node *copy = sim_node_add((struct sim_graph *)(void *)node->children[0],
                                             step->type == CU_GRAPH_NODE_TYPE_KERNEL ||
                                                     step->type == CU_GRAPH_NODE_TYPE_HOST
                                                 ? step->type
                                                 : CU_GRAPH_NODE_TYPE_EMPTY);
        copy->function = step->function;
        copy->launch = step->launch;
        if (step->type == CU_GRAPH_NODE_TYPE_HOST)
            copy->work.host = step->host;
    }
    return CUDA_SUCCESS;
}

static CUresult launch(CUgraphExec hGraphExec, CUstream hStream, bool per_thread)
{
    struct sim_exec *exec = sim_object_find(hGraphExec, SIM_EXEC);
    struct sim_stream *stream;
    CUresult code = sim_stream_find(hStream, per_thread, &stream);
    if (code)
        return code;
    if (!exec)
        return CUDA_ERROR_INVALID_VALUE;
    code = sim_capture_implicit(stream);
    if (code)
        return code;
    if (stream->capture)
        return capture(exec, stream);
    code = sim_steps_come(exec->steps, exec->count, true);
    if (!code) /* it may have waited */
        code = sim_stream_find(hStream, per_thread, &stream);
    if (code)
        return code;
    for (unsigned i = 0; i < exec->count; i++) {
        struct sim_graph_memory *memory = exec->steps[i].memory;
        if (!memory || exec->steps[i].frees || !memory->live)
            continue;
        if (!exec->auto_free)
            return CUDA_ERROR_INVALID_VALUE;
        sim_graph_memory_free(memory);
    }
    code = reserve(exec);
    if (code)
        return code;
    for (unsigned i = 0; i < exec->count; i++) {
        struct sim_step *step = &exec->steps[i];
        const struct sim_piece piece = {.work = SIM_WORK_HOST_FUNCTION,
                                        .function = step->host.fn,
                                        .argument = step->host.userData};
        if (step->host.fn && !step->disabled)
            sim_queue(stream, &piece);
        if (!step->memory)
            continue;
        if (step->frees) {
            sim_graph_memory_free(step->memory);
        } else {
            step->memory->live = true;
            step->memory->card->graph_live += step->memory->bytes;
            step->memory->card->blocks++;
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

CUresult cuDeviceGraphMemTrim(CUdevice device)
{
    SIM_ENTER(cuDeviceGraphMemTrim, W(device));
    struct sim_card *card = sim_card_of(device);
    if (!card)
        return CUDA_ERROR_INVALID_DEVICE;
    SIM_UNSAFE();
    if (card->use[SIM_USE_GRAPH] > in_steps(card->graph_live))
        sim_card_give(card, SIM_USE_GRAPH,
                      card->use[SIM_USE_GRAPH] - in_steps(card->graph_live));
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
