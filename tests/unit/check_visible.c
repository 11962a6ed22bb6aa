/* Which number CUDA will give a card, by CUDA_VISIBLE_DEVICES, the smallest limit, MPS. */
#include "config/mps_limit.h"
#include "config/visible.h"
#include "../programs/visible_cases.h"

#include <check.h>
#include <string.h>

#define GIB ((uint64_t)1 << 30)

static const struct gb_visible_cards four = {
    .count = 4,
    .is_in_order = true,
    .is_one_by_one = true,
    .uuids = {"GPU-45b0bc69-1111-2222-3333-444444444444",
              "GPU-45b0cccc-1111-2222-3333-444444444444",
              "GPU-9abc0000-1111-2222-3333-444444444444",
              "GPU-0def0000-1111-2222-3333-444444444444"}};
static const struct gb_visible_card first = {.uuid =
                                                 "GPU-45b0bc69-1111-2222-3333-444444444444"};
static const struct gb_visible_card third = {.uuid =
                                                 "GPU-9abc0000-1111-2222-3333-444444444444"};

static uint32_t number_of(const char *list, const struct gb_visible_card *card)
{
    uint32_t number = 77;

    ck_assert_msg(gb_visible_ordinal(list, &four, card, &number), "%s", list);
    return number;
}

/* What one card of the machine answered. */
START_TEST(test_as_measured)
{
    struct gb_visible_cards one = {.count = 1, .is_in_order = true, .is_one_by_one = true};
    const char *uuid = "GPU-eb002025-3048-cae9-f55f-4c58809760d6";
    const struct gb_visible_card card = {.uuid = uuid};

    strcpy(one.uuids[0], uuid);
    for (int i = 0; i < VISIBLE_CASES; i++) {
        char text[256];
        const char *list = visible_text(visible_cases[i].list, uuid, text);
        uint32_t number = 77;

        ck_assert_msg(gb_visible_ordinal(list, &one, &card, &number), "%s", list);
        ck_assert_msg(number == (visible_cases[i].code == SHOWN ? 0 : GB_VISIBLE_HIDDEN),
                      "\"%s\": %u", list, number);
    }
}
END_TEST

START_TEST(test_in_order)
{
    ck_assert_uint_eq(number_of(NULL, &third), 2);
    ck_assert_uint_eq(number_of("2", &third), 0);
    ck_assert_uint_eq(number_of("2", &first), GB_VISIBLE_HIDDEN);
    ck_assert_uint_eq(number_of("3,2,0", &third), 1);
    ck_assert_uint_eq(number_of("3,2,0", &first), 2);
    ck_assert_uint_eq(number_of("", &first), GB_VISIBLE_HIDDEN);
    /* The first wrong one ends the list. */
    ck_assert_uint_eq(number_of("2,-1,0", &first), GB_VISIBLE_HIDDEN);
    ck_assert_uint_eq(number_of("2,x,0", &first), GB_VISIBLE_HIDDEN);
    ck_assert_uint_eq(number_of("2,,0", &first), GB_VISIBLE_HIDDEN);
    ck_assert_uint_eq(number_of("2,4,0", &first), GB_VISIBLE_HIDDEN);
    ck_assert_uint_eq(number_of("2,4,0", &third), 0);
    ck_assert_uint_eq(number_of("4,0", &first), GB_VISIBLE_HIDDEN);
    ck_assert_uint_eq(number_of("99999999999,0", &first), GB_VISIBLE_HIDDEN);
    ck_assert_uint_eq(number_of(" 3, 2 ,\t0", &third), 1);
    ck_assert_uint_eq(number_of("3gpu,+2x", &third), 1);
    ck_assert_uint_eq(number_of("4294967298", &third), 0);
    /* A card that is named twice hides all. */
    ck_assert_uint_eq(number_of("0,2,3,3", &third), GB_VISIBLE_HIDDEN);
    ck_assert_uint_eq(number_of("0,2,3,9,3", &third), 1);
}
END_TEST

