/* The words of the budget, to the letter. */
#include "report/message.h"

#include "captured.h"

#include <check.h>

#define MIB  ((uint64_t)1 << 20)
#define GIB  ((uint64_t)1 << 30)
#define UUID "GPU-45b0bc69-1111-2222-3333-444444444444"

static struct gb_settings settings;
static struct captured captured;

static uint64_t tenths(uint64_t count)
{
    return GIB / 10 * count;
}

static void set_up(void)
{
    gb_log_setup(GB_LOG_WARN, "");
    memset(&settings, 0, sizeof(settings));
    strcpy(settings.limit_source, "--limit");
    captured_begin(&captured);
}

static struct gb_message_refusal refusal(int ordinal)
{
    return (struct gb_message_refusal){.device = {ordinal, UUID},
                                       .call = "cuMemAlloc",
                                       .asked = 2 * GIB,
                                       .used = tenths(31),
                                       .limit = 4 * GIB,
                                       .breakdown = true,
                                       .program = tenths(24),
                                       .context = tenths(5),
                                       .other = tenths(2)};
}

START_TEST(test_refused)
{
    struct gb_message_refusal first = refusal(0);
    gb_message_refused(&settings, &first);
    gb_message_refused(&settings, &first);
    ck_assert_str_eq(captured_end(&captured),
                     "gpubudget: GPU 0 (GPU-45b0bc69): refused 2.0 GiB (cuMemAlloc): 3.1 of "
                     "4.0 GiB used (program 2.4, context 0.5, other 0.2); limit from --limit. "
                     "This is the budget, not the card. Programs often free memory and "
                     "retry.\n");
    ck_assert_uint_eq(gb_message_refusals(0), 2);
    ck_assert_uint_eq(gb_message_refusals(1), 0);
}
END_TEST

START_TEST(test_refused_once_per_device)
{
    struct gb_message_refusal one;
    size_t lines = 0;
    for (int round = 0; round < 1000; round++)
        for (int ordinal = 0; ordinal < 3; ordinal++) {
            one = refusal(ordinal);
            gb_message_refused(&settings, &one);
        }
    for (const char *at = captured_end(&captured); (at = strchr(at, '\n')); at++)
        lines++;
    ck_assert_uint_eq(lines, 3);
    for (int ordinal = 0; ordinal < 3; ordinal++)
        ck_assert_uint_eq(gb_message_refusals(ordinal), 1000);
}
END_TEST

START_TEST(test_refused_variants)
{
    struct gb_message_refusal one = refusal(1);
    one.device.uuid = NULL;
    one.breakdown = false;
    one.managed = true;
    one.asked = 3 * MIB;
    one.used = 300 * MIB;
    one.limit = 512 * MIB;
    one.call = NULL;
    gb_message_refused(NULL, &one);
    one.device = (struct gb_message_device){2, "MIG-GPU-45b0bc69-1111/1/0"};
    one.managed = false;
    one.call = "cuMemAllocManaged";
    gb_message_refused(&settings, &one);
    ck_assert_str_eq(
        captured_end(&captured),
        "gpubudget: GPU 1: refused 3.0 MiB: 300 of 512 MiB used; limit from "
        "GPUBUDGET_LIMIT. This is the budget, not the card. Managed memory is "
        "charged in full; GPUBUDGET_MANAGED=ignore turns that off. Programs often "
        "free memory and retry.\n"
        "gpubudget: GPU 2 (MIG-GPU-45b0bc69): refused 3.0 MiB (cuMemAllocManaged): "
        "300 of 512 MiB used; limit from --limit. This is the budget, not the "
        "card. Programs often free memory and retry.\n");
}
END_TEST

START_TEST(test_imported)
{
    struct gb_message_refusal one = refusal(1);

    gb_log_setup(GB_LOG_INFO, "");
    gb_message_imported(&one.device, "cuIpcOpenMemHandle", 96 * MIB);
    gb_message_imported(&one.device, "cuIpcOpenMemHandle", 96 * MIB);
    one.imported = (uint64_t)1 << 30;
    gb_message_refused(&settings, &one);
    ck_assert_str_eq(
        captured_end(&captured),
        "gpubudget: GPU 1 (GPU-45b0bc69): imported 96.0 MiB (cuIpcOpenMemHandle), which is not "
        "charged\n"
        "gpubudget: GPU 1 (GPU-45b0bc69): refused 2.0 GiB (cuMemAlloc): 3.1 of 4.0 GiB used "
        "(program 2.4, context 0.5, other 0.2; imported 1.0, not charged); limit from --limit. "
        "This is the budget, not the card. Programs often free memory and retry.\n");
}
END_TEST

