/*
 * escape.c: takes as much memory of the card as it can, by one way.
 *
 *     escape [--hold] ROW [SEED]
 *     escape --list
 *
 * Takes until it is refused for want of memory, tries smaller sizes, and then, with all it has
 * got, stands still: at the figures on the stand-in, at --hold until a line comes on stdin, so
 * that somebody else may look at the process. The list: a row's name, whose figure it is judged
 * by (the process's or the card's), and the step in MiB (or: context) within which it uses what
 * it is allowed.
 */
#define _GNU_SOURCE
#include "escape.h"
#include "../standin/standin.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
    unsigned long pieces, refused;
    uint64_t random;
    const char *row;
} self;

/* xorshift. */
static uint64_t chance(uint64_t below)
{
    self.random ^= self.random << 13;
    self.random ^= self.random >> 7;
    self.random ^= self.random << 17;
    return self.random % below;
}

/* False when refused. Nothing but out of memory is a refusal. */
static bool take(escape_way *way, size_t bytes)
{
    CUresult code = way(bytes);

    if (code == CUDA_SUCCESS) {
        self.pieces++;
        return true;
    }
    if (code != CUDA_ERROR_OUT_OF_MEMORY) {
        printf("%s of %zu bytes: the driver answers %d\n", self.row, bytes, (int)code);
        exit(1);
    }
    self.refused++;
    return false;
}

/* Whoever gets so much has escaped: the rest of a real card belongs to others. */
#define ENOUGH (4096 * MIB)

/* As much as there is, in ever smaller sizes. Of the smallest a few are enough: many of them
 * fit in what is held already. */
static void fill(escape_way *way)
{
    static const size_t sizes[] = {64 * MIB, 16 * MIB, 4 * MIB, MIB, 64 * KIB, 4 * KIB};
    size_t got = 0;

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        for (int count = 0; got < ENOUGH && count < (sizes[i] >= MIB ? 4096 : 40); count++) {
            if (!take(way, sizes[i]))
                break;
            got += sizes[i];
        }
    escape_settle();
}

/* Physical handles come in whole steps of the granularity. */
static void fill_steps(escape_way *way)
{
    size_t got = 0;

    for (size_t bytes = 64 * MIB; bytes >= 2 * MIB; bytes /= 2)
        while (got < ENOUGH && take(way, bytes))
            got += bytes;
}

/* One after the other, until there are no more, and on; `most` is for a card that never tires.
 */
static void fill_same(escape_way *way, int most)
{
    for (int i = 0; i < most && self.refused < 40; i++)
        take(way, 0);
}

static void give_all(void)
{
    for (size_t i = 0; i < escape_pieces(); i++)
        if (escape_can_give(i))
            escape_give(i);
    escape_settle();
}

/* ---- rows that are more than one way ---- */

static void pool_kept(void)
{
    cuuint64_t most = UINT64_MAX;
    CUmemoryPool usual;

    MUST(cuDeviceGetDefaultMemPool(&usual, escape_device()));
    MUST(cuMemPoolSetAttribute(usual, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &most));
    fill(take_ordered);
    give_all();
    fill(take_direct);
}

/*
 * What one executable frees serves the next, so only ever larger ones need more. What does not
 * fit is undone by a trim, after which the largest that fits is looked for.
 */
static void executables(void)
{
    size_t bytes = 32 * MIB;

    while (bytes < ENOUGH && take(take_executable, bytes))
        bytes += 32 * MIB;
    for (int i = 0; i < 8; i++)
        take(take_executable, bytes + (size_t)i * MIB);
    while (bytes > 16 * MIB && !take(take_executable, bytes -= 16 * MIB))
        continue;
    for (int i = 0; i < 8; i++)
        take(take_executable, bytes >> i);
    escape_settle();
}

static void heap(void)
{
    size_t bytes = ENOUGH;

    while (bytes >= 16 * MIB && !take(take_heap, bytes))
        bytes -= bytes / 8;
    escape_settle();
}

static void local(void)
{
    for (size_t bytes = 64 * KIB; bytes >= 2 * KIB; bytes /= 2)
        take(take_local, bytes);
    escape_settle();
}

static void small(void)
{
    static const size_t sizes[] = {1, 512, 4 * KIB, 64 * KIB, 300000, MIB};

    while (take(take_direct, sizes[chance(sizeof(sizes) / sizeof(sizes[0]))]))
        continue;
    fill(take_direct);
}

/* A block in 64 stays, so that half of the regions seem empty and are not, or are. */
static void thinned(void)
{
    for (int round = 0; round < 3; round++) {
        const size_t first = escape_pieces();

        while (take(take_direct, 64 * KIB))
            continue;
        for (size_t i = first; i < escape_pieces(); i++)
            if (i % 64 != 0)
                escape_give(i);
        fill(round % 2 ? take_ordered : take_direct);
        for (size_t i = 0; i < escape_pieces(); i += 2)
            if (escape_can_give(i))
                escape_give(i);
        escape_settle();
    }
    fill(take_direct);
}

/* What can be taken again and again. */
static escape_way *const ways[] = {
    take_direct,          take_pitched,   take_managed,  take_ordered,  take_from_pool,
    take_handle,          take_mapped,    take_exported, take_imported, take_array,
    take_array_3d,        take_mipmapped, take_node,     take_captured, take_executable,
    take_module,          take_library,   take_stream,   take_context,  take_managed_module,
    take_managed_library,
};

#define WAYS (sizeof(ways) / sizeof(ways[0]))

