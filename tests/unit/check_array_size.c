/* What arrays ask for. */
#include "resource/array_size.h"

#include "unit.h"

static uint64_t bytes_of(size_t width, size_t height, size_t depth, CUarray_format format,
                         unsigned int channels, unsigned int flags, unsigned int levels)
{
    const CUDA_ARRAY3D_DESCRIPTOR descriptor = {.Width = width,
                                                .Height = height,
                                                .Depth = depth,
                                                .Format = format,
                                                .NumChannels = channels,
                                                .Flags = flags};

    return gb_array_bytes(&descriptor, levels);
}

START_TEST(test_shapes)
{
    ck_assert_uint_eq(bytes_of(1000, 1000, 0, CU_AD_FORMAT_FLOAT, 4, 0, 0), 16000000);
    ck_assert_uint_eq(bytes_of(1000, 0, 0, CU_AD_FORMAT_UNSIGNED_INT8, 1, 0, 0), 1000);
    ck_assert_uint_eq(bytes_of(10, 20, 30, CU_AD_FORMAT_HALF, 2, 0, 0), 24000);
    ck_assert_uint_eq(bytes_of(64, 64, 6, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_CUBEMAP, 0),
                      98304);
    /* Levels halve all sizes, but for the number of layers. */
    ck_assert_uint_eq(bytes_of(8, 8, 8, CU_AD_FORMAT_UNSIGNED_INT8, 1, 0, 2), 512 + 64);
    ck_assert_uint_eq(bytes_of(8, 8, 8, CU_AD_FORMAT_UNSIGNED_INT8, 1, CUDA_ARRAY3D_LAYERED, 2),
                      512 + 128);
    ck_assert_uint_eq(bytes_of(4, 1, 0, CU_AD_FORMAT_UNSIGNED_INT8, 1, 0, 3), 4 + 2 + 1);
}
END_TEST

START_TEST(test_formats)
{
    ck_assert_uint_eq(bytes_of(64, 64, 0, CU_AD_FORMAT_BC1_UNORM, 4, 0, 0), 64 * 64 / 2);
    ck_assert_uint_eq(bytes_of(64, 64, 0, CU_AD_FORMAT_BC7_UNORM, 4, 0, 0), 64 * 64);
    ck_assert_uint_eq(bytes_of(64, 64, 0, CU_AD_FORMAT_NV12, 3, 0, 0), 64 * 64 * 3 / 2);
    ck_assert_uint_eq(bytes_of(64, 64, 0, CU_AD_FORMAT_UNORM_INT16X4, 4, 0, 0), 64 * 64 * 8);
    ck_assert_uint_eq(bytes_of(64, 64, 0, (CUarray_format)0x77, 4, 0, 0), 0);
    ck_assert_uint_eq(bytes_of(64, 64, 0, CU_AD_FORMAT_FLOAT, 5, 0, 0), 0);
    /* What is no array has no size, however large: the driver says what is wrong with it. */
    ck_assert_uint_eq(bytes_of(SIZE_MAX, 64, 0, (CUarray_format)0x77, 4, 0, 0), 0);
    ck_assert_uint_eq(bytes_of(SIZE_MAX, 64, 0, CU_AD_FORMAT_FLOAT, 0, 0, 0), 0);
    ck_assert_uint_eq(bytes_of(64, 64, 0, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_SPARSE, 0), 0);
    ck_assert_uint_eq(
        bytes_of(64, 64, 0, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_DEFERRED_MAPPING, 0), 0);
}
END_TEST

START_TEST(test_saturates)
{
    ck_assert_uint_eq(bytes_of(SIZE_MAX, SIZE_MAX, SIZE_MAX, CU_AD_FORMAT_FLOAT, 4, 0, 20),
                      UINT64_MAX);
    ck_assert_uint_gt(bytes_of(SIZE_MAX / 64, 1, 0, CU_AD_FORMAT_FLOAT, 4, 0, 0), 1);
}
END_TEST

START_TEST(test_most)
{
    CUDA_ARRAY3D_DESCRIPTOR descriptor = {.Width = 1000, .Height = 1000};

    ck_assert_uint_ge(gb_array_most(&descriptor, 16000000), 16 * MIB);
    descriptor.Height = 0;
    ck_assert_uint_ge(gb_array_most(&descriptor, 16000000), UINT64_C(8) * 16000000);
    ck_assert_uint_eq(gb_array_most(&descriptor, UINT64_MAX), UINT64_MAX);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_shapes, test_formats, test_saturates, test_most};

    return unit_run("array_size", tests, COUNT_OF(tests));
}