START_TEST(test_ordinals_out_of_range)
{
    struct gb_message_refusal one = refusal(100);
    gb_message_refused(&settings, &one);
    one.device.ordinal = -1;
    gb_message_refused(&settings, &one);
    ck_assert_ptr_nonnull(strstr(captured_end(&captured), "GPU -1 ("));
    ck_assert_uint_eq(gb_message_refusals(100), 1);
    ck_assert_uint_eq(gb_message_refusals(63), 1);
    ck_assert_uint_eq(gb_message_refusals(0), 1);
}
END_TEST

START_TEST(test_card_full)
{
    struct gb_message_card_full full = {.device = {0, UUID},
                                        .asked = 2 * GIB,
                                        .budget_left = tenths(51),
                                        .card_known = true,
                                        .card_free = tenths(3),
                                        .others = 120 * GIB};
    gb_message_card_full(&settings, &full);
    gb_message_card_full(&settings, &full);
    full.device.ordinal = 1;
    full.card_known = false;
    gb_message_card_full(&settings, &full);
    ck_assert_str_eq(
        captured_end(&captured),
        "gpubudget: GPU 0 (GPU-45b0bc69): the card is full, not your budget: asked "
        "2.0 GiB, budget has 5.1 GiB left, card has 0.3 GiB; other processes hold "
        "120 GiB.\n"
        "gpubudget: GPU 1 (GPU-45b0bc69): the card is full, not your budget: asked "
        "2.0 GiB, budget has 5.1 GiB left.\n");
    ck_assert_uint_eq(gb_message_card_fulls(0), 2);
    ck_assert_uint_eq(gb_message_refusals(0), 0);
}
END_TEST

/* Rounded figures that seem to fit are told finer, those of the whole line. */
START_TEST(test_figures_add_up)
{
    struct gb_message_refusal one = refusal(0);
    struct gb_message_card_full full = {.device = {0, UUID},
                                        .asked = 2560 * MIB,
                                        .budget_left = 3500 * MIB,
                                        .card_known = true,
                                        .card_free = 2540 * MIB,
                                        .others = 20 * GIB};
    struct gb_message_context context = {.device = {0, UUID},
                                         .context = 500 * MIB,
                                         .used = 1576 * MIB,
                                         .limit = 2 * GIB,
                                         .smallest = 2078 * MIB};

    one.breakdown = false;
    one.asked = 1532 * MIB;
    one.used = 518 * MIB;
    one.limit = 2 * GIB;
    gb_message_refused(&settings, &one);
    /* In MiB they would seem to fit too. */
    one.device.ordinal = 1;
    one.used = 518 * MIB + 300 * 1024;
    one.asked = 1530 * MIB - 299 * 1024;
    gb_message_refused(&settings, &one);
    /* With the reserve they tell as they are. */
    one.device.ordinal = 2;
    one.used = 512 * MIB;
    one.asked = 1536 * MIB;
    one.kept = 32 * MIB;
    gb_message_refused(&settings, &one);
    /* More was charged than asked for: no unit tells. */
    one.device.ordinal = 3;
    one.used = 2 * GIB - MIB;
    one.asked = 3;
    one.kept = 0;
    gb_message_refused(&settings, &one);
    one.device.ordinal = 4;
    one.used = 2054 * MIB;
    one.asked = 256 * MIB;
    gb_message_over(&settings, &one);
    one.device.ordinal = 5;
    one.used = 2040 * MIB;
    one.kept = 32 * MIB;
    gb_message_over(&settings, &one);
#define END                                                                                    \
    "; limit from --limit. This is the budget, not the card. Programs often free memory and "  \
    "retry.\n"
#define REPORT "; limit from --limit. Nothing is refused: GPUBUDGET_ON_LIMIT=report.\n"
    ck_assert_str_eq(
        captured_end(&captured),
        "gpubudget: GPU 0 (GPU-45b0bc69): refused 1532 MiB (cuMemAlloc): 518 of 2048 MiB "
        "used" END
        "gpubudget: GPU 1 (GPU-45b0bc69): refused 1604015104 B (cuMemAlloc): 543469568 of "
        "2147483648 B used" END
        "gpubudget: GPU 2 (GPU-45b0bc69): refused 1.5 GiB (cuMemAlloc): 0.5 of 2.0 GiB used, "
        "32.0 MiB kept by GPUBUDGET_RESERVE" END
        "gpubudget: GPU 3 (GPU-45b0bc69): refused 3 B (cuMemAlloc): 2.0 of 2.0 GiB used" END
        "gpubudget: GPU 4 (GPU-45b0bc69): over the limit: granted 256 MiB (cuMemAlloc), now "
        "2054 of 2048 MiB used" REPORT
        "gpubudget: GPU 5 (GPU-45b0bc69): over the limit: granted 256 MiB (cuMemAlloc), now "
        "2.0 of 2.0 GiB used, 32.0 MiB kept by GPUBUDGET_RESERVE" REPORT);
    captured_begin(&captured);
    gb_message_card_full(&settings, &full);
    gb_message_context_refused(&settings, &context);
    ck_assert_str_eq(
        captured_end(&captured),
        "gpubudget: GPU 0 (GPU-45b0bc69): the card is full, not your budget: asked 2560 MiB, "
        "budget has 3500 MiB left, card has 2540 MiB; other processes hold 20480 MiB.\n"
        "gpubudget: GPU 0 (GPU-45b0bc69): refused a context: it takes 500 MiB, and 1576 of "
        "2048 MiB are used; limit from --limit. The smallest useful limit here is 2078MiB.\n");
#undef END
#undef REPORT
}
END_TEST

