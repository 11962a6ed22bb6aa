/* The linker: gives back the PTX texts it was given, one after the other, as what a module can
 * be made of. It takes no memory of the card. */
#include "sim.h"

struct sim_link {
    struct sim_object object;
    char *text;
    size_t length;
};

static CUresult create(CUlinkState *stateOut)
{
    struct sim_link *link;
    if (!stateOut)
        return CUDA_ERROR_INVALID_VALUE;
    link = sim_new(sizeof(*link));
    sim_object_add(link, SIM_LINK);
    *stateOut = (CUlinkState)(void *)link;
    return CUDA_SUCCESS;
}

CUresult cuLinkCreate(unsigned int numOptions, CUjit_option *options, void **optionValues,
                      CUlinkState *stateOut)
{
    SIM_ENTER(cuLinkCreate, W(numOptions), W(options), W(optionValues), W(stateOut));
    return create(stateOut);
}

CUresult cuLinkCreate_v2(unsigned int numOptions, CUjit_option *options, void **optionValues,
                         CUlinkState *stateOut)
{
    SIM_ENTER(cuLinkCreate_v2, W(numOptions), W(options), W(optionValues), W(stateOut));
    return create(stateOut);
}

static CUresult add(CUlinkState state, const char *data, size_t size)
{
    struct sim_link *link = sim_object_find(state, SIM_LINK);
    char *text;
    if (!link)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!data || !size)
        return CUDA_ERROR_INVALID_VALUE;
    size = strnlen(data, size);
    text = sim_new(link->length + size + 2);
    if (link->text)
        memcpy(text, link->text, link->length);
    memcpy(text + link->length, data, size);
    text[link->length + size] = '\n';
    free(link->text);
    link->text = text;
    link->length += size + 1;
    return CUDA_SUCCESS;
}

CUresult cuLinkAddData(CUlinkState state, CUjitInputType type, void *data, size_t size,
                       const char *name, unsigned int numOptions, CUjit_option *options,
                       void **optionValues)
{
    SIM_ENTER(cuLinkAddData, W(state), W(type), W(data), W(size), W(name), W(numOptions),
              W(options), W(optionValues));
    return add(state, data, size);
}

CUresult cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void *data, size_t size,
                          const char *name, unsigned int numOptions, CUjit_option *options,
                          void **optionValues)
{
    SIM_ENTER(cuLinkAddData_v2, W(state), W(type), W(data), W(size), W(name), W(numOptions),
              W(options), W(optionValues));
    return add(state, data, size);
}

static CUresult add_file(CUlinkState state, const char *path)
{
    char *text = path ? sim_file_read(path) : NULL;
    CUresult code = path ? CUDA_ERROR_FILE_NOT_FOUND : CUDA_ERROR_INVALID_VALUE;
    if (text)
        code = add(state, text, strlen(text));
    free(text);
    return code;
}

CUresult cuLinkAddFile(CUlinkState state, CUjitInputType type, const char *path,
                       unsigned int numOptions, CUjit_option *options, void **optionValues)
{
    SIM_ENTER(cuLinkAddFile, W(state), W(type), W(path), W(numOptions), W(options),
              W(optionValues));
    return add_file(state, path);
}

CUresult cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char *path,
                          unsigned int numOptions, CUjit_option *options, void **optionValues)
{
    SIM_ENTER(cuLinkAddFile_v2, W(state), W(type), W(path), W(numOptions), W(options),
              W(optionValues));
    return add_file(state, path);
}

/* What it gives belongs to the linker and goes with it. */
CUresult cuLinkComplete(CUlinkState state, void **cubinOut, size_t *sizeOut)
{
    SIM_ENTER(cuLinkComplete, W(state), W(cubinOut), W(sizeOut));
    struct sim_link *link = sim_object_find(state, SIM_LINK);
    if (!link)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!cubinOut)
        return CUDA_ERROR_INVALID_VALUE;
    if (!link->text)
        return CUDA_ERROR_INVALID_IMAGE;
    *cubinOut = link->text;
    if (sizeOut)
        *sizeOut = link->length + 1;
    return CUDA_SUCCESS;
}

CUresult cuLinkDestroy(CUlinkState state)
{
    SIM_ENTER(cuLinkDestroy, W(state));
    struct sim_link *link = sim_object_find(state, SIM_LINK);
    if (!link)
        return CUDA_ERROR_INVALID_HANDLE;
    sim_object_remove(link);
    free(link->text);
    free(link);
    return CUDA_SUCCESS;
}
