/*
 * order_forms.c: every form of a copy, a memset and a launch that takes a stream.
 */
#include "order_forms.h"

#include <string.h>

struct order_around order_around;
#define other   order_around.other
#define on_host order_around.host

const char order_code[] = ".version 6.0\n.target sm_50\n.address_size 64\n"
                          ".visible .entry whole(.param .u64 p)\n{\n\tret;\n}\n"
                          ".visible .entry mixed(.param .u32 n, .param .align 8 .b8 s[24],\n"
                          "\t.param .u64 .ptr .global .align 4 q)\n{\n\tret;\n}\n";

/* One for both spellings. */
#define RUN(name, ...)                                                                         \
    static CUresult run_##name(void *function, CUdeviceptr p, CUstream stream)                 \
    {                                                                                          \
        return ((__typeof__(name) *)function)(__VA_ARGS__);                                    \
    }

RUN(cuMemcpyAsync, p, other, 64, stream)
RUN(cuMemcpyPeerAsync, p, order_around.context, other, order_around.context, 64, stream)
RUN(cuMemcpyHtoDAsync_v2, p, on_host, 64, stream)
RUN(cuMemcpyDtoHAsync_v2, on_host, p, 64, stream)
RUN(cuMemcpyDtoDAsync_v2, other, p, 64, stream)
RUN(cuMemcpyHtoAAsync_v2, order_around.array, 0, (void *)(uintptr_t)p, 64, stream)
RUN(cuMemcpyAtoHAsync_v2, (void *)(uintptr_t)p, order_around.array, 0, 64, stream)
RUN(cuMemsetD8Async, p, 1, 64, stream)
RUN(cuMemsetD16Async, p, 1, 64, stream)
RUN(cuMemsetD32Async, p, 1, 64, stream)
RUN(cuMemsetD2D8Async, p, ORDER_PITCH, 1, 64, 2, stream)
RUN(cuMemsetD2D16Async, p, ORDER_PITCH, 1, 64, 2, stream)
RUN(cuMemsetD2D32Async, p, ORDER_PITCH, 1, 64, 2, stream)

/* Where a rectangle begins decides, not where its rows are counted from. */
static CUresult run_cuMemcpy2DAsync_v2(void *function, CUdeviceptr p, CUstream stream)
{
    const CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                                .srcHost = on_host,
                                .srcPitch = ORDER_PITCH,
                                .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                                .dstDevice = p - 8 - ORDER_PITCH,
                                .dstXInBytes = 8,
                                .dstY = 1,
                                .dstPitch = ORDER_PITCH,
                                .WidthInBytes = 64,
                                .Height = 2};

    return ((__typeof__(cuMemcpy2DAsync_v2) *)function)(&copy, stream);
}

static CUresult run_cuMemcpy3DAsync_v2(void *function, CUdeviceptr p, CUstream stream)
{
    const CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
                                .srcDevice = p - 8 - ORDER_PITCH,
                                .srcXInBytes = 8,
                                .srcY = 1,
                                .srcPitch = ORDER_PITCH,
                                .srcHeight = 2,
                                .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                                .dstDevice = other,
                                .dstPitch = ORDER_PITCH,
                                .dstHeight = 2,
                                .WidthInBytes = 64,
                                .Height = 2,
                                .Depth = 1};

    return ((__typeof__(cuMemcpy3DAsync_v2) *)function)(&copy, stream);
}

static CUresult run_cuMemcpy3DPeerAsync(void *function, CUdeviceptr p, CUstream stream)
{
    const CUDA_MEMCPY3D_PEER copy = {.srcMemoryType = CU_MEMORYTYPE_ARRAY,
                                     .srcArray = order_around.array,
                                     .srcContext = order_around.context,
                                     .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                                     .dstDevice = p,
                                     .dstContext = order_around.context,
                                     .dstPitch = ORDER_PITCH,
                                     .dstHeight = 2,
                                     .WidthInBytes = 64,
                                     .Height = 2,
                                     .Depth = 1};

    return ((__typeof__(cuMemcpy3DPeerAsync) *)function)(&copy, stream);
}

