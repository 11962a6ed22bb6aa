/* Values in memory that streams wait for or write. Only host memory has content here. */
#include "sim.h"

static CUresult value(CUstream hStream, bool per_thread, CUdeviceptr address, uint64_t wanted,
                      unsigned flags, bool wide, enum sim_work work)
{
    struct sim_stream *stream;
    struct sim_range *range;
    struct sim_piece piece = {
        .work = work, .address = address, .value = wanted, .flags = flags, .wide = wide};
    CUresult code = sim_stream_find(hStream, per_thread, &stream);
    bool captured = false;
    if (code)
        return code;
    range = sim_range_find(address);
    if (!range || address % (wide ? 8 : 4))
        return CUDA_ERROR_INVALID_VALUE;
    code = sim_capture_work(stream, &captured);
    if (code || captured)
        return code;
    if (range->kind != SIM_RANGE_HOST && range->kind != SIM_RANGE_MANAGED)
        piece.work = SIM_WORK_NOTHING;
    sim_queue(stream, &piece);
    return CUDA_SUCCESS;
}

#define FORMS(name, type, wide, work)                                                          \
    CUresult name(CUstream stream, CUdeviceptr addr, type wanted, unsigned int flags)          \
    {                                                                                          \
        SIM_ENTER(name, W(stream), W(addr), W(wanted), W(flags));                              \
        return value(stream, false, addr, wanted, flags, wide, work);                          \
    }                                                                                          \
    CUresult name##_ptsz(CUstream stream, CUdeviceptr addr, type wanted, unsigned int flags)   \
    {                                                                                          \
        SIM_ENTER(name##_ptsz, W(stream), W(addr), W(wanted), W(flags));                       \
        return value(stream, true, addr, wanted, flags, wide, work);                           \
    }

FORMS(cuStreamWaitValue32, cuuint32_t, false, SIM_WORK_WAIT_VALUE)
FORMS(cuStreamWaitValue64, cuuint64_t, true, SIM_WORK_WAIT_VALUE)
FORMS(cuStreamWriteValue32, cuuint32_t, false, SIM_WORK_WRITE_VALUE)
FORMS(cuStreamWriteValue64, cuuint64_t, true, SIM_WORK_WRITE_VALUE)
FORMS(cuStreamWaitValue32_v2, cuuint32_t, false, SIM_WORK_WAIT_VALUE)
FORMS(cuStreamWaitValue64_v2, cuuint64_t, true, SIM_WORK_WAIT_VALUE)
FORMS(cuStreamWriteValue32_v2, cuuint32_t, false, SIM_WORK_WRITE_VALUE)
FORMS(cuStreamWriteValue64_v2, cuuint64_t, true, SIM_WORK_WRITE_VALUE)
