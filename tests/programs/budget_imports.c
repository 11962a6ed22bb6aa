/*
 * budget_imports.c: imported memory is never charged, whatever the card's tools make of it.
 */
#define _GNU_SOURCE
#include "budget_program.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

/* As the driver exports them; their headers need those of the graphics interfaces. */
CUresult cuGraphicsGLRegisterBuffer(CUgraphicsResource *resource, unsigned buffer,
                                    unsigned flags);
CUresult cuGraphicsGLRegisterImage(CUgraphicsResource *resource, unsigned image,
                                   unsigned target, unsigned flags);
CUresult cuGraphicsEGLRegisterImage(CUgraphicsResource *resource, void *image, unsigned flags);
CUresult cuGraphicsVDPAURegisterVideoSurface(CUgraphicsResource *resource, uint32_t surface,
                                             unsigned flags);
CUresult cuGraphicsVDPAURegisterOutputSurface(CUgraphicsResource *resource, uint32_t surface,
                                              unsigned flags);
CUresult cuGLRegisterBufferObject(unsigned buffer);
CUresult cuGLUnregisterBufferObject(unsigned buffer);
CUresult cuEGLStreamConsumerConnect(void **connection, void *stream);
CUresult cuEGLStreamConsumerConnectWithFlags(void **connection, void *stream, unsigned flags);
CUresult cuEGLStreamConsumerDisconnect(void **connection);
CUresult cuEGLStreamProducerConnect(void **connection, void *stream, int32_t width,
                                    int32_t height);
CUresult cuEGLStreamProducerDisconnect(void **connection);

/* Whether NVML shows for this process what it imports (GPUSTANDIN_IMPORTS_SHOWN). */
static bool shown_here;

static const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                         .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0},
                                         .requestedHandleTypes =
                                             CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR};

/*
 * Something that makes the library look at what the process holds, and that has to be seen: an
 * import that is still thought to be here would hide it.
 */
