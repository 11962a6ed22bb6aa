/* Stream capture. It concerns the whole process: a capture in GLOBAL mode forbids unsafe calls
 * to every thread that has not switched itself to RELAXED. */
#include "sim.h"

static struct sim_capture *captures;
static uint64_t capture_ids;

struct sim_capture *sim_capture_find(uint64_t id)
{
    struct sim_capture *capture = captures;
    while (capture && capture->id != id)
        capture = capture->next;
    return capture;
}

void sim_spoil(struct sim_capture *capture)
{
    capture->spoiled = true;
}

CUresult sim_unsafe(void)
{
    CUresult code = CUDA_SUCCESS;
    uint64_t me;
    if (!captures || sim_thread.mode == CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_SUCCESS;
    me = sim_thread_id();
    for (struct sim_capture *capture = captures; capture; capture = capture->next) {
        bool mine = capture->thread == me;
        bool concerns = mine ? capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED
                             : capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
                                   sim_thread.mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
        if (!concerns)
            continue;
        sim_spoil(capture);
        code = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    return code;
}

CUresult sim_capture_in(const struct sim_context *context)
{
    CUresult code = CUDA_SUCCESS;
    for (struct sim_capture *capture = captures; capture; capture = capture->next)
        if (capture->origin->context == context) {
            sim_spoil(capture);
            code = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    return code;
}

/* The capture that work on the legacy stream would depend on, if any. */
static struct sim_capture *implicit(const struct sim_stream *stream)
{
    if (!captures || !stream->legacy)
        return NULL;
    for (struct sim_stream *one = stream->context->streams; one; one = one->next)
        if (one->capture && !(one->flags & CU_STREAM_NON_BLOCKING))
            return one->capture;
    return NULL;
}

CUresult sim_capture_implicit(struct sim_stream *stream)
{
    struct sim_capture *capture = implicit(stream);
    if (!capture)
        return CUDA_SUCCESS;
    sim_spoil(capture);
    return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
}

CUresult sim_capture_node(struct sim_stream *stream, CUgraphNodeType type,
                          struct sim_node **node)
{
    CUresult code = sim_capture_implicit(stream);
    *node = NULL;
    if (code || !stream->capture)
        return code;
    if (stream->capture->spoiled)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    *node = sim_node_add(stream->capture->graph, type);
    stream->unjoined = stream->capture->origin != stream;
    return CUDA_SUCCESS;
}

CUresult sim_capture_work(struct sim_stream *stream, bool *captured)
{
    struct sim_node *node;
    CUresult code = sim_capture_node(stream, CU_GRAPH_NODE_TYPE_EMPTY, &node);
    *captured = stream->capture != NULL;
    return code;
}

void sim_capture_event(struct sim_event *event, struct sim_stream *stream)
{
    event->capture_id = stream->capture->id;
    event->capture_stream = stream->id;
}

CUresult sim_capture_wait(struct sim_stream *stream, struct sim_event *event, bool *captured)
{
    struct sim_capture *from = event->capture_id ? sim_capture_find(event->capture_id) : NULL;
    CUresult code;
    if (!from) {
        code = sim_capture_implicit(stream);
        if (code || !stream->capture)
            return code;
        /* A captured stream cannot wait for work outside the capture. */
        sim_spoil(stream->capture);
        *captured = true;
        return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    }
    *captured = true;
    if (stream->legacy) {
        sim_spoil(from);
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    if (stream->capture && stream->capture != from) {
        sim_spoil(stream->capture);
        sim_spoil(from);
        return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    }
    if (from->spoiled)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (!stream->capture) {
        stream->capture = from;
        stream->unjoined = true;
    }
    for (struct sim_context *context = sim_contexts(); context; context = context->next)
        for (struct sim_stream *side = context->streams; side; side = side->next)
            if (side->id == event->capture_stream && side != stream)
                side->unjoined = false;
    return CUDA_SUCCESS;
}

static CUresult begin(CUstream hStream, bool per_thread, CUstreamCaptureMode mode,
                      struct sim_graph *into)
{
    struct sim_stream *stream;
    struct sim_capture *capture;
    CUresult code = sim_stream_find(hStream, per_thread, &stream);
    if (code)
        return code;
    if (mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    if (stream->legacy)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (stream->capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    capture = sim_new(sizeof(*capture));
    capture->origin = stream;
    capture->mode = mode;
    capture->thread = sim_thread_id();
    capture->graph = into ? into : sim_graph_new();
    capture->borrowed = into != NULL;
    capture->id = ++capture_ids;
    capture->next = captures;
    captures = capture;
    stream->capture = capture;
    stream->unjoined = false;
    return CUDA_SUCCESS;
}

CUresult cuStreamBeginCapture(CUstream hStream)
{
    SIM_ENTER(cuStreamBeginCapture, W(hStream));
    return begin(hStream, false, CU_STREAM_CAPTURE_MODE_GLOBAL, NULL);
}

CUresult cuStreamBeginCapture_ptsz(CUstream hStream)
{
    SIM_ENTER(cuStreamBeginCapture_ptsz, W(hStream));
    return begin(hStream, true, CU_STREAM_CAPTURE_MODE_GLOBAL, NULL);
}

CUresult cuStreamBeginCapture_v2(CUstream hStream, CUstreamCaptureMode mode)
{
    SIM_ENTER(cuStreamBeginCapture_v2, W(hStream), W(mode));
    return begin(hStream, false, mode, NULL);
}

CUresult cuStreamBeginCapture_v2_ptsz(CUstream hStream, CUstreamCaptureMode mode)
{
    SIM_ENTER(cuStreamBeginCapture_v2_ptsz, W(hStream), W(mode));
    return begin(hStream, true, mode, NULL);
}

static CUresult begin_into(CUstream hStream, bool per_thread, CUgraph hGraph,
                           const CUgraphNode *dependencies, size_t count,
                           CUstreamCaptureMode mode)
{
    struct sim_graph *graph = sim_graph_for(hGraph, dependencies, count);
    return graph ? begin(hStream, per_thread, mode, graph) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuStreamBeginCaptureToGraph(CUstream hStream, CUgraph hGraph,
                                     const CUgraphNode *dependencies,
                                     const CUgraphEdgeData *dependencyData,
                                     size_t numDependencies, CUstreamCaptureMode mode)
{
    SIM_ENTER(cuStreamBeginCaptureToGraph, W(hStream), W(hGraph), W(dependencies),
              W(dependencyData), W(numDependencies), W(mode));
    return begin_into(hStream, false, hGraph, dependencies, numDependencies, mode);
}

CUresult cuStreamBeginCaptureToGraph_ptsz(CUstream hStream, CUgraph hGraph,
                                          const CUgraphNode *dependencies,
                                          const CUgraphEdgeData *dependencyData,
                                          size_t numDependencies, CUstreamCaptureMode mode)
{
    SIM_ENTER(cuStreamBeginCaptureToGraph_ptsz, W(hStream), W(hGraph), W(dependencies),
              W(dependencyData), W(numDependencies), W(mode));
    return begin_into(hStream, true, hGraph, dependencies, numDependencies, mode);
}

/* Takes the capture out of the world; returns whether some side stream was left unjoined. */
static bool dissolve(struct sim_capture *capture)
{
    struct sim_capture **at = &captures;
    bool unjoined = false;
    for (struct sim_context *context = sim_contexts(); context; context = context->next)
        for (struct sim_stream *stream = context->streams; stream; stream = stream->next)
            if (stream->capture == capture) {
                unjoined = unjoined || stream->unjoined;
                stream->capture = NULL;
                stream->unjoined = false;
            }
    while (*at != capture)
        at = &(*at)->next;
    *at = capture->next;
    return unjoined;
}

static CUresult end(CUstream hStream, bool per_thread, CUgraph *phGraph)
{
    struct sim_stream *stream;
    struct sim_capture *capture;
    CUresult code = sim_stream_find(hStream, per_thread, &stream);
    if (code)
        return code;
    if (!phGraph)
        return CUDA_ERROR_INVALID_VALUE;
    capture = stream->capture;
    if (!capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    if (capture->origin != stream)
        return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread != sim_thread_id())
        return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    if (dissolve(capture))
        code = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    if (capture->spoiled)
        code = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (code) {
        if (!capture->borrowed)
            sim_graph_end(capture->graph);
        *phGraph = NULL;
    } else {
        *phGraph = (CUgraph)(void *)capture->graph;
    }
    free(capture);
    return code;
}

CUresult cuStreamEndCapture(CUstream hStream, CUgraph *phGraph)
{
    SIM_ENTER(cuStreamEndCapture, W(hStream), W(phGraph));
    return end(hStream, false, phGraph);
}

CUresult cuStreamEndCapture_ptsz(CUstream hStream, CUgraph *phGraph)
{
    SIM_ENTER(cuStreamEndCapture_ptsz, W(hStream), W(phGraph));
    return end(hStream, true, phGraph);
}

void sim_capture_forget_stream(struct sim_stream *stream)
{
    struct sim_capture *capture = stream->capture;
    if (!capture)
        return;
    if (capture->origin == stream) {
        dissolve(capture);
        if (!capture->borrowed)
            sim_graph_end(capture->graph);
        free(capture);
    } else {
        sim_spoil(capture);
        stream->capture = NULL;
    }
}

CUresult sim_capture_status(struct sim_stream *stream, CUstreamCaptureStatus *status)
{
    if (implicit(stream))
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    *status = !stream->capture           ? CU_STREAM_CAPTURE_STATUS_NONE
              : stream->capture->spoiled ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                         : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    return CUDA_SUCCESS;
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    SIM_ENTER(cuThreadExchangeStreamCaptureMode, W(mode));
    CUstreamCaptureMode old = sim_thread.mode;
    if (!mode || *mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    sim_thread.mode = *mode;
    *mode = old;
    return CUDA_SUCCESS;
}
