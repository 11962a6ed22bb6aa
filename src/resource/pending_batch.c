/*
 * pending_batch.c: frees that one mark proves: how much they are, and of which pools.
 */
#include "resource/pending_parts.h"

#include "resource/resource.h"

static uint64_t smaller(uint64_t one, uint64_t other)
{
    return one < other ? one : other;
}

static uint64_t placed_bytes(uint64_t bytes)
{
    return gb_round_up(bytes, GB_POOL_BLOCK_STEP);
}

struct gb_pending_share *gb_batch_share_of(struct gb_pending_batch *batch,
                                           const struct gb_pool *pool)
{
    for (int i = 0; i < GB_PENDING_SHARES; i++)
        if (batch->shares[i].pool == pool)
            return &batch->shares[i];
    return NULL;
}

void gb_batch_add_share(struct gb_pending_batch *batch, struct gb_pool *pool, uint64_t bytes,
                        uint64_t piece, uint64_t from)
{
    struct gb_pending_share *share = pool ? gb_batch_share_of(batch, pool) : NULL;

    if (!pool || bytes == 0)
        return;
    for (int i = 0; i < GB_PENDING_SHARES && !share; i++)
        if (batch->shares[i].bytes == 0)
            share = &batch->shares[i];
    if (!share)
        return;
    if (share->pool != pool)
        *share = (struct gb_pending_share){.pool = pool};
    share->bytes += bytes;
    if (piece > share->piece) {
        share->piece = piece;
        share->from = from;
    }
}

void gb_batch_merge(struct gb_pending_batch *to, struct gb_pending_batch *from)
{
    struct gb_block **tail = &from->blocks;

    while (*tail)
        tail = &(*tail)->next;
    *tail = to->blocks;
    to->blocks = from->blocks;
    to->bytes += from->bytes;
    to->loose |= from->loose;
    for (int i = 0; i < GB_PENDING_SHARES; i++)
        gb_batch_add_share(to, from->shares[i].pool, from->shares[i].bytes,
                           from->shares[i].piece, from->shares[i].from);
    *from = (struct gb_pending_batch){.bytes = 0};
}

bool gb_batch_is_empty(const struct gb_pending_batch *batch)
{
    uint64_t shares = 0;

    for (int i = 0; i < GB_PENDING_SHARES; i++)
        shares += batch->shares[i].bytes;
    return batch->bytes == 0 && !batch->blocks && !batch->loose && shares == 0;
}

uint64_t gb_batch_take_share(struct gb_pending_batch *batch, const struct gb_pool *pool,
                             uint64_t most)
{
    struct gb_pending_share *share = pool ? gb_batch_share_of(batch, pool) : NULL;
    uint64_t taken;

    if (!share)
        return 0;
    if (share->from != 0) {
        /* The pool gives out its beginning. */
        taken = smaller(share->piece, placed_bytes(most));
        share->from += taken;
        share->piece -= taken;
        share->bytes -= taken;
        return smaller(taken, most);
    }
    taken = smaller(share->bytes, most);
    share->bytes -= taken;
    share->piece = smaller(share->piece, share->bytes);
    return taken;
}

uint64_t gb_batch_take(struct gb_pending_batch *batch, const struct gb_pool *pool,
                       uint64_t most)
{
    uint64_t taken = smaller(batch->bytes, most), left;

    batch->bytes -= taken;
    gb_batch_take_share(batch, pool, taken);
    left = batch->bytes;
    for (int i = 0; i < GB_PENDING_SHARES; i++) {
        struct gb_pending_share *share = &batch->shares[i];

        share->bytes = smaller(share->bytes, left);
        share->piece = smaller(share->piece, share->bytes);
        left -= share->bytes;
    }
    return taken;
}

void gb_batch_loosen(struct gb_pending_batch *batch)
{
    for (int i = 0; i < GB_PENDING_SHARES; i++) {
        batch->loose |= batch->shares[i].bytes > 0;
        batch->shares[i] = (struct gb_pending_share){.pool = NULL};
    }
}

