/*
 * runtime_take.cu: what tests/programs/take_run.c does, by the CUDA runtime: cudaMalloc or
 * cudaMallocAsync until cudaErrorMemoryAllocation, a kernel on what was granted, one given back,
 * one more.
 */
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

static const size_t mib = 1024 * 1024;
static const int most = 4096;

__global__ void fill(unsigned *words, size_t count, unsigned value)
{
    size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step)
        words[i] = value;
}

static bool ordered;
static cudaStream_t stream;

static cudaError_t take_one(void **block, size_t bytes)
{
    return ordered ? cudaMallocAsync(block, bytes, stream) : cudaMalloc(block, bytes);
}

static cudaError_t free_one(void *block)
{
    return ordered ? cudaFreeAsync(block, stream) : cudaFree(block);
}

static void must(cudaError_t error, const char *call)
{
    if (error == cudaSuccess)
        return;
    printf("%s failed: %s\n", call, cudaGetErrorName(error));
    exit(1);
}

int main(int argc, char **argv)
{
    size_t bite = 256 * mib;
    int count = 16;
    size_t bytes_free = 0, total = 0, wanted = 0;
    cudaDeviceProp properties;
    bool hold = false;
    static void *block[most];
    int held = 0;
    bool refused = false;

    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--async") == 0) {
            ordered = true;
        } else if (strcmp(argv[i], "--hold") == 0) {
            hold = true;
        } else if (strcmp(argv[i], "--bite") == 0 && i + 1 < argc) {
            bite = strtoul(argv[++i], NULL, 10) * mib;
        } else if (strcmp(argv[i], "--count") == 0 && i + 1 < argc) {
            count = atoi(argv[++i]);
        } else if (strcmp(argv[i], "--total") == 0 && i + 1 < argc) {
            wanted = strtoul(argv[++i], NULL, 10) * mib;
        } else {
            fprintf(stderr, "Usage: runtime_take [--async] [--hold] [--bite MIB] [--count N] "
                            "[--total MIB]\n");
            return 2;
        }
    }
    if (count > most)
        count = most;
    must(cudaStreamCreate(&stream), "cudaStreamCreate");
    for (int i = 1; i <= count && !refused; i++) {
        void *here = NULL;
        cudaError_t error = take_one(&here, bite);
        if (error == cudaSuccess) {
            block[held++] = here;
            printf("bite %d: %zu MiB granted\n", i, bite / mib);
            continue;
        }
        printf("bite %d: %zu MiB refused: %s\n", i, bite / mib, cudaGetErrorName(error));
        if (error != cudaErrorMemoryAllocation || here != NULL)
            return 1;
        refused = true;
        cudaGetLastError(); /* not sticky, but remembered */
    }
    for (int i = 0; i < held; i++)
        fill<<<64, 256, 0, stream>>>((unsigned *)block[i], bite / 4, (unsigned)i + 1);
    must(cudaGetLastError(), "the kernel");
    must(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    /* Less than a bite and a step of the pool is free. */
    must(cudaMemGetInfo(&bytes_free, &total), "cudaMemGetInfo");
    if (refused && bytes_free >= bite + 32 * mib) {
        printf("refused while %zu MiB were free\n", bytes_free / mib);
        return 1;
    }
    printf("holding, pid %d\n", (int)getpid());
    for (int c = hold ? getchar() : EOF; c != EOF && c != '\n';)
        c = getchar();
    for (int i = 0; i < held; i++) {
        unsigned last = 0;
        must(cudaMemcpy(&last, (char *)block[i] + bite - 4, 4, cudaMemcpyDeviceToHost),
             "cudaMemcpy");
        if (last != (unsigned)i + 1) {
            printf("block %d lost its contents\n", i + 1);
            return 1;
        }
    }
    if (refused && held > 0) {
        must(free_one(block[--held]), "free");
        printf("gave one back\n");
        must(take_one(&block[held], bite), "one more");
        held++;
        printf("one more: %zu MiB granted\n", bite / mib);
    }
    must(cudaMemGetInfo(&bytes_free, &total), "cudaMemGetInfo");
    printf("memory: %zu MiB free of %zu MiB\n", bytes_free / mib, total / mib);
    must(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
    if (wanted != 0 && (total != wanted || properties.totalGlobalMem != wanted)) {
        printf("the device seems to have %zu and %zu bytes\n", total, properties.totalGlobalMem);
        return 1;
    }
    while (held > 0)
        must(free_one(block[--held]), "free");
    must(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    return 0;
}
