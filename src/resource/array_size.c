/*
 * array_size.c: how many bytes an array asks for.
 */
#include "resource/array_size.h"

#include "resource/resource.h"

/* Arrays of few rows are padded to whole blocks of them (the block is not measured). */
#define FEW_ROWS 16

static unsigned plain_bits(CUarray_format format)
{
    switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
        return 8;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
        return 16;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
        return 32;
    default:
        return 0;
    }
}

/* Formats that stand for all their channels, or planes, together: bits of one element. */
static const struct {
    CUarray_format format;
    unsigned bits;
} whole[] = {
    {CU_AD_FORMAT_UNORM_INT8X1, 8},
    {CU_AD_FORMAT_UNORM_INT8X2, 16},
    {CU_AD_FORMAT_UNORM_INT8X4, 32},
    {CU_AD_FORMAT_UNORM_INT16X1, 16},
    {CU_AD_FORMAT_UNORM_INT16X2, 32},
    {CU_AD_FORMAT_UNORM_INT16X4, 64},
    {CU_AD_FORMAT_SNORM_INT8X1, 8},
    {CU_AD_FORMAT_SNORM_INT8X2, 16},
    {CU_AD_FORMAT_SNORM_INT8X4, 32},
    {CU_AD_FORMAT_SNORM_INT16X1, 16},
    {CU_AD_FORMAT_SNORM_INT16X2, 32},
    {CU_AD_FORMAT_SNORM_INT16X4, 64},
    /* 8 or 16 bytes for a block of 4 x 4 */
    {CU_AD_FORMAT_BC1_UNORM, 4},
    {CU_AD_FORMAT_BC1_UNORM_SRGB, 4},
    {CU_AD_FORMAT_BC2_UNORM, 8},
    {CU_AD_FORMAT_BC2_UNORM_SRGB, 8},
    {CU_AD_FORMAT_BC3_UNORM, 8},
    {CU_AD_FORMAT_BC3_UNORM_SRGB, 8},
    {CU_AD_FORMAT_BC4_UNORM, 4},
    {CU_AD_FORMAT_BC4_SNORM, 4},
    {CU_AD_FORMAT_BC5_UNORM, 8},
    {CU_AD_FORMAT_BC5_SNORM, 8},
    {CU_AD_FORMAT_BC6H_UF16, 8},
    {CU_AD_FORMAT_BC6H_SF16, 8},
    {CU_AD_FORMAT_BC7_UNORM, 8},
    {CU_AD_FORMAT_BC7_UNORM_SRGB, 8},
    {CU_AD_FORMAT_UNORM_INT_101010_2, 32},
    {CU_AD_FORMAT_YUY2, 16},
    {CU_AD_FORMAT_Y210, 32},
    {CU_AD_FORMAT_Y216, 32},
    {CU_AD_FORMAT_AYUV, 32},
    {CU_AD_FORMAT_Y410, 32},
    {CU_AD_FORMAT_Y416, 64},
    /* planes of colour with half the width and height (4:2:0), or half the width (4:2:2) */
    {CU_AD_FORMAT_NV12, 12},
    {CU_AD_FORMAT_P010, 24},
    {CU_AD_FORMAT_P016, 24},
    {CU_AD_FORMAT_NV16, 16},
    {CU_AD_FORMAT_P210, 32},
    {CU_AD_FORMAT_P216, 32},
    {CU_AD_FORMAT_Y444_PLANAR8, 24},
    {CU_AD_FORMAT_Y444_PLANAR10, 48},
    {CU_AD_FORMAT_YUV444_8bit_SemiPlanar, 24},
    {CU_AD_FORMAT_YUV444_16bit_SemiPlanar, 48},
};

static unsigned bits_of(const CUDA_ARRAY3D_DESCRIPTOR *descriptor)
{
    for (size_t i = 0; i < sizeof(whole) / sizeof(whole[0]); i++)
        if (whole[i].format == descriptor->Format)
            return whole[i].bits;
    if (descriptor->NumChannels > 4)
        return 0;
    return plain_bits(descriptor->Format) * descriptor->NumChannels;
}

static uint64_t times(uint64_t a, uint64_t b)
{
    return b > 0 && a > UINT64_MAX / b ? UINT64_MAX : a * b;
}

static uint64_t at_least_one(uint64_t count)
{
    return count > 0 ? count : 1;
}

uint64_t gb_array_bytes(const CUDA_ARRAY3D_DESCRIPTOR *descriptor, unsigned int levels)
{
    uint64_t width = descriptor->Width, height = at_least_one(descriptor->Height);
    uint64_t depth = at_least_one(descriptor->Depth);
    const unsigned layers = CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP;
    const unsigned bits = bits_of(descriptor);
    uint64_t elements = 0;

    /* Without bits it is no array, however large: the driver says what is wrong. */
    if (bits == 0 || descriptor->Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING))
        return 0;
    for (unsigned int level = 0; level == 0 || (level < levels && level < 64); level++) {
        elements = gb_add_saturated(elements, times(times(width, height), depth));
        width = at_least_one(width / 2);
        height = at_least_one(height / 2);
        if (!(descriptor->Flags & layers))
            depth = at_least_one(depth / 2);
    }
    if (elements > UINT64_MAX / 64)
        return UINT64_MAX;
    return elements * bits / 8;
}

uint64_t gb_array_most(const CUDA_ARRAY3D_DESCRIPTOR *descriptor, uint64_t bytes)
{
    return gb_add_saturated(times(bytes, descriptor->Height < FEW_ROWS ? FEW_ROWS : 2),
                            UINT64_C(4) << 20);
}