struct gb_pending_batch *gb_pending_next_batch(struct gb_pending_stream *stream,
                                               const struct gb_pending_batch *after)
{
    unsigned place = stream->count;

    if (!after)
        return &stream->unmarked;
    if (after == &stream->unmarked)
        return &stream->marking;
    while (after != &stream->marking && place > 0 && &stream->marks[--place]->batch != after)
        ;
    return place > 0 ? &stream->marks[place - 1]->batch : NULL;
}

static bool lies_beside(const struct gb_pending_share *share,
                        const struct gb_pending_freed *freed)
{
    return share && share->piece > 0 && share->from != 0 &&
           (share->from + share->piece == freed->from ||
            freed->from + placed_bytes(freed->bytes) == share->from);
}

/* The batch with the piece beside the block, or NULL. */
static struct gb_pending_batch *neighbour_of(struct gb_pending_stream *stream,
                                             const struct gb_pending_freed *freed)
{
    struct gb_pending_batch *batch = NULL;

    while (freed->pool && freed->from != 0 && (batch = gb_pending_next_batch(stream, batch)))
        if (lies_beside(gb_batch_share_of(batch, freed->pool), freed))
            return batch;
    return NULL;
}

bool gb_pending_has_neighbour(struct gb_pending_stream *stream,
                              const struct gb_pending_freed *freed)
{
    return neighbour_of(stream, freed) != NULL;
}

bool gb_pending_add_piece(struct gb_pending_stream *stream,
                          const struct gb_pending_freed *freed)
{
    struct gb_pending_freed piece = *freed;
    struct gb_pending_batch *batch;
    bool had_mark = false;

    if (piece.pool && piece.from != 0)
        piece.bytes = placed_bytes(piece.bytes);
    /* One on either side. */
    for (int i = 0; i < 2 && (batch = neighbour_of(stream, &piece)); i++) {
        struct gb_pending_share *share = gb_batch_share_of(batch, piece.pool);

        piece.from = smaller(piece.from, share->from);
        piece.bytes += share->piece;
        share->bytes -= share->piece;
        share->piece = 0;
        share->from = 0;
        had_mark |= batch != &stream->unmarked;
    }
    gb_batch_add_share(&stream->unmarked, piece.pool, piece.bytes, piece.bytes, piece.from);
    return had_mark;
}

bool gb_pending_has_pieces(struct gb_pending_stream *stream, const struct gb_pool *pool)
{
    for (unsigned i = 0; i < stream->count; i++) {
        const struct gb_pending_share *share =
            gb_batch_share_of(&stream->marks[i]->batch, pool);

        if (share && share->piece > 0 && share->from != 0)
            return true;
    }
    return false;
}

bool gb_pending_take_piece(struct gb_pending_stream *stream, const struct gb_pool *pool,
                           uint64_t from, uint64_t bytes)
{
    struct gb_pending_batch *batch = NULL;

    while ((batch = gb_pending_next_batch(stream, batch))) {
        struct gb_pending_share *share = gb_batch_share_of(batch, pool);
        uint64_t before, after, taken;

        if (!share || share->from == 0 || from < share->from ||
            from - share->from >= share->piece)
            continue;
        before = from - share->from;
        taken = smaller(placed_bytes(bytes), share->piece - before);
        after = share->piece - before - taken;
        share->bytes -= taken;
        /* Of two rests the larger one is known. */
        share->from = after >= before ? from + taken : share->from;
        share->piece = after >= before ? after : before;
        return true;
    }
    return false;
}

uint64_t gb_batch_take_unplaced(struct gb_pending_batch *batch, const struct gb_pool *pool,
                                uint64_t most)
{
    struct gb_pending_share *share = gb_batch_share_of(batch, pool);
    uint64_t placed, taken;

    if (!share)
        return 0;
    placed = share->from != 0 ? share->piece : 0;
    taken = smaller(share->bytes - placed, most);
    share->bytes -= taken;
    share->piece = smaller(share->piece, share->bytes);
    return taken;
}

uint64_t gb_pending_of_pool(struct gb_pending_stream *stream, const struct gb_pool *pool)
{
    struct gb_pending_batch *batch = NULL;
    uint64_t bytes = 0;

    while ((batch = gb_pending_next_batch(stream, batch))) {
        const struct gb_pending_share *share = gb_batch_share_of(batch, pool);

        bytes += share ? share->bytes : 0;
    }
    return bytes;
}
