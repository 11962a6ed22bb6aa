/* Modules: an image in a context. Its variables cost memory from the load on, also with lazy
 * loading (measured with the default, which is lazy); its code when a function is loaded. */
#include "sim.h"

#include <stdio.h>

uint64_t sim_code_bytes;

/* As the manual has it: there is lazy loading since 11.7, and it is the default since 12.2. */
bool sim_lazy(void)
{
    const char *mode = getenv("CUDA_MODULE_LOADING");
    if (sim_driver_version < 11070)
        return false;
    if (mode && strcmp(mode, "EAGER") == 0)
        return false;
    if (mode && strcmp(mode, "LAZY") == 0)
        return true;
    return sim_driver_version >= 12020;
}

bool sim_card_take_pressing(struct sim_card *card, enum sim_use use, uint64_t bytes)
{
    return sim_card_take(card, use, bytes) ||
           (sim_pools_reclaim(card) && sim_card_take(card, use, bytes));
}

/* Code of all modules of a context lies together and comes in steps of the physical memory.
 * Small functions take nothing (measured): there is room in what a context has. How much room
 * that is, is not measured; here only functions that a test makes big take any. */
static CUresult code_grows(struct sim_context *context, uint64_t bytes)
{
    uint64_t held = sim_round_up(context->code_used + bytes, sim_settings.profile->big_round);
    if (held > context->code_held) {
        if (!sim_card_take_pressing(context->card, SIM_USE_MODULE, held - context->code_held))
            return CUDA_ERROR_OUT_OF_MEMORY;
        context->code_held = held;
    }
    context->code_used += bytes;
    return CUDA_SUCCESS;
}

static void code_shrinks(struct sim_context *context, uint64_t bytes)
{
    uint64_t held;
    context->code_used -= bytes;
    held = sim_round_up(context->code_used, sim_settings.profile->big_round);
    sim_card_give(context->card, SIM_USE_MODULE, context->code_held - held);
    context->code_held = held;
}

CUresult sim_function_load(struct sim_function *function)
{
    struct sim_context *context = function->module->context;
    CUresult code;
    if (function->loaded)
        return CUDA_SUCCESS;
    code = code_grows(context, sim_code_bytes);
    if (!code) {
        function->loaded = true;
        function->bytes = sim_code_bytes;
    }
    return code;
}

CUresult sim_managed_variables_new(struct sim_context *context, const struct sim_image *image,
                                   struct sim_context *owner,
                                   struct sim_managed_variable **list)
{
    for (const struct sim_variable *one = image->variables; one; one = one->next) {
        struct sim_managed_variable *managed;
        struct sim_block *block;
        CUresult code;
        if (!one->managed)
            continue;
        code = sim_managed_new(context->card, one->bytes, &block);
        if (code)
            return code;
        block->context = owner;
        managed = sim_new(sizeof(*managed));
        managed->variable = one;
        managed->range = block->range;
        managed->next = *list;
        *list = managed;
    }
    return CUDA_SUCCESS;
}

void sim_managed_variables_end(struct sim_managed_variable **list)
{
    while (*list) {
        struct sim_managed_variable *managed = *list;
        *list = managed->next;
        sim_managed_free(managed->range);
        free(managed);
    }
}

static void add_functions(struct sim_module *module)
{
    for (const struct sim_code *code = module->image->codes; code; code = code->next) {
        struct sim_function *function;
        if (!code->entry)
            continue;
        function = sim_new(sizeof(*function));
        function->code = code;
        function->module = module;
        function->shape[0] = function->shape[1] = function->shape[2] = 1;
        function->next = module->functions;
        module->functions = function;
        sim_object_add(function, SIM_FUNCTION);
    }
}

