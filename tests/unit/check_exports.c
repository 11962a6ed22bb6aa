/* Exported memory that comes back as an import: when the card's tools show it for this process.
 */
#include "resource/handles.h"

#include <fcntl.h>
#include <unistd.h>

#include "resource/backend.h"
#include "resource/budget.h"
#include "unit.h"

#define PIECE (64 * MIB)

static struct gb_driver_api api;
static struct gb_backend backend;
static struct gpubudget_budget budget;
static uint64_t figure; /* what the tools show */
static uint64_t card_free;
static void (*meanwhile)(void);
static CUmemGenericAllocationHandle values;

static bool measure(void *arg, uint64_t *bytes)
{
    (void)arg;
    if (meanwhile)
        meanwhile();
    *bytes = figure;
    return true;
}

static bool hint(void *arg, const struct gb_driver_api *unused, struct gb_hint *answer)
{
    (void)arg;
    (void)unused;
    *answer = (struct gb_hint){card_free, 1};
    return true;
}

static void begin(void)
{
    const struct gb_backend_options options = {.charge = GPUBUDGET_CHARGE_FOOTPRINT,
                                               .api = &api};

    gb_handles_forked();
    gb_backend_init(&backend, &options);
    gb_budget_init(&budget, &backend.resource, GIB, 0);
    backend.contexts.measure = measure;
    backend.other.budget = &budget;
    atomic_store(&backend.contexts.count, 1);
    backend.other.hint = hint;
    figure = 7 * MIB;
    card_free = 10 * GIB;
    meanwhile = NULL;
    gb_other_look(&backend, 0);
}

static CUmemGenericAllocationHandle create(void)
{
    struct gb_memory *memory = gb_memory_new();

    ck_assert_ptr_nonnull(memory);
    memory->charged = PIECE;
    memory->ledger = &backend.ledger;
    memory->away = &backend.away;
    memory->importer = &backend;
    gb_ledger_acquire(&backend.ledger, PIECE);
    ck_assert(gb_handles_add(memory, &api, ++values));
    figure += PIECE;
    card_free -= PIECE;
    return values;
}

/* As the driver's descriptors are: all of them of one device file. */
static int export(CUmemGenericAllocationHandle value)
{
    struct gb_memory *memory = gb_handle_hold(&api, value, 0);
    int file = open("/dev/null", O_RDONLY);

    gb_memory_exported(memory, file);
    gb_memory_drop(memory);
    return file;
}

static CUmemGenericAllocationHandle import(int file)
{
    struct gb_memory *ours = gb_handle_exported_to(file);

    gb_handles_imported(gb_memory_new(), &api, ++values, ours);
    return values;
}

static void release(CUmemGenericAllocationHandle value)
{
    gb_handle_released(gb_handle_hold(&api, value, 0), value, true);
}

/* Of what is charged: as far as calls tell. */
static uint64_t shown(void)
{
    return gb_ledger_outstanding(&backend.ledger) - atomic_load(&backend.other.posted) -
           gb_backend_unattributed(&backend);
}

/* What may be shown all the same. */
static uint64_t heritable(void)
{
    ck_assert_uint_eq(atomic_load(&backend.inherited.ours),
                      atomic_load(&backend.imported) + atomic_load(&backend.imported_unseen));
    return atomic_load(&backend.inherited.ours);
}

static uint64_t other(void)
{
    gb_other_look(&backend, 0);
    return atomic_load(&backend.other.posted);
}

/* The tools show so much for the process, and nothing of it is the driver's own. */
static void shows(uint64_t pieces)
{
    figure = 7 * MIB + pieces * PIECE;
    ck_assert_uint_eq(other(), 7 * MIB);
}

/* The oldest that has hold of it decides: a handle, the descriptor, the import. */
START_TEST(test_oldest)
{
    CUmemGenericAllocationHandle one, again;
    int file;

    begin();
    one = create();
    file = export(one);
    shows(1);
    again = import(file);
    ck_assert_uint_eq(heritable(), 0);
    shows(1);
    release(one);
    ck_assert_uint_eq(shown(), 0);
    ck_assert_uint_eq(heritable(), PIECE);
    shows(0);
    close(file);
    shows(1);
    release(again);
    ck_assert_uint_eq(heritable(), 0);
    shows(0);
    ck_assert_uint_eq(shown(), 0);
    ck_assert_uint_eq(gb_ledger_outstanding(&backend.ledger), PIECE + 7 * MIB);
}
END_TEST

