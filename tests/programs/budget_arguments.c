/*
 * budget_arguments.c: what a program passes to the driver arrives there as it was, bit by bit:
 * flags, requested handle types, handles of other processes, structs with their padding and
 * with fields of which nobody here knows. Wrong ones too: the driver says so, not the library.
 */
#define _GNU_SOURCE
#include "budget_program.h"

#define OUT        UINT64_C(0x0f0f7e117e11f0f0) /* an output: its place is the library's matter */
#define P(pointer) (uint64_t)(uintptr_t)(pointer)
#define WORDS(...) (const uint64_t[]){__VA_ARGS__}, sizeof((uint64_t[]){__VA_ARGS__}) / 8

static __typeof__(standin_last_args) *last_args;
static uint64_t seed = 88172645463325252u;

static void fill(void *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        ((unsigned char *)bytes)[i] = (unsigned char)(random_next(&seed) >> 24);
}

/* The last call of `name` had these arguments, and this struct behind them. */
static void arrived(int line, const char *name, const uint64_t *words, size_t count,
                    const void *structure, size_t size)
{
    unsigned char seen[512] = {0};
    size_t length = last_args(name, seen, sizeof(seen));

    if (length != count * 8 + size) {
        case_fails("line %d: %s got %zu bytes, not %zu", line, name, length, count * 8 + size);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        uint64_t word;

        memcpy(&word, seen + i * 8, 8);
        if (words[i] != OUT && word != words[i])
            case_fails("line %d: %s: argument %zu is %#" PRIx64 ", not %#" PRIx64, line, name,
                       i, word, words[i]);
    }
    if (size > 0 && memcmp(seen + count * 8, structure, size) != 0)
        case_fails("line %d: %s: the struct has changed", line, name);
}