START_TEST(test_by_uuid)
{
    ck_assert_uint_eq(number_of("GPU-9abc0000-1111-2222-3333-444444444444", &third), 0);
    ck_assert_uint_eq(number_of("GPU-9ABC,GPU-45b0b", &third), 0);
    ck_assert_uint_eq(number_of("GPU-9abc,GPU-45b0b", &first), 1);
    ck_assert_uint_eq(number_of("MIG-9abc,GPU-45b0b", &third), 0);
    /* The name of none, or of two. */
    ck_assert_uint_eq(number_of("GPU-9abd,GPU-45b0b", &first), GB_VISIBLE_HIDDEN);
    ck_assert_uint_eq(number_of("GPU-45b0", &first), GB_VISIBLE_HIDDEN);
    ck_assert_uint_eq(number_of("GPU-9abc,GPU-45b0,GPU-0", &third), 0);
    /* Of one kind. */
    ck_assert_uint_eq(number_of("1,GPU-9abc", &third), GB_VISIBLE_HIDDEN);
    ck_assert_uint_eq(number_of("GPU-9abc,0", &first), GB_VISIBLE_HIDDEN);
    ck_assert_uint_eq(number_of("GPU-9abc,GPU-0,GPU-0def", &third), GB_VISIBLE_HIDDEN);
    ck_assert_uint_eq(number_of("GPU-9abc,gpu-45b0b", &first), GB_VISIBLE_HIDDEN);
    ck_assert_uint_eq(number_of("GPU-9abc, GPU-45b0b", &first), GB_VISIBLE_HIDDEN);
}
END_TEST

/* A number may be any card where CUDA counts otherwise; a UUID is one. */
START_TEST(test_in_another_order)
{
    struct gb_visible_cards cards = four;
    const struct gb_visible_cards unknown = {.count = 0};
    static const struct {
        const char *list;
        int first, third; /* -1: hidden, -2: may be any */
    } cases[] = {
        {NULL, -2, -2},
        {"0,1", -2, -2},
        {"", -1, -1},
        {"x", -1, -1},
        {"0,x", -2, -2},
        {"4", -1, -1},
        {"0,4,0", -2, -2},
        {"0,0", -1, -1},
        {"GPU-9abc", -1, 0},
        {"GPU-9abc,GPU-45b0b", 1, 0},
        {"GPU-9abc,GPU-9abc", -1, -1},
    };

    cards.is_in_order = false;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (int k = 0; k < 2; k++) {
            int wanted = k ? cases[i].third : cases[i].first;
            uint32_t number = 77;
            bool known =
                gb_visible_ordinal(cases[i].list, &cards, k ? &third : &first, &number);

            ck_assert_msg(known == (wanted != -2), "%s", cases[i].list);
            ck_assert_uint_eq(number, wanted < 0 ? GB_VISIBLE_HIDDEN : (uint32_t)wanted);
            ck_assert(!gb_visible_ordinal(cases[i].list, &unknown, &first, &number));
        }
}
END_TEST

/* A MIG instance, by its own names; its card stands for the first instance, whichever that is.
 */
START_TEST(test_instances)
{
    struct gb_visible_cards cards = four;
    const struct gb_visible_card one = {.uuid = "MIG-77aa0000-1111-2222-3333-444444444444",
                                        .card_uuid = first.uuid,
                                        .old_name = "MIG-GPU-45b0bc69-1111-2222-3333-"
                                                    "444444444444/1/0"};
    const struct gb_visible_card little = {.uuid = one.uuid, .card_uuid = "", .old_name = ""};
    static const struct {
        const char *list;
        int number, little; /* -1: hidden, -2: may be any */
    } cases[] = {
        {NULL, -2, -2},
        {"", -1, -1},
        {"MIG-77aa", 0, 0},
        {"MIG-77AA0000-1111-2222-3333-444444444444 ,0", 0, 0},
        {"mig-77aa", -1, -1},
        {"MIG-77ab", -1, -1},
        {"MIG-77ab,MIG-77aa", -1, -1},
        {"MIG-GPU-45b0bc69-1111-2222-3333-444444444444/1/0", 0, -2},
        {"MIG-GPU-45B0bc69-1111-2222-3333-444444444444/1/0", 0, -2},
        {"MIG-GPU-45b0bc69-1111-2222-3333-444444444444/2/0", -1, -2},
        {"MIG-GPU-45b0bc69-1111-2222-3333-444444444444/1", -1, -2},
        {"GPU-45b0b", -2, -2},
        {"GPU-9abc", -1, -2},
        {"0", -2, -2},
        {"9", -2, -2},
        {"x", -1, -1},
    };

    cards.is_one_by_one = false;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (int k = 0; k < 2; k++) {
            int wanted = k ? cases[i].little : cases[i].number;
            uint32_t number = 77;
            bool known = gb_visible_ordinal(cases[i].list, &cards, k ? &little : &one, &number);

            ck_assert_msg(known == (wanted != -2), "%s", cases[i].list);
            ck_assert_uint_eq(number, wanted < 0 ? GB_VISIBLE_HIDDEN : (uint32_t)wanted);
        }
    /* None of them is a card that is whole. */
    ck_assert_uint_eq(number_of(one.old_name, &first), GB_VISIBLE_HIDDEN);
}
END_TEST

