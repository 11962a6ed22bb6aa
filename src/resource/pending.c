/*
 * pending.c: bytes freed in stream order; pending_ends.c has how their frees are proven.
 */
#include "resource/pending.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "resource/capture.h"
#include "resource/marks.h"
#include "resource/nap.h"
#include "resource/pending_parts.h"
#include "resource/thread.h"

void gb_pending_init(struct gb_pending *pending, bool gauged,
                     struct gpubudget_accounting *ledger, gb_settle_block_fn settle_block,
                     void *owner)
{
    *pending = (struct gb_pending){.gauged = gauged,
                                   .ledger = ledger,
                                   .settle_block = settle_block,
                                   .owner = owner,
                                   .left = UINT64_MAX};
    gb_lock_init(&pending->lock);
}

void gb_pending_pause(int turn)
{
    if (turn < BUSY_TURNS)
        sched_yield();
    else
        gb_nap(50000);
}

static void free_blocks(struct gb_block *block)
{
    while (block) {
        struct gb_block *next = block->next;

        gb_block_free(block);
        block = next;
    }
}

void gb_pending_free_stream(struct gb_pending_stream *stream)
{
    struct gb_pending_batch *batch = NULL;
    struct gb_pending_mark *mark;

    while ((batch = gb_pending_next_batch(stream, batch)))
        free_blocks(batch->blocks);
    gb_pending_drop_marks(stream, stream->count);
    while ((mark = stream->spare)) {
        stream->spare = mark->next;
        if (mark != &stream->own)
            free(mark);
    }
    free(stream);
}

void gb_pending_clear(struct gb_pending *pending)
{
    struct gb_pending_stream *stream, *next;

    HASH_ITER(hh, pending->streams, stream, next)
    {
        HASH_DELETE(hh, pending->streams, stream);
        gb_pending_free_stream(stream);
    }
    while ((stream = pending->ended)) {
        pending->ended = stream->next;
        gb_pending_free_stream(stream);
    }
    pending->shared = 0;
    pending->owing = 0;
    atomic_store(&pending->bytes, 0);
    atomic_store(&pending->entries, 0);
    for (int i = 0; i < GB_PENDING_SLOTS; i++)
        pending->slots[i] = (struct gb_pending_slot){0};
}

void gb_pending_forked(struct gb_pending *pending)
{
    gb_pending_init(pending, pending->gauged, pending->ledger, pending->settle_block,
                    pending->owner);
}

_Static_assert(sizeof(struct gb_stream_key) == 3 * sizeof(void *) + sizeof(uint64_t),
               "hashed as bytes: no padding");

struct gb_stream_key gb_stream_key(const struct gb_driver_api *api, CUstream stream,
                                   bool is_thread)
{
    struct gb_stream_key key = {.api = api, .stream = stream};

    if (!stream)
        key.stream = is_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
    if (key.stream == CU_STREAM_PER_THREAD)
        key.thread = gb_thread_serial();
    if (key.stream == CU_STREAM_PER_THREAD || key.stream == CU_STREAM_LEGACY)
        api->cuCtxGetCurrent(&key.context);
    return key;
}

CUcontext gb_stream_context(const struct gb_stream_key *key)
{
    const struct gb_driver_api *api = key->api;
    struct gb_capture_mode saved;
    CUcontext context = key->context;
    bool known = false;

    if (context)
        return context;
    if (api->cuStreamGetCtx) {
        saved = gb_capture_relax(api);
        known = api->cuStreamGetCtx(key->stream, &context) == CUDA_SUCCESS;
        gb_capture_restore(api, &saved);
    }
    /* Where the driver does not tell, it is most likely the current one. */
    if (!known && api->cuCtxGetCurrent(&context) != CUDA_SUCCESS)
        context = NULL;
    return context;
}

/* Cheaper than a hash of all bytes, which is felt at every call: one part tells nearly all. */
unsigned gb_pending_hash(const struct gb_stream_key *key)
{
    uint64_t part =
        (uint64_t)(uintptr_t)key->stream ^ (uint64_t)(uintptr_t)key->context ^ key->thread;

    return (unsigned)((part >> 3) * UINT64_C(0x9e3779b97f4a7c15) >> 32);
}

struct gb_pending_stream *gb_pending_find(struct gb_pending *pending,
                                          const struct gb_stream_key *key)
{
    struct gb_pending_stream *stream;

    HASH_FIND_BYHASHVALUE(hh, pending->streams, key, sizeof(*key), gb_pending_hash(key),
                          stream);
    return stream;
}

