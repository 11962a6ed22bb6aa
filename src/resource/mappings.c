/*
 * mappings.c: where physical memory is mapped.
 */
#include "resource/mappings.h"

#include <stdbool.h>
#include <stddef.h>

static bool is_before(const struct gb_mapping *mapping, const struct gb_driver_api *api,
                      uint64_t address)
{
    if (mapping->api != api)
        return (uintptr_t)mapping->api < (uintptr_t)api;
    return mapping->address < address;
}

/* Addresses come in steps; these multiplications make priorities of them that look random. */
static uint32_t priority_of(uint64_t address)
{
    uint64_t mixed = (address ^ (address >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);

    mixed = (mixed ^ (mixed >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)(mixed >> 32);
}

/* *before gets what begins before the address, *rest all else. */
static void split(struct gb_mapping *tree, const struct gb_driver_api *api, uint64_t address,
                  struct gb_mapping **before, struct gb_mapping **rest)
{
    while (tree) {
        if (is_before(tree, api, address)) {
            *before = tree;
            before = &tree->right;
            tree = tree->right;
        } else {
            *rest = tree;
            rest = &tree->left;
            tree = tree->left;
        }
    }
    *before = *rest = NULL;
}

/* Everything in first comes before everything in second. */
static struct gb_mapping *join(struct gb_mapping *first, struct gb_mapping *second)
{
    struct gb_mapping *tree;
    struct gb_mapping **at = &tree;

    while (first && second) {
        if (first->priority > second->priority) {
            *at = first;
            at = &first->right;
            first = first->right;
        } else {
            *at = second;
            at = &second->left;
            second = second->left;
        }
    }
    *at = first ? first : second;
    return tree;
}

struct gb_mapping *gb_mappings_from(const struct gb_mappings *mappings,
                                    const struct gb_driver_api *api, uint64_t address)
{
    struct gb_mapping *node = mappings->root;
    struct gb_mapping *last = NULL;   /* the last that begins before the address */
    struct gb_mapping *behind = NULL; /* the first that does not */

    while (node) {
        if (is_before(node, api, address)) {
            last = node;
            node = node->right;
        } else {
            behind = node;
            node = node->left;
        }
    }
    if (last && last->api == api && gb_range_end(last->address, last->size) > address)
        return last;
    return behind && behind->api == api ? behind : NULL;
}

struct gb_mapping *gb_mappings_take(struct gb_mappings *mappings,
                                    const struct gb_driver_api *api, uint64_t address,
                                    uint64_t size)
{
    struct gb_mapping *before, *inside, *behind;
    struct gb_mapping *taken = NULL;

    split(mappings->root, api, address, &before, &inside);
    split(inside, api, gb_range_end(address, size), &inside, &behind);
    mappings->root = join(before, behind);
    while (inside) {
        struct gb_mapping *left = inside->left;

        if (left) { /* rotated until there is none */
            inside->left = left->right;
            left->right = inside;
            inside = left;
        } else {
            struct gb_mapping *right = inside->right;

            inside->right = NULL;
            inside->next = taken;
            taken = inside;
            inside = right;
        }
    }
    return taken;
}

struct gb_mapping *gb_mappings_add(struct gb_mappings *mappings, struct gb_mapping *mapping)
{
    uint64_t end = gb_range_end(mapping->address, mapping->size);
    struct gb_mapping *overlapped = NULL;
    struct gb_mapping *old, *before, *behind;

    while ((old = gb_mappings_from(mappings, mapping->api, mapping->address)) != NULL &&
           old->address < end) {
        old = gb_mappings_take(mappings, old->api, old->address, 1);
        old->next = overlapped;
        overlapped = old;
    }
    mapping->priority = priority_of(mapping->address);
    mapping->left = mapping->right = mapping->next = NULL;
    split(mappings->root, mapping->api, mapping->address, &before, &behind);
    mappings->root = join(join(before, mapping), behind);
    return overlapped;
}
