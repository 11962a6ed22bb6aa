/*
 * inherited.h: memory of others that is imported here, when its exporter has ended; and memory
 * of ours that only an import has hold of here, when the last descriptor of it is closed.
 *
 * The card's tools show memory for its oldest holder (measured): while the exporter lives for
 * that one, afterwards for the importer, whose figure rises by as much at a moment that no call
 * tells. It must not count as `other`, since imports are never charged; and what the process
 * has really taken must not pass for it. The card tells them apart: what is really taken is
 * lost to it, what is inherited is not. So of a rise between two looks that nothing disturbed,
 * what the card has not lost meanwhile is inherited, up to the size of what is imported here
 * and was not shown yet. A neighbour that gives back meanwhile hides as much, up to that size;
 * one that takes meanwhile makes an inheritance pass for a rise, until the import ends.
 */
#ifndef GB_RESOURCE_INHERITED_H
#define GB_RESOURCE_INHERITED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct gb_backend;

/* All but the atomic ones with the lock of `other`. As of the last look that nothing disturbed:
 */
struct gb_inherited {
    bool known;
    uint64_t least; /* what was untracked */
    uint64_t level; /* of the card, and whose figure it was (other.h) */
    unsigned source;
    _Atomic uint64_t bytes;  /* of backend->imported: found by a look, not by a call */
    _Atomic uint64_t ours;   /* of imported and imported_unseen: charged here, too */
    _Atomic unsigned taking; /* calls in progress that may take what nothing tracks */
};

/*
 * A look that nothing disturbed has found so much untracked, at the level that stands in
 * `other`: answers how much of it is inherited now, moved from backend->imported_unseen to
 * backend->imported. has_level: there is one.
 */
uint64_t gb_inherited_found(struct gb_backend *backend, uint64_t least, bool has_level);

/* An import comes whose size is known, of which nothing is shown for this process yet ... */
void gb_inherited_import(struct gb_backend *backend, uint64_t bytes);

/*
 * ... and ends. Whether it was that which was inherited is not known: so it is taken to have
 * been. Where it was not, the next look finds the others again.
 */
void gb_inherited_import_ends(struct gb_backend *backend, uint64_t bytes);

#endif
