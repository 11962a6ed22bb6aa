/* The tree of mappings against a plain list of pages. */
#include "resource/mappings.h"

#include <stdlib.h>

#include "unit.h"

enum { PAGES = 300 };

static const struct gb_driver_api first_copy, second_copy;

static struct gb_mappings tree;
static struct gb_mapping *owner[PAGES]; /* of each page, of the first copy */

static struct gb_mapping *new_mapping(const struct gb_driver_api *api, uint64_t page,
                                      uint64_t pages)
{
    struct gb_mapping *mapping = calloc(1, sizeof(*mapping));

    ck_assert_ptr_nonnull(mapping);
    mapping->api = api;
    mapping->address = page * 2 * MIB;
    mapping->size = pages * 2 * MIB;
    return mapping;
}

/* Forgets and frees what was taken out; answers how many. */
static unsigned gone(struct gb_mapping *list)
{
    unsigned count = 0;

    while (list) {
        struct gb_mapping *next = list->next;

        for (int i = 0; i < PAGES; i++)
            if (owner[i] == list)
                owner[i] = NULL;
        free(list);
        list = next;
        count++;
    }
    return count;
}

static void expect_same(void)
{
    for (uint64_t page = 0; page < PAGES; page++) {
        const struct gb_mapping *wanted = NULL;

        for (uint64_t next = page; next < PAGES && !wanted; next++)
            wanted = owner[next];
        ck_assert_ptr_eq(gb_mappings_from(&tree, &first_copy, page * 2 * MIB + 5), wanted);
    }
}

START_TEST(test_against_a_list)
{
    srand(1);
    for (int i = 0; i < 5000; i++) {
        uint64_t page = (uint64_t)(rand() % PAGES);
        uint64_t pages = 1 + (uint64_t)(rand() % 9);

        if (pages > PAGES - page)
            pages = PAGES - page;
        if (rand() % 3 > 0) {
            struct gb_mapping *mapping = new_mapping(&first_copy, page, pages);

            gone(gb_mappings_add(&tree, mapping));
            for (uint64_t one = page; one < page + pages; one++) {
                ck_assert_ptr_null(owner[one]);
                owner[one] = mapping;
            }
        } else {
            unsigned wanted = 0;

            for (uint64_t one = page; one < page + pages; one++)
                wanted += owner[one] && owner[one]->address == one * 2 * MIB;
            ck_assert_uint_eq(
                gone(gb_mappings_take(&tree, &first_copy, page * 2 * MIB, pages * 2 * MIB)),
                wanted);
        }
        if (i % 50 == 0)
            expect_same();
    }
    expect_same();
    gone(gb_mappings_take(&tree, &first_copy, 0, UINT64_MAX));
    ck_assert_ptr_null(tree.root);
}
END_TEST

START_TEST(test_copies_apart)
{
    struct gb_mapping *mine = new_mapping(&first_copy, 3, 2);
    struct gb_mapping *theirs = new_mapping(&second_copy, 4, 2);

    ck_assert_ptr_null(gb_mappings_add(&tree, mine));
    ck_assert_ptr_null(gb_mappings_add(&tree, theirs));
    ck_assert_ptr_eq(gb_mappings_from(&tree, &first_copy, 8 * MIB), mine);
    ck_assert_ptr_eq(gb_mappings_from(&tree, &second_copy, 8 * MIB), theirs);
    ck_assert_ptr_eq(gb_mappings_from(&tree, &second_copy, 0), theirs);
    ck_assert_ptr_null(gb_mappings_from(&tree, &first_copy, 10 * MIB));
    ck_assert_uint_eq(gone(gb_mappings_take(&tree, &first_copy, 0, UINT64_MAX)), 1);
    ck_assert_ptr_eq(gb_mappings_from(&tree, &second_copy, 8 * MIB), theirs);
    ck_assert_uint_eq(gone(gb_mappings_take(&tree, &second_copy, 0, UINT64_MAX)), 1);
}
END_TEST

static unsigned depth(const struct gb_mapping *node)
{
    unsigned left = node ? depth(node->left) : 0;
    unsigned right = node ? depth(node->right) : 0;

    if (!node)
        return 0;
    return 1 + (left > right ? left : right);
}

/* As PyTorch maps: one step behind the other, many thousands of them. */
START_TEST(test_balanced)
{
    for (uint64_t i = 0; i < 50000; i++)
        ck_assert_ptr_null(gb_mappings_add(&tree, new_mapping(&first_copy, i, 1)));
    ck_assert_uint_lt(depth(tree.root), 64);
    ck_assert_uint_eq(
        gone(gb_mappings_take(&tree, &first_copy, 1000 * 2 * MIB, 1000 * 2 * MIB)), 1000);
    ck_assert_uint_lt(depth(tree.root), 64);
    gone(gb_mappings_take(&tree, &first_copy, 0, UINT64_MAX));
}
END_TEST

int main(void)
{
    const TTest *tests[] = {test_against_a_list, test_copies_apart, test_balanced};

    return unit_run("mappings", tests, COUNT_OF(tests));
}
