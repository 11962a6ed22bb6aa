/* Memory of other interfaces: external memory (Vulkan and the like), and what OpenGL, EGL and
 * VDPAU have registered. None of it is taken from the card here: it is theirs. Nothing of this
 * was measured. A graphics object's number is its size in MiB, so that a test can choose. */
#include "sim.h"

/* The names below are those of headers that need other headers to be there; by their types. */
typedef unsigned gl_uint;
typedef void *egl_handle;
CUresult cuGraphicsGLRegisterBuffer(CUgraphicsResource *, gl_uint, unsigned);
CUresult cuGraphicsGLRegisterImage(CUgraphicsResource *, gl_uint, gl_uint, unsigned);
CUresult cuGraphicsEGLRegisterImage(CUgraphicsResource *, egl_handle, unsigned);
CUresult cuGraphicsVDPAURegisterVideoSurface(CUgraphicsResource *, uint32_t, unsigned);
CUresult cuGraphicsVDPAURegisterOutputSurface(CUgraphicsResource *, uint32_t, unsigned);
CUresult cuGLRegisterBufferObject(gl_uint);
CUresult cuGLUnregisterBufferObject(gl_uint);
CUresult cuEGLStreamConsumerConnect(void **, egl_handle);
CUresult cuEGLStreamConsumerConnectWithFlags(void **, egl_handle, unsigned);
CUresult cuEGLStreamConsumerDisconnect(void **);
CUresult cuEGLStreamProducerConnect(void **, egl_handle, int32_t, int32_t);
CUresult cuEGLStreamProducerDisconnect(void **);

struct brought {
    struct sim_object object;
    struct brought *next;
    struct sim_card *card;
    struct sim_context *context;
    uint64_t bytes;
    gl_uint buffer;          /* of cuGLRegisterBufferObject: there is no other handle */
    struct sim_block *block; /* an address, once mapped */
    bool mapped;
};

static struct brought *all;

uint64_t sim_brought_bytes(const struct sim_card *card)
{
    uint64_t bytes = 0;
    size_t count;
    struct sim_range **ranges = sim_ranges(&count);
    for (size_t i = 0; i < count; i++)
        if (ranges[i]->kind == SIM_RANGE_IMPORTED && ranges[i]->card == card)
            bytes += ranges[i]->size;
    for (const struct brought *one = all; one; one = one->next)
        /* With an address it is among those. */
        if (one->card == card && !one->block)
            bytes += one->bytes;
    return bytes;
}

static CUresult bring(enum sim_kind kind, uint64_t bytes, struct brought **made)
{
    SIM_CURRENT(context);
    if (!bytes)
        return CUDA_ERROR_INVALID_VALUE;
    *made = sim_new(sizeof(**made));
    (*made)->card = context->card;
    (*made)->context = context;
    (*made)->bytes = bytes;
    (*made)->next = all;
    all = *made;
    sim_object_add(*made, kind);
    return CUDA_SUCCESS;
}

static void end(struct brought *one)
{
    struct brought **at = &all;
    while (*at != one)
        at = &(*at)->next;
    *at = one->next;
    if (one->block)
        sim_range_drop(one->block->range);
    sim_object_remove(one);
    free(one);
}

void sim_brought_end(struct sim_context *context)
{
    struct brought *one = all;
    while (one) {
        struct brought *next = one->next;
        if (one->context == context) {
            one->block = NULL; /* went with the context's ranges */
            end(one);
        }
        one = next;
    }
}

static uint64_t address_of(struct brought *one)
{
    if (!one->block) {
        one->block =
            sim_range_single(SIM_RANGE_IMPORTED, one->card, 0, one->bytes, one->bytes, false);
        one->block->context = one->context;
    }
    return one->block->base;
}