#define BATCH                                                                                  \
    CUdeviceptr to[] = {other, p}, from[] = {other, other};                                    \
    size_t bytes[] = {64, 64}, first[] = {0}, failed;                                          \
    CUmemcpyAttributes how = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};            \
                                                                                               \
    (void)failed

static CUresult run_cuMemcpyBatchAsync(void *function, CUdeviceptr p, CUstream stream)
{
    BATCH;
    return ((__typeof__(cuMemcpyBatchAsync) *)function)(to, from, bytes, 2, &how, first, 1,
                                                        &failed, stream);
}

static CUresult run_cuMemcpyBatchAsync_v2(void *function, CUdeviceptr p, CUstream stream)
{
    BATCH;
    return ((__typeof__(cuMemcpyBatchAsync_v2) *)function)(to, from, bytes, 2, &how, first, 1,
                                                           stream);
}

#define BATCH_3D                                                                               \
    CUDA_MEMCPY3D_BATCH_OP list[] = {                                                          \
        {.src = {.type = CU_MEMCPY_OPERAND_TYPE_POINTER, .op = {.ptr = {.ptr = p}}},           \
         .dst = {.type = CU_MEMCPY_OPERAND_TYPE_ARRAY,                                         \
                 .op = {.array = {.array = order_around.array}}},                              \
         .extent = {64, 1, 1}}}

static CUresult run_cuMemcpy3DBatchAsync(void *function, CUdeviceptr p, CUstream stream)
{
    BATCH_3D;
    size_t failed;

    return ((__typeof__(cuMemcpy3DBatchAsync) *)function)(1, list, &failed, 0, stream);
}

static CUresult run_cuMemcpy3DBatchAsync_v2(void *function, CUdeviceptr p, CUstream stream)
{
    BATCH_3D;

    return ((__typeof__(cuMemcpy3DBatchAsync_v2) *)function)(1, list, 0, stream);
}

/* ---- kernels: a parameter that is a pointer, one inside a struct, and all in one buffer ----
 */

struct inside {
    uint64_t number;
    CUdeviceptr pointer;
    uint32_t one, two;
};

#define MIXED                                                                                  \
    uint32_t number = 7;                                                                       \
    struct inside in = {.number = UINT64_MAX, .pointer = p};                                   \
    CUdeviceptr none = 0;                                                                      \
    void *parameters[] = {&number, &in, &none}

static CUresult run_cuLaunchKernel(void *function, CUdeviceptr p, CUstream stream)
{
    void *parameters[] = {&p};

    return ((__typeof__(cuLaunchKernel) *)function)(order_around.whole, 1, 1, 1, 32, 1, 1, 0,
                                                    stream, parameters, NULL);
}

static CUresult run_kernel_of_library(void *function, CUdeviceptr p, CUstream stream)
{
    void *parameters[] = {&p};

    return ((__typeof__(cuLaunchKernel) *)function)((CUfunction)(void *)order_around.kernel, 1,
                                                    1, 1, 32, 1, 1, 0, stream, parameters,
                                                    NULL);
}

static CUresult run_in_struct(void *function, CUdeviceptr p, CUstream stream)
{
    MIXED;

    return ((__typeof__(cuLaunchKernel) *)function)(order_around.mixed, 1, 1, 1, 32, 1, 1, 0,
                                                    stream, parameters, NULL);
}

static CUresult run_in_buffer(void *function, CUdeviceptr p, CUstream stream)
{
    uint64_t buffer[] = {7, UINT64_MAX, 0, 1, p};
    size_t bytes = sizeof(buffer);
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, buffer, CU_LAUNCH_PARAM_BUFFER_SIZE,
                     &bytes, CU_LAUNCH_PARAM_END};

    return ((__typeof__(cuLaunchKernel) *)function)(order_around.mixed, 1, 1, 1, 32, 1, 1, 0,
                                                    stream, NULL, extra);
}

