/*
 * route_addresses.c: what cuGetProcAddress answers, in both forms, for every name at every
 * version that made a difference, with every flag.
 *
 *     route_addresses TABLE...
 *
 * Each TABLE is a list of the driver's names like tests/standin/names.tbl. One line per
 * question; the address is told by the exported function it belongs to, as dlsym gives that:
 *
 *     FORM - EXPORT -> OWNER NAME VERSION FLAGS code CODE status STATUS
 */
#define _GNU_SOURCE
#include "driver/cuda_api.h"
#include "route_report.h"

#include <stdint.h>

enum { MOST = 1024, LENGTH = 96 };
#define UNTOUCHED ((void *)(uintptr_t)77)

typedef CUresult look1_fn(const char *, void **, int, cuuint64_t);
typedef CUresult look2_fn(const char *, void **, int, cuuint64_t,
                          CUdriverProcAddressQueryResult *);

static struct {
    char name[LENGTH];
    void *address;
    const char *owner;
} exports[MOST];
static char bases[MOST][LENGTH];
static int export_count, base_count;

static const int versions[] = {-1,    0,     2000,  3000,  3010,  3020,  4000,  6000,
                               7000,  7050,  10000, 11000, 11010, 11020, 11030, 11040,
                               11060, 12000, 12010, 12030, 12050, 12080, 13000, 13010};

static void add_base(const char *name)
{
    for (int i = 0; i < base_count; i++)
        if (strcmp(bases[i], name) == 0)
            return;
    if (base_count < MOST)
        snprintf(bases[base_count++], LENGTH, "%s", name);
}

static void read_table(const char *file, void *library)
{
    FILE *table = fopen(file, "r");
    char line[512], base[LENGTH], name[LENGTH];

    if (table == NULL)
        return;
    while (fgets(line, sizeof(line), table) != NULL) {
        void *address;

        if (line[0] == '#' || sscanf(line, "%95s %*s %*s %95s", base, name) != 2)
            continue;
        if (strcmp(base, "-") != 0)
            add_base(base);
        add_base(name);
        address = dlsym(library, name);
        if (address == NULL || export_count == MOST)
            continue;
        snprintf(exports[export_count].name, LENGTH, "%s", name);
        exports[export_count].address = address;
        exports[export_count++].owner = route_owner(address);
    }
    fclose(table);
}

static void tell(int form, const char *base, int version, unsigned int flags, CUresult code,
                 int status, void *found)
{
    const char *name = found == UNTOUCHED ? "untouched" : found == NULL ? "none" : "unknown";
    const char *owner = found == UNTOUCHED || found == NULL ? "NULL" : route_owner(found);

    for (int i = 0; i < export_count; i++)
        if (found == exports[i].address) {
            name = exports[i].name;
            owner = exports[i].owner;
            break;
        }
    printf("%d - %s -> %s %s %d %u code %d status %d\n", form, name, owner, base, version,
           flags, (int)code, status);
}

int main(int argc, char **argv)
{
    static const char *const others[] = {"",
                                         "cuMemAlloc_v2",
                                         "cuMemAllocAsync_ptsz",
                                         "cuMemAlloc_v9",
                                         "cuMem",
                                         "cumemalloc",
                                         "cublasCreate",
                                         "malloc",
                                         "cuGetProcAddress_v2",
                                         "dlsym"};
    void *library = dlopen("libcuda.so.1", RTLD_LAZY);
    look1_fn *look1;
    look2_fn *look2;

    if (library == NULL) {
        fprintf(stderr, "route_addresses: %s\n", dlerror());
        return 1;
    }
    setvbuf(stdout, NULL, _IOFBF, 1 << 16);
    for (int i = 1; i < argc; i++)
        read_table(argv[i], library);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        add_base(others[i]);
    look1 = (look1_fn *)dlsym(library, "cuGetProcAddress");
    look2 = (look2_fn *)dlsym(library, "cuGetProcAddress_v2");
    for (int i = 0; i < base_count; i++)
        for (size_t v = 0; v < sizeof(versions) / sizeof(versions[0]); v++)
            for (unsigned int flags = 0; flags < 5; flags++) {
                CUdriverProcAddressQueryResult status = (CUdriverProcAddressQueryResult)77;
                void *found = UNTOUCHED;
                CUresult code;

                if (look1 != NULL) {
                    code = look1(bases[i], &found, versions[v], flags);
                    tell(1, bases[i], versions[v], flags, code, 0, found);
                }
                if (look2 == NULL)
                    continue;
                found = UNTOUCHED;
                code = look2(bases[i], &found, versions[v], flags, &status);
                tell(2, bases[i], versions[v], flags, code, (int)status, found);
                /* The status need not be asked for. */
                found = UNTOUCHED;
                code = look2(bases[i], &found, versions[v], flags, NULL);
                tell(2, bases[i], versions[v], flags, code, 0, found);
            }
    return base_count > 400 && export_count > 400 ? 0 : 1;
}