START_TEST(test_overshoot)
{
    const struct gb_message_overshoot overshoot = {
        .device = {0, UUID}, .over = 100 * MIB, .limit = 4 * GIB};
    gb_message_overshoot(&overshoot);
    gb_message_overshoot(&overshoot);
    ck_assert_str_eq(captured_end(&captured),
                     "gpubudget: GPU 0 (GPU-45b0bc69): 100 MiB above the limit of 4.0 GiB: the "
                     "driver has taken memory that no call could refuse, such as code it loads "
                     "at a first launch. Nothing is granted until it fits; GPUBUDGET_RESERVE "
                     "keeps room for it.\n");
}
END_TEST

START_TEST(test_context)
{
    struct gb_message_context one = {.device = {0, UUID},
                                     .call = "cuCtxCreate",
                                     .context = 549034394,
                                     .used = 0,
                                     .limit = 256 * MIB,
                                     .smallest = 549034394 + 1};
    gb_message_context_refused(&settings, &one);
    gb_message_context_refused(&settings, &one);
    ck_assert_str_eq(captured_end(&captured),
                     "gpubudget: GPU 0 (GPU-45b0bc69): refused a context (cuCtxCreate): it "
                     "takes 524 MiB, and 0.0 of 256 MiB are used; limit from --limit. The "
                     "smallest useful limit here is 524MiB.\n");
    ck_assert_uint_eq(gb_message_refusals(0), 2);
}
END_TEST

START_TEST(test_settings_lines)
{
    gb_settings_parse(&settings,
                      (const char *const[]){"GPUBUDGET_LIMIT=4096", "GPUBUDGET_TYPO=1"}, 2);
    gb_message_settings(&settings);
    gb_message_settings(&settings);
    gb_message_denied("again");
    ck_assert_str_eq(
        captured_end(&captured),
        "gpubudget: GPUBUDGET_TYPO is no setting of gpubudget; see gpubudget(7)\n"
        "gpubudget: GPUBUDGET_LIMIT: \"4096\" without a unit is bytes, less than 1 "
        "MiB; did you mean 4096MiB? No GPU memory is given out until this is "
        "mended.\n");
}
END_TEST

START_TEST(test_settings_allowed)
{
    gb_settings_parse(
        &settings, (const char *const[]){"GPUBUDGET_LIMIT=x", "GPUBUDGET_ON_ERROR=allow"}, 2);
    gb_message_settings(&settings);
    ck_assert_str_eq(captured_end(&captured),
                     "gpubudget: GPUBUDGET_LIMIT: \"x\" is not a size; write one such as 4GiB, "
                     "50% or none. There is no limit (GPUBUDGET_ON_ERROR=allow).\n");
}
END_TEST