static CUresult run_cuLaunchKernelEx(void *function, CUdeviceptr p, CUstream stream)
{
    const CUlaunchConfig config = {.gridDimX = 1,
                                   .gridDimY = 1,
                                   .gridDimZ = 1,
                                   .blockDimX = 32,
                                   .blockDimY = 1,
                                   .blockDimZ = 1,
                                   .hStream = stream};
    MIXED;

    return ((__typeof__(cuLaunchKernelEx) *)function)(&config, order_around.mixed, parameters,
                                                      NULL);
}

static CUresult run_cuLaunchCooperativeKernel(void *function, CUdeviceptr p, CUstream stream)
{
    void *parameters[] = {&p};

    return ((__typeof__(cuLaunchCooperativeKernel) *)function)(order_around.whole, 1, 1, 1, 32,
                                                               1, 1, 0, stream, parameters);
}

#define PTSZ CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
#define BOTH(name, base, old, new, variant, launch, run)                                       \
    {#name, #base, old, 0, (void *)name, variant, launch, run},                                \
    {                                                                                          \
#name "_ptsz", #base, new, PTSZ, (void *)name##_ptsz, variant, launch, run             \
    }
#define COPY(name, base, old, new) BOTH(name, base, old, new, "", false, run_##name)

const struct order_form order_forms[] = {
    COPY(cuMemcpyAsync, cuMemcpyAsync, 4000, 7000),
    COPY(cuMemcpyPeerAsync, cuMemcpyPeerAsync, 4000, 7000),
    COPY(cuMemcpyHtoDAsync_v2, cuMemcpyHtoDAsync, 3020, 7000),
    COPY(cuMemcpyDtoHAsync_v2, cuMemcpyDtoHAsync, 3020, 7000),
    COPY(cuMemcpyDtoDAsync_v2, cuMemcpyDtoDAsync, 3020, 7000),
    COPY(cuMemcpyHtoAAsync_v2, cuMemcpyHtoAAsync, 3020, 7000),
    COPY(cuMemcpyAtoHAsync_v2, cuMemcpyAtoHAsync, 3020, 7000),
    COPY(cuMemcpy2DAsync_v2, cuMemcpy2DAsync, 3020, 7000),
    COPY(cuMemcpy3DAsync_v2, cuMemcpy3DAsync, 3020, 7000),
    COPY(cuMemcpy3DPeerAsync, cuMemcpy3DPeerAsync, 4000, 7000),
    COPY(cuMemcpyBatchAsync, cuMemcpyBatchAsync, 12080, 12080),
    COPY(cuMemcpyBatchAsync_v2, cuMemcpyBatchAsync, 13000, 13000),
    COPY(cuMemcpy3DBatchAsync, cuMemcpy3DBatchAsync, 12080, 12080),
    COPY(cuMemcpy3DBatchAsync_v2, cuMemcpy3DBatchAsync, 13000, 13000),
    COPY(cuMemsetD8Async, cuMemsetD8Async, 3020, 7000),
    COPY(cuMemsetD16Async, cuMemsetD16Async, 3020, 7000),
    COPY(cuMemsetD32Async, cuMemsetD32Async, 3020, 7000),
    COPY(cuMemsetD2D8Async, cuMemsetD2D8Async, 3020, 7000),
    COPY(cuMemsetD2D16Async, cuMemsetD2D16Async, 3020, 7000),
    COPY(cuMemsetD2D32Async, cuMemsetD2D32Async, 3020, 7000),
    BOTH(cuLaunchKernel, cuLaunchKernel, 4000, 7000, "", true, run_cuLaunchKernel),
    BOTH(cuLaunchKernel, cuLaunchKernel, 4000, 7000, "-struct", true, run_in_struct),
    BOTH(cuLaunchKernel, cuLaunchKernel, 4000, 7000, "-buffer", true, run_in_buffer),
    BOTH(cuLaunchKernel, cuLaunchKernel, 4000, 7000, "-library", true, run_kernel_of_library),
    BOTH(cuLaunchKernelEx, cuLaunchKernelEx, 12000, 12000, "", true, run_cuLaunchKernelEx),
    BOTH(cuLaunchCooperativeKernel, cuLaunchCooperativeKernel, 9000, 9000, "", true,
         run_cuLaunchCooperativeKernel),
    {.name = NULL}};
