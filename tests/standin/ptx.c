/* What a PTX text says about sizes: the .global variables of a module, the .local ones of its
 * functions, and which of these call malloc or print. Nothing else of it matters here. */
#include "sim.h"

#include <ctype.h>
#include <stdio.h>

/* Measured on an H200: code that calls these brings 62, 90, 138 and 138 MiB for all its threads
 * together, the most of several. */
static uint64_t frames_of(const char *called)
{
    static const struct {
        const char *name;
        uint64_t bytes;
    } functions[] = {{"vprintf", 240}, {"__assertfail", 346}, {"malloc", 530}, {"free", 530}};
    for (unsigned i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
        if (strcmp(called, functions[i].name) == 0)
            return functions[i].bytes;
    return 0;
}

static bool of_word(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '.' || c == '%';
}

static const char *word(const char *text, char *out)
{
    size_t length = 0;
    while (isspace((unsigned char)*text))
        text++;
    for (; of_word(*text); text++)
        if (length + 1 < SIM_NAME_BYTES)
            out[length++] = *text;
    out[length] = '\0';
    return text;
}

/* Behind a comment or a quoted name; where there is none, the same place. */
static const char *skip(const char *text)
{
    const char *end = NULL;
    if (strncmp(text, "//", 2) == 0)
        return text + strcspn(text, "\n");
    if (strncmp(text, "/*", 2) == 0)
        end = strstr(text + 2, "*/");
    else if (*text == '"')
        end = strchr(text + 1, '"');
    else
        return text;
    return end ? end + (*text == '"' ? 1 : 2) : text + strlen(text);
}

static unsigned type_bytes(const char *type)
{
    unsigned bits = 0;
    if (type[0] == '.' && strchr("bsuf", type[1]) && isdigit((unsigned char)type[2]))
        sscanf(type + 2, "%u", &bits);
    return bits / 8;
}

/* Behind ".global" or ".local": attributes, a type, a name, perhaps dimensions. Fills in the
 * name (empty: none was found), the bytes, whether it is managed. */
static const char *declaration(const char *text, struct sim_variable *found)
{
    char token[SIM_NAME_BYTES];
    unsigned element = 0;
    uint64_t count = 1;
    memset(found, 0, sizeof(*found));
    for (;;) {
        text = word(text, token);
        if (token[0] != '.')
            break;
        if (strcmp(token, ".align") == 0) {
            text = word(text, token);
            found->align = (unsigned)strtoul(token, NULL, 10);
        } else if (strcmp(token, ".attribute") == 0) {
            const char *end = strchr(text, ')'), *managed = strstr(text, ".managed");
            if (!end)
                return text;
            found->managed = managed && managed < end;
            text = end + 1;
        } else if (type_bytes(token)) {
            element = type_bytes(token);
        }
    }
    if (!token[0] || !element)
        return text;
    for (; *text == '['; text++) {
        unsigned long long dimension = 0;
        sscanf(text + 1, "%llu", &dimension);
        count *= dimension;
        text += strcspn(text, "]");
        if (!*text)
            break;
    }
    memcpy(found->name, token, sizeof(found->name));
    found->element = element;
    found->bytes = element * count;
    return text;
}

static void add_variable(struct sim_image *image, const struct sim_variable *found)
{
    struct sim_variable *variable = sim_new(sizeof(*variable));
    *variable = *found;
    if (!variable->managed) {
        variable->offset = sim_round_up(image->bytes, 256);
        image->bytes = variable->offset + variable->bytes;
    }
    variable->next = image->variables;
    image->variables = variable;
}

static struct sim_code *code_named(const struct sim_image *image, const char *name)
{
    struct sim_code *code = image->codes;
    while (code && strcmp(code->name, name) != 0)
        code = code->next;
    return code;
}

/* From the brace on. The frames of functions that it names lie on top of its own; only those
 * that stand before it in the text are known. */
static const char *body(struct sim_image *image, struct sim_code *code, const char *text)
{
    uint64_t called = 0;
    int depth = 0;
    while (*text) {
        const char *after = skip(text);
        char token[SIM_NAME_BYTES];
        const struct sim_code *other;
        struct sim_variable local;
        if (after != text) {
            text = after;
            continue;
        }
        if (!of_word(*text)) {
            depth += (*text == '{') - (*text == '}');
            text++;
            if (depth == 0)
                break;
            continue;
        }
        text = word(text, token);
        /* Local memory is a thread's own: nothing of it can be volatile. */
        image->wrong = image->wrong || strstr(token, ".volatile.local");
        if (strcmp(token, ".local") == 0) {
            text = declaration(text, &local);
            code->local = sim_round_up(code->local + local.bytes, 8);
            continue;
        }
        code->allocates =
            code->allocates || strcmp(token, "malloc") == 0 || strcmp(token, "free") == 0;
        code->prints = code->prints || strcmp(token, "vprintf") == 0;
        if (frames_of(token) > code->frames)
            code->frames = frames_of(token);
        other = code_named(image, token);
        if (!other || other->entry || other == code)
            continue;
        called = other->local > called ? other->local : called;
        code->allocates = code->allocates || other->allocates;
        code->prints = code->prints || other->prints;
        code->frames = other->frames > code->frames ? other->frames : code->frames;
    }
    code->local += called;
    return text;
}

/* What stands between the brackets behind a function's name. An array lies as it says, anything
 * else by its own size: there .align is about what a pointer points to. */
static void parameters(struct sim_code *code, const char *text, const char *end)
{
    uint64_t at = 0;
    while (text < end) {
        const char *after = skip(text);
        char token[SIM_NAME_BYTES];
        struct sim_variable found;
        uint64_t align;
        if (after != text || !of_word(*text)) {
            text = after != text ? after : text + 1;
            continue;
        }
        text = word(text, token);
        if (strcmp(token, ".param") != 0)
            continue;
        text = declaration(text, &found);
        if (!found.name[0] || code->parameter_count == SIM_PARAMETERS)
            continue;
        align = found.bytes > found.element && found.align ? found.align : found.element;
        at = sim_round_up(at, align);
        code->parameters[code->parameter_count].offset = (unsigned)at;
        code->parameters[code->parameter_count++].bytes = (unsigned)found.bytes;
        at += found.bytes;
    }
}

/* Behind ".entry" or ".func": perhaps what it returns, a name, parameters, a body or none. */
static const char *function(struct sim_image *image, const char *text, bool entry)
{
    char name[SIM_NAME_BYTES];
    struct sim_code *code;
    const char *given;
    while (isspace((unsigned char)*text))
        text++;
    if (*text == '(')
        text += strcspn(text, ")") + (strchr(text, ')') != NULL);
    text = word(text, name);
    given = text;
    text += strcspn(text, "{;");
    if (!name[0] || *text != '{')
        return text;
    code = sim_new(sizeof(*code));
    parameters(code, given, text);
    memcpy(code->name, name, sizeof(name));
    code->entry = entry;
    text = body(image, code, text);
    code->next = image->codes;
    image->codes = code;
    image->frames = code->frames > image->frames ? code->frames : image->frames;
    return text;
}

static bool read_text(struct sim_image *image, const char *text)
{
    bool version = false, external = false;
    while (*text) {
        const char *after = skip(text);
        char token[SIM_NAME_BYTES];
        struct sim_variable found;
        if (after != text) {
            text = after;
            continue;
        }
        if (!of_word(*text)) {
            external = external && *text != ';';
            text++;
            continue;
        }
        text = word(text, token);
        if (strcmp(token, ".version") == 0) {
            version = true;
        } else if (strcmp(token, ".extern") == 0) {
            external = true;
        } else if (strcmp(token, ".global") == 0) {
            text = declaration(text, &found);
            if (found.name[0] && !external)
                add_variable(image, &found);
        } else if (strcmp(token, ".entry") == 0 || strcmp(token, ".func") == 0) {
            text = function(image, text, strcmp(token, ".entry") == 0);
        } else if (!version) {
            return false; /* whatever it is; it need not end anywhere */
        }
    }
    return version;
}

/* A fat binary is a frame around what it holds; here that is a text like any other. */
struct frame {
    unsigned magic, version;
    const void *content;
};
#define FRAME_MAGIC 0x466243b1u

CUresult sim_image_read(const void *data, struct sim_image **result)
{
    struct sim_image *image = sim_new(sizeof(*image));
    unsigned magic = 0;
    for (size_t i = 0; i < sizeof(magic) && ((const unsigned char *)data)[i]; i++)
        magic |= (unsigned)((const unsigned char *)data)[i] << 8 * i;
    if (magic == FRAME_MAGIC)
        data = ((const struct frame *)data)->content;
    image->references = 1;
    if (!data || !read_text(image, data)) {
        sim_image_drop(image);
        return CUDA_ERROR_INVALID_IMAGE;
    }
    if (image->wrong) {
        sim_image_drop(image);
        return CUDA_ERROR_INVALID_PTX;
    }
    *result = image;
    return CUDA_SUCCESS;
}

void sim_image_drop(struct sim_image *image)
{
    if (--image->references)
        return;
    while (image->variables) {
        struct sim_variable *variable = image->variables;
        image->variables = variable->next;
        free(variable);
    }
    while (image->codes) {
        struct sim_code *code = image->codes;
        image->codes = code->next;
        free(code);
    }
    free(image);
}

const struct sim_variable *sim_image_variable(const struct sim_image *image, const char *name)
{
    const struct sim_variable *variable = image->variables;
    while (variable && strcmp(variable->name, name) != 0)
        variable = variable->next;
    return variable;
}