bool gb_pending_prepare_entry(struct gb_pending *pending, const struct gb_stream_key *key)
{
    struct gb_pending_stream *made = NULL;
    bool there;

    gb_lock_take(&pending->lock);
    made = gb_pending_find(pending, key);
    there = made != NULL;
    /* A handle that is used again is another stream's. */
    if (there) {
        made->gone = false;
        gb_pending_slot_claim(pending, made);
    }
    gb_lock_drop(&pending->lock);
    if (there)
        return true;
    made = calloc(1, sizeof(*made));
    if (!made)
        return false;
    made->key = *key;
    made->spare = &made->own;
    made->context = gb_stream_context(key);
    gb_lock_take(&pending->lock);
    there = gb_pending_find(pending, key) != NULL;
    if (!there) {
        HASH_ADD_BYHASHVALUE(hh, pending->streams, key, sizeof(made->key), gb_pending_hash(key),
                             made);
        if (made->hh.tbl) {
            atomic_fetch_add(&pending->entries, 1);
            gb_pending_slot_claim(pending, made);
            made = NULL;
            there = true;
        }
    }
    gb_lock_drop(&pending->lock);
    free(made);
    return there;
}

/* Gives proven bytes and blocks back. With no lock held. */
void gb_pending_settle(struct gb_pending *pending, uint64_t bytes, struct gb_block *blocks)
{
    if (bytes > 0) {
        atomic_fetch_sub(&pending->bytes, bytes);
        gb_ledger_reclaim(pending->ledger, bytes);
    }
    while (blocks) {
        struct gb_block *next = blocks->next;

        atomic_fetch_sub(&pending->bytes, blocks->charged);
        pending->settle_block(pending->owner, blocks);
        blocks = next;
    }
}

bool gb_pending_has_unmarked(const struct gb_pending_stream *stream)
{
    return stream->unmarked.bytes > 0 || stream->unmarked.blocks || stream->dirty ||
           (stream->slot && gb_pending_kept(stream->slot) > 0);
}

static void make_spare(struct gb_pending_stream *stream, struct gb_pending_mark *mark)
{
    mark->next = stream->spare;
    stream->spare = mark;
}

void gb_pending_drop_marks(struct gb_pending_stream *stream, unsigned number)
{
    for (unsigned i = 0; i < number; i++) {
        stream->marks[i]->batch = (struct gb_pending_batch){.bytes = 0};
        make_spare(stream, stream->marks[i]);
    }
    stream->count -= number;
    memmove(stream->marks, stream->marks + number, stream->count * sizeof(stream->marks[0]));
}

/*
 * With no lock held, for the thread that has made the entry BUSY: the mark to set next. Where
 * there is none to spare the newest is set anew: it proves no less then, only later.
 */
static struct gb_pending_mark *mark_to_set(struct gb_pending_stream *stream)
{
    struct gb_pending_mark *mark = stream->spare;

    if (stream->count == GB_PENDING_MARKS)
        return stream->marks[stream->count - 1];
    if (mark)
        stream->spare = mark->next;
    else
        mark = calloc(1, sizeof(*mark));
    return mark ? mark : stream->marks[stream->count - 1];
}

/* With the lock held: the mark could not be set, or not set anew. */
static void not_marked(struct gb_pending_stream *stream, struct gb_pending_mark *mark,
                       bool anew)
{
    if (!anew) {
        make_spare(stream, mark);
    } else if (!mark->event) {
        /* What it was set for before is lost as well. */
        gb_batch_merge(&stream->unmarked, &mark->batch);
        stream->count--;
        make_spare(stream, mark);
    }
}

/* With the lock held, which is dropped around the driver's calls: sets a mark behind all frees
 * so far. */
void gb_pending_set_mark(struct gb_pending *pending, struct gb_pending_stream *stream)
{
    struct gb_pending_mark *mark;
    bool recorded, anew;
    uint64_t number;

    /* Before the event is recorded: a free that still saw the note came before the mark. */
    gb_pending_slot_drain(pending, stream);
    gb_batch_merge(&stream->marking, &stream->unmarked);
    number = ++stream->numbered;
    stream->state = GB_MARK_BUSY;
    stream->dirty = false;
    gb_lock_drop(&pending->lock);
    mark = mark_to_set(stream);
    anew = stream->count > 0 && mark == stream->marks[stream->count - 1];
    recorded = gb_mark_record(stream, &mark->event);
    gb_lock_take(&pending->lock);
    if (recorded) {
        mark->number = number;
        gb_batch_merge(&mark->batch, &stream->marking);
        if (!anew)
            stream->marks[stream->count++] = mark;
        stream->state = GB_MARK_SET;
        return;
    }
    stream->dirty = true;
    gb_batch_merge(&stream->unmarked, &stream->marking);
    not_marked(stream, mark, anew);
    /* There is no such mark: the next one, or where there will be none the last there is. */
    if (stream->owes == number && !stream->gone && gb_pending_may_mark(&stream->key))
        stream->owes = number + 1;
    else if (stream->owes == number && stream->count > 0)
        stream->owes = stream->marks[stream->count - 1]->number;
    stream->state = stream->count > 0 ? GB_MARK_SET : GB_MARK_NONE;
    /* The next free tries again. */
    gb_pending_slot_drain(pending, stream);
}

