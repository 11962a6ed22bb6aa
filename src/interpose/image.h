/*
 * image.h: what code asks the driver for when it comes to a context, read from its image.
 */
#ifndef GB_INTERPOSE_IMAGE_H
#define GB_INTERPOSE_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gb_image {
    uint64_t variables; /* bytes of its global variables, */
    uint64_t managed;   /* and of those in managed memory */
    uint64_t
        frames;    /* local memory for functions of the driver that it calls, bytes a thread */
    bool has_heap; /* it calls the device's malloc or free */
};

/*
 * Reads an image, before the driver has judged it: PTX text, a cubin, a fat binary or its
 * wrapper. What cannot be read (a compressed entry, a form not known here) counts for nothing.
 * Of a fat binary the entry with the most counts: which one the driver takes is its own choice.
 */
struct gb_image gb_image_read(const void *image);

/* The same of a file. */
struct gb_image gb_image_read_file(const char *path);

/* It calls that function, which it does not define. */
void gb_image_calls(struct gb_image *image, const char *name, size_t length);

/* PTX text of that length (image_ptx.c). */
struct gb_image gb_image_read_ptx(const char *text, size_t length);

#endif
