/* cuMemAlloc and its relatives: sizes, codes, the first forms, managed memory. */
#include "observations.h"

#include <stdlib.h>

#define BLOCKS 64

static void many(size_t bytes, const char *name)
{
    CUdeviceptr block[BLOCKS] = {0};
    uint64_t before = observe_process_bytes();
    for (int i = 0; i < BLOCKS; i++)
        cuMemAlloc(&block[i], bytes);
    observe_size(observe_process_bytes() - before, "direct.%s", name);
    for (int i = 0; i < BLOCKS; i++)
        cuMemFree(block[i]);
    observe_size(observe_process_bytes() - before, "direct.%s.left", name);
}

static void single(size_t bytes, const char *name)
{
    CUdeviceptr block = 0;
    uint64_t before = observe_process_bytes();
    observe_code(cuMemAlloc(&block, bytes), "direct.%s", name);
    observe_size(observe_process_bytes() - before, "direct.%s", name);
    cuMemFree(block);
}

static void pitched(size_t width, size_t height, unsigned element)
{
    CUdeviceptr block = 0;
    size_t pitch = 0;
    uint64_t before = observe_process_bytes();
    observe_code(cuMemAllocPitch(&block, &pitch, width, height, element),
                 "direct.pitch_%zux%zu", width, height);
    observe_size(pitch, "direct.pitch_%zux%zu.pitch", width, height);
    observe_size(observe_process_bytes() - before, "direct.pitch_%zux%zu.taken", width, height);
    cuMemFree(block);
}

#define SMALL 8000

void observe_direct_sizes(void)
{
    static CUdeviceptr small[SMALL];
    uint64_t before;
    size_t left, total, left_after;
    CUdeviceptr block = 0;
    observe_begin();
    many(1, "64_of_1");
    many(512, "64_of_512");
    many(64 * KIB, "64_of_64k");
    many(300000, "64_of_300000");
    many(MIB, "64_of_1m");
    single(MIB + 1, "one_of_1m_1");
    single(2 * MIB, "one_of_2m");
    single(2 * MIB + 1, "one_of_2m_1");
    single(3 * MIB, "one_of_3m");
    single(256 * MIB, "one_of_256m");
    pitched(1000, 100000, 4);
    pitched(512, 1000, 16);
    pitched(513, 1000, 4);
    pitched(100, 10, 4);
    /* Regions: all but every 32nd block freed; each 2 MiB region keeps one block. */
    before = observe_process_bytes();
    for (int i = 0; i < SMALL; i++)
        cuMemAlloc(&small[i], 64 * KIB);
    observe_size(observe_process_bytes() - before, "direct.8000_of_64k");
    for (int i = 0; i < SMALL; i++)
        if (i % 32)
            cuMemFree(small[i]);
    observe_size(observe_process_bytes() - before, "direct.8000_of_64k.spread_250_left");
    for (int i = 0; i < SMALL; i += 32)
        cuMemFree(small[i]);
    observe_size(observe_process_bytes() - before, "direct.8000_of_64k.none_left");
    cuMemGetInfo(&left, &total);
    cuMemAlloc(&block, 64 * MIB);
    cuMemGetInfo(&left_after, &total);
    observe_size(left - left_after, "direct.info_after_64m");
    cuMemFree(block);
}

void observe_direct_codes(void)
{
    CUdeviceptr block = 0, touched = 0x77, base = 0;
    size_t left = 0, total = 0, pitch = 0x77, size = 0;
    CUdeviceptr again = 0;
    CUmemorytype type = 0;
    observe_begin();
    cuMemGetInfo(&left, &total);
    observe_code(cuMemAlloc(NULL, 4096), "direct.null_output");
    observe_code(cuMemAlloc(&touched, 0), "direct.zero");
    observe_fact(touched == 0x77, "direct.zero_untouched");
    observe_code(cuMemAlloc(&touched, total + GIB), "direct.too_big");
    observe_fact(touched == 0x77, "direct.too_big_untouched");
    observe_code(cuMemAlloc(&touched, SIZE_MAX), "direct.absurd");
    observe_fact(touched == 0x77, "direct.absurd_untouched");
    observe_code(cuMemAllocPitch(NULL, &pitch, 1000, 10, 4), "direct.pitch_null_output");
    observe_code(cuMemAllocPitch(&touched, NULL, 1000, 10, 4), "direct.pitch_null_pitch");
    observe_code(cuMemAllocPitch(&touched, &pitch, 0, 10, 4), "direct.pitch_zero_width");
    observe_code(cuMemAllocPitch(&touched, &pitch, 1000, 0, 4), "direct.pitch_zero_height");
    observe_code(cuMemAllocPitch(&touched, &pitch, 1000, 10, 3), "direct.pitch_element_3");
    observe_fact(touched == 0x77 && pitch == 0x77, "direct.pitch_failed_untouched");
    observe_code(cuMemAllocPitch(&touched, &pitch, 1 << 20, total >> 19, 4),
                 "direct.pitch_too_big");
    observe_fact(touched == 0x77 && pitch == 0x77, "direct.pitch_too_big_untouched");
    observe_code(cuMemGetInfo(NULL, &total), "direct.info_null_free");
    observe_code(cuMemGetInfo(&left, NULL), "direct.info_null_total");
    observe_code(cuMemFree(0), "direct.free_null");
    observe_code(cuMemFree(4096), "direct.free_unknown");
    observe_code(cuMemAlloc(&block, 4 * MIB), "direct.alloc");
    observe_code(cuMemFree(block + 512), "direct.free_interior");
    observe_code(cuMemGetAddressRange(&base, &size, block + 4096), "direct.range");
    observe_fact(base == block && size == 4 * MIB, "direct.range_is_block");
    observe_code(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, block),
                 "direct.pointer_attribute");
    observe_code(cuMemFree(block), "direct.free");
    observe_code(cuMemFree(block), "direct.free_twice");
    observe_code(cuMemFreeAsync(block, CU_STREAM_LEGACY), "direct.free_async_after_free");
    observe_code(cuMemGetAddressRange(&base, &size, block), "direct.range_after_free");
    observe_code(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, block),
                 "direct.pointer_attribute_after_free");
    cuMemAlloc(&again, 4 * MIB);
    observe_fact(again == block, "direct.address_recurs");
    observe_code(cuMemAlloc(&block, MIB), "direct.usable_after");
}

