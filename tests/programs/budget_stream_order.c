/*
 * budget_stream_order.c: with GPUBUDGET_STREAM_ORDER a free in stream order waits for the work
 * of other streams with the block; without it nothing of that is there.
 *
 *     budget_stream_order off|copies|all   what is to be seen, not what was set
 *     budget_stream_order failing          the driver refuses our events
 *     budget_stream_order threads COUNT    $ORDER_ROUNDS rounds of each
 *     budget_stream_order devices both|one   have a limit
 *
 * On the stand-in, where a stream can be held.
 */
#define _GNU_SOURCE
#include "budget_program.h"
#include "order_forms.h"

static CUstream a, b, c;
static bool copies, launches; /* are followed */

static CUdeviceptr take(void)
{
    CUdeviceptr p = 0;

    MUST(cuMemAllocAsync(&p, ORDER_BYTES, a));
    MUST(cuStreamSynchronize(a));
    return p;
}

static void start(void)
{
    CUDA_ARRAY_DESCRIPTOR shape = {
        .Width = 4096, .Height = 4, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 1};
    CUmodule module;
    CUlibrary library;

    order_around.context = start_device(0);
    MUST(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    MUST(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
    MUST(cuStreamCreate(&c, CU_STREAM_NON_BLOCKING));
    order_around.other = take();
    MUST(cuMemHostAlloc(&order_around.host, ORDER_BYTES, 0));
    MUST(cuArrayCreate_v2(&order_around.array, &shape));
    MUST(cuModuleLoadData(&module, order_code));
    MUST(cuModuleGetFunction(&order_around.whole, module, "whole"));
    MUST(cuModuleGetFunction(&order_around.mixed, module, "mixed"));
    if (dlsym(RTLD_DEFAULT, "cuLibraryLoadData") &&
        cuLibraryLoadData(&library, order_code, NULL, NULL, 0, NULL, NULL, 0) == CUDA_SUCCESS)
        MUST(cuLibraryGetKernel(&order_around.kernel, library, "whole"));
}

/* Our own calls, those that the library makes beside the program's. */
static unsigned long own_calls(void)
{
    return sim.calls("cuEventRecord") + sim.calls("cuEventCreate") +
           sim.calls("cuStreamWaitEvent") + sim.calls("cuMemGetAddressRange_v2") +
           sim.calls("cuFuncGetParamInfo") + sim.calls("cuKernelGetParamInfo");
}

/* ---- the routes ---- */

static const char *const routes[] = {"link", "handle", "default", "procaddress"};

static void *function_by(const char *route, const struct order_form *form)
{
    static void *library;
    CUdriverProcAddressQueryResult status;
    CUresult (*old)(const char *, void **, int, cuuint64_t);
    __typeof__(cuGetProcAddress_v2) *look;
    void *found = NULL;

    if (!library)
        library = dlopen("libcuda.so.1", RTLD_LAZY);
    if (strcmp(route, "link") == 0)
        return dlsym(library, form->name) ? form->linked : NULL;
    if (strcmp(route, "handle") == 0)
        return dlsym(library, form->name);
    if (strcmp(route, "default") == 0)
        return dlsym(RTLD_DEFAULT, form->name);
    look = (__typeof__(look))dlsym(library, "cuGetProcAddress_v2");
    old = (__typeof__(old))dlsym(library, "cuGetProcAddress");
    if (look)
        look(form->base, &found, form->version, form->flags, &status);
    else if (old)
        old(form->base, &found, form->version, form->flags);
    return found;
}

static bool is_drivers_own(void *function)
{
    Dl_info info;

    return dladdr(function, &info) && strstr(info.dli_fname, "libcuda.so");
}

/* ---- one form ---- */

static void free_waits(CUdeviceptr p, bool waits)
{
    EXPECT_OK(cuMemFreeAsync(p, a));
    EXPECT_EQUAL(sim.queued(a) > 0, waits);
    EXPECT_EQUAL(sim.pending_bytes(0) > 0, waits);
    sim.release(b);
    EXPECT_EQUAL(sim.queued(a), 0);
    EXPECT_EQUAL(sim.pending_bytes(0), 0);
    EXPECT_OK(cuStreamSynchronize(a));
}

static void try_form(const struct order_form *form, const char *route, size_t inside)
{
    bool followed = form->launch ? launches : copies;
    void *function = function_by(route, form);
    unsigned long before;
    CUdeviceptr p;

    case_begin("%s%s-%s", form->name, form->variant, route);
    if (!function || (strcmp(form->variant, "-library") == 0 && !order_around.kernel)) {
        case_skipped("not in this driver");
        return;
    }
    if (!form->launch && strcmp(route, "link") != 0)
        EXPECT_EQUAL(is_drivers_own(function), !copies);
    p = take();
    sim.hold(b);
    before = own_calls();
    EXPECT_OK(form->run(function, p + inside, b));
    if (!followed)
        EXPECT_EQUAL(own_calls(), before);
    free_waits(p, followed);

    /* Its own stream waits for nobody. */
    p = take();
    before = sim.calls("cuStreamWaitEvent");
    EXPECT_OK(form->run(function, p + inside, a));
    EXPECT_OK(cuMemFreeAsync(p, a));
    EXPECT_EQUAL(sim.queued(a), 0);
    EXPECT_EQUAL(sim.calls("cuStreamWaitEvent"), before);
    case_end();
}

/* ---- single matters, by one form ---- */

static void copy_on(CUdeviceptr p, CUstream stream)
{
    EXPECT_OK(cuMemsetD8Async(p, 0, 64, stream));
}

static void nobody_else_waits(void)
{
    CUdeviceptr p = take();

    case_begin("streams-are-not-ordered");
    sim.hold(b);
    copy_on(p, b);
    copy_on(p, c);
    copy_on(p + 4096, a);
    EXPECT_EQUAL(sim.queued(c), 0);
    EXPECT_EQUAL(sim.queued(a), 0);
    free_waits(p, copies);
    case_end();
}

static void all_streams_are_waited_for(void)
{
    CUdeviceptr p = take();

    case_begin("all-streams");
    sim.hold(b);
    sim.hold(c);
    copy_on(p, b);
    copy_on(p, c);
    EXPECT_OK(cuMemFreeAsync(p, a));
    sim.release(b);
    EXPECT_EQUAL(sim.queued(a) > 0, copies);
    sim.release(c);
    EXPECT_EQUAL(sim.queued(a), 0);
    case_end();
}

static void later_work_is_not_waited_for(void)
{
    CUdeviceptr p = take();

    case_begin("later-work");
    copy_on(p, b);
    sim.hold(b);
    copy_on(order_around.other, b);
    free_waits(p, false);
    case_end();
}

static void thread_stream(void)
{
    CUdeviceptr p = take();
    unsigned long before;

    case_begin("default-streams");
    sim.hold((void *)2);
    EXPECT_OK(cuMemsetD8Async_ptsz(p, 0, 64, NULL));
    EXPECT_OK(cuMemFreeAsync(p, a));
    EXPECT_EQUAL(sim.queued(a) > 0, copies);
    sim.release((void *)2);
    EXPECT_EQUAL(sim.queued(a), 0);
    p = take();
    sim.hold((void *)1);
    EXPECT_OK(cuMemsetD8Async(p, 0, 64, NULL));
    EXPECT_OK(cuMemFreeAsync(p, a));
    EXPECT_EQUAL(sim.queued(a) > 0, copies);
    sim.release((void *)1);
    EXPECT_EQUAL(sim.queued(a), 0);
    /* The thread's own stream by both its names is one. */
    p = take();
    sim.hold((void *)2);
    EXPECT_OK(cuMemsetD8Async_ptsz(p, 0, 64, NULL));
    before = sim.calls("cuStreamWaitEvent");
    EXPECT_OK(cuMemFreeAsync(p, CU_STREAM_PER_THREAD));
    EXPECT_EQUAL(sim.calls("cuStreamWaitEvent"), before);
    sim.release((void *)2);
    case_end();
}

/* What of the address is another block's now is no matter of the old one. */
static void address_again(void)
{
    CUdeviceptr p = take(), again;

    case_begin("address-again");
    sim.hold(b);
    copy_on(p, b);
    free_waits(p, copies);
    again = take();
    EXPECT_EQUAL(again, p);
    sim.hold(b);
    free_waits(again, false);
    case_end();
}

static void no_block(void)
{
    CUdeviceptr p = take(), direct = 0;
    char *plain = malloc(4096);
    unsigned long before;

    case_begin("no-block");
    MUST(cuMemFreeAsync(p, a));
    MUST(cuStreamSynchronize(a));
    before = sim.calls("cuEventRecord");
    EXPECT_OK(cuMemcpyAsync((CUdeviceptr)(uintptr_t)plain, (CUdeviceptr)(uintptr_t)plain + 2048,
                            64, b));
    EXPECT_OK(cuMemcpyAsync((CUdeviceptr)(uintptr_t)order_around.host,
                            (CUdeviceptr)(uintptr_t)plain, 64, b));
    EXPECT(cuMemsetD8Async(0, 0, 64, b) != CUDA_SUCCESS);
    EXPECT(cuMemcpy2DAsync_v2(NULL, b) != CUDA_SUCCESS);
    EXPECT(cuMemcpyBatchAsync_v2(NULL, NULL, NULL, 3, NULL, NULL, 0, b) != CUDA_SUCCESS);
    EXPECT_EQUAL(sim.calls("cuEventRecord"), before);
    /* Direct memory, freed at once: the driver waits itself. */
    MUST(cuMemAlloc_v2(&direct, ORDER_BYTES));
    copy_on(direct + 64, b);
    before = sim.calls("cuEventSynchronize");
    EXPECT_OK(cuMemFree_v2(direct));
    EXPECT_EQUAL(sim.calls("cuEventSynchronize"), before);
    /* And in stream order. */
    MUST(cuMemAlloc_v2(&direct, ORDER_BYTES));
    sim.hold(b);
    copy_on(direct, b);
    EXPECT_OK(cuMemFreeAsync(direct, a));
    EXPECT_EQUAL(sim.queued(a) > 0, copies);
    sim.release(b);
    EXPECT_EQUAL(sim.queued(a), 0);
    EXPECT_OK(cuCtxSynchronize());
    free(plain);
    case_end();
}

/* Memory of a pool that is freed at once: the host waits. */
static void at_once(void)
{
    CUdeviceptr p = take();
    unsigned long before = sim.calls("cuEventSynchronize");

    case_begin("freed-at-once");
    copy_on(p, b);
    EXPECT_OK(cuMemFree_v2(p));
    EXPECT_EQUAL(sim.calls("cuEventSynchronize") - before, copies);
    EXPECT(cuMemFree_v2(p) != CUDA_SUCCESS);
    case_end();
}

enum { MANY = 100 };

/* More blocks than a call has room for at first, and one event for all. */
static void many_blocks(void)
{
    CUdeviceptr blocks[MANY];
    size_t bytes[MANY], first = 0;
    CUmemcpyAttributes how = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    unsigned long before;

    case_begin("many-blocks");
    if (!dlsym(RTLD_DEFAULT, "cuMemcpyBatchAsync_v2")) {
        case_skipped("not in this driver");
        return;
    }
    for (int i = 0; i < MANY; i++) {
        blocks[i] = take();
        bytes[i] = 64;
    }
    sim.hold(b);
    before = sim.calls("cuEventRecord");
    EXPECT_OK(cuMemcpyBatchAsync_v2(blocks, blocks, bytes, MANY, &how, &first, 1, b));
    EXPECT_EQUAL(sim.calls("cuEventRecord") - before, copies);
    for (int i = 0; i < MANY; i++) {
        CUstream stream = i % 2 ? a : c;

        EXPECT_OK(cuMemFreeAsync(blocks[i], stream));
        EXPECT_EQUAL(sim.queued(stream) > 0, copies);
    }
    sim.release(b);
    EXPECT_EQUAL(sim.queued(a), 0);
    EXPECT_OK(cuStreamSynchronize(a));
    EXPECT_OK(cuStreamSynchronize(c));
    case_end();
}

/* A stream that captures runs nothing; one beside it is followed, and harms no capture. */
static void captures(void)
{
    CUdeviceptr p = take(), q = take();
    void *parameters[] = {&p};
    CUgraph graph = NULL;
    size_t nodes = 0;

    case_begin("captures");
    MUST(cuStreamBeginCapture_v2(b, CU_STREAM_CAPTURE_MODE_GLOBAL));
    EXPECT_OK(cuLaunchKernel(order_around.whole, 1, 1, 1, 32, 1, 1, 0, b, parameters, NULL));
    copy_on(p, b);
    sim.hold(c);
    copy_on(q + 4096, c);
    EXPECT_OK(cuLaunchKernel(order_around.whole, 1, 1, 1, 32, 1, 1, 0, c, parameters, NULL));
    EXPECT_OK(cuStreamEndCapture(b, &graph));
    EXPECT(graph != NULL);
    if (graph)
        EXPECT_OK(cuGraphGetNodes(graph, NULL, &nodes));
    EXPECT_EQUAL(nodes > 0, true);
    EXPECT_OK(cuMemFreeAsync(q, a));
    EXPECT_EQUAL(sim.queued(a) > 0, copies);
    sim.release(c);
    EXPECT_EQUAL(sim.queued(a), 0);
    sim.hold(b);
    free_waits(p, false);
    if (graph)
        EXPECT_OK(cuGraphDestroy(graph));
    case_end();
}

/* A handle may be another function's the next time, with fewer parameters: none but these are
 * read (a sanitizer tells). */
static void functions_again(void)
{
    static const char other_code[] = ".version 6.0\n.target sm_50\n.address_size 64\n"
                                     ".visible .entry mixed(.param .u64 p)\n{\n\tret;\n}\n";

    case_begin("functions-again");
    for (int i = 0; i < 20; i++) {
        void **parameters = malloc((i % 2 ? 1 : 3) * sizeof(*parameters));
        uint64_t words[3] = {0, 0, 0}, last = 0;
        CUdeviceptr p = take();
        CUfunction function;
        CUmodule module;

        MUST(cuModuleLoadData(&module, i % 2 ? other_code : order_code));
        MUST(cuModuleGetFunction(&function, module, "mixed"));
        parameters[0] = &p;
        if (i % 2 == 0) {
            words[1] = p;
            parameters[1] = words;
            parameters[2] = &last;
        }
        sim.hold(b);
        EXPECT_OK(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, b, parameters, NULL));
        free_waits(p, launches);
        EXPECT_OK(cuModuleUnload(module));
        free(parameters);
    }
    case_end();
}

/* The events of a context that ends are never given to the driver again. */
static void contexts_end(void)
{
    CUdeviceptr p = take();
    CUcontext second;
    CUstream stream;
    unsigned long before;

    case_begin("contexts-end");
    MUST(cuCtxCreate_v2(&second, 0, 0));
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    copy_on(p, stream);
    MUST(cuCtxDestroy_v2(second));
    MUST(cuCtxSetCurrent(order_around.context));
    before = sim.calls("cuStreamWaitEvent");
    EXPECT_OK(cuMemFreeAsync(p, a));
    EXPECT_EQUAL(sim.calls("cuStreamWaitEvent"), before);
    EXPECT_OK(cuStreamSynchronize(a));
    case_end();
}

/* A pool that is destroyed before its blocks: their frees are what they are without us. */
static void pools_end(void)
{
    CUmemoryPool pool = make_pool(0);
    CUdeviceptr p = 0;
    uint64_t used = info_used();

    case_begin("pools-end");
    MUST(cuMemAllocFromPoolAsync(&p, 32 * MIB, pool, a));
    sim.hold(b);
    copy_on(p + 64, b);
    EXPECT_OK(cuMemPoolDestroy(pool));
    free_waits(p, copies);
    EXPECT_EQUAL(info_used(), used);
    case_end();
}

/* ---- two devices, the second with a limit or without ---- */

static void devices(bool second)
{
    CUcontext context;
    CUstream stream, peer;
    CUdeviceptr far = 0, near;
    unsigned long records;

    case_begin("devices");
    context = start_device(1);
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    MUST(cuMemAllocAsync(&far, ORDER_BYTES, stream));
    MUST(cuStreamSynchronize(stream));
    MUST(cuCtxSetCurrent(order_around.context));
    near = take();
    sim.hold(b);
    /* The stream's context need not be current. */
    MUST(cuCtxSetCurrent(context));
    records = sim.calls("cuEventRecord");
    EXPECT_OK(cuMemcpyPeerAsync(near, order_around.context, far, context, 64, b));
    EXPECT_EQUAL(sim.calls("cuEventRecord") - records, 1 + second);
    EXPECT_OK(cuMemFreeAsync(far, stream));
    EXPECT_EQUAL(sim.queued(stream) > 0, second);
    EXPECT_OK(cuMemFreeAsync(near, a));
    EXPECT_EQUAL(sim.queued(a) > 0, true);
    sim.release(b);
    EXPECT_EQUAL(sim.queued(stream), 0);
    EXPECT_EQUAL(sim.queued(a), 0);
    case_end();

    /* A context ends whose stream has used another device's block. */
    case_begin("devices-contexts-end");
    MUST(cuCtxCreate_v2(&context, 0, 0));
    MUST(cuStreamCreate(&peer, CU_STREAM_NON_BLOCKING));
    MUST(cuMemAllocAsync(&far, ORDER_BYTES, stream));
    MUST(cuStreamSynchronize(stream));
    EXPECT_OK(cuMemcpyPeerAsync(far, context, far + 64, context, 64, peer));
    MUST(cuCtxDestroy_v2(context));
    records = sim.calls("cuStreamWaitEvent");
    EXPECT_OK(cuMemFreeAsync(far, stream));
    EXPECT_EQUAL(sim.calls("cuStreamWaitEvent"), records);
    EXPECT_OK(cuStreamSynchronize(stream));
    case_end();
}

/* ---- where our own calls fail ---- */

static void failing(void)
{
    CUdeviceptr p = take();

    case_begin("record-fails");
    sim.fail("cuEventRecord", 1, CUDA_ERROR_UNKNOWN);
    copy_on(p, b);
    copy_on(p, c);
    sim.fail_clear();
    sim.fail("cuEventCreate", 0, CUDA_ERROR_OUT_OF_MEMORY);
    copy_on(order_around.other, b);
    sim.fail_clear();
    case_end();
    case_begin("wait-fails");
    sim.fail("cuStreamWaitEvent", 0, CUDA_ERROR_UNKNOWN);
    EXPECT_OK(cuMemFreeAsync(p, a));
    sim.fail_clear();
    EXPECT(cuMemFreeAsync(p, a) != CUDA_SUCCESS);
    case_end();
    case_begin("free-fails");
    p = take();
    sim.hold(b);
    copy_on(p, b);
    sim.fail("cuMemFreeAsync", 1, CUDA_ERROR_UNKNOWN);
    EXPECT_CODE(cuMemFreeAsync(p, c), CUDA_ERROR_UNKNOWN);
    /* It lives, and so do its uses. */
    free_waits(p, true);
    case_end();
}

/* ---- threads ---- */

enum { THREADS_MOST = 16, SHARED = 64 };

static struct {
    pthread_mutex_t lock;
    CUdeviceptr p;
} shared[SHARED];

static void *work(void *arg)
{
    uint64_t seed = (uint64_t)(uintptr_t)arg * 7919 + 1;
    CUstream streams[] = {a, b, c, CU_STREAM_PER_THREAD};
    unsigned long rounds = number_from("ORDER_ROUNDS", 1000);

    EXPECT_OK(cuCtxSetCurrent(order_around.context));
    for (unsigned long i = 0; i < rounds; i++) {
        CUstream stream = streams[random_next(&seed) % 4];
        int at = (int)(random_next(&seed) % SHARED);
        void *parameters[] = {&shared[at].p};

        pthread_mutex_lock(&shared[at].lock);
        switch (shared[at].p ? random_next(&seed) % 4 : 0) {
        case 0:
            if (shared[at].p)
                EXPECT_OK(cuMemFreeAsync(shared[at].p, stream));
            EXPECT_OK(cuMemAllocAsync(&shared[at].p, ORDER_BYTES, stream));
            break;
        case 1:
            EXPECT_OK(cuMemcpyAsync(shared[at].p + 256, order_around.other, 64, stream));
            break;
        case 2:
            EXPECT_OK(cuLaunchKernel(order_around.whole, 1, 1, 1, 32, 1, 1, 0, stream,
                                     parameters, NULL));
            break;
        default:
            copy_on(shared[at].p, stream);
            break;
        }
        pthread_mutex_unlock(&shared[at].lock);
        /* One that others use at the same time. */
        EXPECT_OK(cuMemsetD8Async(order_around.other + 64, 0, 64, stream));
    }
    return NULL;
}

static void threads(int count)
{
    pthread_t ids[THREADS_MOST];
    uint64_t before = sim.real_live_blocks(0);

    case_begin("threads");
    for (int i = 0; i < SHARED; i++)
        pthread_mutex_init(&shared[i].lock, NULL);
    for (int i = 0; i < count; i++)
        pthread_create(&ids[i], NULL, work, (void *)(uintptr_t)(i + 1));
    for (int i = 0; i < count; i++)
        pthread_join(ids[i], NULL);
    for (int i = 0; i < SHARED; i++)
        if (shared[i].p)
            EXPECT_OK(cuMemFreeAsync(shared[i].p, a));
    EXPECT_OK(cuMemFreeAsync(order_around.other, a));
    EXPECT_OK(cuCtxSynchronize());
    /* No event is lost: what is there is idle, or one of the few marks. */
    EXPECT(sim.calls("cuEventCreate") > 0);
    EXPECT(sim.calls("cuEventCreate") - sim.calls("cuEventDestroy_v2") <= 256 + 32);
    EXPECT_EQUAL(sim.real_live_blocks(0), before - 1);
    case_end();
}

int main(int argc, char **argv)
{
    sim_needed();
    if (argc < 2)
        return 2;
    copies = strcmp(argv[1], "off") != 0;
    launches = strcmp(argv[1], "all") == 0;
    start();
    if (strcmp(argv[1], "devices") == 0) {
        devices(argc > 2 && strcmp(argv[2], "both") == 0);
        return cases_status();
    }
    if (strcmp(argv[1], "failing") == 0) {
        failing();
        return cases_status();
    }
    if (strcmp(argv[1], "threads") == 0) {
        threads(argc > 2 ? atoi(argv[2]) : 4);
        return cases_status();
    }
    for (const struct order_form *form = order_forms; form->name; form++)
        for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); i++)
            try_form(form, routes[i], i % 2 ? 0 : 4096);
    nobody_else_waits();
    all_streams_are_waited_for();
    later_work_is_not_waited_for();
    thread_stream();
    address_again();
    no_block();
    at_once();
    many_blocks();
    captures();
    functions_again();
    contexts_end();
    pools_end();
    return cases_status();
}