CUresult sim_module_new(struct sim_context *context, struct sim_image *image,
                        struct sim_library *library, struct sim_module **result)
{
    struct sim_module *module = sim_new(sizeof(*module));
    const uint64_t size = sim_round_up(image->bytes, sim_settings.profile->big_round);
    CUresult code = CUDA_SUCCESS;
    module->context = context;
    module->image = image;
    module->library = library;
    module->next = context->modules;
    context->modules = module;
    sim_object_add(module, SIM_MODULE);
    add_functions(module);
    if (size && !sim_card_take_pressing(context->card, SIM_USE_MODULE, size)) {
        code = CUDA_ERROR_OUT_OF_MEMORY;
    } else if (size) {
        module->block =
            sim_range_single(SIM_RANGE_MODULE, context->card, 0, size, image->bytes, false);
        module->block->context = context;
    }
    if (!code)
        code = sim_limit_calls(context, image->frames);
    if (!code && !library)
        code = sim_managed_variables_new(context, image, context, &module->managed);
    if (!code && !sim_lazy())
        for (struct sim_function *one = module->functions; one && !code; one = one->next)
            code = sim_function_load(one);
    if (code)
        sim_module_end(module);
    else
        *result = module;
    return code;
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
    sim_managed_variables_end(&module->managed);
    while (module->functions) {
        struct sim_function *function = module->functions;
        module->functions = function->next;
        if (function->loaded)
            code_shrinks(module->context, function->bytes);
        sim_object_remove(function);
        free(function);
    }
    sim_object_remove(module);
    sim_image_drop(module->image);
    free(module);
}

struct sim_function *sim_module_function(struct sim_module *module, const char *name)
{
    struct sim_function *function = module->functions;
    while (function && strcmp(function->code->name, name) != 0)
        function = function->next;
    return function;
}

CUresult sim_module_variable(struct sim_module *module, const char *name, CUdeviceptr *address,
                             size_t *bytes)
{
    const struct sim_variable *variable = sim_image_variable(module->image, name);
    const struct sim_managed_variable *managed = module->managed;
    CUdeviceptr base;
    if (!variable)
        return CUDA_ERROR_NOT_FOUND;
    if (variable->managed) {
        if (module->library)
            managed = module->library->managed;
        while (managed && managed->variable != variable)
            managed = managed->next;
        if (!managed)
            return CUDA_ERROR_NOT_FOUND;
        base = managed->range->base;
    } else {
        base = module->block->base + variable->offset;
    }
    if (address)
        *address = base;
    if (bytes)
        *bytes = variable->bytes;
    return CUDA_SUCCESS;
}

static CUresult load(CUmodule *result, const void *data)
{
    struct sim_context *context;
    struct sim_module *module;
    struct sim_image *image;
    CUresult code = sim_current(&context);
    if (code)
        return code;
    if (!result || !data)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_UNSAFE();
    code = sim_image_read(data, &image);
    if (code)
        return code;
    code = sim_module_new(context, image, NULL, &module);
    if (!code)
        *result = (CUmodule)(void *)module;
    return code;
}

void *sim_file_read(const char *name)
{
    FILE *file = fopen(name, "r");
    char *text = NULL;
    size_t room = 0;
    if (!file)
        return NULL;
    if (getdelim(&text, &room, 0, file) < 0) {
        free(text);
        text = NULL;
    }
    fclose(file);
    return text;
}

CUresult cuModuleLoad(CUmodule *module, const char *fname)
{
    SIM_ENTER(cuModuleLoad, W(module), W(fname));
    void *text;
    CUresult code;
    if (!module || !fname)
        return CUDA_ERROR_INVALID_VALUE;
    text = sim_file_read(fname);
    if (!text)
        return CUDA_ERROR_FILE_NOT_FOUND;
    code = load(module, text);
    free(text);
    return code;
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

CUresult cuModuleLoadFatBinary(CUmodule *module, const void *fatCubin)
{
    SIM_ENTER(cuModuleLoadFatBinary, W(module), W(fatCubin));
    return load(module, fatCubin);
}

/* Not of a module that a library made in a context. */
CUresult cuModuleUnload(CUmodule hmod)
{
    SIM_ENTER(cuModuleUnload, W(hmod));
    struct sim_module *module = sim_object_find(hmod, SIM_MODULE);
    if (!module)
        return CUDA_ERROR_INVALID_HANDLE;
    if (module->library)
        return CUDA_ERROR_NOT_PERMITTED;
    SIM_UNSAFE();
    sim_module_end(module);
    return CUDA_SUCCESS;
}

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)
{
    SIM_ENTER_ANY_TIME(cuModuleGetLoadingMode, W(mode));
    if (!mode)
        return CUDA_ERROR_INVALID_VALUE;
    *mode = sim_lazy() ? CU_MODULE_LAZY_LOADING : CU_MODULE_EAGER_LOADING;
    return CUDA_SUCCESS;
}
