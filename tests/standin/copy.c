/* Copies and fills. The card's memory has no content, so they only check their addresses, touch
 * managed memory and take their turn in the stream; between host and managed memory the bytes
 * really move. Each name stands once with its own argument list and twice in the library. */
#include "sim.h"
#include "copy.h"

static bool on_host(uint64_t address)
{
    struct sim_range *range = sim_range_find(address);
    return range && (range->kind == SIM_RANGE_HOST || range->kind == SIM_RANGE_MANAGED);
}

bool sim_copy_address(uint64_t address, uint64_t bytes)
{
    struct sim_range *range = sim_range_find(address);
    if (!range)
        return sim_graph_memory_around(address, bytes);
    return address - range->base <= range->size &&
           bytes <= range->size - (address - range->base);
}

/* `to_host` and `from_host`: that side is an ordinary pointer of the program. */
static void move(uint64_t to, bool to_host, uint64_t from, bool from_host, uint64_t bytes)
{
    if ((to_host || on_host(to)) && (from_host || on_host(from)))
        memmove((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes);
}

CUresult sim_copy_work(CUstream hStream, bool per_thread, bool wait)
{
    struct sim_stream *stream;
    CUresult code = sim_stream_find(hStream, per_thread, &stream);
    bool captured = false;
    if (code)
        return code;
    if (wait) {
        code = sim_unsafe();
        if (code)
            return code;
    }
    code = sim_capture_work(stream, &captured);
    if (code || captured)
        return code;
    sim_queue_mark(stream);
    return wait ? sim_wait_until(stream, stream->asked) : CUDA_SUCCESS;
}

CUresult sim_copy(uint64_t to, bool to_host, uint64_t from, bool from_host, uint64_t bytes,
                  CUstream hStream, bool per_thread, bool wait)
{
    struct sim_context *context;
    CUresult code = sim_current(&context);
    if (code)
        return code;
    if (!bytes)
        return CUDA_SUCCESS;
    if ((to_host ? !to : !sim_copy_address(to, bytes)) ||
        (from_host ? !from : !sim_copy_address(from, bytes)))
        return CUDA_ERROR_INVALID_VALUE;
    code = sim_copy_work(hStream, per_thread, wait);
    if (code)
        return code;
    move(to, to_host, from, from_host, bytes);
    return CUDA_SUCCESS;
}

CUresult sim_fill(uint64_t to, uint64_t value, unsigned width, uint64_t count, CUstream hStream,
                  bool per_thread, bool wait)
{
    struct sim_context *context;
    CUresult code = sim_current(&context);
    if (code)
        return code;
    if (!count)
        return CUDA_SUCCESS;
    if (to % width || !sim_copy_address(to, count * width))
        return CUDA_ERROR_INVALID_VALUE;
    code = sim_copy_work(hStream, per_thread, wait);
    if (code)
        return code;
    sim_touch(to);
    if (on_host(to))
        for (uint64_t i = 0; i < count * width; i++)
            ((unsigned char *)(uintptr_t)to)[i] = (unsigned char)(value >> (i % width * 8));
    return CUDA_SUCCESS;
}

#define H true
#define D false
#define COPY_ASYNC(name, to_type, to_host, from_type, from_host)                               \
    CUresult name(to_type to, from_type from, size_t bytes, CUstream stream)                   \
    {                                                                                          \
        SIM_ENTER(name, W(to), W(from), W(bytes), W(stream));                                  \
        return sim_copy(W(to), to_host, W(from), from_host, bytes, stream, false, false);      \
    }                                                                                          \
    CUresult name##_ptsz(to_type to, from_type from, size_t bytes, CUstream stream)            \
    {                                                                                          \
        SIM_ENTER(name##_ptsz, W(to), W(from), W(bytes), W(stream));                           \
        return sim_copy(W(to), to_host, W(from), from_host, bytes, stream, true, false);       \
    }

COPY_ASYNC(cuMemcpyHtoDAsync_v2, CUdeviceptr, D, const void *, H)
COPY_ASYNC(cuMemcpyDtoHAsync_v2, void *, H, CUdeviceptr, D)
COPY_ASYNC(cuMemcpyDtoDAsync_v2, CUdeviceptr, D, CUdeviceptr, D)

/* The unified forms take either kind of address. */
static CUresult unified(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream,
                        bool per_thread, bool wait)
{
    return sim_copy(to, !sim_copy_address(to, 1) && to < (uint64_t)1 << 47 && to > 4096, from,
                    !sim_copy_address(from, 1) && from < (uint64_t)1 << 47 && from > 4096,
                    bytes, stream, per_thread, wait);
}

CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream)
{
    SIM_ENTER(cuMemcpyAsync, W(dst), W(src), W(ByteCount), W(hStream));
    return unified(dst, src, ByteCount, hStream, false, false);
}

CUresult cuMemcpyAsync_ptsz(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount,
                            CUstream hStream)
{
    SIM_ENTER(cuMemcpyAsync_ptsz, W(dst), W(src), W(ByteCount), W(hStream));
    return unified(dst, src, ByteCount, hStream, true, false);
}

CUresult cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount)
{
    SIM_ENTER(cuMemcpy, W(dst), W(src), W(ByteCount));
    return unified(dst, src, ByteCount, NULL, false, true);
}

