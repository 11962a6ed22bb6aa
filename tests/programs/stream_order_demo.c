/*
 * stream_order_demo.c: a program that frees memory while another stream still uses it.
 *
 *   stream_order_demo kernel|copy
 *
 * Stream A fills a block with ones. Stream B, behind that, takes its time and then adds them up
 * (kernel), or copies them to the host, where they are added up (copy). Stream A does not wait
 * for B: it frees the block, allocates one of the same size, which is the same memory, and
 * fills it with twos. Prints `correct` or `corrupted`, by the sum. It is a mistake on purpose,
 * which GPUBUDGET_STREAM_ORDER mends. The simulated GPU runs no kernels: there it says so, with
 * status 77.
 */
#include <cuda.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BYTES       ((size_t)1 << 20)
#define WORDS       4096u
#define NANOSECONDS UINT64_C(50000000)

/* Waits for so long, then writes the sum of the first n words to `out`. */
static const char code[] =
    ".version 6.0\n"
    ".target sm_50\n"
    ".address_size 64\n"
    ".visible .entry slow(.param .u64 p, .param .u64 out, .param .u32 n,\n"
    "\t.param .u64 wait)\n"
    "{\n"
    "\t.reg .pred %p<3>;\n"
    "\t.reg .b32 %r<5>;\n"
    "\t.reg .b64 %d<6>;\n"
    "\tld.param.u64 %d1, [p];\n"
    "\tld.param.u64 %d2, [out];\n"
    "\tld.param.u32 %r1, [n];\n"
    "\tld.param.u64 %d3, [wait];\n"
    "\tcvta.to.global.u64 %d1, %d1;\n"
    "\tcvta.to.global.u64 %d2, %d2;\n"
    "\tmov.u64 %d4, %globaltimer;\n"
    "SPIN:\n"
    "\tmov.u64 %d5, %globaltimer;\n"
    "\tsub.u64 %d5, %d5, %d4;\n"
    "\tsetp.lt.u64 %p1, %d5, %d3;\n"
    "\t@%p1 bra SPIN;\n"
    "\tmov.u32 %r2, 0;\n"
    "\tmov.u32 %r3, 0;\n"
    "SUM:\n"
    "\tsetp.ge.u32 %p2, %r3, %r1;\n"
    "\t@%p2 bra DONE;\n"
    "\tld.volatile.global.u32 %r4, [%d1];\n"
    "\tadd.u32 %r2, %r2, %r4;\n"
    "\tadd.u64 %d1, %d1, 4;\n"
    "\tadd.u32 %r3, %r3, 1;\n"
    "\tbra SUM;\n"
    "DONE:\n"
    "\tst.global.u32 [%d2], %r2;\n"
    "\tret;\n"
    "}\n";

#define MUST(call)                                                                             \
    do {                                                                                       \
        CUresult must_ = (call);                                                               \
        if (must_ != CUDA_SUCCESS) {                                                           \
            fprintf(stderr, "stream_order_demo: %s: error %d\n", #call, (int)must_);           \
            exit(1);                                                                           \
        }                                                                                      \
    } while (0)

static CUfunction slow;
static CUdeviceptr out;

static void launch(CUstream stream, CUdeviceptr p, unsigned int n, uint64_t wait)
{
    void *parameters[] = {&p, &out, &n, &wait};

    MUST(cuLaunchKernel(slow, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
}

int main(int argc, char **argv)
{
    CUdevice device;
    CUcontext context;
    CUmodule module;
    CUmemoryPool pool;
    CUstream a, b;
    CUevent filled;
    CUdeviceptr p, q, scratch;
    cuuint64_t keep = UINT64_MAX;
    uint32_t *copied, sum = 0;
    int by_copy = argc == 2 && strcmp(argv[1], "copy") == 0;

    if (argc != 2 || (!by_copy && strcmp(argv[1], "kernel") != 0)) {
        fprintf(stderr, "Usage: stream_order_demo kernel|copy\n");
        return 2;
    }
    MUST(cuInit(0));
    MUST(cuDeviceGet(&device, 0));
    MUST(cuDevicePrimaryCtxRetain(&context, device));
    MUST(cuCtxSetCurrent(context));
    MUST(cuModuleLoadData(&module, code));
    MUST(cuModuleGetFunction(&slow, module, "slow"));
    MUST(cuDeviceGetDefaultMemPool(&pool, device));
    MUST(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
    MUST(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    MUST(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
    MUST(cuEventCreate(&filled, CU_EVENT_DISABLE_TIMING));
    MUST(cuMemAlloc(&out, BYTES));
    MUST(cuMemAlloc(&scratch, BYTES));
    MUST(cuMemAllocHost((void **)&copied, WORDS * sizeof(*copied)));
    /* The code comes to the card here, and not with the launch that matters. */
    MUST(cuMemsetD32Async(out, 0, 1, b));
    MUST(cuMemsetD32Async(scratch, 1, 1, b));
    launch(b, scratch, 1, 0);
    MUST(cuStreamSynchronize(b));
    MUST(cuMemcpyDtoH(&sum, out, sizeof(sum)));
    if (sum != 1) {
        fprintf(stderr, "stream_order_demo: needs a real GPU: this one runs no kernels\n");
        return 77;
    }
    sum = 0;

    MUST(cuMemAllocAsync(&p, BYTES, a));
    MUST(cuMemsetD32Async(p, 1, BYTES / 4, a));
    MUST(cuEventRecord(filled, a));
    MUST(cuStreamWaitEvent(b, filled, 0));
    if (by_copy) {
        launch(b, scratch, 1, NANOSECONDS);
        MUST(cuMemcpyDtoHAsync(copied, p, WORDS * sizeof(*copied), b));
    } else {
        launch(b, p, WORDS, NANOSECONDS);
    }
    /* The mistake: nothing makes A wait for B. */
    MUST(cuMemFreeAsync(p, a));
    MUST(cuMemAllocAsync(&q, BYTES, a));
    MUST(cuMemsetD32Async(q, 2, BYTES / 4, a));

    MUST(cuStreamSynchronize(a));
    MUST(cuStreamSynchronize(b));
    if (by_copy)
        for (unsigned int i = 0; i < WORDS; i++)
            sum += copied[i];
    else
        MUST(cuMemcpyDtoH(&sum, out, sizeof(sum)));
    if (q != p)
        printf("other memory: nothing is shown\n");
    else
        printf("%s\n", sum == WORDS ? "correct" : "corrupted");
    MUST(cuMemFreeAsync(q, a));
    MUST(cuStreamSynchronize(a));
    return 0;
}
