/* Copies of other shapes that do not wait: between devices, to and from arrays, rectangles and
 * batches. They check the addresses of the card and take their turn in the stream; no bytes
 * move. The first form of a name has addresses of 32 bits. */
#include "copy.h"

static CUresult in_stream(bool good, CUstream stream, bool per_thread)
{
    struct sim_context *context;
    CUresult code = sim_current(&context);
    if (code)
        return code;
    return good ? sim_copy_work(stream, per_thread, false) : CUDA_ERROR_INVALID_VALUE;
}

/* One side of a rectangle: where it begins has to be an address of the card, if it is there. */
static bool side(CUmemorytype type, const void *host, uint64_t device, CUarray array,
                 uint64_t x, uint64_t rows, uint64_t pitch)
{
    if (type == CU_MEMORYTYPE_ARRAY)
        return array != NULL;
    if (type == CU_MEMORYTYPE_HOST)
        return host != NULL;
    return sim_copy_address(device + rows * pitch + x, 1);
}

#define SIDE(p, side_)                                                                         \
    side((p)->side_##MemoryType, (p)->side_##Host, (p)->side_##Device, (p)->side_##Array,      \
         (p)->side_##XInBytes, (p)->side_##Y, (p)->side_##Pitch)
#define SIDES(p) (SIDE(p, src) && SIDE(p, dst))

static bool batch(const CUdeviceptr *to, const CUdeviceptr *from, const size_t *bytes,
                  size_t count)
{
    if (!to || !from || !bytes || !count)
        return false;
    for (size_t i = 0; i < count; i++)
        if (!sim_copy_address(to[i], bytes[i]) || !sim_copy_address(from[i], bytes[i]))
            return false;
    return true;
}

CUresult cuMemcpyPeerAsync(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
                           CUcontext srcContext, size_t ByteCount, CUstream hStream)
{
    SIM_ENTER(cuMemcpyPeerAsync, W(dstDevice), W(dstContext), W(srcDevice), W(srcContext),
              W(ByteCount), W(hStream));
    return in_stream(dstContext && srcContext &&
                         (!ByteCount || (sim_copy_address(dstDevice, ByteCount) &&
                                         sim_copy_address(srcDevice, ByteCount))),
                     hStream, false);
}

CUresult cuMemcpyPeerAsync_ptsz(CUdeviceptr dstDevice, CUcontext dstContext,
                                CUdeviceptr srcDevice, CUcontext srcContext, size_t ByteCount,
                                CUstream hStream)
{
    SIM_ENTER(cuMemcpyPeerAsync_ptsz, W(dstDevice), W(dstContext), W(srcDevice), W(srcContext),
              W(ByteCount), W(hStream));
    return in_stream(dstContext && srcContext &&
                         (!ByteCount || (sim_copy_address(dstDevice, ByteCount) &&
                                         sim_copy_address(srcDevice, ByteCount))),
                     hStream, true);
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr_v1 dstDevice, const void *srcHost,
                           unsigned int ByteCount, CUstream hStream)
{
    SIM_ENTER(cuMemcpyHtoDAsync, W(dstDevice), W(srcHost), W(ByteCount), W(hStream));
    return in_stream(srcHost && sim_copy_address(dstDevice, ByteCount), hStream, false);
}

CUresult cuMemcpyDtoHAsync(void *dstHost, CUdeviceptr_v1 srcDevice, unsigned int ByteCount,
                           CUstream hStream)
{
    SIM_ENTER(cuMemcpyDtoHAsync, W(dstHost), W(srcDevice), W(ByteCount), W(hStream));
    return in_stream(dstHost && sim_copy_address(srcDevice, ByteCount), hStream, false);
}

CUresult cuMemcpyDtoDAsync(CUdeviceptr_v1 dstDevice, CUdeviceptr_v1 srcDevice,
                           unsigned int ByteCount, CUstream hStream)
{
    SIM_ENTER(cuMemcpyDtoDAsync, W(dstDevice), W(srcDevice), W(ByteCount), W(hStream));
    return in_stream(sim_copy_address(dstDevice, ByteCount) &&
                         sim_copy_address(srcDevice, ByteCount),
                     hStream, false);
}

CUresult cuMemcpyHtoAAsync(CUarray dstArray, unsigned int dstOffset, const void *srcHost,
                           unsigned int ByteCount, CUstream hStream)
{
    SIM_ENTER(cuMemcpyHtoAAsync, W(dstArray), W(dstOffset), W(srcHost), W(ByteCount),
              W(hStream));
    return in_stream(dstArray && srcHost, hStream, false);
}

CUresult cuMemcpyHtoAAsync_v2(CUarray dstArray, size_t dstOffset, const void *srcHost,
                              size_t ByteCount, CUstream hStream)
{
    SIM_ENTER(cuMemcpyHtoAAsync_v2, W(dstArray), W(dstOffset), W(srcHost), W(ByteCount),
              W(hStream));
    return in_stream(dstArray && srcHost, hStream, false);
}

CUresult cuMemcpyHtoAAsync_v2_ptsz(CUarray dstArray, size_t dstOffset, const void *srcHost,
                                   size_t ByteCount, CUstream hStream)
{
    SIM_ENTER(cuMemcpyHtoAAsync_v2_ptsz, W(dstArray), W(dstOffset), W(srcHost), W(ByteCount),
              W(hStream));
    return in_stream(dstArray && srcHost, hStream, true);
}

CUresult cuMemcpyAtoHAsync(void *dstHost, CUarray srcArray, unsigned int srcOffset,
                           unsigned int ByteCount, CUstream hStream)
{
    SIM_ENTER(cuMemcpyAtoHAsync, W(dstHost), W(srcArray), W(srcOffset), W(ByteCount),
              W(hStream));
    return in_stream(srcArray && dstHost, hStream, false);
}

CUresult cuMemcpyAtoHAsync_v2(void *dstHost, CUarray srcArray, size_t srcOffset,
                              size_t ByteCount, CUstream hStream)
{
    SIM_ENTER(cuMemcpyAtoHAsync_v2, W(dstHost), W(srcArray), W(srcOffset), W(ByteCount),
              W(hStream));
    return in_stream(srcArray && dstHost, hStream, false);
}

CUresult cuMemcpyAtoHAsync_v2_ptsz(void *dstHost, CUarray srcArray, size_t srcOffset,
                                   size_t ByteCount, CUstream hStream)
{
    SIM_ENTER(cuMemcpyAtoHAsync_v2_ptsz, W(dstHost), W(srcArray), W(srcOffset), W(ByteCount),
              W(hStream));
    return in_stream(srcArray && dstHost, hStream, true);
}

CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D_v1 *pCopy, CUstream hStream)
{
    SIM_ENTER(cuMemcpy2DAsync, W(pCopy), W(hStream));
    return in_stream(pCopy && SIDES(pCopy), hStream, false);
}

CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *pCopy, CUstream hStream)
{
    SIM_ENTER(cuMemcpy2DAsync_v2, W(pCopy), W(hStream));
    return in_stream(pCopy && SIDES(pCopy), hStream, false);
}

CUresult cuMemcpy2DAsync_v2_ptsz(const CUDA_MEMCPY2D *pCopy, CUstream hStream)
{
    SIM_ENTER(cuMemcpy2DAsync_v2_ptsz, W(pCopy), W(hStream));
    return in_stream(pCopy && SIDES(pCopy), hStream, true);
}

CUresult cuMemcpy3DAsync(const CUDA_MEMCPY3D_v1 *pCopy, CUstream hStream)
{
    SIM_ENTER(cuMemcpy3DAsync, W(pCopy), W(hStream));
    return in_stream(pCopy && SIDES(pCopy), hStream, false);
}

CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *pCopy, CUstream hStream)
{
    SIM_ENTER(cuMemcpy3DAsync_v2, W(pCopy), W(hStream));
    return in_stream(pCopy && SIDES(pCopy), hStream, false);
}

CUresult cuMemcpy3DAsync_v2_ptsz(const CUDA_MEMCPY3D *pCopy, CUstream hStream)
{
    SIM_ENTER(cuMemcpy3DAsync_v2_ptsz, W(pCopy), W(hStream));
    return in_stream(pCopy && SIDES(pCopy), hStream, true);
}

CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *pCopy, CUstream hStream)
{
    SIM_ENTER(cuMemcpy3DPeerAsync, W(pCopy), W(hStream));
    return in_stream(pCopy && SIDES(pCopy), hStream, false);
}

CUresult cuMemcpy3DPeerAsync_ptsz(const CUDA_MEMCPY3D_PEER *pCopy, CUstream hStream)
{
    SIM_ENTER(cuMemcpy3DPeerAsync_ptsz, W(pCopy), W(hStream));
    return in_stream(pCopy && SIDES(pCopy), hStream, true);
}

CUresult cuMemcpyBatchAsync(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
                            CUmemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs,
                            size_t *failIdx, CUstream hStream)
{
    SIM_ENTER(cuMemcpyBatchAsync, W(dsts), W(srcs), W(sizes), W(count), W(attrs), W(attrsIdxs),
              W(numAttrs), W(failIdx), W(hStream));
    return in_stream(batch(dsts, srcs, sizes, count), hStream, false);
}

CUresult cuMemcpyBatchAsync_ptsz(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes,
                                 size_t count, CUmemcpyAttributes *attrs, size_t *attrsIdxs,
                                 size_t numAttrs, size_t *failIdx, CUstream hStream)
{
    SIM_ENTER(cuMemcpyBatchAsync_ptsz, W(dsts), W(srcs), W(sizes), W(count), W(attrs),
              W(attrsIdxs), W(numAttrs), W(failIdx), W(hStream));
    return in_stream(batch(dsts, srcs, sizes, count), hStream, true);
}

CUresult cuMemcpyBatchAsync_v2(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes,
                               size_t count, CUmemcpyAttributes *attrs, size_t *attrsIdxs,
                               size_t numAttrs, CUstream hStream)
{
    SIM_ENTER(cuMemcpyBatchAsync_v2, W(dsts), W(srcs), W(sizes), W(count), W(attrs),
              W(attrsIdxs), W(numAttrs), W(hStream));
    return in_stream(batch(dsts, srcs, sizes, count), hStream, false);
}

CUresult cuMemcpyBatchAsync_v2_ptsz(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes,
                                    size_t count, CUmemcpyAttributes *attrs, size_t *attrsIdxs,
                                    size_t numAttrs, CUstream hStream)
{
    SIM_ENTER(cuMemcpyBatchAsync_v2_ptsz, W(dsts), W(srcs), W(sizes), W(count), W(attrs),
              W(attrsIdxs), W(numAttrs), W(hStream));
    return in_stream(batch(dsts, srcs, sizes, count), hStream, true);
}

CUresult cuMemcpy3DBatchAsync(size_t numOps, CUDA_MEMCPY3D_BATCH_OP *opList, size_t *failIdx,
                              unsigned long long flags, CUstream hStream)
{
    SIM_ENTER(cuMemcpy3DBatchAsync, W(numOps), W(opList), W(failIdx), W(flags), W(hStream));
    return in_stream(numOps && opList, hStream, false);
}

CUresult cuMemcpy3DBatchAsync_ptsz(size_t numOps, CUDA_MEMCPY3D_BATCH_OP *opList,
                                   size_t *failIdx, unsigned long long flags, CUstream hStream)
{
    SIM_ENTER(cuMemcpy3DBatchAsync_ptsz, W(numOps), W(opList), W(failIdx), W(flags),
              W(hStream));
    return in_stream(numOps && opList, hStream, true);
}

CUresult cuMemcpy3DBatchAsync_v2(size_t numOps, CUDA_MEMCPY3D_BATCH_OP *opList,
                                 unsigned long long flags, CUstream hStream)
{
    SIM_ENTER(cuMemcpy3DBatchAsync_v2, W(numOps), W(opList), W(flags), W(hStream));
    return in_stream(numOps && opList, hStream, false);
}

CUresult cuMemcpy3DBatchAsync_v2_ptsz(size_t numOps, CUDA_MEMCPY3D_BATCH_OP *opList,
                                      unsigned long long flags, CUstream hStream)
{
    SIM_ENTER(cuMemcpy3DBatchAsync_v2_ptsz, W(numOps), W(opList), W(flags), W(hStream));
    return in_stream(numOps && opList, hStream, true);
}
