/* The part of sim.h about code: images, modules, libraries, launches, and what they take of the
 * card. Included by it alone. */
#ifndef STANDIN_SIM_MODULE_H
#define STANDIN_SIM_MODULE_H

/* ---- images: what a PTX text says (ptx.c) ---- */

#define SIM_NAME_BYTES 128

struct sim_variable { /* .global */
    struct sim_variable *next;
    char name[SIM_NAME_BYTES];
    unsigned element, align;
    uint64_t offset, bytes; /* the offset is nothing for a managed one */
    bool managed;
};

enum { SIM_PARAMETERS = 64 };

struct sim_code { /* .entry or .func */
    struct sim_code *next;
    char name[SIM_NAME_BYTES];
    bool entry;
    uint64_t local;         /* bytes of local memory of each thread, with those it calls */
    bool allocates, prints; /* calls malloc or free, vprintf of the device */
    uint64_t frames;        /* what these functions and __assertfail need, bytes a thread */
    unsigned parameter_count;
    struct {
        unsigned offset, bytes;
    } parameters[SIM_PARAMETERS];
};

/* Shared by the modules that were made of it. */
struct sim_image {
    unsigned references;
    struct sim_variable *variables;
    struct sim_code *codes;
    uint64_t bytes;  /* of the variables that are not managed */
    bool wrong;      /* no assembler takes it */
    uint64_t frames; /* the most that a function of it has */
};

CUresult sim_image_read(const void *data, struct sim_image **result);
void sim_image_drop(struct sim_image *image);
const struct sim_variable *sim_image_variable(const struct sim_image *image, const char *name);

/* ---- modules: an image in a context (module.c) ---- */

struct sim_function {
    struct sim_object object;
    struct sim_function *next;
    struct sim_module *module;
    const struct sim_code *code;
    unsigned shape[3], shared_bytes; /* for launches of the first form */
    bool loaded;
    uint64_t bytes; /* loaded: of code on the card */
};

struct sim_managed_variable { /* of a module, or of a library for all its contexts */
    struct sim_managed_variable *next;
    const struct sim_variable *variable;
    struct sim_range *range;
};

struct sim_module {
    struct sim_object object;
    struct sim_context *context;
    struct sim_module *next; /* of its context */
    struct sim_image *image;
    struct sim_library *library; /* NULL: loaded by itself */
    struct sim_block *block;     /* its variables; NULL: none */
    struct sim_managed_variable *managed;
    struct sim_function *functions;
};

/* Uses up one reference of the image, also where it fails. */
CUresult sim_module_new(struct sim_context *context, struct sim_image *image,
                        struct sim_library *library, struct sim_module **module);
void sim_module_end(struct sim_module *module);
struct sim_function *sim_module_function(struct sim_module *module, const char *name);
CUresult sim_module_variable(struct sim_module *module, const char *name, CUdeviceptr *address,
                             size_t *bytes);
bool sim_lazy(void);                                       /* code comes when it is needed */
CUresult sim_function_load(struct sim_function *function); /* its code */
CUresult sim_code_parameter(const struct sim_code *code, size_t index, size_t *offset,
                            size_t *bytes);
CUresult sim_code_attribute(const struct sim_code *code, CUfunction_attribute which,
                            int *value);
extern uint64_t sim_code_bytes; /* of each function; 0: it fits into what the context has */
CUresult sim_managed_variables_new(struct sim_context *context, const struct sim_image *image,
                                   struct sim_context *owner,
                                   struct sim_managed_variable **list);
void sim_managed_variables_end(struct sim_managed_variable **list);
void *sim_file_read(const char *name); /* NULL: no such file; the caller frees it */

/* ---- libraries: an image in every context that needs it (library.c) ---- */

struct sim_kernel {
    struct sim_object object;
    struct sim_kernel *next;
    struct sim_library *library;
    const struct sim_code *code;
};

struct sim_library {
    struct sim_object object;
    struct sim_library *next;
    struct sim_image *image;
    struct sim_kernel *kernels;
    struct sim_managed_variable *managed;
};

/* The library's module in a context, loaded now if it is not yet. */
CUresult sim_library_in(struct sim_library *library, struct sim_context *context,
                        struct sim_module **module);
CUresult sim_libraries_start(struct sim_context *context); /* eager ones, in a new context */
/* The function of a kernel in a context, loaded; or a CUfunction as it is. */
CUresult sim_function_find(const void *handle, struct sim_context *context,
                           struct sim_function **function);

/* ---- what launches and limits take (local.c, limit.c) ---- */

/* Takes of the card; idle memory of pools goes where that makes room. */
bool sim_card_take_pressing(struct sim_card *card, enum sim_use use, uint64_t bytes);
/* Room for `bytes` of local memory for every thread that the card can run. */
CUresult sim_local_need(struct sim_context *context, uint64_t bytes);
CUresult sim_local_limit(struct sim_context *context, uint64_t bytes); /* grows or shrinks */
void sim_limits_start(struct sim_context *context);
void sim_limits_end(struct sim_context *context);
uint64_t sim_local_of(uint64_t bytes); /* so much for each thread that can run at once */
/* Code that calls functions of the driver is loaded. */
CUresult sim_limit_calls(struct sim_context *context, uint64_t frames);
/* Such a kernel is launched. */
CUresult sim_limit_launch(struct sim_context *context, bool allocates, bool prints);

/* ---- green contexts (green.c) ---- */

struct sim_green {
    struct sim_object object;
    struct sim_context *handle; /* what cuCtxFromGreenCtx gives; stands for the primary one */
    struct sim_card *card;
    unsigned multiprocessors;
    uint64_t id;
    bool ended;
};

void sim_green_memory_end(struct sim_context *primary);
struct sim_green *sim_current_green(void); /* NULL: an ordinary context is current */
/* Of a primary context, counted like the calls of that name. */
CUresult sim_primary_retain(struct sim_card *card, struct sim_context **context);
CUresult sim_primary_release(struct sim_card *card);

#endif
