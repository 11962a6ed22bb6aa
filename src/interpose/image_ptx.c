/*
 * image_ptx.c: the global variables and external functions that PTX text declares. Only the
 * declarations of the module are read, not the bodies of its functions.
 */
#include "interpose/image.h"

#include <string.h>

/* More is no size, but something misread. */
#define MOST_BYTES (UINT64_C(1) << 40)

struct text {
    const char *at, *end;
};

/* A name, number or directive; a quoted string; or one other character. Length 0: the end. */
struct word {
    const char *at;
    size_t length;
};

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           c == '_' || c == '$' || c == '.' || c == '%';
}

static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool starts(const struct text *text, const char *mark)
{
    size_t length = strlen(mark);

    return (size_t)(text->end - text->at) >= length && memcmp(text->at, mark, length) == 0;
}

static void skip_past(struct text *text, const char *mark)
{
    while (text->at < text->end && !starts(text, mark))
        text->at++;
    if (text->at < text->end)
        text->at += strlen(mark);
}

static struct word next(struct text *text)
{
    struct word word;

    for (;;) {
        while (text->at < text->end && is_blank(*text->at))
            text->at++;
        if (starts(text, "//"))
            skip_past(text, "\n");
        else if (starts(text, "/*"))
            skip_past(text, "*/");
        else
            break;
    }
    word.at = text->at;
    if (text->at < text->end && *text->at == '"') {
        text->at++;
        skip_past(text, "\"");
    } else if (text->at < text->end && !is_word(*text->at)) {
        text->at++;
    } else {
        while (text->at < text->end && is_word(*text->at))
            text->at++;
    }
    word.length = (size_t)(text->at - word.at);
    return word;
}

static bool is(const struct word *word, const char *what)
{
    return word->length == strlen(what) && memcmp(word->at, what, word->length) == 0;
}

static uint64_t number(const struct word *word)
{
    unsigned base = 10;
    uint64_t value = 0;

    for (size_t i = 0; i < word->length; i++) {
        char c = word->at[i];
        unsigned digit = 16;

        if (c >= '0' && c <= '9')
            digit = (unsigned)(c - '0');
        else if ((c | 32) >= 'a' && (c | 32) <= 'f')
            digit = (unsigned)((c | 32) - 'a') + 10;
        else if (i == 1 && (c | 32) == 'x' && word->at[0] == '0') {
            base = 16;
            continue;
        }
        if (i == 0 && digit == 0 && word->length > 1)
            base = 8;
        if (digit >= base || value > MOST_BYTES)
            break; /* a suffix, as in 16U */
        value = value * base + digit;
    }
    return value;
}

/* Bytes of an element, from the number in a type such as .b8, .f64 or .bf16x2; 0: no type. */
static uint64_t type_bytes(const struct word *word)
{
    uint64_t bits = 0;
    size_t i = 1;

    if (word->length < 3 || word->at[0] != '.' || word->at[1] == 'v')
        return 0;
    while (i < word->length && (word->at[i] < '0' || word->at[i] > '9'))
        i++;
    if (i > 3)
        return 0;
    for (; i < word->length && word->at[i] >= '0' && word->at[i] <= '9' && bits < 1024; i++)
        bits = bits * 10 + (uint64_t)(word->at[i] - '0');
    if (i < word->length && word->at[i] == 'x')
        bits *= 2;
    return bits / 8;
}

/* What stands after "=": how many elements. The word that ends it is given back. */
static uint64_t initializer(struct text *text, struct word *word)
{
    uint64_t elements = 1;
    int depth = 0;

    for (*word = next(text); word->length > 0; *word = next(text)) {
        if (is(word, "{")) {
            depth++;
        } else if (is(word, "}")) {
            depth--;
        } else if (is(word, ",")) {
            if (depth == 0)
                break;
            elements++;
        } else if (is(word, ";")) {
            break;
        }
    }
    return elements;
}

static uint64_t product(uint64_t a, uint64_t b)
{
    return b > 0 && a > MOST_BYTES / b ? MOST_BYTES : a * b;
}

static uint64_t sum(uint64_t a, uint64_t b)
{
    return a + b < MOST_BYTES ? a + b : MOST_BYTES;
}

/* After .global, up to the semicolon: bytes of what is declared. */
static void declaration(struct gb_image *what, struct text *text)
{
    uint64_t element = 0, vector = 1, count = 1, total = 0;
    bool managed = false, unsized = false;
    struct word word = next(text);

    while (word.length > 0) {
        if (is(&word, ".align")) {
            next(text);
        } else if (is(&word, ".managed")) {
            managed = true;
        } else if (is(&word, ".v2") || is(&word, ".v4") || is(&word, ".v8")) {
            vector = (uint64_t)(word.at[2] - '0');
        } else if (element == 0 && type_bytes(&word) > 0) {
            element = type_bytes(&word);
        } else if (is(&word, "[")) {
            word = next(text);
            if (is(&word, "]"))
                unsized = true;
            else
                count = product(count, number(&word));
        } else if (is(&word, "=")) {
            uint64_t elements = initializer(text, &word);

            if (unsized)
                count = product(count, elements);
            continue;
        } else if (is(&word, ",") || is(&word, ";")) {
            total = sum(total, product(product(element, vector), count));
            if (is(&word, ";") || total >= MOST_BYTES)
                break;
            count = 1;
            unsized = false;
        }
        word = next(text);
    }
    if (managed)
        what->managed = sum(what->managed, total);
    else
        what->variables = sum(what->variables, total);
}

struct gb_image gb_image_read_ptx(const char *text, size_t length)
{
    struct gb_image what = {0};
    struct text rest = {text, text + length};
    struct word word = next(&rest);
    bool external = false;
    int depth = 0;

    if (!is(&word, ".version"))
        return what;
    for (word = next(&rest); word.length > 0 && *word.at != '\0'; word = next(&rest)) {
        if (is(&word, "{"))
            depth++;
        else if (is(&word, "}"))
            depth--;
        if (is(&word, ";") || is(&word, "}"))
            external = false;
        if (depth > 0)
            continue;
        if (is(&word, ".extern"))
            external = true;
        else if (external)
            gb_image_calls(&what, word.at, word.length);
        else if (is(&word, ".global"))
            declaration(&what, &rest);
    }
    return what;
}