static void mixed(void)
{
    for (int i = 0; i < 600; i++) {
        const size_t number = escape_pieces() ? chance(escape_pieces()) : 0;

        if (number && escape_can_give(number) && chance(2))
            escape_give(number);
        if (chance(16) == 0)
            escape_settle();
        take(ways[chance(WAYS)], (2 * MIB) << chance(5));
    }
    escape_settle();
    fill(take_direct);
}

/* Nothing is left, and each way tries to get a little of it. */
static void after_full(void)
{
    fill(take_direct);
    for (size_t way = 0; way < WAYS; way++)
        for (int i = 0; i < 12; i++)
            take(ways[way], (2 * MIB) << i % 3);
    escape_settle();
}

static void streams_after_full(void)
{
    fill(take_direct);
    fill_same(take_stream, 512);
}

/* ---- the table ---- */

#define CONTEXT (-1)

static const struct row {
    const char *name;
    void (*fill)(escape_way *way);
    escape_way *way;
    void (*run)(void); /* instead of these two */
    bool by_card;      /* for memory that the process's figure does not tell, or tells twice */
    int step;          /* MiB */
} rows[] = {
    {"direct", fill, take_direct, NULL, false, 2},
    {"pitched", fill, take_pitched, NULL, false, 2},
    {"managed", fill, take_managed, NULL, true, 130},
    {"async", fill, take_ordered, NULL, false, 32},
    {"created-pool", fill, take_from_pool, NULL, false, 32},
    {"pool-imported", fill, take_shared, NULL, true, 64},
    {"pool-kept", NULL, NULL, pool_kept, false, 2},
    {"handle", fill_steps, take_handle, NULL, false, 2},
    {"handle-mapped", fill_steps, take_mapped, NULL, false, 2},
    {"handle-exported", fill_steps, take_exported, NULL, true, 2},
    {"handle-imported", fill_steps, take_imported, NULL, false, 2},
    {"array-2d", fill, take_array, NULL, false, 2},
    {"array-3d", fill, take_array_3d, NULL, false, 2},
    {"array-mipmapped", fill, take_mipmapped, NULL, false, 2},
    {"graph-node", fill, take_node, NULL, false, 32},
    {"graph-executables", NULL, NULL, executables, false, 32},
    {"graph-captured", fill, take_captured, NULL, false, 32},
    {"module", fill, take_module, NULL, false, 2},
    {"library", fill, take_library, NULL, false, 2},
    {"library-late", fill, take_late_library, NULL, false, 2},
    {"module-managed", fill, take_managed_module, NULL, true, 130},
    {"library-managed", fill, take_managed_library, NULL, true, 130},
    {"contexts", NULL, take_context, NULL, false, CONTEXT},
    {"streams", NULL, take_stream, NULL, false, 2},
    {"device-heap", NULL, NULL, heap, false, 128},
    {"local-memory", NULL, NULL, local, false, 264},
    {"small-blocks", NULL, NULL, small, false, 2},
    {"thinned-out", NULL, NULL, thinned, false, 2},
    {"mixed", NULL, NULL, mixed, true, 164},
    {"full", NULL, NULL, after_full, true, 2},
    {"full-streams", NULL, NULL, streams_after_full, false, 2},
};

#define ROWS (sizeof(rows) / sizeof(rows[0]))

static void list(void)
{
    for (size_t i = 0; i < ROWS; i++) {
        printf("%s %s ", rows[i].name, rows[i].by_card ? "card" : "process");
        if (rows[i].step == CONTEXT)
            printf("context\n");
        else
            printf("%d\n", rows[i].step);
    }
}

static uint64_t figure(const char *name)
{
    __typeof__(standin_live_bytes) *find = NULL;

    *(void **)&find = dlsym(RTLD_DEFAULT, name);
    return find ? find(0) : 0;
}

/* First the figures, since asking the library may make it give something back. */
static void tell(bool hold)
{
    size_t bytes_free = 0, total = 0;
    int c;

    printf("granted: %lu pieces, refused: %lu times\n", self.pieces, self.refused);
    if (figure("standin_live_bytes"))
        printf("stand-in: process %" PRIu64 " card %" PRIu64 " peak %" PRIu64 "\n",
               figure("standin_process_bytes"),
               figure("standin_total_bytes") - figure("standin_free_bytes"),
               figure("standin_peak_bytes"));
    if (hold) {
        printf("holding, pid %d\n", (int)getpid());
        do
            c = getchar();
        while (c != EOF && c != '\n');
    }
    MUST(cuMemGetInfo_v2(&bytes_free, &total));
    printf("told: %zu of %zu bytes used\n", total - bytes_free, total);
}

int main(int argc, char **argv)
{
    bool hold = argc > 1 && strcmp(argv[1], "--hold") == 0;

    setvbuf(stdout, NULL, _IOLBF, 0);
    argv += hold;
    argc -= hold;
    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
        list();
        return 0;
    }
    self.row = argc > 1 ? argv[1] : "";
    self.random = (argc > 2 ? strtoull(argv[2], NULL, 10) : 1) * 0x9e3779b97f4a7c15u | 1;
    for (size_t i = 0; i < ROWS; i++) {
        if (strcmp(rows[i].name, self.row) != 0)
            continue;
        escape_start();
        if (rows[i].run)
            rows[i].run();
        else if (rows[i].fill)
            rows[i].fill(rows[i].way);
        else
            fill_same(rows[i].way, 4096);
        tell(hold);
        return 0;
    }
    fprintf(stderr, "Usage: escape [--hold] ROW [SEED]\n       escape --list\n");
    return 2;
}
