/* What an array of a format and a size takes. Elements lie in tiles of rows: a row of the
 * layout is a multiple of `array_row` bytes and the rows come in blocks, which are lower in
 * small arrays. That is how the hardware's tiled layouts are known to be, and it agrees with
 * all the shapes that were measured. */
#include "array.h"

static bool plain(CUarray_format format, unsigned *bytes)
{
    switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
        *bytes = 1;
        return true;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
        *bytes = 2;
        return true;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
        *bytes = 4;
        return true;
    default:
        return false;
    }
}

/* Formats whose name says the channels, with all of them in one block. `channels`: a digit each
 * of what NumChannels may be; "" where the header does not say. */
static const struct {
    CUarray_format format;
    const char *channels;
    unsigned bytes, square;
} packed[] = {
    {CU_AD_FORMAT_UNORM_INT8X1, "1", 1, 1},  {CU_AD_FORMAT_UNORM_INT8X2, "2", 2, 1},
    {CU_AD_FORMAT_UNORM_INT8X4, "4", 4, 1},  {CU_AD_FORMAT_UNORM_INT16X1, "1", 2, 1},
    {CU_AD_FORMAT_UNORM_INT16X2, "2", 4, 1}, {CU_AD_FORMAT_UNORM_INT16X4, "4", 8, 1},
    {CU_AD_FORMAT_SNORM_INT8X1, "1", 1, 1},  {CU_AD_FORMAT_SNORM_INT8X2, "2", 2, 1},
    {CU_AD_FORMAT_SNORM_INT8X4, "4", 4, 1},  {CU_AD_FORMAT_SNORM_INT16X1, "1", 2, 1},
    {CU_AD_FORMAT_SNORM_INT16X2, "2", 4, 1}, {CU_AD_FORMAT_SNORM_INT16X4, "4", 8, 1},
    {CU_AD_FORMAT_BC1_UNORM, "4", 8, 4},     {CU_AD_FORMAT_BC1_UNORM_SRGB, "4", 8, 4},
    {CU_AD_FORMAT_BC2_UNORM, "4", 16, 4},    {CU_AD_FORMAT_BC2_UNORM_SRGB, "4", 16, 4},
    {CU_AD_FORMAT_BC3_UNORM, "4", 16, 4},    {CU_AD_FORMAT_BC3_UNORM_SRGB, "4", 16, 4},
    {CU_AD_FORMAT_BC4_UNORM, "1", 8, 4},     {CU_AD_FORMAT_BC4_SNORM, "1", 8, 4},
    {CU_AD_FORMAT_BC5_UNORM, "2", 16, 4},    {CU_AD_FORMAT_BC5_SNORM, "2", 16, 4},
    {CU_AD_FORMAT_BC6H_UF16, "34", 16, 4},   {CU_AD_FORMAT_BC6H_SF16, "34", 16, 4},
    {CU_AD_FORMAT_BC7_UNORM, "4", 16, 4},    {CU_AD_FORMAT_BC7_UNORM_SRGB, "4", 16, 4},
    {CU_AD_FORMAT_Y210, "2", 4, 1},          {CU_AD_FORMAT_Y216, "2", 4, 1},
    {CU_AD_FORMAT_AYUV, "4", 4, 1},          {CU_AD_FORMAT_Y410, "", 4, 1},
    {CU_AD_FORMAT_Y416, "4", 8, 1},          {CU_AD_FORMAT_UNORM_INT_101010_2, "4", 4, 1},
};

/* Of these the ones for video, like those with planes, are refused without the flag that says
 * so, and made with it (measured of Y416; YUY2 is refused in either case, the others were not
 * asked). */
static bool of_video(const CUDA_ARRAY3D_DESCRIPTOR *desc)
{
    switch (desc->Format) {
    case CU_AD_FORMAT_Y210:
    case CU_AD_FORMAT_Y216:
    case CU_AD_FORMAT_AYUV:
    case CU_AD_FORMAT_Y410:
    case CU_AD_FORMAT_Y416:
        return true;
    default:
        return false;
    }
}

static bool for_video(const CUDA_ARRAY3D_DESCRIPTOR *desc)
{
    return desc->Flags & CUDA_ARRAY3D_VIDEO_ENCODE_DECODE;
}

