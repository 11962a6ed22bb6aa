/*
 * text.h: comparing names where no libc function may be called.
 *
 * A sanitizer's runtime looks up libc's functions with dlsym while its own versions of them,
 * strcmp among them, cannot run yet. What our dlsym does for a name that is not ours therefore
 * calls nothing of libc's.
 */
#ifndef GB_INTERPOSE_TEXT_H
#define GB_INTERPOSE_TEXT_H

#include <stdbool.h>

static inline bool gb_text_equal(const char *a, const char *b)
{
    while (*a != '\0' && *a == *b) {
        a++;
        b++;
    }
    return *a == *b;
}

#endif
