/*
 * entry_copy.c: asynchronous copies and memsets, for GPUBUDGET_STREAM_ORDER alone.
 *
 * They are the driver's own; the blocks that they touch are found before and noted after. Host
 * pointers are looked at, too: managed memory may pass for one. A form of two spellings (the
 * default stream is the legacy one, or the thread's) has one row here.
 */
#include "interpose/handlers.h"
#include "interpose/stream_order.h"

static void touch(struct gb_order *order, CUdeviceptr one, CUdeviceptr other)
{
    gb_order_touch(order, one);
    if (other != one)
        gb_order_touch(order, other);
}

static CUdeviceptr host(const void *pointer)
{
    return (CUdeviceptr)(uintptr_t)pointer;
}

/* The first byte of a side of a rectangular copy, which is no matter where it is an array's. */
static CUdeviceptr corner(CUmemorytype type, const void *on_host, CUdeviceptr on_device,
                          size_t x, size_t rows, size_t pitch)
{
    if (type == CU_MEMORYTYPE_ARRAY)
        return 0;
    return (type == CU_MEMORYTYPE_HOST ? host(on_host) : on_device) + rows * pitch + x;
}

#define TOUCH_2D(order, p)                                                                     \
    touch(order,                                                                               \
          corner((p)->srcMemoryType, (p)->srcHost, (p)->srcDevice, (p)->srcXInBytes,           \
                 (p)->srcY, (p)->srcPitch),                                                    \
          corner((p)->dstMemoryType, (p)->dstHost, (p)->dstDevice, (p)->dstXInBytes,           \
                 (p)->dstY, (p)->dstPitch))

#define TOUCH_3D(order, p)                                                                     \
    touch(order,                                                                               \
          corner((p)->srcMemoryType, (p)->srcHost, (p)->srcDevice, (p)->srcXInBytes,           \
                 (p)->srcZ *(p)->srcHeight + (p)->srcY, (p)->srcPitch),                        \
          corner((p)->dstMemoryType, (p)->dstHost, (p)->dstDevice, (p)->dstXInBytes,           \
                 (p)->dstZ *(p)->dstHeight + (p)->dstY, (p)->dstPitch))

static void touch_2d_v1(struct gb_order *order, const CUDA_MEMCPY2D_v1 *copy)
{
    if (copy)
        TOUCH_2D(order, copy);
}

static void touch_2d(struct gb_order *order, const CUDA_MEMCPY2D *copy)
{
    if (copy)
        TOUCH_2D(order, copy);
}

static void touch_3d_v1(struct gb_order *order, const CUDA_MEMCPY3D_v1 *copy)
{
    if (copy)
        TOUCH_3D(order, copy);
}

static void touch_3d(struct gb_order *order, const CUDA_MEMCPY3D *copy)
{
    if (copy)
        TOUCH_3D(order, copy);
}

static void touch_peer(struct gb_order *order, const CUDA_MEMCPY3D_PEER *copy)
{
    if (copy)
        TOUCH_3D(order, copy);
}

static void touch_batch(struct gb_order *order, const CUdeviceptr *dsts,
                        const CUdeviceptr *srcs, size_t count)
{
    for (size_t i = 0; dsts && srcs && i < count; i++)
        touch(order, dsts[i], srcs[i]);
}

static CUdeviceptr operand(const CUmemcpy3DOperand *operand)
{
    return operand->type == CU_MEMCPY_OPERAND_TYPE_POINTER ? operand->op.ptr.ptr : 0;
}

static void touch_batch_3d(struct gb_order *order, const CUDA_MEMCPY3D_BATCH_OP *list,
                           size_t count)
{
    for (size_t i = 0; list && i < count; i++)
        touch(order, operand(&list[i].dst), operand(&list[i].src));
}

/* What it touches, with `order` at hand, comes last. */
#define COPY(name, is_thread, params, args, ...)                                               \
    CUresult gb_enter_##name(struct gb_driver *drv, GB_UNPAREN params)                         \
    {                                                                                          \
        struct gb_order order;                                                                 \
                                                                                               \
        if (gb_order_begin(&order, drv, hStream, is_thread))                                   \
            __VA_ARGS__;                                                                       \
        return gb_order_end(&order, GB_REAL(drv, name) args);                                  \
    }