/* Formats with a plane of luminance and one or two of colour, which may be smaller. */
static const struct {
    CUarray_format format;
    unsigned bytes, planes, narrow, low;
} planar[] = {
    {CU_AD_FORMAT_NV12, 1, 2, 2, 2},
    {CU_AD_FORMAT_P010, 2, 2, 2, 2},
    {CU_AD_FORMAT_P016, 2, 2, 2, 2},
    {CU_AD_FORMAT_NV16, 1, 2, 2, 1},
    {CU_AD_FORMAT_P210, 2, 2, 2, 1},
    {CU_AD_FORMAT_P216, 2, 2, 2, 1},
    {CU_AD_FORMAT_Y444_PLANAR8, 1, 3, 1, 1},
    {CU_AD_FORMAT_Y444_PLANAR10, 2, 3, 1, 1},
    {CU_AD_FORMAT_YUV444_8bit_SemiPlanar, 1, 2, 1, 1},
    {CU_AD_FORMAT_YUV444_16bit_SemiPlanar, 2, 2, 1, 1},
};

static bool find_packed(const CUDA_ARRAY3D_DESCRIPTOR *desc, struct sim_format *format)
{
    for (size_t i = 0; i < sizeof(packed) / sizeof(packed[0]); i++) {
        const char *wanted = packed[i].channels;
        if (packed[i].format != desc->Format)
            continue;
        if (*wanted ? !strchr(wanted, '0' + (int)desc->NumChannels) : !desc->NumChannels)
            return false;
        if (of_video(desc) && !for_video(desc))
            return false;
        format->bytes = packed[i].bytes;
        format->square = packed[i].square;
        return true;
    }
    return false;
}

/* Three channels, the header says of some; of the others it says nothing. Smaller colour planes
 * need even sizes. */
static bool find_planar(const CUDA_ARRAY3D_DESCRIPTOR *desc, struct sim_format *format)
{
    for (size_t i = 0; i < sizeof(planar) / sizeof(planar[0]); i++) {
        if (planar[i].format != desc->Format)
            continue;
        if (desc->NumChannels != 3 || !desc->Height || desc->Depth || !for_video(desc) ||
            desc->Width % planar[i].narrow || desc->Height % planar[i].low)
            return false;
        format->square = 1;
        format->planes = planar[i].planes;
        for (unsigned p = 0; p < planar[i].planes; p++) {
            format->plane[p].format =
                planar[i].bytes == 1 ? CU_AD_FORMAT_UNSIGNED_INT8 : CU_AD_FORMAT_UNSIGNED_INT16;
            format->plane[p].channels = p && planar[i].planes == 2 ? 2 : 1;
            format->plane[p].bytes = planar[i].bytes * format->plane[p].channels;
            format->plane[p].narrow = p ? planar[i].narrow : 1;
            format->plane[p].low = p ? planar[i].low : 1;
        }
        return true;
    }
    return false;
}

bool sim_format_find(const CUDA_ARRAY3D_DESCRIPTOR *desc, struct sim_format *format)
{
    unsigned bytes;
    memset(format, 0, sizeof(*format));
    if (plain(desc->Format, &bytes)) {
        if (desc->NumChannels != 1 && desc->NumChannels != 2 && desc->NumChannels != 4)
            return false;
        format->bytes = bytes * desc->NumChannels;
        format->square = 1;
        return true;
    }
    if (desc->NumChannels > 4)
        return false;
    return find_packed(desc, format) || find_planar(desc, format);
}

static bool layered(const CUDA_ARRAY3D_DESCRIPTOR *desc)
{
    return desc->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP);
}

unsigned sim_array_layers(const CUDA_ARRAY3D_DESCRIPTOR *desc)
{
    return layered(desc) && desc->Depth ? (unsigned)desc->Depth : 1;
}

static size_t halved(size_t size, unsigned level)
{
    return !size ? 0 : size >> level ? size >> level : 1;
}

void sim_array_level(const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned level,
                     CUDA_ARRAY3D_DESCRIPTOR *result)
{
    *result = *desc;
    result->Width = halved(desc->Width, level);
    result->Height = halved(desc->Height, level);
    if (!layered(desc))
        result->Depth = halved(desc->Depth, level);
}

static uint64_t surface(uint64_t width, uint64_t height, uint64_t depth, unsigned bytes,
                        unsigned square)
{
    const struct sim_profile *profile = sim_settings.profile;
    uint64_t row = sim_round_up((width + square - 1) / square * bytes, profile->array_row);
    uint64_t rows = height ? (height + square - 1) / square : 1;
    uint64_t block = profile->array_rows;
    /* The blocks of solids are lower and deeper. Those of 16 rows and 4 layers agree with the
     * one odd size that was measured; so would 8 rows and 8 layers. */
    if (depth)
        return row * sim_round_up(rows, 16) * sim_round_up(depth, 4);
    while (block < rows && block < profile->array_block)
        block *= 2;
    return row * sim_round_up(rows, block);
}