/* Closed before anything is released: the figure does not move. */
START_TEST(test_closed_first)
{
    CUmemGenericAllocationHandle one, again;
    int file;

    begin();
    one = create();
    file = export(one);
    again = import(file);
    close(file);
    shows(1);
    release(one);
    shows(1);
    release(again);
    shows(0);
}
END_TEST

/* A copy of the descriptor, here or elsewhere: nothing that the driver takes is hidden. */
START_TEST(test_copied)
{
    CUmemGenericAllocationHandle one, again;
    int file, copy;

    begin();
    one = create();
    file = export(one);
    again = import(file);
    release(one);
    shows(0);
    copy = dup(file);
    close(file);
    shows(0);
    figure += 40 * MIB;
    card_free -= 40 * MIB;
    ck_assert_uint_eq(other(), 47 * MIB);
    close(copy);
    figure += PIECE;
    ck_assert_uint_eq(other(), 47 * MIB);
    release(again);
    figure -= PIECE;
    ck_assert_uint_eq(other(), 47 * MIB);
}
END_TEST

START_TEST(test_released_first)
{
    CUmemGenericAllocationHandle one, two, three;
    int file;

    begin();
    one = create();
    file = export(one);
    release(one);
    ck_assert_uint_eq(heritable(), 0);
    one = import(file);
    two = import(file);
    ck_assert_uint_eq(heritable(), PIECE);
    shows(0);
    close(file);
    shows(1);
    release(two);
    ck_assert_uint_eq(atomic_load(&backend.imported), PIECE);
    shows(1);
    /* Exported from an import, if the driver does that. */
    file = export(one);
    three = import(file);
    release(one);
    ck_assert_uint_eq(heritable(), PIECE);
    shows(1);
    close(file);
    shows(1);
    release(three);
    ck_assert_uint_eq(heritable(), 0);
    shows(0);
}
END_TEST

static CUarrayMapInfo part_at(unsigned x)
{
    return (CUarrayMapInfo){.resourceType = CU_RESOURCE_TYPE_ARRAY,
                            .resource = {.array = (CUarray)(uintptr_t)0x7000},
                            .subresourceType = CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_SPARSE_LEVEL,
                            .subresource = {.sparseLevel = {.offsetX = x,
                                                            .extentWidth = 64,
                                                            .extentHeight = 64,
                                                            .extentDepth = 1}},
                            .memOperationType = CU_MEM_OPERATION_TYPE_MAP,
                            .deviceBitMask = 1};
}

static void bind(CUmemGenericAllocationHandle value, unsigned x)
{
    const CUarrayMapInfo part = part_at(x);

    gb_array_bound(gb_array_binding_new(gb_handle_hold(&api, value, 0), &part),
                   gb_handles_moment());
}

static void unbind(unsigned x)
{
    const CUarrayMapInfo part = part_at(x);

    gb_array_unbound(&gb_arrays_take(&api, &part, gb_handles_moment())->block);
}

/* An array counts for nobody, either. */
START_TEST(test_only_bound)
{
    CUmemGenericAllocationHandle one, again, youngest;
    int file;

    begin();
    one = create();
    bind(one, 0);
    ck_assert_uint_eq(shown(), PIECE);
    shows(1);
    release(one);
    ck_assert_uint_eq(shown(), 0);
    shows(0);
    ck_assert_uint_eq(gb_ledger_outstanding(&backend.ledger), PIECE + 7 * MIB);
    unbind(0);
    card_free += PIECE;
    shows(0);
    ck_assert_uint_eq(gb_ledger_outstanding(&backend.ledger), 7 * MIB);
    ck_assert_uint_eq(gb_backend_unattributed(&backend), 0);
    /* With imports of it. */
    one = create();
    bind(one, 0);
    file = export(one);
    again = import(file);
    release(one);
    shows(0);
    close(file);
    shows(0);
    /* The stream unbinds before that is known. */
    shows(1);
    unbind(0);
    shows(1);
    file = export(again);
    youngest = import(file);
    bind(again, 64);
    close(file);
    shows(1);
    release(again);
    ck_assert_uint_eq(heritable(), 0);
    shows(0);
    gb_array_ended(&api, (void *)(uintptr_t)0x7000);
    ck_assert_uint_eq(heritable(), PIECE);
    shows(1);
    release(youngest);
    shows(0);
    ck_assert_uint_eq(heritable(), 0);
    ck_assert_uint_eq(gb_ledger_outstanding(&backend.ledger), PIECE + 7 * MIB);
}
END_TEST