#define ARRIVED(name, structure, size, ...)                                                    \
    arrived(__LINE__, #name, WORDS(__VA_ARGS__), structure, size)

static void handles(void)
{
    static const unsigned long long flags[] = {0, 1, 1ull << 63};
    CUmemAllocationProp prop;
    CUmemGenericAllocationHandle handle = 0, again;
    CUdeviceptr range = 0;
    unsigned char fabric[sizeof(CUmemFabricHandle)];
    int file = -1;

    case_begin("handles");
    for (int kind = 0; kind < 64; kind++) {
        fill(&prop, sizeof(prop)); /* at first all of it means nothing */
        if (kind >= 8) {
            prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
            prop.location.type = kind % 3 == 0   ? CU_MEM_LOCATION_TYPE_DEVICE
                                 : kind % 3 == 1 ? CU_MEM_LOCATION_TYPE_HOST_NUMA
                                                 : CU_MEM_LOCATION_TYPE_HOST;
            prop.location.id = kind % 16 == 9;
            prop.win32HandleMetaData = kind % 2 ? NULL : &prop;
        }
        if (kind >= 16) {
            prop.requestedHandleTypes = (CUmemAllocationHandleType)(kind % 16);
            prop.allocFlags.compressionType = (unsigned char)(kind % 2);
            prop.allocFlags.gpuDirectRDMACapable = (unsigned char)(kind / 2 % 2);
            prop.allocFlags.usage = (unsigned short)(kind / 4);
        }
        if (cuMemCreate(&handle, 2 * MIB, &prop, flags[kind % 3]) == CUDA_SUCCESS)
            EXPECT_OK(cuMemRelease(handle));
        ARRIVED(cuMemCreate, &prop, sizeof(prop), OUT, 2 * MIB, P(&prop), flags[kind % 3]);
    }
    memset(&prop, 0, sizeof(prop));
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    MUST(cuMemCreate(&handle, 2 * MIB, &prop, 0));
    MUST(cuMemAddressReserve(&range, 4 * MIB, 0, 0, 0));
    EXPECT(cuMemMap(range, 2 * MIB, 0, handle, 5) != CUDA_SUCCESS);
    ARRIVED(cuMemMap, NULL, 0, range, 2 * MIB, 0, handle, 5);
    EXPECT_OK(cuMemMap(range, 2 * MIB, 0, handle, 0));
    EXPECT_OK(cuMemExportToShareableHandle(&file, handle,
                                           CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    ARRIVED(cuMemExportToShareableHandle, NULL, 0, OUT, handle,
            CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    EXPECT(cuMemExportToShareableHandle(&file, handle, CU_MEM_HANDLE_TYPE_FABRIC, 9) !=
           CUDA_SUCCESS);
    ARRIVED(cuMemExportToShareableHandle, NULL, 0, OUT, handle, CU_MEM_HANDLE_TYPE_FABRIC, 9);
    EXPECT_OK(cuMemImportFromShareableHandle(&again, (void *)(intptr_t)file,
                                             CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    ARRIVED(cuMemImportFromShareableHandle, NULL, 0, OUT, P((intptr_t)file),
            CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    EXPECT_OK(cuMemRelease(again));
    fill(fabric, sizeof(fabric));
    EXPECT(cuMemImportFromShareableHandle(&again, fabric, CU_MEM_HANDLE_TYPE_FABRIC) !=
           CUDA_SUCCESS);
    ARRIVED(cuMemImportFromShareableHandle, fabric, sizeof(fabric), OUT, P(fabric),
            CU_MEM_HANDLE_TYPE_FABRIC);
    cuMemGetHandleForAddressRange(&file, range, 2 * MIB, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD,
                                  1);
    ARRIVED(cuMemGetHandleForAddressRange, NULL, 0, OUT, range, 2 * MIB,
            CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 1);
    EXPECT_OK(cuMemUnmap(range, 2 * MIB));
    EXPECT_OK(cuMemRelease(handle));
    case_end();
}

static void pools(void)
{
    CUmemPoolProps props;
    CUmemoryPool pool, other;
    int file = 12345;

    case_begin("pools");
    for (int kind = 0; kind < 32; kind++) {
        fill(&props, sizeof(props));
        if (kind >= 4) {
            memset(&props, 0, sizeof(props));
            props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
            props.handleTypes = (CUmemAllocationHandleType)(kind % 16);
            props.location.type =
                kind % 2 ? CU_MEM_LOCATION_TYPE_DEVICE : CU_MEM_LOCATION_TYPE_HOST_NUMA;
            props.maxSize = (size_t)kind * MIB;
            props.usage = (unsigned short)(kind / 8);
            if (kind >= 24)
                fill(props.reserved, sizeof(props.reserved));
        }
        if (cuMemPoolCreate(&pool, &props) == CUDA_SUCCESS)
            EXPECT_OK(cuMemPoolDestroy(pool));
        ARRIVED(cuMemPoolCreate, &props, sizeof(props), OUT, P(&props));
    }
    EXPECT(cuMemPoolImportFromShareableHandle(&other, (void *)(intptr_t)file,
                                              CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                              3) != CUDA_SUCCESS);
    ARRIVED(cuMemPoolImportFromShareableHandle, NULL, 0, OUT, P((intptr_t)file),
            CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 3);
    case_end();
}

static void of_others(void)
{
    CUmulticastObjectProp multicast;
    CUmemGenericAllocationHandle handle;
    CUipcMemHandle ipc;
    CUdeviceptr block;

    case_begin("of-others");
    for (int kind = 0; kind < 8; kind++) {
        fill(&ipc, sizeof(ipc));
        EXPECT(cuIpcOpenMemHandle_v2(&block, ipc, (unsigned)kind) != CUDA_SUCCESS);
        ARRIVED(cuIpcOpenMemHandle_v2, &ipc, sizeof(ipc), OUT, (unsigned)kind);
        fill(&multicast, sizeof(multicast));
        EXPECT(cuMulticastCreate(&handle, &multicast) != CUDA_SUCCESS);
        ARRIVED(cuMulticastCreate, &multicast, sizeof(multicast), OUT, P(&multicast));
    }
    case_end();
}

static void arrays(void)
{
    CUDA_ARRAY3D_DESCRIPTOR_v2 deep;
    CUDA_ARRAY_DESCRIPTOR_v2 flat;
    CUmipmappedArray levels;
    CUarray array;

    case_begin("arrays");
    for (int kind = 0; kind < 32; kind++) {
        fill(&flat, sizeof(flat));
        fill(&deep, sizeof(deep));
        if (kind >= 8) {
            flat.Width = deep.Width = 64;
            flat.Height = deep.Height = kind % 2 ? 64 : 0;
            flat.Format = deep.Format = CU_AD_FORMAT_FLOAT;
            flat.NumChannels = deep.NumChannels = 4;
            deep.Depth = kind % 4 ? 0 : 6;
            deep.Flags = (unsigned)kind;
        }
        if (cuArrayCreate_v2(&array, &flat) == CUDA_SUCCESS)
            EXPECT_OK(cuArrayDestroy(array));
        ARRIVED(cuArrayCreate_v2, &flat, sizeof(flat), OUT, P(&flat));
        if (cuArray3DCreate_v2(&array, &deep) == CUDA_SUCCESS)
            EXPECT_OK(cuArrayDestroy(array));
        ARRIVED(cuArray3DCreate_v2, &deep, sizeof(deep), OUT, P(&deep));
        if (cuMipmappedArrayCreate(&levels, &deep, (unsigned)kind % 9) == CUDA_SUCCESS)
            EXPECT_OK(cuMipmappedArrayDestroy(levels));
        ARRIVED(cuMipmappedArrayCreate, &deep, sizeof(deep), OUT, P(&deep), (unsigned)kind % 9);
    }
    case_end();
}

static void plain_flags(void)
{
    CUcontext context;
    CUdeviceptr block;
    CUstream stream;
    size_t pitch;

    case_begin("plain-flags");
    for (unsigned int flags = 0; flags < 5; flags++) {
        if (cuMemAllocManaged(&block, MIB, flags) == CUDA_SUCCESS)
            EXPECT_OK(cuMemFree_v2(block));
        ARRIVED(cuMemAllocManaged, NULL, 0, OUT, MIB, flags);
        if (cuMemAllocPitch_v2(&block, &pitch, 1000 + flags, 10, 1u << flags) == CUDA_SUCCESS)
            EXPECT_OK(cuMemFree_v2(block));
        ARRIVED(cuMemAllocPitch_v2, NULL, 0, OUT, OUT, 1000 + flags, 10, 1u << flags);
        if (cuStreamCreateWithPriority(&stream, flags, -(int)flags) == CUDA_SUCCESS)
            EXPECT_OK(cuStreamDestroy_v2(stream));
        ARRIVED(cuStreamCreateWithPriority, NULL, 0, OUT, flags, P((intptr_t) - (int)flags));
        if (cuCtxCreate_v2(&context, flags, 0) == CUDA_SUCCESS)
            EXPECT_OK(cuCtxDestroy_v2(context));
        ARRIVED(cuCtxCreate_v2, NULL, 0, OUT, flags, 0);
    }
    case_end();
}

int main(void)
{
    sim_needed();
    last_args = (__typeof__(last_args))dlsym(RTLD_DEFAULT, "standin_last_args");
    if (!last_args)
        return 2;
    start_device(0);
    handles();
    pools();
    of_others();
    arrays();
    plain_flags();
    return cases_status();
}