uint64_t sim_array_bytes(const CUDA_ARRAY3D_DESCRIPTOR *desc, const struct sim_format *format,
                         unsigned from_level, unsigned levels, bool all_layers)
{
    uint64_t bytes = 0;
    for (unsigned level = from_level; level < levels; level++) {
        CUDA_ARRAY3D_DESCRIPTOR at;
        sim_array_level(desc, level, &at);
        if (layered(desc))
            at.Depth = 0;
        if (!format->planes)
            bytes += surface(at.Width, at.Height, at.Depth, format->bytes, format->square);
        for (unsigned p = 0; p < format->planes; p++)
            bytes += surface(at.Width / format->plane[p].narrow,
                             at.Height / format->plane[p].low, 0, format->plane[p].bytes, 1);
    }
    return all_layers ? bytes * sim_array_layers(desc) : bytes;
}

/* ---- what the card can do ---- */

#define MAXIMUM(name) CU_DEVICE_ATTRIBUTE_MAXIMUM_##name
static const struct {
    CUdevice_attribute which;
    int value;
} maxima[] = {
    {MAXIMUM(TEXTURE1D_WIDTH), 131072},
    {MAXIMUM(TEXTURE2D_WIDTH), 131072},
    {MAXIMUM(TEXTURE2D_HEIGHT), 65536},
    {MAXIMUM(TEXTURE3D_WIDTH), 16384},
    {MAXIMUM(TEXTURE3D_HEIGHT), 16384},
    {MAXIMUM(TEXTURE3D_DEPTH), 16384},
    {MAXIMUM(TEXTURE1D_LAYERED_WIDTH), 32768},
    {MAXIMUM(TEXTURE1D_LAYERED_LAYERS), 2048},
    {MAXIMUM(TEXTURE2D_LAYERED_WIDTH), 32768},
    {MAXIMUM(TEXTURE2D_LAYERED_HEIGHT), 32768},
    {MAXIMUM(TEXTURE2D_LAYERED_LAYERS), 2048},
    {MAXIMUM(TEXTURE2D_GATHER_WIDTH), 32768},
    {MAXIMUM(TEXTURE2D_GATHER_HEIGHT), 32768},
    {MAXIMUM(TEXTURECUBEMAP_WIDTH), 32768},
    {MAXIMUM(TEXTURECUBEMAP_LAYERED_WIDTH), 32768},
    {MAXIMUM(TEXTURECUBEMAP_LAYERED_LAYERS), 2046},
    {MAXIMUM(SURFACE1D_WIDTH), 32768},
    {MAXIMUM(SURFACE2D_WIDTH), 131072},
    {MAXIMUM(SURFACE2D_HEIGHT), 65536},
    {MAXIMUM(SURFACE3D_WIDTH), 16384},
    {MAXIMUM(SURFACE3D_HEIGHT), 16384},
    {MAXIMUM(SURFACE3D_DEPTH), 16384},
    {MAXIMUM(SURFACE1D_LAYERED_WIDTH), 32768},
    {MAXIMUM(SURFACE1D_LAYERED_LAYERS), 2048},
    {MAXIMUM(SURFACE2D_LAYERED_WIDTH), 32768},
    {MAXIMUM(SURFACE2D_LAYERED_HEIGHT), 32768},
    {MAXIMUM(SURFACE2D_LAYERED_LAYERS), 2048},
    {MAXIMUM(SURFACECUBEMAP_WIDTH), 32768},
    {MAXIMUM(SURFACECUBEMAP_LAYERED_WIDTH), 32768},
    {MAXIMUM(SURFACECUBEMAP_LAYERED_LAYERS), 2046},
    {MAXIMUM(TEXTURE2D_MIPMAPPED_WIDTH), 32768},
    {MAXIMUM(TEXTURE2D_MIPMAPPED_HEIGHT), 32768},
    {MAXIMUM(TEXTURE1D_MIPMAPPED_WIDTH), 32768},
    {CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED, 1},
};