bool gb_pending_may_mark(const struct gb_stream_key *key)
{
    /* A per-thread default stream can be named by its own thread only. */
    return key->thread == 0 || key->thread == gb_thread_serial();
}

/* With the lock held: waits, bounded, until nobody is calling the driver for the entry. */
struct gb_pending_stream *gb_pending_find_idle(struct gb_pending *pending,
                                               const struct gb_stream_key *key, int turns)
{
    struct gb_pending_stream *stream = gb_pending_find(pending, key);

    for (int turn = 0; stream && stream->state == GB_MARK_BUSY && turn < turns; turn++) {
        gb_lock_drop(&pending->lock);
        gb_pending_pause(turn);
        gb_lock_take(&pending->lock);
        stream = gb_pending_find(pending, key);
    }
    return stream && stream->state != GB_MARK_BUSY ? stream : NULL;
}

/*
 * With the lock held: the entry to note a free in. One that wants a mark of its own waits for
 * whoever asks about the last one; later it would lie behind other work. Only its own thread
 * can mark a per-thread stream, and may never come again.
 */
static struct gb_pending_stream *find_to_add(struct gb_pending *pending,
                                             const struct gb_stream_key *key, bool each_time)
{
    struct gb_pending_stream *stream;

    if (key->thread != 0 || each_time)
        gb_pending_find_idle(pending, key, key->thread != 0 ? END_TURNS : BUSY_TURNS);
    stream = gb_pending_find(pending, key);
    if (stream || key->thread == 0)
        return stream;
    /* It was prepared, and another thread's reap has let it go since. */
    gb_lock_drop(&pending->lock);
    gb_pending_prepare(pending, key);
    gb_lock_take(&pending->lock);
    return gb_pending_find(pending, key);
}

/* With the lock held, nobody being BUSY: marks whose frees have been taken over prove nothing
 * any more. The newest stays: it may be owed. */
static void drop_empty_marks(struct gb_pending_stream *stream)
{
    unsigned kept = 0;

    for (unsigned i = 0; i < stream->count; i++) {
        struct gb_pending_mark *mark = stream->marks[i];

        if (i + 1 < stream->count && gb_batch_is_empty(&mark->batch))
            make_spare(stream, mark);
        else
            stream->marks[kept++] = mark;
    }
    stream->count = kept;
}

/*
 * With the lock held: a mark where none is out, or behind each free. A per-thread stream always
 * has one there, and it is tried more than once where that fails, since no other thread can do
 * it later; others where this free wants one. Answers whether a mark was tried.
 */
static bool mark_behind(struct gb_pending *pending, struct gb_pending_stream *stream,
                        bool each_time)
{
    int tries = stream->key.thread != 0 ? LAST_MARK_TRIES : 1;
    bool tried = false;

    if (each_time && stream->state == GB_MARK_SET && stream->count == GB_PENDING_MARKS)
        drop_empty_marks(stream);
    each_time = stream->key.thread != 0 || (each_time && stream->count < GB_PENDING_MARKS);
    while (tries-- > 0 && gb_pending_has_unmarked(stream) && !stream->closed &&
           (stream->state == GB_MARK_NONE || (stream->state == GB_MARK_SET && each_time))) {
        gb_pending_set_mark(pending, stream);
        tried = true;
    }
    return tried;
}

void gb_pending_add(struct gb_pending *pending, const struct gb_stream_key *key,
                    struct gb_pool *pool, uint64_t bytes, struct gb_block *block)
{
    struct gb_pending_slot *slot = gb_pending_slot_of(pending, gb_pending_note_of(key));
    const bool each_time = gb_pending_wants_mark(pending, bytes);
    struct gb_pending_stream *stream;

    if (slot && !block && !pending->gauged && !each_time && gb_pending_keep(slot, pool, bytes))
        return;
    atomic_fetch_add(&pending->bytes, bytes);
    gb_lock_take(&pending->lock);
    stream = find_to_add(pending, key, each_time);
    if (!stream) {
        gb_lock_drop(&pending->lock);
        if (block)
            block->next = NULL;
        gb_pending_settle(pending, block ? 0 : bytes, block);
        return;
    }
    if (block) {
        block->next = stream->unmarked.blocks;
        stream->unmarked.blocks = block;
    } else {
        stream->unmarked.bytes += bytes;
        gb_batch_add_share(&stream->unmarked, pool, bytes, bytes, 0);
    }
    /* Of a pool's memory without a charge nothing is known from here on. */
    if (!mark_behind(pending, stream, each_time) && !pending->gauged)
        gb_pending_slot_note(stream, block ? NULL : pool);
    gb_lock_drop(&pending->lock);
}

