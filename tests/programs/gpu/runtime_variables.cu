/*
 * runtime_variables.cu: a program with 300 MiB of variables on the device, which come with its
 * first kernel; where they do not fit that launch is out of memory, and nothing is sticky.
 */
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

static const size_t mib = 1024 * 1024;

__device__ unsigned char big[300 << 20];

__global__ void touch(size_t at, unsigned char value)
{
    big[at] = value;
}

int main(int argc, char **argv)
{
    bool hold = argc > 1 && strcmp(argv[1], "--hold") == 0;
    void *more = NULL;
    cudaError_t error;

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (cudaFree(0) != cudaSuccess)
        return 1;
    touch<<<1, 1>>>(sizeof(big) - 1, 7);
    error = cudaGetLastError();
    if (error == cudaSuccess)
        error = cudaDeviceSynchronize();
    printf("bite 1: %zu MiB %s%s\n", sizeof(big) / mib, error ? "refused: " : "granted",
           error ? cudaGetErrorName(error) : "");
    if (!error) {
        unsigned char value = 0;

        if (cudaMemcpyFromSymbol(&value, big, 1, sizeof(big) - 1) != cudaSuccess || value != 7) {
            printf("the variable lost its contents\n");
            return 1;
        }
    }
    printf("holding, pid %d\n", (int)getpid());
    for (int c = hold ? getchar() : EOF; c != EOF && c != '\n';)
        c = getchar();
    error = cudaMalloc(&more, 16 * mib);
    printf("one more: 16 MiB %s\n", error ? cudaGetErrorName(error) : "granted");
    return error != cudaSuccess;
}
