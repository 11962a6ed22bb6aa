/*
 * entry_capture.c: captures begin and end. Nothing is changed; they are only counted.
 */
#include "interpose/captures.h"
#include "interpose/handlers.h"

static CUresult begun(CUresult code)
{
    if (code != CUDA_SUCCESS)
        gb_captures_failed();
    return code;
}

CUresult gb_enter_cuStreamBeginCapture(struct gb_driver *drv, CUstream hStream)
{
    gb_captures_begin();
    return begun(GB_REAL(drv, cuStreamBeginCapture)(hStream));
}

CUresult gb_enter_cuStreamBeginCapture_ptsz(struct gb_driver *drv, CUstream hStream)
{
    gb_captures_begin();
    return begun(GB_REAL(drv, cuStreamBeginCapture_ptsz)(hStream));
}

CUresult gb_enter_cuStreamBeginCapture_v2(struct gb_driver *drv, CUstream hStream,
                                          CUstreamCaptureMode mode)
{
    gb_captures_begin();
    return begun(GB_REAL(drv, cuStreamBeginCapture_v2)(hStream, mode));
}

CUresult gb_enter_cuStreamBeginCapture_v2_ptsz(struct gb_driver *drv, CUstream hStream,
                                               CUstreamCaptureMode mode)
{
    gb_captures_begin();
    return begun(GB_REAL(drv, cuStreamBeginCapture_v2_ptsz)(hStream, mode));
}

CUresult gb_enter_cuStreamBeginCaptureToGraph(struct gb_driver *drv, CUstream hStream,
                                              CUgraph hGraph, const CUgraphNode *dependencies,
                                              const CUgraphEdgeData *dependencyData,
                                              size_t numDependencies, CUstreamCaptureMode mode)
{
    gb_captures_begin();
    return begun(GB_REAL(drv, cuStreamBeginCaptureToGraph)(
        hStream, hGraph, dependencies, dependencyData, numDependencies, mode));
}

CUresult gb_enter_cuStreamBeginCaptureToGraph_ptsz(
    struct gb_driver *drv, CUstream hStream, CUgraph hGraph, const CUgraphNode *dependencies,
    const CUgraphEdgeData *dependencyData, size_t numDependencies, CUstreamCaptureMode mode)
{
    gb_captures_begin();
    return begun(GB_REAL(drv, cuStreamBeginCaptureToGraph_ptsz)(
        hStream, hGraph, dependencies, dependencyData, numDependencies, mode));
}

CUresult gb_enter_cuStreamEndCapture(struct gb_driver *drv, CUstream hStream, CUgraph *phGraph)
{
    bool captured = gb_captures_before_end(drv, hStream);
    CUresult code = GB_REAL(drv, cuStreamEndCapture)(hStream, phGraph);

    gb_captures_after_end(drv, hStream, captured, code);
    return code;
}

CUresult gb_enter_cuStreamEndCapture_ptsz(struct gb_driver *drv, CUstream hStream,
                                          CUgraph *phGraph)
{
    CUstream stream = hStream ? hStream : CU_STREAM_PER_THREAD;
    bool captured = gb_captures_before_end(drv, stream);
    CUresult code = GB_REAL(drv, cuStreamEndCapture_ptsz)(hStream, phGraph);

    gb_captures_after_end(drv, stream, captured, code);
    return code;
}