/* With the lock held: which mark of this stream proves all that it has been given so far. */
static void owe(struct gb_pending *pending, struct gb_pending_stream *stream)
{
    /* A destroyed stream has no next mark, nor has another thread's own one for certain. */
    bool marked_last = stream->gone || !gb_pending_may_mark(&stream->key);
    bool mark_is_out =
        stream->count > 0 || (stream->state == GB_MARK_BUSY && !stream->settling);
    uint64_t number = stream->numbered; /* of a mark that may be being set */

    if (stream->state != GB_MARK_BUSY && stream->count > 0)
        number = stream->marks[stream->count - 1]->number;
    if (!mark_is_out && (marked_last || !gb_pending_has_unmarked(stream)))
        return;
    if (stream->owes == 0)
        pending->owing++;
    /* Of a busy one it is not known whether a mark is being set or asked for: the next. */
    if (!marked_last && (stream->state != GB_MARK_SET || gb_pending_has_unmarked(stream))) {
        number = stream->numbered + 1;
        stream->dirty = true;
    }
    if (stream->owes < number)
        stream->owes = number;
}

uint64_t gb_pending_owes_no_more(struct gb_pending *pending, struct gb_pending_stream *stream,
                                 uint64_t number)
{
    uint64_t bytes = 0;

    if (stream->owes == 0 || stream->owes > number)
        return 0;
    stream->owes = 0;
    if (--pending->owing == 0) {
        bytes = pending->shared;
        pending->shared = 0;
    }
    return bytes;
}

void gb_pending_add_unproven(struct gb_pending *pending, uint64_t bytes)
{
    struct gb_pending_stream *stream;

    if (bytes == 0)
        return;
    atomic_fetch_add(&pending->bytes, bytes);
    gb_lock_take(&pending->lock);
    for (stream = pending->streams; stream; stream = stream->hh.next)
        owe(pending, stream);
    for (stream = pending->ended; stream; stream = stream->next)
        owe(pending, stream);
    if (pending->owing > 0) {
        pending->shared += bytes;
        bytes = 0;
    }
    gb_lock_drop(&pending->lock);
    gb_pending_settle(pending, bytes, NULL);
}

void gb_pending_note(struct gb_pending *pending, const struct gb_stream_key *key,
                     const struct gb_pending_freed *freed)
{
    struct gb_pending_slot *slot = gb_pending_slot_of(pending, gb_pending_note_of(key));
    bool each_time = freed->pool && gb_pending_wants_mark(pending, freed->bytes);
    struct gb_pending_stream *stream;
    bool noted = false;

    if (each_time) {
        noted = false;
    } else if (slot) {
        noted = freed->pool ? gb_pending_keep(slot, freed->pool, freed->bytes)
                            : gb_pending_is_noted(slot, freed->loose);
    } else if (!freed->pool && atomic_load(&pending->entries) > 0) {
        gb_lock_take(&pending->lock);
        stream = gb_pending_find(pending, key);
        noted = stream && stream->noted && (stream->unmarked.loose || !freed->loose);
        gb_lock_drop(&pending->lock);
    }
    if (noted)
        return;
    /* A captured free frees nothing yet. */
    if (gb_capture_on(key->api, key->stream))
        return;
    if (!gb_pending_prepare(pending, key))
        return;
    gb_lock_take(&pending->lock);
    stream = find_to_add(pending, key, each_time);
    /* What the host has synchronised with is joined with nothing: such a mark is reached. */
    if (stream && gb_pending_has_neighbour(stream, freed)) {
        gb_lock_drop(&pending->lock);
        gb_pending_reap(pending);
        gb_pending_prepare(pending, key);
        gb_lock_take(&pending->lock);
        stream = find_to_add(pending, key, each_time);
    }
    if (stream) {
        stream->dirty = true;
        stream->unmarked.loose |= freed->loose;
        /* The piece that had a mark gets another one. */
        if (gb_pending_add_piece(stream, freed))
            each_time = true;
        /* The slot tells of no address. */
        if (!mark_behind(pending, stream, each_time) &&
            !gb_pending_has_pieces(stream, freed->pool))
            gb_pending_slot_note(stream, freed->pool);
    }
    gb_lock_drop(&pending->lock);
}
