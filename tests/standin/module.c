/* Modules from PTX text: the .global sizes are read from it and cost memory; kernels have a
 * name and do nothing. */
#include "sim.h"

#include <ctype.h>
#include <stdio.h>

struct sim_global {
    struct sim_global *next;
    char name[128];
    uint64_t offset, bytes;
};

struct sim_function {
    struct sim_object object;
    struct sim_function *next;
    struct sim_module *module;
    char name[128];
};

static const char *word(const char *text, char *out, size_t size)
{
    size_t length = 0;
    while (isspace((unsigned char)*text))
        text++;
    while (isalnum((unsigned char)*text) || *text == '_' || *text == '$' || *text == '.' ||
           *text == '%') {
        if (length + 1 < size)
            out[length++] = *text;
        text++;
    }
    out[length] = '\0';
    return text;
}

static unsigned type_bytes(const char *type)
{
    unsigned bits = 0;
    if (type[0] == '.' && strchr("bsuf", type[1]) && isdigit((unsigned char)type[2]))
        sscanf(type + 2, "%u", &bits);
    return bits / 8;
}

/* After ".global": attributes, a type, a name, perhaps dimensions. */
static const char *read_global(struct sim_module *module, const char *text)
{
    char token[128];
    unsigned element = 0;
    uint64_t count = 1;
    struct sim_global *global;
    for (;;) {
        text = word(text, token, sizeof(token));
        if (token[0] != '.')
            break;
        if (strcmp(token, ".align") == 0 || strcmp(token, ".attribute") == 0)
            text = word(text, token, sizeof(token));
        else if (type_bytes(token))
            element = type_bytes(token);
    }
    if (!token[0] || !element)
        return text;
    for (; *text == '['; text++) {
        unsigned long long dimension = 0;
        sscanf(text + 1, "%llu", &dimension);
        count *= dimension;
        while (*text && *text != ']')
            text++;
        if (!*text)
            break;
    }
    global = sim_new(sizeof(*global));
    snprintf(global->name, sizeof(global->name), "%s", token);
    global->bytes = element * count;
    global->offset = sim_round_up(module->bytes, 256);
    module->bytes = global->offset + global->bytes;
    global->next = module->globals;
    module->globals = global;
    return text;
}

static void read_entry(struct sim_module *module, const char *text)
{
    struct sim_function *function = sim_new(sizeof(*function));
    word(text, function->name, sizeof(function->name));
    function->module = module;
    function->next = module->functions;
    module->functions = function;
    sim_object_add(function, SIM_FUNCTION);
}

static bool read_ptx(struct sim_module *module, const char *text)
{
    bool version = false;
    for (; *text; text++) {
        if (strncmp(text, "//", 2) == 0) {
            text += strcspn(text, "\n");
            if (!*text)
                break;
        } else if (strncmp(text, ".version", 8) == 0) {
            version = true;
        } else if (strncmp(text, ".global", 7) == 0 && isspace((unsigned char)text[7])) {
            text = read_global(module, text + 7) - 1;
        } else if (strncmp(text, ".entry", 6) == 0 && isspace((unsigned char)text[6])) {
            read_entry(module, text + 6);
        } else if (*text == '{' && version) {
            /* A body; its braces nest. */
            int depth = 1;
            while (depth && *++text)
                depth += (*text == '{') - (*text == '}');
            if (!*text)
                break;
        }
    }
    return version;
}

static void module_free(struct sim_module *module)
{
    while (module->globals) {
        struct sim_global *global = module->globals;
        module->globals = global->next;
        free(global);
    }
    while (module->functions) {
        struct sim_function *function = module->functions;
        module->functions = function->next;
        sim_object_remove(function);
        free(function);
    }
    free(module);
}

