/*
 * entry_graphics.c: what OpenGL, EGL and VDPAU register with the driver. Never charged, never
 * refused. Mapping and unmapping brings nothing new: those calls are not intercepted.
 */
#include "interpose/handlers.h"
#include "interpose/imports.h"

#include <stddef.h>

static uint64_t number_of(const void *handle)
{
    return (uint64_t)(uintptr_t)handle;
}

static CUresult registered(const struct gb_import *import, struct gb_driver *drv, CUresult code,
                           const CUgraphicsResource *resource, const char *call)
{
    if (code == CUDA_SUCCESS && resource)
        gb_import_remember(import, drv, GB_IMPORT_GRAPHICS, number_of(*resource), 0, call);
    return code;
}

CUresult gb_enter_cuGraphicsGLRegisterBuffer(struct gb_driver *drv,
                                             CUgraphicsResource *pCudaResource,
                                             unsigned int buffer, unsigned int Flags)
{
    struct gb_import import;

    gb_import_begin(&import);
    return registered(&import, drv,
                      GB_REAL(drv, cuGraphicsGLRegisterBuffer)(pCudaResource, buffer, Flags),
                      pCudaResource, "cuGraphicsGLRegisterBuffer");
}

CUresult gb_enter_cuGraphicsGLRegisterImage(struct gb_driver *drv,
                                            CUgraphicsResource *pCudaResource,
                                            unsigned int image, unsigned int kind,
                                            unsigned int Flags)
{
    struct gb_import import;

    gb_import_begin(&import);
    return registered(
        &import, drv,
        GB_REAL(drv, cuGraphicsGLRegisterImage)(pCudaResource, image, kind, Flags),
        pCudaResource, "cuGraphicsGLRegisterImage");
}

CUresult gb_enter_cuGraphicsEGLRegisterImage(struct gb_driver *drv,
                                             CUgraphicsResource *pCudaResource, void *image,
                                             unsigned int flags)
{
    struct gb_import import;

    gb_import_begin(&import);
    return registered(&import, drv,
                      GB_REAL(drv, cuGraphicsEGLRegisterImage)(pCudaResource, image, flags),
                      pCudaResource, "cuGraphicsEGLRegisterImage");
}

CUresult gb_enter_cuGraphicsVDPAURegisterVideoSurface(struct gb_driver *drv,
                                                      CUgraphicsResource *pCudaResource,
                                                      cuuint32_t vdpSurface, unsigned int flags)
{
    struct gb_import import;

    gb_import_begin(&import);
    return registered(
        &import, drv,
        GB_REAL(drv, cuGraphicsVDPAURegisterVideoSurface)(pCudaResource, vdpSurface, flags),
        pCudaResource, "cuGraphicsVDPAURegisterVideoSurface");
}

CUresult gb_enter_cuGraphicsVDPAURegisterOutputSurface(struct gb_driver *drv,
                                                       CUgraphicsResource *pCudaResource,
                                                       cuuint32_t vdpSurface,
                                                       unsigned int flags)
{
    struct gb_import import;

    gb_import_begin(&import);
    return registered(
        &import, drv,
        GB_REAL(drv, cuGraphicsVDPAURegisterOutputSurface)(pCudaResource, vdpSurface, flags),
        pCudaResource, "cuGraphicsVDPAURegisterOutputSurface");
}

CUresult gb_enter_cuGraphicsUnregisterResource(struct gb_driver *drv,
                                               CUgraphicsResource resource)
{
    struct gb_import_entry *entry = gb_import_take(GB_IMPORT_GRAPHICS, number_of(resource));
    CUresult code = GB_REAL(drv, cuGraphicsUnregisterResource)(resource);

    gb_import_taken(entry, code == CUDA_SUCCESS);
    return code;
}

/* The calls of CUDA 2: a buffer is known by OpenGL's number alone. */
CUresult gb_enter_cuGLRegisterBufferObject(struct gb_driver *drv, unsigned int buffer)
{
    struct gb_import import;
    CUresult code;

    gb_import_begin(&import);
    code = GB_REAL(drv, cuGLRegisterBufferObject)(buffer);
    if (code == CUDA_SUCCESS)
        gb_import_remember(&import, drv, GB_IMPORT_GL_BUFFER, buffer, 0,
                           "cuGLRegisterBufferObject");
    return code;
}

CUresult gb_enter_cuGLUnregisterBufferObject(struct gb_driver *drv, unsigned int buffer)
{
    struct gb_import_entry *entry = gb_import_take(GB_IMPORT_GL_BUFFER, buffer);
    CUresult code = GB_REAL(drv, cuGLUnregisterBufferObject)(buffer);

    gb_import_taken(entry, code == CUDA_SUCCESS);
    return code;
}

static CUresult connected(const struct gb_import *import, struct gb_driver *drv, CUresult code,
                          void **conn, const char *call)
{
    if (code == CUDA_SUCCESS && conn)
        gb_import_remember(import, drv, GB_IMPORT_EGL, number_of(*conn), 0, call);
    return code;
}

CUresult gb_enter_cuEGLStreamConsumerConnect(struct gb_driver *drv, void **conn, void *stream)
{
    struct gb_import import;

    gb_import_begin(&import);
    return connected(&import, drv, GB_REAL(drv, cuEGLStreamConsumerConnect)(conn, stream), conn,
                     "cuEGLStreamConsumerConnect");
}

CUresult gb_enter_cuEGLStreamConsumerConnectWithFlags(struct gb_driver *drv, void **conn,
                                                      void *stream, unsigned int flags)
{
    struct gb_import import;

    gb_import_begin(&import);
    return connected(&import, drv,
                     GB_REAL(drv, cuEGLStreamConsumerConnectWithFlags)(conn, stream, flags),
                     conn, "cuEGLStreamConsumerConnectWithFlags");
}

CUresult gb_enter_cuEGLStreamProducerConnect(struct gb_driver *drv, void **conn, void *stream,
                                             int width, int height)
{
    struct gb_import import;

    gb_import_begin(&import);
    return connected(&import, drv,
                     GB_REAL(drv, cuEGLStreamProducerConnect)(conn, stream, width, height),
                     conn, "cuEGLStreamProducerConnect");
}

static CUresult disconnect(void **conn, gb_fn_cuEGLStreamConsumerDisconnect *real)
{
    struct gb_import_entry *entry =
        conn ? gb_import_take(GB_IMPORT_EGL, number_of(*conn)) : NULL;
    CUresult code = real(conn);

    gb_import_taken(entry, code == CUDA_SUCCESS);
    return code;
}

CUresult gb_enter_cuEGLStreamConsumerDisconnect(struct gb_driver *drv, void **conn)
{
    return disconnect(conn, GB_REAL(drv, cuEGLStreamConsumerDisconnect));
}

CUresult gb_enter_cuEGLStreamProducerDisconnect(struct gb_driver *drv, void **conn)
{
    return disconnect(conn, GB_REAL(drv, cuEGLStreamProducerDisconnect));
}