void observe_first_forms(void)
{
    CUresult (*alloc)(unsigned *, unsigned) =
        (CUresult(*)(unsigned *, unsigned))observe_symbol("cuMemAlloc");
    CUresult (*release)(unsigned) = (CUresult(*)(unsigned))observe_symbol("cuMemFree");
    CUresult (*info)(unsigned *, unsigned *) =
        (CUresult(*)(unsigned *, unsigned *))observe_symbol("cuMemGetInfo");
    CUresult (*total_of)(unsigned *, CUdevice) =
        (CUresult(*)(unsigned *, CUdevice))observe_symbol("cuDeviceTotalMem");
    CUresult (*pitch_of)(unsigned *, unsigned *, unsigned, unsigned, unsigned) = (CUresult(*)(
        unsigned *, unsigned *, unsigned, unsigned, unsigned))observe_symbol("cuMemAllocPitch");
    CUresult (*create)(CUcontext *, unsigned, CUdevice) =
        (CUresult(*)(CUcontext *, unsigned, CUdevice))observe_symbol("cuCtxCreate");
    CUresult (*destroy)(CUcontext) = (CUresult(*)(CUcontext))observe_symbol("cuCtxDestroy");
    unsigned block = 0x77, left = 0x77, total = 0x77, pitch = 0x77;
    CUcontext context = NULL;
    uint64_t before;
    observe_begin();
    before = observe_process_bytes();
    observe_fact(alloc && release && info && total_of && pitch_of && create && destroy,
                 "first_form.all_there");
    if (!alloc || !release || !info || !total_of || !pitch_of || !create || !destroy)
        return;
    observe_code(total_of(&total, 0), "first_form.device_total");
    observe_fact(total, "first_form.device_total_value");
    observe_code(info(&left, &total), "first_form.info");
    observe_fact(total, "first_form.info_total");
    observe_fact(left == 0x77, "first_form.info_free_untouched");
    observe_code(alloc(&block, 4 * MIB), "first_form.alloc");
    observe_fact(block == 0x77, "first_form.alloc_untouched");
    observe_size(observe_process_bytes() - before, "first_form.alloc");
    observe_code(release(block), "first_form.free");
    observe_size(observe_process_bytes() - before, "first_form.left");
    observe_code(pitch_of(&block, &pitch, 1000, 100, 4), "first_form.pitch");
    observe_fact(pitch, "first_form.pitch_value");
    observe_code(create(&context, 0, 0), "first_form.context_create");
    if (context)
        destroy(context);
}

void observe_managed(void)
{
    CUdeviceptr managed = 0, second = 0, third = 0;
    uint64_t process, card;
    observe_begin();
    process = observe_process_bytes();
    card = observe_card_bytes();
    observe_code(cuMemAllocManaged(&managed, 64 * MIB, CU_MEM_ATTACH_GLOBAL), "managed.alloc");
    observe_size(observe_card_bytes() - card, "managed.card_at_alloc");
    observe_code(cuMemsetD8(managed, 1, 64 * MIB), "managed.memset");
    cuCtxSynchronize();
    observe_size(observe_card_bytes() - card, "managed.card_after_touch");
    observe_size(observe_process_bytes() - process, "managed.process_after_touch");
    observe_code(cuMemAllocManaged(&second, 64 * MIB, CU_MEM_ATTACH_GLOBAL),
                 "managed.alloc_second");
    cuMemsetD8(second, 1, 64 * MIB);
    cuCtxSynchronize();
    observe_size(observe_card_bytes() - card, "managed.card_after_second");
    observe_code(cuMemFree(managed), "managed.free");
    observe_size(observe_card_bytes() - card, "managed.card_after_free");
    observe_code(cuMemFreeAsync(second, CU_STREAM_LEGACY), "managed.free_async");
    cuMemAllocManaged(&third, 256 * MIB, CU_MEM_ATTACH_GLOBAL);
    cuMemsetD8(third, 1, 256 * MIB);
    cuCtxSynchronize();
    observe_size(observe_card_bytes() - card, "managed.card_after_third");
    cuMemFree(third);
    cuMemFree(second);
    observe_size(observe_card_bytes() - card, "managed.card_at_last");
    observe_code(cuMemAllocManaged(NULL, MIB, CU_MEM_ATTACH_GLOBAL), "managed.null_output");
    observe_code(cuMemAllocManaged(&second, 0, CU_MEM_ATTACH_GLOBAL), "managed.zero");
    observe_code(cuMemAllocManaged(&second, MIB, 0), "managed.no_flags");
}