bool sim_array_attribute(CUdevice_attribute which, int *value)
{
    for (size_t i = 0; i < sizeof(maxima) / sizeof(maxima[0]); i++)
        if (maxima[i].which == which) {
            *value = maxima[i].value;
            return true;
        }
    return false;
}

static bool within(const CUDA_ARRAY3D_DESCRIPTOR *desc, CUdevice_attribute width,
                   CUdevice_attribute height, CUdevice_attribute depth)
{
    const CUdevice_attribute which[3] = {width, height, depth};
    const size_t have[3] = {desc->Width, desc->Height, desc->Depth};
    for (int i = 0; i < 3; i++) {
        int most = 0;
        if (which[i] && sim_array_attribute(which[i], &most) && have[i] > (size_t)most)
            return false;
    }
    return true;
}

#define NOTHING ((CUdevice_attribute)0)
/* The limits of a shape for textures and, if the array is to be one, for surfaces. */
#define BOTH(shape, width, height, depth)                                                      \
    (within(desc, MAXIMUM(TEXTURE##shape##_##width), height(TEXTURE##shape),                   \
            depth(TEXTURE##shape)) &&                                                          \
     (!surface_too || within(desc, MAXIMUM(SURFACE##shape##_##width), height(SURFACE##shape),  \
                             depth(SURFACE##shape))))
#define NONE(shape)   NOTHING
#define HEIGHT(shape) MAXIMUM(shape##_HEIGHT)
#define DEPTH(shape)  MAXIMUM(shape##_DEPTH)
#define LAYERS(shape) MAXIMUM(shape##_LAYERS)

static bool layered_within(const CUDA_ARRAY3D_DESCRIPTOR *desc, bool surface_too)
{
    if (desc->Flags & CUDA_ARRAY3D_CUBEMAP) {
        if (desc->Width != desc->Height || !desc->Depth || desc->Depth % 6)
            return false;
        if (!(desc->Flags & CUDA_ARRAY3D_LAYERED))
            return desc->Depth == 6 && BOTH(CUBEMAP, WIDTH, NONE, NONE);
        return BOTH(CUBEMAP_LAYERED, WIDTH, NONE, LAYERS);
    }
    if (!desc->Depth)
        return false;
    if (!desc->Height)
        return BOTH(1D_LAYERED, WIDTH, NONE, LAYERS);
    return BOTH(2D_LAYERED, WIDTH, HEIGHT, LAYERS);
}

static bool size_within(const CUDA_ARRAY3D_DESCRIPTOR *desc, bool mipmapped)
{
    bool surface_too = desc->Flags & CUDA_ARRAY3D_SURFACE_LDST;
    if (layered(desc))
        return layered_within(desc, surface_too);
    if (desc->Depth)
        return desc->Height && BOTH(3D, WIDTH, HEIGHT, DEPTH);
    if (!desc->Height)
        return BOTH(1D, WIDTH, NONE, NONE) &&
               (!mipmapped || within(desc, MAXIMUM(TEXTURE1D_MIPMAPPED_WIDTH), 0, 0));
    return BOTH(2D, WIDTH, HEIGHT, NONE) &&
           (!mipmapped || within(desc, MAXIMUM(TEXTURE2D_MIPMAPPED_WIDTH),
                                 MAXIMUM(TEXTURE2D_MIPMAPPED_HEIGHT), NOTHING));
}

bool sim_array_allowed(const CUDA_ARRAY3D_DESCRIPTOR *desc, bool mipmapped)
{
    const unsigned known = CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_SURFACE_LDST |
                           CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_TEXTURE_GATHER |
                           CUDA_ARRAY3D_DEPTH_TEXTURE | CUDA_ARRAY3D_COLOR_ATTACHMENT |
                           CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING |
                           CUDA_ARRAY3D_VIDEO_ENCODE_DECODE;
    const unsigned late = CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING;
    if (!desc->Width || desc->Flags & ~known || (desc->Flags & late) == late)
        return false;
    /* Gathers work on 2D arrays. Late memory is for 2D, 2D layered and 3D ones. */
    if (desc->Flags & CUDA_ARRAY3D_TEXTURE_GATHER &&
        (!desc->Height || desc->Depth ||
         !within(desc, MAXIMUM(TEXTURE2D_GATHER_WIDTH), MAXIMUM(TEXTURE2D_GATHER_HEIGHT),
                 NOTHING)))
        return false;
    if (desc->Flags & late && !desc->Height)
        return false;
    return size_within(desc, mipmapped);
}