CUresult cuMemcpy_ptds(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount)
{
    SIM_ENTER(cuMemcpy_ptds, W(dst), W(src), W(ByteCount));
    return unified(dst, src, ByteCount, NULL, true, true);
}

#define FILL_ASYNC(name, type, width)                                                          \
    CUresult name(CUdeviceptr to, type value, size_t count, CUstream stream)                   \
    {                                                                                          \
        SIM_ENTER(name, W(to), W(value), W(count), W(stream));                                 \
        return sim_fill(to, value, width, count, stream, false, false);                        \
    }                                                                                          \
    CUresult name##_ptsz(CUdeviceptr to, type value, size_t count, CUstream stream)            \
    {                                                                                          \
        SIM_ENTER(name##_ptsz, W(to), W(value), W(count), W(stream));                          \
        return sim_fill(to, value, width, count, stream, true, false);                         \
    }

FILL_ASYNC(cuMemsetD8Async, unsigned char, 1)
FILL_ASYNC(cuMemsetD16Async, unsigned short, 2)
FILL_ASYNC(cuMemsetD32Async, unsigned int, 4)

/* Two-dimensional fills touch all their rows at once. */
static CUresult fill_2d(CUdeviceptr to, size_t pitch, unsigned width, size_t columns,
                        size_t rows, CUstream stream, bool per_thread, bool wait)
{
    struct sim_context *context;
    CUresult code = sim_current(&context);
    if (code)
        return code;
    if (!columns || !rows)
        return CUDA_SUCCESS;
    if (pitch < columns * width || !sim_copy_address(to, pitch * (rows - 1) + columns * width))
        return CUDA_ERROR_INVALID_VALUE;
    code = sim_copy_work(stream, per_thread, wait);
    if (!code)
        sim_touch(to);
    return code;
}

#define FILL_2D(name, type, width, async)                                                      \
    CUresult name##async(CUdeviceptr to, size_t pitch, type value, size_t columns,             \
                         size_t rows, CUstream stream)                                         \
    {                                                                                          \
        SIM_ENTER(name##async, W(to), W(pitch), W(value), W(columns), W(rows), W(stream));     \
        return fill_2d(to, pitch, width, columns, rows, stream, false, false);                 \
    }                                                                                          \
    CUresult name##async##_ptsz(CUdeviceptr to, size_t pitch, type value, size_t columns,      \
                                size_t rows, CUstream stream)                                  \
    {                                                                                          \
        SIM_ENTER(name##async##_ptsz, W(to), W(pitch), W(value), W(columns), W(rows),          \
                  W(stream));                                                                  \
        return fill_2d(to, pitch, width, columns, rows, stream, true, false);                  \
    }                                                                                          \
    CUresult name##_v2(CUdeviceptr to, size_t pitch, type value, size_t columns, size_t rows)  \
    {                                                                                          \
        SIM_ENTER(name##_v2, W(to), W(pitch), W(value), W(columns), W(rows));                  \
        return fill_2d(to, pitch, width, columns, rows, NULL, false, true);                    \
    }                                                                                          \
    CUresult name##_v2_ptds(CUdeviceptr to, size_t pitch, type value, size_t columns,          \
                            size_t rows)                                                       \
    {                                                                                          \
        SIM_ENTER(name##_v2_ptds, W(to), W(pitch), W(value), W(columns), W(rows));             \
        return fill_2d(to, pitch, width, columns, rows, NULL, true, true);                     \
    }

FILL_2D(cuMemsetD2D8, unsigned char, 1, Async)
FILL_2D(cuMemsetD2D16, unsigned short, 2, Async)
FILL_2D(cuMemsetD2D32, unsigned int, 4, Async)