/* What others have, and the tools showed for us, is taken out no more. */
START_TEST(test_only_bound_of_others)
{
    struct gb_memory *memory;
    _Atomic uint64_t attributed = PIECE;

    begin();
    memory = gb_memory_new();
    memory->attributed = &attributed;
    memory->attributed_bytes = PIECE;
    memory->away = &backend.away;
    gb_handles_imported(memory, &api, ++values, NULL);
    bind(values, 0);
    ck_assert_uint_eq(gb_backend_unattributed(&backend), 0);
    release(values);
    ck_assert_uint_eq(gb_backend_unattributed(&backend), PIECE);
    unbind(0);
    ck_assert_uint_eq(gb_backend_unattributed(&backend), 0);
    ck_assert_uint_eq(atomic_load(&attributed), 0);
}
END_TEST

/* Nor what was inherited. */
START_TEST(test_only_bound_inherited)
{
    struct gb_memory *memory;

    begin();
    memory = gb_memory_new();
    memory->importer = &backend;
    memory->away = &backend.away;
    gb_handles_imported(memory, &api, ++values, NULL);
    gb_memory_mapped(gb_handle_hold(&api, values, 0), calloc(1, sizeof(struct gb_mapping)),
                     0x10000, PIECE);
    ck_assert_uint_eq(atomic_load(&backend.imported_unseen), PIECE);
    shows(0);
    shows(1);
    ck_assert_uint_eq(atomic_load(&backend.imported), PIECE);
    bind(values, 0);
    release(values);
    shows(1);
    gb_handles_unmapped(&api, 0x10000, PIECE, gb_handles_moment());
    ck_assert_uint_eq(atomic_load(&backend.imported), 0);
    ck_assert_uint_eq(atomic_load(&backend.imported_unseen), 0);
    shows(0);
    unbind(0);
    shows(0);
    ck_assert_uint_eq(atomic_load(&backend.imported), 0);
    ck_assert_uint_eq(atomic_load(&backend.imported_unseen), 0);
}
END_TEST

/* A descriptor of the same number stands for the newer export only. */
START_TEST(test_number_again)
{
    CUmemGenericAllocationHandle one, two, again;
    int file, second;

    begin();
    one = create();
    two = create();
    file = export(one);
    again = import(file);
    release(one);
    shows(1);
    close(file);
    second = export(two);
    ck_assert_int_eq(second, file);
    shows(2);
    release(again);
    shows(1);
    /* Nothing is left of what can never come back. */
    ck_assert_uint_eq(gb_handles_count(), 1);
    again = import(second);
    release(two);
    shows(0);
    close(second);
    /* Another file altogether. */
    second = open("/dev/zero", O_RDONLY);
    ck_assert_int_eq(second, file);
    shows(1);
    ck_assert_ptr_null(gb_handle_exported_to(second));
    close(second);
}
END_TEST

static int open_file;
static CUmemGenericAllocationHandle imported;

static void close_it(void)
{
    if (open_file >= 0) {
        close(open_file);
        figure += PIECE;
    }
    open_file = -1;
}

static void close_and_release(void)
{
    close_it();
    if (imported)
        release(imported);
    imported = 0;
}

/* It comes back while the tools are asked: never taken for the driver's. */
static void comes_back(void (*moment)(void))
{
    CUmemGenericAllocationHandle one;

    begin();
    one = create();
    open_file = export(one);
    release(one);
    shows(0);
    imported = import(open_file);
    shows(0);
    meanwhile = moment;
    ck_assert_uint_eq(other(), 7 * MIB);
    meanwhile = NULL;
    shows(imported ? 1 : 0);
    ck_assert_uint_eq(gb_ledger_outstanding(&backend.ledger), PIECE + 7 * MIB);
}

START_TEST(test_closed_meanwhile)
{
    comes_back(close_it);
}
END_TEST

START_TEST(test_closed_and_released_meanwhile)
{
    comes_back(close_and_release);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_oldest,
                                  test_closed_first,
                                  test_copied,
                                  test_released_first,
                                  test_only_bound,
                                  test_only_bound_of_others,
                                  test_only_bound_inherited,
                                  test_number_again,
                                  test_closed_meanwhile,
                                  test_closed_and_released_meanwhile};

    return unit_run("exports", tests, COUNT_OF(tests));
}