CUresult cuImportExternalMemory(CUexternalMemory *extMem_out,
                                const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *memHandleDesc)
{
    SIM_ENTER(cuImportExternalMemory, W(extMem_out), W(memHandleDesc));
    struct brought *made;
    CUresult code;
    if (!extMem_out || !memHandleDesc)
        return CUDA_ERROR_INVALID_VALUE;
    code = bring(SIM_EXTERNAL, memHandleDesc->size, &made);
    if (!code)
        *extMem_out = (CUexternalMemory)made;
    return code;
}

CUresult cuExternalMemoryGetMappedBuffer(CUdeviceptr *devPtr, CUexternalMemory extMem,
                                         const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *bufferDesc)
{
    SIM_ENTER(cuExternalMemoryGetMappedBuffer, W(devPtr), W(extMem), W(bufferDesc));
    struct brought *found = sim_object_find(extMem, SIM_EXTERNAL);
    if (!devPtr || !found || !bufferDesc || bufferDesc->offset > found->bytes ||
        bufferDesc->size > found->bytes - bufferDesc->offset)
        return CUDA_ERROR_INVALID_VALUE;
    *devPtr = address_of(found) + bufferDesc->offset;
    return CUDA_SUCCESS;
}

static CUresult destroy(const void *handle, enum sim_kind kind, CUresult wrong)
{
    struct brought *found = sim_object_find(handle, kind);
    if (!found)
        return wrong;
    end(found);
    return CUDA_SUCCESS;
}

CUresult cuDestroyExternalMemory(CUexternalMemory extMem)
{
    SIM_ENTER(cuDestroyExternalMemory, W(extMem));
    return destroy(extMem, SIM_EXTERNAL, CUDA_ERROR_INVALID_HANDLE);
}

static CUresult register_object(CUgraphicsResource *resource, uint64_t number)
{
    struct brought *made;
    CUresult code;
    if (!resource)
        return CUDA_ERROR_INVALID_VALUE;
    code = bring(SIM_GRAPHICS, number * SIM_MIB, &made);
    if (!code)
        *resource = (CUgraphicsResource)made;
    return code;
}

CUresult cuGraphicsGLRegisterBuffer(CUgraphicsResource *resource, gl_uint buffer,
                                    unsigned flags)
{
    SIM_ENTER(cuGraphicsGLRegisterBuffer, W(resource), W(buffer), W(flags));
    return register_object(resource, buffer);
}

CUresult cuGraphicsGLRegisterImage(CUgraphicsResource *resource, gl_uint image, gl_uint target,
                                   unsigned flags)
{
    SIM_ENTER(cuGraphicsGLRegisterImage, W(resource), W(image), W(target), W(flags));
    return register_object(resource, image);
}

CUresult cuGraphicsEGLRegisterImage(CUgraphicsResource *resource, egl_handle image,
                                    unsigned flags)
{
    SIM_ENTER(cuGraphicsEGLRegisterImage, W(resource), W(image), W(flags));
    return register_object(resource, (uint64_t)(uintptr_t)image);
}

CUresult cuGraphicsVDPAURegisterVideoSurface(CUgraphicsResource *resource, uint32_t surface,
                                             unsigned flags)
{
    SIM_ENTER(cuGraphicsVDPAURegisterVideoSurface, W(resource), W(surface), W(flags));
    return register_object(resource, surface);
}

CUresult cuGraphicsVDPAURegisterOutputSurface(CUgraphicsResource *resource, uint32_t surface,
                                              unsigned flags)
{
    SIM_ENTER(cuGraphicsVDPAURegisterOutputSurface, W(resource), W(surface), W(flags));
    return register_object(resource, surface);
}

CUresult cuGraphicsUnregisterResource(CUgraphicsResource resource)
{
    SIM_ENTER(cuGraphicsUnregisterResource, W(resource));
    return destroy(resource, SIM_GRAPHICS, CUDA_ERROR_INVALID_HANDLE);
}