static CUresult load(CUmodule *result, const void *image)
{
    struct sim_context *context;
    struct sim_module *module;
    CUresult code = sim_current(&context);
    uint64_t size;
    if (code)
        return code;
    if (!result || !image)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_UNSAFE();
    module = sim_new(sizeof(*module));
    module->context = context;
    if (!read_ptx(module, image)) {
        module_free(module);
        return CUDA_ERROR_INVALID_IMAGE;
    }
    size = sim_round_up(module->bytes, sim_settings.profile->big_round);
    if (size) {
        if (!sim_card_take(context->card, SIM_USE_MODULE, size)) {
            module_free(module);
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
        module->block =
            sim_range_single(SIM_RANGE_MODULE, context->card, 0, size, module->bytes, false);
        module->block->context = context;
    }
    module->next = context->modules;
    context->modules = module;
    sim_object_add(module, SIM_MODULE);
    *result = (CUmodule)(void *)module;
    return CUDA_SUCCESS;
}

void sim_module_end(struct sim_module *module)
{
    struct sim_module **at = &module->context->modules;
    while (*at != module)
        at = &(*at)->next;
    *at = module->next;
    if (module->block) {
        sim_card_give(module->context->card, SIM_USE_MODULE, module->block->size);
        sim_range_drop(module->block->range);
    }
    sim_object_remove(module);
    module_free(module);
}

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    SIM_ENTER(cuModuleLoadData, W(module), W(image));
    return load(module, image);
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int numOptions,
                            CUjit_option *options, void **optionValues)
{
    SIM_ENTER(cuModuleLoadDataEx, W(module), W(image), W(numOptions), W(options),
              W(optionValues));
    return load(module, image);
}

CUresult cuModuleUnload(CUmodule hmod)
{
    SIM_ENTER(cuModuleUnload, W(hmod));
    struct sim_module *module = sim_object_find(hmod, SIM_MODULE);
    if (!module)
        return CUDA_ERROR_INVALID_HANDLE;
    SIM_UNSAFE();
    sim_module_end(module);
    return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *hfunc, CUmodule hmod, const char *name)
{
    SIM_ENTER(cuModuleGetFunction, W(hfunc), W(hmod), W(name));
    struct sim_module *module = sim_object_find(hmod, SIM_MODULE);
    if (!hfunc || !name)
        return CUDA_ERROR_INVALID_VALUE;
    if (!module)
        return CUDA_ERROR_INVALID_HANDLE;
    for (struct sim_function *one = module->functions; one; one = one->next)
        if (strcmp(one->name, name) == 0) {
            *hfunc = (CUfunction)(void *)one;
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_NOT_FOUND;
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr *dptr, size_t *bytes, CUmodule hmod, const char *name)
{
    SIM_ENTER(cuModuleGetGlobal_v2, W(dptr), W(bytes), W(hmod), W(name));
    struct sim_module *module = sim_object_find(hmod, SIM_MODULE);
    if (!name || (!dptr && !bytes))
        return CUDA_ERROR_INVALID_VALUE;
    if (!module)
        return CUDA_ERROR_INVALID_HANDLE;
    for (struct sim_global *one = module->globals; one; one = one->next)
        if (strcmp(one->name, name) == 0) {
            if (dptr)
                *dptr = module->block->base + one->offset;
            if (bytes)
                *bytes = one->bytes;
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_NOT_FOUND;
}

CUresult cuFuncGetAttribute(int *pi, CUfunction_attribute attrib, CUfunction hfunc)
{
    SIM_ENTER(cuFuncGetAttribute, W(pi), W(attrib), W(hfunc));
    if (!pi || attrib >= CU_FUNC_ATTRIBUTE_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_object_find(hfunc, SIM_FUNCTION))
        return CUDA_ERROR_INVALID_HANDLE;
    *pi = attrib == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? 1024
          : attrib == CU_FUNC_ATTRIBUTE_NUM_REGS            ? 16
                                                            : 0;
    return CUDA_SUCCESS;
}

CUresult cuFuncGetModule(CUmodule *hmod, CUfunction hfunc)
{
    SIM_ENTER(cuFuncGetModule, W(hmod), W(hfunc));
    struct sim_function *function = sim_object_find(hfunc, SIM_FUNCTION);
    if (!hmod)
        return CUDA_ERROR_INVALID_VALUE;
    if (!function)
        return CUDA_ERROR_INVALID_HANDLE;
    *hmod = (CUmodule)(void *)function->module;
    return CUDA_SUCCESS;
}
