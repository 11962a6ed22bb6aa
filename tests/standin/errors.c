/* Names and texts of the codes. */
#include "sim.h"

#define CODES(X)                                                                               \
    X(CUDA_SUCCESS, "no error")                                                                \
    X(CUDA_ERROR_INVALID_VALUE, "invalid argument")                                            \
    X(CUDA_ERROR_OUT_OF_MEMORY, "out of memory")                                               \
    X(CUDA_ERROR_NOT_INITIALIZED, "initialization error")                                      \
    X(CUDA_ERROR_DEINITIALIZED, "driver shutting down")                                        \
    X(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected")                              \
    X(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal")                                     \
    X(CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid")                              \
    X(CUDA_ERROR_INVALID_CONTEXT, "invalid device context")                                    \
    X(CUDA_ERROR_CONTEXT_ALREADY_CURRENT, "context already current")                           \
    X(CUDA_ERROR_UNSUPPORTED_LIMIT, "limit is not supported on this architecture")             \
    X(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED,                                                      \
      "peer access is not supported between these devices")                                    \
    X(CUDA_ERROR_INVALID_PTX, "a PTX JIT compilation failed")                                  \
    X(CUDA_ERROR_OPERATING_SYSTEM, "OS call failed or operation not supported on this OS")     \
    X(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle")                                    \
    X(CUDA_ERROR_ILLEGAL_STATE, "the operation cannot be performed in the present state")      \
    X(CUDA_ERROR_NOT_FOUND, "named symbol not found")                                          \
    X(CUDA_ERROR_NOT_READY, "device not ready")                                                \
    X(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered")                  \
    X(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, "peer access is already enabled")                \
    X(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, "peer access has not been enabled")                  \
    X(CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE, "primary context in use")                             \
    X(CUDA_ERROR_CONTEXT_IS_DESTROYED, "context is destroyed")                                 \
    X(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "host memory is registered already")          \
    X(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "host memory is not registered")                  \
    X(CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure")                                  \
    X(CUDA_ERROR_NOT_PERMITTED, "operation not permitted")                                     \
    X(CUDA_ERROR_NOT_SUPPORTED, "operation not supported")                                     \
    X(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,                                                   \
      "operation not permitted when stream is capturing")                                      \
    X(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,                                                   \
      "operation failed due to a previous error during capture")                               \
    X(CUDA_ERROR_STREAM_CAPTURE_MERGE, "operation would result in a merge of captures")        \
    X(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "capture was not initiated in this stream")         \
    X(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "capturing stream has unjoined work")                \
    X(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, "dependency created on uncaptured work")            \
    X(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,                                                      \
      "operation would make the legacy stream depend on a "                                    \
      "capturing blocking stream")                                                             \
    X(CUDA_ERROR_CAPTURED_EVENT, "operation not permitted on an event last recorded in a "     \
                                 "capturing stream")                                           \
    X(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, "attempt to terminate a thread-local capture "   \
                                              "sequence from another thread")                  \
    X(CUDA_ERROR_TIMEOUT, "wait operation timed out")                                          \
    X(CUDA_ERROR_UNKNOWN, "unknown error")

static const struct {
    CUresult code;
    const char *name, *text;
} codes[] = {
#define ROW(code, text) {code, #code, text},
    CODES(ROW)
#undef ROW
};

static int find(CUresult code)
{
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
        if (codes[i].code == code)
            return (int)i;
    return -1;
}

CUresult cuGetErrorString(CUresult error, const char **text)
{
    int at = find(error);
    if (!text)
        return CUDA_ERROR_INVALID_VALUE;
    *text = at < 0 ? NULL : codes[at].text;
    return at < 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char **name)
{
    int at = find(error);
    if (!name)
        return CUDA_ERROR_INVALID_VALUE;
    *name = at < 0 ? NULL : codes[at].name;
    return at < 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