static void look(void)
{
    static const char big[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                              ".global .align 4 .b8 big[4194304];\n";
    uint64_t before = info_used();
    CUmodule module;

    EXPECT_OK(cuModuleLoadData(&module, big));
    EXPECT_EQUAL(info_used(), before + (charge_is_requested() ? 0 : 4 * MIB));
    EXPECT_OK(cuModuleUnload(module));
}

static void own_handle(void)
{
    CUmemGenericAllocationHandle handle = 0, imported = 0, again = 0;
    uint64_t before = info_used(), shown = sim.process_bytes(0);
    int file = -1;

    case_begin("import-of-an-own-handle");
    EXPECT_OK(cuMemCreate(&handle, 64 * MIB, &prop, 0));
    EXPECT_OK(cuMemExportToShareableHandle(&file, handle,
                                           CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    for (int round = 0; round < 3; round++) {
        EXPECT_OK(cuMemImportFromShareableHandle(&imported, (void *)(intptr_t)file,
                                                 CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
        EXPECT_OK(cuMemImportFromShareableHandle(&again, (void *)(intptr_t)file,
                                                 CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
        EXPECT_EQUAL(info_used(), before + 64 * MIB);
        look();
        EXPECT_EQUAL(info_used(), before + 64 * MIB);
        EXPECT_OK(cuMemRelease(imported));
        look();
        EXPECT_EQUAL(info_used(), before + 64 * MIB);
        if (round == 1) {
            /* Exported, so it stays charged; only the import is left of it here. */
            EXPECT_OK(cuMemRelease(handle));
            look();
            EXPECT_EQUAL(info_used(), before + 64 * MIB);
        }
        EXPECT_OK(cuMemRelease(again));
        look();
        EXPECT_EQUAL(info_used(), before + 64 * MIB);
    }
    close(file);
    look();
    EXPECT_EQUAL(info_used(), before + 64 * MIB);
    EXPECT_EQUAL(sim.process_bytes(0), shown);
    case_end();
}

/* Only an import is left of it, and then not even the descriptor: from that moment on, which no
 * call tells, the card's tools show it for the process. */
static void own_handle_alone(void)
{
    CUmemGenericAllocationHandle handle = 0, imported = 0;
    uint64_t before = info_used(), shown = sim.process_bytes(0);
    int file = -1;

    case_begin("import-that-alone-is-left");
    for (int round = 1; round <= 2; round++) {
        EXPECT_OK(cuMemCreate(&handle, 64 * MIB, &prop, 0));
        EXPECT_OK(cuMemExportToShareableHandle(&file, handle,
                                               CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
        if (round == 1)
            EXPECT_OK(cuMemRelease(handle));
        EXPECT_OK(cuMemImportFromShareableHandle(&imported, (void *)(intptr_t)file,
                                                 CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
        if (round == 2)
            EXPECT_OK(cuMemRelease(handle));
        look();
        EXPECT_EQUAL(info_used(), before + (size_t)round * 64 * MIB);
        EXPECT_EQUAL(sim.process_bytes(0), shown);
        close(file);
        EXPECT_EQUAL(sim.process_bytes(0), shown + 64 * MIB);
        look();
        EXPECT_EQUAL(info_used(), before + (size_t)round * 64 * MIB);
        EXPECT_OK(cuMemRelease(imported));
        look();
        EXPECT_EQUAL(info_used(), before + (size_t)round * 64 * MIB);
        EXPECT_EQUAL(sim.process_bytes(0), shown);
    }
    case_end();
}

/* The same with a copy of the descriptor, which is closed later: what the driver takes by
 * itself meanwhile is seen. */
static void own_handle_copied(void)
{
    static const char big[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                              ".global .align 4 .b8 big[33554432];\n";
    CUmemGenericAllocationHandle handle = 0, imported = 0;
    uint64_t before = info_used(), shown = sim.process_bytes(0);
    uint64_t taken = charge_is_requested() ? 0 : 32 * MIB;
    CUmodule module = NULL;
    int file = -1, copy;

    case_begin("import-with-a-copied-descriptor");
    EXPECT_OK(cuMemCreate(&handle, 64 * MIB, &prop, 0));
    EXPECT_OK(cuMemExportToShareableHandle(&file, handle,
                                           CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    EXPECT_OK(cuMemImportFromShareableHandle(&imported, (void *)(intptr_t)file,
                                             CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    EXPECT_OK(cuMemRelease(handle));
    copy = dup(file);
    close(file);
    look();
    EXPECT_EQUAL(sim.process_bytes(0), shown);
    EXPECT_EQUAL(info_used(), before + 64 * MIB);
    EXPECT_OK(cuModuleLoadData(&module, big));
    look();
    EXPECT_EQUAL(info_used(), before + 64 * MIB + taken);
    close(copy);
    look();
    EXPECT_EQUAL(sim.process_bytes(0), shown + 96 * MIB);
    EXPECT_EQUAL(info_used(), before + 64 * MIB + taken);
    EXPECT_OK(cuModuleUnload(module));
    EXPECT_OK(cuMemRelease(imported));
    look();
    EXPECT_EQUAL(info_used(), before + 64 * MIB);
    EXPECT_EQUAL(sim.process_bytes(0), shown);
    case_end();
}

/* Filled up, an import still succeeds. */
static void with_a_full_budget(void)
{
    CUmemGenericAllocationHandle handle = 0, imported = 0;
    CUdeviceptr filler = 0;
    int file = -1;

    case_begin("import-with-a-full-budget");
    EXPECT_OK(cuMemCreate(&handle, 64 * MIB, &prop, 0));
    EXPECT_OK(cuMemExportToShareableHandle(&file, handle,
                                           CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    EXPECT_OK(cuMemAlloc_v2(&filler, info_free() / (2 * MIB) * (2 * MIB)));
    EXPECT_OK(cuMemImportFromShareableHandle(&imported, (void *)(intptr_t)file,
                                             CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    EXPECT_OK(cuMemRelease(imported));
    EXPECT_OK(cuMemFree_v2(filler));
    EXPECT_OK(cuMemRelease(handle));
    close(file);
    case_end();
}

/* ---- memory that another process has taken ---- */

static struct {
    int commands; /* closed: it ends */
    pid_t pid;
    CUipcMemHandle handle;
    uint64_t used; /* what stands in its budget */
} exporter;

#define EXPORTED_MIB 96

/* The child's part. */
static int export(int answers, int commands)
{
    CUdeviceptr block;
    uint64_t used;
    char command;

    start_device(0);
    MUST(cuMemAlloc_v2(&block, EXPORTED_MIB * MIB));
    MUST(cuIpcGetMemHandle(&exporter.handle, block));
    used = info_used();
    if (write(answers, &exporter.handle, sizeof(exporter.handle)) < 0 ||
        write(answers, &used, sizeof(used)) < 0)
        return 1;
    while (read(commands, &command, 1) == 1) {
        used = info_used();
        if (write(answers, &used, sizeof(used)) < 0)
            return 1;
    }
    return 0;
}

static int answers_of_exporter;

/* Before this process starts the driver: no driver survives a fork. */
static void start_exporter(void)
{
    int there[2], back[2];

    if (pipe(there) != 0 || pipe(back) != 0)
        exit(1);
    exporter.pid = fork();
    if (exporter.pid == 0) {
        close(there[1]);
        close(back[0]);
        _exit(export(back[1], there[0]));
    }
    close(there[0]);
    close(back[1]);
    exporter.commands = there[1];
    answers_of_exporter = back[0];
    if (read(back[0], &exporter.handle, sizeof(exporter.handle)) != sizeof(exporter.handle) ||
        read(back[0], &exporter.used, sizeof(exporter.used)) != sizeof(exporter.used))
        exit(1);
}

static uint64_t used_by_exporter(void)
{
    uint64_t used = 0;

    if (write(exporter.commands, "?", 1) != 1 ||
        read(answers_of_exporter, &used, sizeof(used)) != sizeof(used))
        case_fails("the exporter has gone");
    return used;
}

static void end_exporter(void)
{
    int status;

    close(exporter.commands);
    close(answers_of_exporter);
    waitpid(exporter.pid, &status, 0);
}

/* After something has come that is not to be charged: what NVML shows for us, and what counts.
 */
static void expect_brought(uint64_t mib, uint64_t used, uint64_t shown)
{
    EXPECT_EQUAL(sim.process_bytes(0), shown + (shown_here ? mib * MIB : 0));
    EXPECT_EQUAL(info_used(), used);
    look();
    EXPECT_EQUAL(info_used(), used);
}

/* ---- memory whose exporter ends ---- */

#define LEFT_MIB (EXPORTED_MIB + 64)

static struct {
    int commands;
    pid_t pid;
    CUipcMemHandle handle;
    int file; /* of physical memory */
} leaving;

/* The child's part: a block and physical memory. */
static int leave(int answers, int commands)
{
    CUmemGenericAllocationHandle handle;
    CUdeviceptr block;
    char command;

    start_device(0);
    MUST(cuMemAlloc_v2(&block, EXPORTED_MIB * MIB));
    MUST(cuIpcGetMemHandle(&leaving.handle, block));
    MUST(cuMemCreate(&handle, 64 * MIB, &prop, 0));
    MUST(cuMemExportToShareableHandle(&leaving.file, handle,
                                      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    if (write(answers, &leaving, sizeof(leaving)) < 0)
        return 1;
    return read(commands, &command, 1) != 0;
}

static void start_leaving(void)
{
    int there[2], back[2];
    char path[64];
    pid_t pid;

    if (pipe(there) != 0 || pipe(back) != 0)
        exit(1);
    pid = fork();
    if (pid == 0) {
        close(there[1]);
        close(back[0]);
        /* Or the exporter would never see the end of its commands. */
        close(exporter.commands);
        close(answers_of_exporter);
        _exit(leave(back[1], there[0]));
    }
    close(there[0]);
    close(back[1]);
    if (read(back[0], &leaving, sizeof(leaving)) != sizeof(leaving))
        exit(1);
    close(back[0]);
    leaving.pid = pid;
    leaving.commands = there[1];
    /* As good as one that was sent here, on the simulated driver. */
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, leaving.file);
    leaving.file = open(path, O_RDWR | O_CLOEXEC);
    if (leaving.file < 0)
        exit(1);
}

/* Code of which nothing can be read beforehand: what its use brings is in no request. */
static const char unread_text[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                                  ".global .align 4 .b8 big[67108864];\n";
static const struct {
    unsigned int magic, version;
    const char *content;
} unread = {0x466243b1u, 1, unread_text};

/* What the process takes by itself does not pass for what an exporter has left. */
static void hides_nothing(void)
{
    CUdeviceptr block = 0, global;
    CUlibrary library;
    uint64_t used;

    case_begin("import-hides-nothing");
    EXPECT_OK(
        cuIpcOpenMemHandle_v2(&block, leaving.handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    look();
    used = info_used();
    MUST(cuLibraryLoadData(&library, &unread, NULL, NULL, 0, NULL, NULL, 0));
    EXPECT_OK(cuLibraryGetGlobal(&global, NULL, library, "big"));
    look();
    EXPECT_EQUAL(info_used(), used + (charge_is_requested() ? 0 : 64 * MIB));
    EXPECT_OK(cuLibraryUnload(library));
    look();
    EXPECT_EQUAL(info_used(), used);
    EXPECT_OK(cuIpcCloseMemHandle(block));
    case_end();
}

/* NVML shows it for the importer from then on. It is not charged, and refuses nothing. */
static void left_by_its_exporter(void)
{
    uint64_t used = info_used(), shown = sim.process_bytes(0), filled;
    CUmemGenericAllocationHandle handle;
    CUdeviceptr block = 0, range, filler, more = 0, unused;
    int status;

    case_begin("left-by-its-exporter");
    sim.set_other(0, LEFT_MIB * MIB + sim.context_bytes(0));
    EXPECT_OK(
        cuIpcOpenMemHandle_v2(&block, leaving.handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    MUST(cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)leaving.file,
                                        CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    MUST(cuMemAddressReserve(&range, 64 * MIB, 0, 0, 0));
    MUST(cuMemMap(range, 64 * MIB, 0, handle, 0));
    expect_brought(EXPORTED_MIB, used, shown);
    filled = (info_free() - 8 * MIB) / (2 * MIB) * (2 * MIB);
    MUST(cuMemAlloc_v2(&filler, filled));
    close(leaving.commands);
    waitpid(leaving.pid, &status, 0);
    sim.set_other(0, LEFT_MIB * MIB);
    EXPECT_EQUAL(sim.process_bytes(0), shown + filled + LEFT_MIB * MIB);
    EXPECT_OK(cuMemAlloc_v2(&more, 6 * MIB));
    EXPECT_EQUAL(info_used(), used + filled + 6 * MIB);
    EXPECT_OK(cuMemFree_v2(more));
    look();
    EXPECT_EQUAL(info_used(), used + filled);
    EXPECT_OK(cuMemAlloc_v2(&more, 8 * MIB));
    EXPECT_CODE(cuMemAlloc_v2(&unused, 16 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_OK(cuMemFree_v2(more));
    /* One after the other it goes. */
    EXPECT_OK(cuIpcCloseMemHandle(block));
    EXPECT_EQUAL(sim.process_bytes(0), shown + filled + 64 * MIB);
    look();
    EXPECT_EQUAL(info_used(), used + filled);
    EXPECT_OK(cuMemUnmap(range, 64 * MIB));
    EXPECT_OK(cuMemRelease(handle));
    EXPECT_EQUAL(sim.process_bytes(0), shown + filled);
    look();
    EXPECT_EQUAL(info_used(), used + filled);
    EXPECT_OK(cuMemFree_v2(filler));
    EXPECT_OK(cuMemAddressFree(range, 64 * MIB));
    sim.set_other(0, 0);
    close(leaving.file);
    case_end();
}

static void opened(void)
{
    uint64_t used = info_used(), shown = sim.process_bytes(0);
    CUdeviceptr block = 0, again = 0;

    case_begin("opened-block-of-another-process");
    for (int round = 0; round < 3; round++) {
        EXPECT_OK(round == 0 ? cuIpcOpenMemHandle(&block, exporter.handle,
                                                  CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
                             : cuIpcOpenMemHandle_v2(&block, exporter.handle,
                                                     CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
        expect_brought(EXPORTED_MIB, used, shown);
        /* Once more: the same address, and it is there until it has been closed as often. */
        EXPECT_OK(
            cuIpcOpenMemHandle_v2(&again, exporter.handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
        EXPECT_EQUAL(again, block);
        expect_brought(EXPORTED_MIB, used, shown);
        /* A close that fails ends nothing. */
        sim.fail("cuIpcCloseMemHandle", 1, CUDA_ERROR_UNKNOWN);
        EXPECT_CODE(cuIpcCloseMemHandle(block), CUDA_ERROR_UNKNOWN);
        sim.fail_clear();
        expect_brought(EXPORTED_MIB, used, shown);
        EXPECT_OK(cuIpcCloseMemHandle(block));
        expect_brought(EXPORTED_MIB, used, shown);
        EXPECT_OK(cuIpcCloseMemHandle(block));
        expect_brought(0, used, shown);
    }
    /* The exporter's block is charged there, and only there. */
    EXPECT_EQUAL(used_by_exporter(), exporter.used);
    case_end();
}

static void opened_with_a_full_budget(void)
{
    CUdeviceptr filler = 0, block = 0;

    case_begin("opened-with-a-full-budget");
    EXPECT_OK(cuMemAlloc_v2(&filler, info_free() / (2 * MIB) * (2 * MIB)));
    EXPECT_OK(
        cuIpcOpenMemHandle_v2(&block, exporter.handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    EXPECT_OK(cuIpcCloseMemHandle(block));
    EXPECT_OK(cuMemFree_v2(filler));
    case_end();
}

/* What was opened in a context ends with it. */
static void ended_with_its_context(void)
{
    uint64_t used = info_used(), shown = sim.process_bytes(0);
    CUgraphicsResource resource;
    CUcontext other;
    CUdeviceptr block;

    case_begin("imports-end-with-their-context");
    for (int round = 0; round < 2; round++) {
        EXPECT_OK(cuCtxCreate_v2(&other, 0, 0));
        EXPECT_OK(
            cuIpcOpenMemHandle_v2(&block, exporter.handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
        EXPECT_OK(cuGraphicsGLRegisterBuffer(&resource, 32, 0));
        look();
        EXPECT_OK(cuCtxDestroy_v2(other));
        expect_brought(0, used, shown);
    }
    case_end();
}

static void from_a_pool(void)
{
    CUmemPoolPtrExportData data;
    CUmemPoolProps properties;
    CUmemoryPool pool, imported;
    CUdeviceptr block, same = 0;
    uint64_t used, shown;
    int descriptor = -1;

    case_begin("pointer-of-an-imported-pool");
    memset(&properties, 0, sizeof(properties));
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    MUST(cuMemPoolCreate(&pool, &properties));
    EXPECT_OK(cuMemAllocFromPoolAsync(&block, 40 * MIB, pool, NULL));
    EXPECT_OK(cuCtxSynchronize());
    EXPECT_OK(cuMemPoolExportToShareableHandle(&descriptor, pool,
                                               CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    EXPECT_OK(cuMemPoolImportFromShareableHandle(&imported, (void *)(intptr_t)descriptor,
                                                 CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    EXPECT_OK(cuMemPoolExportPointer(&data, block));
    /* As if another process had: its number follows the mark. */
    memset((char *)&data + sizeof(int), 1, sizeof(int));
    look();
    used = info_used();
    shown = sim.process_bytes(0);
    for (int round = 0; round < 4; round++) {
        EXPECT_OK(cuMemPoolImportPointer(&same, imported, &data));
        expect_brought(40, used, shown);
        if (round % 2 == 0) {
            EXPECT_OK(cuMemFree_v2(same));
        } else {
            EXPECT_OK(cuMemFreeAsync(same, NULL));
            EXPECT_OK(cuCtxSynchronize());
        }
        expect_brought(0, used, shown);
    }
    EXPECT_OK(cuMemPoolDestroy(imported));
    EXPECT_OK(cuMemFreeAsync(block, NULL));
    EXPECT_OK(cuCtxSynchronize());
    EXPECT_OK(cuMemPoolDestroy(pool));
    close(descriptor);
    case_end();
}

static void external(void)
{
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC whole = {.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD,
                                              .size = 80 * MIB};
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC part = {.offset = 16 * MIB, .size = 32 * MIB};
    uint64_t used = info_used(), shown = sim.process_bytes(0);
    CUexternalMemory memory;
    CUdeviceptr mapped;

    case_begin("external-memory");
    for (int round = 0; round < 2; round++) {
        EXPECT_OK(cuImportExternalMemory(&memory, &whole));
        expect_brought(80, used, shown);
        EXPECT_OK(cuExternalMemoryGetMappedBuffer(&mapped, memory, &part));
        expect_brought(80, used, shown);
        EXPECT_OK(cuDestroyExternalMemory(memory));
        expect_brought(0, used, shown);
    }
    case_end();
}

static CUresult register_one(int how, CUgraphicsResource *resource)
{
    switch (how) {
    case 0:
        return cuGraphicsGLRegisterBuffer(resource, 48, 0);
    case 1:
        return cuGraphicsGLRegisterImage(resource, 48, 0, 0);
    case 2:
        return cuGraphicsEGLRegisterImage(resource, (void *)48, 0);
    case 3:
        return cuGraphicsVDPAURegisterVideoSurface(resource, 48, 0);
    default:
        return cuGraphicsVDPAURegisterOutputSurface(resource, 48, 0);
    }
}

static void graphics(void)
{
    uint64_t used = info_used(), shown = sim.process_bytes(0);
    CUgraphicsResource resource;
    CUdeviceptr mapped;
    size_t size;

    for (int how = 0; how < 5; how++) {
        case_begin("registered-%d", how);
        EXPECT_OK(register_one(how, &resource));
        expect_brought(48, used, shown);
        EXPECT_OK(cuGraphicsMapResources(1, &resource, NULL));
        EXPECT_OK(cuGraphicsResourceGetMappedPointer_v2(&mapped, &size, resource));
        EXPECT_EQUAL(size, 48 * MIB);
        expect_brought(48, used, shown);
        EXPECT_OK(cuGraphicsUnmapResources(1, &resource, NULL));
        EXPECT_OK(cuGraphicsUnregisterResource(resource));
        expect_brought(0, used, shown);
        case_end();
    }
    case_begin("registered-buffer-object");
    EXPECT_OK(cuGLRegisterBufferObject(24));
    EXPECT_OK(cuGLRegisterBufferObject(8));
    expect_brought(32, used, shown);
    EXPECT_OK(cuGLUnregisterBufferObject(24));
    expect_brought(8, used, shown);
    EXPECT_OK(cuGLUnregisterBufferObject(8));
    expect_brought(0, used, shown);
    case_end();
}

static CUresult connect_one(int how, void **connection)
{
    switch (how) {
    case 0:
        return cuEGLStreamConsumerConnect(connection, (void *)12);
    case 1:
        return cuEGLStreamConsumerConnectWithFlags(connection, (void *)12, 0);
    default:
        return cuEGLStreamProducerConnect(connection, (void *)12, 640, 480);
    }
}

static void streams_of_frames(void)
{
    uint64_t used = info_used(), shown = sim.process_bytes(0);
    void *connection = NULL;

    for (int how = 0; how < 3; how++) {
        case_begin("connected-%d", how);
        EXPECT_OK(connect_one(how, &connection));
        expect_brought(12, used, shown);
        EXPECT_OK(how < 2 ? cuEGLStreamConsumerDisconnect(&connection)
                          : cuEGLStreamProducerDisconnect(&connection));
        expect_brought(0, used, shown);
        /* Wrong calls get the driver's answer. */
        EXPECT(cuEGLStreamConsumerDisconnect(&connection) != CUDA_SUCCESS);
        EXPECT(cuEGLStreamConsumerDisconnect(NULL) != CUDA_SUCCESS);
        EXPECT(cuEGLStreamConsumerConnect(NULL, (void *)12) != CUDA_SUCCESS);
        case_end();
    }
}

/* For what is said about imports: one of a known size, then a refusal. */
static void words(void)
{
    CUdeviceptr block = 0, filler;

    EXPECT_OK(
        cuIpcOpenMemHandle_v2(&block, exporter.handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    EXPECT_CODE(cuMemAlloc_v2(&filler, (size_t)1 << 40), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_OK(cuIpcCloseMemHandle(block));
}

int main(int argc, char **argv)
{
    const char *setting = getenv("GPUSTANDIN_IMPORTS_SHOWN");

    sim_needed();
    shown_here = setting && *setting == '1';
    start_exporter();
    start_leaving();
    start_device(0);
    if (argc > 1 && strcmp(argv[1], "words") == 0) {
        words();
        end_exporter();
        return cases_status();
    }
    own_handle();
    own_handle_alone();
    own_handle_copied();
    with_a_full_budget();
    opened();
    opened_with_a_full_budget();
    ended_with_its_context();
    from_a_pool();
    external();
    graphics();
    streams_of_frames();
    hides_nothing();
    left_by_its_exporter();
    end_exporter();
    return cases_status();
}
