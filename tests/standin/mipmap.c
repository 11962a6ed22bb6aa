/* Mipmapped arrays. All their levels are one piece of memory. */
#include "array.h"

CUresult cuMipmappedArrayCreate(CUmipmappedArray *pHandle,
                                const CUDA_ARRAY3D_DESCRIPTOR *pMipmappedArrayDesc,
                                unsigned int numMipmapLevels)
{
    SIM_ENTER(cuMipmappedArrayCreate, W(pHandle), W(pMipmappedArrayDesc), W(numMipmapLevels));
    SIM_NOTE(pMipmappedArrayDesc, sizeof(*pMipmappedArrayDesc));
    SIM_CURRENT(context);
    const CUDA_ARRAY3D_DESCRIPTOR *desc = pMipmappedArrayDesc;
    struct sim_array *array;
    unsigned most = 1;
    size_t longest;
    CUresult code;
    (void)context;
    if (!pHandle || !desc)
        return CUDA_ERROR_INVALID_VALUE;
    longest = desc->Width > desc->Height ? desc->Width : desc->Height;
    if (!(desc->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)) && desc->Depth > longest)
        longest = desc->Depth;
    while (most < SIM_LEVELS && longest >> most)
        most++;
    if (numMipmapLevels > most)
        numMipmapLevels = most;
    code = sim_array_create(SIM_MIPMAP, desc, numMipmapLevels ? numMipmapLevels : 1, &array);
    if (!code)
        *pHandle = (CUmipmappedArray)(void *)array;
    return code;
}

CUresult cuMipmappedArrayGetLevel(CUarray *pLevelArray, CUmipmappedArray hMipmappedArray,
                                  unsigned int level)
{
    SIM_ENTER(cuMipmappedArrayGetLevel, W(pLevelArray), W(hMipmappedArray), W(level));
    SIM_CURRENT(context);
    CUresult code;
    struct sim_array *array = sim_array_find(hMipmappedArray, SIM_MIPMAP, &code);
    CUDA_ARRAY3D_DESCRIPTOR desc;
    (void)context;
    if (!pLevelArray)
        return CUDA_ERROR_INVALID_VALUE;
    if (!array)
        return code;
    if (level >= array->levels)
        return CUDA_ERROR_INVALID_VALUE;
    sim_array_level(&array->desc, level, &desc);
    *pLevelArray = (CUarray)(void *)sim_array_part(array, level, &desc);
    return CUDA_SUCCESS;
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray hMipmappedArray)
{
    SIM_ENTER(cuMipmappedArrayDestroy, W(hMipmappedArray));
    return sim_array_destroy(hMipmappedArray, SIM_MIPMAP);
}