static CUresult map(unsigned count, CUgraphicsResource *resources, bool mapped)
{
    for (unsigned i = 0; i < count; i++) {
        const struct brought *found = sim_object_find(resources[i], SIM_GRAPHICS);
        if (!found)
            return CUDA_ERROR_INVALID_HANDLE;
        if (found->mapped == mapped)
            return mapped ? CUDA_ERROR_ALREADY_MAPPED : CUDA_ERROR_NOT_MAPPED;
    }
    for (unsigned i = 0; i < count; i++)
        ((struct brought *)sim_object_find(resources[i], SIM_GRAPHICS))->mapped = mapped;
    return count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphicsMapResources(unsigned int count, CUgraphicsResource *resources,
                                CUstream hStream)
{
    SIM_ENTER(cuGraphicsMapResources, W(count), W(resources), W(hStream));
    return map(count, resources, true);
}

CUresult cuGraphicsUnmapResources(unsigned int count, CUgraphicsResource *resources,
                                  CUstream hStream)
{
    SIM_ENTER(cuGraphicsUnmapResources, W(count), W(resources), W(hStream));
    return map(count, resources, false);
}

CUresult cuGraphicsResourceGetMappedPointer_v2(CUdeviceptr *pDevPtr, size_t *pSize,
                                               CUgraphicsResource resource)
{
    SIM_ENTER(cuGraphicsResourceGetMappedPointer_v2, W(pDevPtr), W(pSize), W(resource));
    struct brought *found = sim_object_find(resource, SIM_GRAPHICS);
    if (!pDevPtr || !pSize || !found)
        return CUDA_ERROR_INVALID_VALUE;
    if (!found->mapped)
        return CUDA_ERROR_NOT_MAPPED;
    *pDevPtr = address_of(found);
    *pSize = found->bytes;
    return CUDA_SUCCESS;
}

CUresult cuGLRegisterBufferObject(gl_uint buffer)
{
    SIM_ENTER(cuGLRegisterBufferObject, W(buffer));
    struct brought *made;
    CUresult code = bring(SIM_GRAPHICS, buffer * SIM_MIB, &made);
    if (!code)
        made->buffer = buffer;
    return code;
}

CUresult cuGLUnregisterBufferObject(gl_uint buffer)
{
    SIM_ENTER(cuGLUnregisterBufferObject, W(buffer));
    struct brought *one = all;
    while (one && (!buffer || one->buffer != buffer))
        one = one->next;
    if (!one)
        return CUDA_ERROR_INVALID_VALUE;
    end(one);
    return CUDA_SUCCESS;
}

static CUresult connect(void **connection, egl_handle stream)
{
    struct brought *made;
    CUresult code;
    if (!connection)
        return CUDA_ERROR_INVALID_VALUE;
    code = bring(SIM_EGL, (uint64_t)(uintptr_t)stream * SIM_MIB, &made);
    if (!code)
        *connection = made;
    return code;
}

CUresult cuEGLStreamConsumerConnect(void **connection, egl_handle stream)
{
    SIM_ENTER(cuEGLStreamConsumerConnect, W(connection), W(stream));
    return connect(connection, stream);
}

CUresult cuEGLStreamConsumerConnectWithFlags(void **connection, egl_handle stream,
                                             unsigned flags)
{
    SIM_ENTER(cuEGLStreamConsumerConnectWithFlags, W(connection), W(stream), W(flags));
    return connect(connection, stream);
}

CUresult cuEGLStreamProducerConnect(void **connection, egl_handle stream, int32_t width,
                                    int32_t height)
{
    SIM_ENTER(cuEGLStreamProducerConnect, W(connection), W(stream), W(width), W(height));
    return connect(connection, stream);
}

CUresult cuEGLStreamConsumerDisconnect(void **connection)
{
    SIM_ENTER(cuEGLStreamConsumerDisconnect, W(connection));
    return connection ? destroy(*connection, SIM_EGL, CUDA_ERROR_INVALID_HANDLE)
                      : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuEGLStreamProducerDisconnect(void **connection)
{
    SIM_ENTER(cuEGLStreamProducerDisconnect, W(connection));
    return connection ? destroy(*connection, SIM_EGL, CUDA_ERROR_INVALID_HANDLE)
                      : CUDA_ERROR_INVALID_VALUE;
}