START_TEST(test_not_applied)
{
    ck_assert(gb_message_not_applied(&settings, "GPU 1 has no entry"));
    ck_assert(gb_message_not_applied(&settings, "GPU 1 has no entry"));
    gb_message_forked();
    settings.on_error = GB_ON_ERROR_ALLOW;
    ck_assert(!gb_message_not_applied(&settings, "GPU 1 has no entry"));
    settings.require = true;
    ck_assert(gb_message_not_applied(&settings, "GPU 1 has no entry"));
    ck_assert_str_eq(captured_end(&captured),
                     "gpubudget: GPU 1 has no entry. No GPU memory is given out until this is "
                     "mended.\n"
                     "gpubudget: GPU 1 has no entry. There is no limit "
                     "(GPUBUDGET_ON_ERROR=allow).\n");
}
END_TEST

START_TEST(test_silent_settings)
{
    gb_settings_parse(&settings, (const char *const[]){"GPUBUDGET_LIMIT=1GiB"}, 1);
    gb_message_settings(&settings);
    ck_assert_str_eq(captured_end(&captured), "");
}
END_TEST

START_TEST(test_stream_order)
{
    for (int i = 0; i < 2; i++) {
        gb_message_order_failed(i == 0 ? 700 : 0);
        gb_message_order_copies();
    }
    gb_message_forked();
    gb_message_order_failed(0);
    ck_assert_str_eq(
        captured_end(&captured),
        "gpubudget: GPUBUDGET_STREAM_ORDER: a stream's use of a block could not be "
        "followed (the driver answers 700); a free may not wait for it. Later ones "
        "are not told.\n"
        "gpubudget: GPUBUDGET_STREAM_ORDER=all acts as copies: this driver does not "
        "tell the parameters of kernels (cuFuncGetParamInfo came with CUDA 12.4).\n"
        "gpubudget: GPUBUDGET_STREAM_ORDER: a stream's use of a block could not be "
        "followed (no host memory); a free may not wait for it. Later ones are not "
        "told.\n");
}
END_TEST

START_TEST(test_in_force)
{
    struct gb_message_device device = {0, UUID};
    gb_message_in_force(&settings, &device, false, GIB, 0);
    gb_log_setup(GB_LOG_INFO, "");
    gb_message_in_force(&settings, &device, false, 4 * GIB, 64 * MIB);
    gb_message_in_force(&settings, &device, true, 0, 0);
    ck_assert_str_eq(captured_end(&captured),
                     "gpubudget: GPU 0 (GPU-45b0bc69): limit 4.0 GiB (4294967296 bytes), "
                     "reserve 64.0 MiB, limit from --limit, charge footprint\n"
                     "gpubudget: GPU 0 (GPU-45b0bc69): no limit (none), limit from --limit, "
                     "charge footprint\n");
}
END_TEST

START_TEST(test_forked)
{
    struct gb_message_refusal one = refusal(0);
    gb_message_refused(&settings, &one);
    gb_message_forked();
    ck_assert_uint_eq(gb_message_refusals(0), 0);
    gb_message_refused(&settings, &one);
    const char *text = captured_end(&captured);
    ck_assert_ptr_nonnull(strstr(strchr(text, '\n'), "refused 2.0 GiB"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("message");
    TCase *tests = tcase_create("message");
    tcase_add_checked_fixture(tests, set_up, NULL);
    tcase_add_test(tests, test_refused);
    tcase_add_test(tests, test_refused_once_per_device);
    tcase_add_test(tests, test_refused_variants);
    tcase_add_test(tests, test_imported);
    tcase_add_test(tests, test_ordinals_out_of_range);
    tcase_add_test(tests, test_card_full);
    tcase_add_test(tests, test_figures_add_up);
    tcase_add_test(tests, test_overshoot);
    tcase_add_test(tests, test_context);
    tcase_add_test(tests, test_settings_lines);
    tcase_add_test(tests, test_settings_allowed);
    tcase_add_test(tests, test_not_applied);
    tcase_add_test(tests, test_silent_settings);
    tcase_add_test(tests, test_stream_order);
    tcase_add_test(tests, test_in_force);
    tcase_add_test(tests, test_forked);
    suite_add_tcase(suite, tests);
    /* Once is once per process. */
    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_FORK);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0;
}
