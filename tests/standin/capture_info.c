/* Questions about captures, in all their forms. */
#include "sim.h"

static CUresult status_of(CUstream hStream, bool per_thread, CUstreamCaptureStatus *status,
                          struct sim_capture **capture)
{
    struct sim_stream *stream;
    CUresult code = sim_stream_find(hStream, per_thread, &stream);
    if (code)
        return code;
    if (!status)
        return CUDA_ERROR_INVALID_VALUE;
    *capture = stream->capture;
    return sim_capture_status(stream, status);
}

CUresult cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus *captureStatus)
{
    SIM_ENTER(cuStreamIsCapturing, W(hStream), W(captureStatus));
    struct sim_capture *capture;
    return status_of(hStream, false, captureStatus, &capture);
}

CUresult cuStreamIsCapturing_ptsz(CUstream hStream, CUstreamCaptureStatus *captureStatus)
{
    SIM_ENTER(cuStreamIsCapturing_ptsz, W(hStream), W(captureStatus));
    struct sim_capture *capture;
    return status_of(hStream, true, captureStatus, &capture);
}

/* Captured work is in the order in which it came, so there is nothing to change. */
static CUresult dependencies_of(CUstream hStream, bool per_thread, const CUgraphNode *nodes,
                                size_t count)
{
    struct sim_stream *stream;
    CUresult code = sim_stream_find(hStream, per_thread, &stream);
    if (code)
        return code;
    if (!stream->capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    return sim_graph_for((CUgraph)(void *)stream->capture->graph, nodes, count)
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuStreamUpdateCaptureDependencies(CUstream hStream, CUgraphNode *dependencies,
                                           size_t numDependencies, unsigned int flags)
{
    SIM_ENTER(cuStreamUpdateCaptureDependencies, W(hStream), W(dependencies),
              W(numDependencies), W(flags));
    return dependencies_of(hStream, false, dependencies, numDependencies);
}

CUresult cuStreamUpdateCaptureDependencies_ptsz(CUstream hStream, CUgraphNode *dependencies,
                                                size_t numDependencies, unsigned int flags)
{
    SIM_ENTER(cuStreamUpdateCaptureDependencies_ptsz, W(hStream), W(dependencies),
              W(numDependencies), W(flags));
    return dependencies_of(hStream, true, dependencies, numDependencies);
}

CUresult cuStreamUpdateCaptureDependencies_v2(CUstream hStream, CUgraphNode *dependencies,
                                              const CUgraphEdgeData *dependencyData,
                                              size_t numDependencies, unsigned int flags)
{
    SIM_ENTER(cuStreamUpdateCaptureDependencies_v2, W(hStream), W(dependencies),
              W(dependencyData), W(numDependencies), W(flags));
    return dependencies_of(hStream, false, dependencies, numDependencies);
}

CUresult cuStreamUpdateCaptureDependencies_v2_ptsz(CUstream hStream, CUgraphNode *dependencies,
                                                   const CUgraphEdgeData *dependencyData,
                                                   size_t numDependencies, unsigned int flags)
{
    SIM_ENTER(cuStreamUpdateCaptureDependencies_v2_ptsz, W(hStream), W(dependencies),
              W(dependencyData), W(numDependencies), W(flags));
    return dependencies_of(hStream, true, dependencies, numDependencies);
}

static CUresult info(CUstream hStream, bool per_thread, CUstreamCaptureStatus *status,
                     cuuint64_t *id, CUgraph *graph, size_t *dependencies)
{
    struct sim_capture *capture;
    CUresult code = status_of(hStream, per_thread, status, &capture);
    if (code || !capture)
        return code;
    if (id)
        *id = capture->id;
    if (graph)
        *graph = (CUgraph)(void *)capture->graph;
    if (dependencies)
        *dependencies = 0;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetCaptureInfo(CUstream hStream, CUstreamCaptureStatus *captureStatus_out,
                                cuuint64_t *id_out)
{
    SIM_ENTER(cuStreamGetCaptureInfo, W(hStream), W(captureStatus_out), W(id_out));
    return info(hStream, false, captureStatus_out, id_out, NULL, NULL);
}

CUresult cuStreamGetCaptureInfo_ptsz(CUstream hStream, CUstreamCaptureStatus *captureStatus_out,
                                     cuuint64_t *id_out)
{
    SIM_ENTER(cuStreamGetCaptureInfo_ptsz, W(hStream), W(captureStatus_out), W(id_out));
    return info(hStream, true, captureStatus_out, id_out, NULL, NULL);
}

CUresult cuStreamGetCaptureInfo_v2(CUstream hStream, CUstreamCaptureStatus *captureStatus_out,
                                   cuuint64_t *id_out, CUgraph *graph_out,
                                   const CUgraphNode **dependencies_out,
                                   size_t *numDependencies_out)
{
    SIM_ENTER(cuStreamGetCaptureInfo_v2, W(hStream), W(captureStatus_out), W(id_out),
              W(graph_out), W(dependencies_out), W(numDependencies_out));
    return info(hStream, false, captureStatus_out, id_out, graph_out, numDependencies_out);
}

CUresult cuStreamGetCaptureInfo_v2_ptsz(CUstream hStream,
                                        CUstreamCaptureStatus *captureStatus_out,
                                        cuuint64_t *id_out, CUgraph *graph_out,
                                        const CUgraphNode **dependencies_out,
                                        size_t *numDependencies_out)
{
    SIM_ENTER(cuStreamGetCaptureInfo_v2_ptsz, W(hStream), W(captureStatus_out), W(id_out),
              W(graph_out), W(dependencies_out), W(numDependencies_out));
    return info(hStream, true, captureStatus_out, id_out, graph_out, numDependencies_out);
}

CUresult cuStreamGetCaptureInfo_v3(CUstream hStream, CUstreamCaptureStatus *captureStatus_out,
                                   cuuint64_t *id_out, CUgraph *graph_out,
                                   const CUgraphNode **dependencies_out,
                                   const CUgraphEdgeData **edgeData_out,
                                   size_t *numDependencies_out)
{
    SIM_ENTER(cuStreamGetCaptureInfo_v3, W(hStream), W(captureStatus_out), W(id_out),
              W(graph_out), W(dependencies_out), W(edgeData_out), W(numDependencies_out));
    return info(hStream, false, captureStatus_out, id_out, graph_out, numDependencies_out);
}

CUresult cuStreamGetCaptureInfo_v3_ptsz(CUstream hStream,
                                        CUstreamCaptureStatus *captureStatus_out,
                                        cuuint64_t *id_out, CUgraph *graph_out,
                                        const CUgraphNode **dependencies_out,
                                        const CUgraphEdgeData **edgeData_out,
                                        size_t *numDependencies_out)
{
    SIM_ENTER(cuStreamGetCaptureInfo_v3_ptsz, W(hStream), W(captureStatus_out), W(id_out),
              W(graph_out), W(dependencies_out), W(edgeData_out), W(numDependencies_out));
    return info(hStream, true, captureStatus_out, id_out, graph_out, numDependencies_out);
}