#define BOTH(name, params, args, ...)                                                          \
    COPY(name, false, params, args, __VA_ARGS__)                                               \
    COPY(name##_ptsz, true, params, args, __VA_ARGS__)

BOTH(cuMemcpyAsync, (CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream),
     (dst, src, ByteCount, hStream), touch(&order, dst, src))
BOTH(cuMemcpyPeerAsync,
     (CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice, CUcontext srcContext,
      size_t ByteCount, CUstream hStream),
     (dstDevice, dstContext, srcDevice, srcContext, ByteCount, hStream),
     touch(&order, dstDevice, srcDevice))
COPY(cuMemcpyHtoDAsync, false,
     (CUdeviceptr_v1 dstDevice, const void *srcHost, unsigned int ByteCount, CUstream hStream),
     (dstDevice, srcHost, ByteCount, hStream), touch(&order, dstDevice, host(srcHost)))
BOTH(cuMemcpyHtoDAsync_v2,
     (CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount, CUstream hStream),
     (dstDevice, srcHost, ByteCount, hStream), touch(&order, dstDevice, host(srcHost)))
COPY(cuMemcpyDtoHAsync, false,
     (void *dstHost, CUdeviceptr_v1 srcDevice, unsigned int ByteCount, CUstream hStream),
     (dstHost, srcDevice, ByteCount, hStream), touch(&order, host(dstHost), srcDevice))
BOTH(cuMemcpyDtoHAsync_v2,
     (void *dstHost, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream),
     (dstHost, srcDevice, ByteCount, hStream), touch(&order, host(dstHost), srcDevice))
COPY(cuMemcpyDtoDAsync, false,
     (CUdeviceptr_v1 dstDevice, CUdeviceptr_v1 srcDevice, unsigned int ByteCount,
      CUstream hStream),
     (dstDevice, srcDevice, ByteCount, hStream), touch(&order, dstDevice, srcDevice))
BOTH(cuMemcpyDtoDAsync_v2,
     (CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream),
     (dstDevice, srcDevice, ByteCount, hStream), touch(&order, dstDevice, srcDevice))
COPY(cuMemcpyHtoAAsync, false,
     (CUarray dstArray, unsigned int dstOffset, const void *srcHost, unsigned int ByteCount,
      CUstream hStream),
     (dstArray, dstOffset, srcHost, ByteCount, hStream), gb_order_touch(&order, host(srcHost)))
BOTH(cuMemcpyHtoAAsync_v2,
     (CUarray dstArray, size_t dstOffset, const void *srcHost, size_t ByteCount,
      CUstream hStream),
     (dstArray, dstOffset, srcHost, ByteCount, hStream), gb_order_touch(&order, host(srcHost)))
COPY(cuMemcpyAtoHAsync, false,
     (void *dstHost, CUarray srcArray, unsigned int srcOffset, unsigned int ByteCount,
      CUstream hStream),
     (dstHost, srcArray, srcOffset, ByteCount, hStream), gb_order_touch(&order, host(dstHost)))
BOTH(cuMemcpyAtoHAsync_v2,
     (void *dstHost, CUarray srcArray, size_t srcOffset, size_t ByteCount, CUstream hStream),
     (dstHost, srcArray, srcOffset, ByteCount, hStream), gb_order_touch(&order, host(dstHost)))
COPY(cuMemcpy2DAsync, false, (const CUDA_MEMCPY2D_v1 *pCopy, CUstream hStream),
     (pCopy, hStream), touch_2d_v1(&order, pCopy))
BOTH(cuMemcpy2DAsync_v2, (const CUDA_MEMCPY2D *pCopy, CUstream hStream), (pCopy, hStream),
     touch_2d(&order, pCopy))
COPY(cuMemcpy3DAsync, false, (const CUDA_MEMCPY3D_v1 *pCopy, CUstream hStream),
     (pCopy, hStream), touch_3d_v1(&order, pCopy))
BOTH(cuMemcpy3DAsync_v2, (const CUDA_MEMCPY3D *pCopy, CUstream hStream), (pCopy, hStream),
     touch_3d(&order, pCopy))
BOTH(cuMemcpy3DPeerAsync, (const CUDA_MEMCPY3D_PEER *pCopy, CUstream hStream), (pCopy, hStream),
     touch_peer(&order, pCopy))
BOTH(cuMemcpyBatchAsync,
     (CUdeviceptr * dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
      CUmemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs, size_t *failIdx,
      CUstream hStream),
     (dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, failIdx, hStream),
     touch_batch(&order, dsts, srcs, count))
BOTH(cuMemcpyBatchAsync_v2,
     (CUdeviceptr * dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
      CUmemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs, CUstream hStream),
     (dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, hStream),
     touch_batch(&order, dsts, srcs, count))
BOTH(cuMemcpy3DBatchAsync,
     (size_t numOps, CUDA_MEMCPY3D_BATCH_OP *opList, size_t *failIdx, unsigned long long flags,
      CUstream hStream),
     (numOps, opList, failIdx, flags, hStream), touch_batch_3d(&order, opList, numOps))
BOTH(cuMemcpy3DBatchAsync_v2,
     (size_t numOps, CUDA_MEMCPY3D_BATCH_OP *opList, unsigned long long flags,
      CUstream hStream),
     (numOps, opList, flags, hStream), touch_batch_3d(&order, opList, numOps))
BOTH(cuMemsetD8Async, (CUdeviceptr dstDevice, unsigned char uc, size_t N, CUstream hStream),
     (dstDevice, uc, N, hStream), gb_order_touch(&order, dstDevice))
BOTH(cuMemsetD16Async, (CUdeviceptr dstDevice, unsigned short us, size_t N, CUstream hStream),
     (dstDevice, us, N, hStream), gb_order_touch(&order, dstDevice))
BOTH(cuMemsetD32Async, (CUdeviceptr dstDevice, unsigned int ui, size_t N, CUstream hStream),
     (dstDevice, ui, N, hStream), gb_order_touch(&order, dstDevice))
BOTH(cuMemsetD2D8Async,
     (CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc, size_t Width, size_t Height,
      CUstream hStream),
     (dstDevice, dstPitch, uc, Width, Height, hStream), gb_order_touch(&order, dstDevice))
BOTH(cuMemsetD2D16Async,
     (CUdeviceptr dstDevice, size_t dstPitch, unsigned short us, size_t Width, size_t Height,
      CUstream hStream),
     (dstDevice, dstPitch, us, Width, Height, hStream), gb_order_touch(&order, dstDevice))
BOTH(cuMemsetD2D32Async,
     (CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui, size_t Width, size_t Height,
      CUstream hStream),
     (dstDevice, dstPitch, ui, Width, Height, hStream), gb_order_touch(&order, dstDevice))