/* The smallest that list gives the third card, in GiB; 0: none was asked for, 77: no entry. */
static uint64_t smallest(const char *list)
{
    static struct gb_limit limit;
    struct gb_device_identity device = {
        .ordinal = GB_VISIBLE_HIDDEN, .pci = "0000:65:00.0", .total_bytes = 80 * GIB};
    char why[GB_LIMIT_WHY];
    uint64_t bytes = 99 * GIB;

    strcpy(device.uuid, third.uuid);
    memset(&limit, 0, sizeof(limit));
    ck_assert_msg(gb_limit_parse(&limit, list, strlen(list), why, sizeof(why)), "%s", why);
    switch (gb_limit_smallest(&limit, &device, &bytes)) {
    case GB_LIMIT_BYTES:
        return bytes / GIB;
    case GB_LIMIT_NONE:
        ck_assert_uint_eq(bytes, 99 * GIB);
        return 0;
    default:
        ck_assert_uint_eq(bytes, 99 * GIB);
        return 77;
    }
}

START_TEST(test_smallest)
{
    ck_assert_uint_eq(smallest("8GiB"), 8);
    ck_assert_uint_eq(smallest("0=8GiB,1=4GiB,*=6GiB"), 4);
    ck_assert_uint_eq(smallest("0=8GiB,1=5%"), 4);
    ck_assert_uint_eq(smallest("0=none,1=4GiB"), 4);
    ck_assert_uint_eq(smallest("0=none,1=none"), 0);
    ck_assert_uint_eq(smallest("GPU-45b0=2GiB"), 77);
    /* Its own entry is the one. */
    ck_assert_uint_eq(smallest("0=1GiB,GPU-9abc=7GiB"), 7);
    ck_assert_uint_eq(smallest("0=1GiB,0000:65:00.0=7GiB"), 7);
    ck_assert_uint_eq(smallest("0=1GiB,GPU-9abc=none"), 0);
}
END_TEST

/* In MiB; 0: nothing is said of the card. */
static uint64_t mps(const char *text)
{
    struct gb_device_identity device = {.ordinal = 2};
    uint64_t bytes;

    strcpy(device.uuid, third.uuid);
    bytes = gb_mps_limit(text, &device, false);
    return bytes == UINT64_MAX ? 0 : bytes >> 20;
}

START_TEST(test_mps_limit)
{
    ck_assert_uint_eq(mps(NULL), 0);
    ck_assert_uint_eq(mps(""), 0);
    ck_assert_uint_eq(mps("0=1G,2=2G"), 2048);
    ck_assert_uint_eq(mps("2=512MB"), 512);
    ck_assert_uint_eq(mps("2=1048576k"), 1024);
    ck_assert_uint_eq(mps("2=1073741824"), 1024);
    ck_assert_uint_eq(mps("GPU-9abc0000-1111-2222-3333-444444444444=3g"), 3072);
    ck_assert_uint_eq(mps("GPU-9abc=3G,2=1G"), 1024);
    ck_assert_uint_eq(mps("GPU-=3G"), 0);
    ck_assert_uint_eq(mps("2=,2=G,2=2X,2=2GG,2,=5G,22=1G,2=99999999999999999999G"), 0);
    ck_assert_uint_eq(mps("2=x,2=4G"), 4096);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("visible");
    TCase *tcase = tcase_create("visible");
    SRunner *runner;
    int failed;

    tcase_add_test(tcase, test_as_measured);
    tcase_add_test(tcase, test_in_order);
    tcase_add_test(tcase, test_by_uuid);
    tcase_add_test(tcase, test_in_another_order);
    tcase_add_test(tcase, test_instances);
    tcase_add_test(tcase, test_smallest);
    tcase_add_test(tcase, test_mps_limit);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
