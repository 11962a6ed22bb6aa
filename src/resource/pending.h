/*
 * pending.h: bytes freed in stream order whose free is not proven yet, per stream.
 *
 * No event per free: one mark (an event recorded on the stream) proves every free that the
 * stream had been given before it. Only where little is left of the limit has each free a mark
 * of its own, up to GB_PENDING_MARKS, so that another stream can wait for just that one.
 */
#ifndef GB_RESOURCE_PENDING_H
#define GB_RESOURCE_PENDING_H

#include "driver/api.h"

#include <stdbool.h>
#include <stdint.h>

#include "resource/block_table.h"
#include "resource/hash.h"
#include "resource/ledger.h"
#include "resource/lock.h"
#include "resource/pending_slots.h"

/* Tells streams apart across driver copies, contexts and per-thread default streams. */
struct gb_stream_key {
    const struct gb_driver_api *api;
    CUcontext
        context;     /* of a default stream; NULL for a created one, whose handle is its own */
    CUstream stream; /* normalised: never NULL */
    uint64_t thread; /* the serial, of a per-thread default stream, else 0 */
};

struct gb_pool;

/*
 * What of pending bytes is memory of one pool, which only a request for that pool can get by
 * waiting for the stream.
 */
struct gb_pending_share {
    struct gb_pool *pool; /* NULL: free */
    uint64_t bytes;
    /* The largest block among them, as far as is known, and its address, 0: not known. The pool
     * gives out what lies in one piece. */
    uint64_t piece;
    uint64_t from;
};

enum {
    /* Frees of more pools in a batch wait for their mark as all do; nobody follows them. */
    GB_PENDING_SHARES = 4,
    /* Out on one stream at a time; frees beyond them wait until one has been reached. */
    GB_PENDING_MARKS = 16
};

/* Frees of one stream that one mark proves. */
struct gb_pending_batch {
    uint64_t bytes;          /* in the ledger; footprint mode: of direct blocks' kind only */
    struct gb_block *blocks; /* direct blocks, which give back regions one by one */
    /* In requested mode a part of the bytes; in footprint mode, where the pool's gauge counts,
     * this is all that is known of them. */
    struct gb_pending_share shares[GB_PENDING_SHARES];
    bool loose; /* among them some of which neither pool nor size is known */
};

struct gb_pending_mark {
    CUevent event;   /* NULL before its first use; kept for the next one */
    uint64_t number; /* of the marks of the stream; later ones have greater ones */
    struct gb_pending_batch batch;
    struct gb_pending_mark *next; /* of the spare ones */
};

enum gb_mark_state {
    GB_MARK_NONE, /* no mark is out */
    GB_MARK_BUSY, /* one thread is calling the driver for this entry */
    GB_MARK_SET   /* some are */
};

/*
 * Invariants: every pending byte stands in exactly one of the batches unmarked, marking and
 * those of the marks, the stream's slot or gb_pending.shared, and in the ledger as outstanding.
 * Only the thread that made the entry BUSY changes the list of its marks and their events; an
 * entry that is BUSY is never removed. A mark is set after the frees it proves, and proves the
 * earlier ones' as well.
 */
struct gb_pending_stream {
    struct gb_stream_key key;
    CUcontext context; /* in which the stream works and its events are made */
    bool dirty;        /* frees of gauged memory since the mark: nothing here counts them */
    struct gb_pending_batch unmarked; /* freed since the last mark, or with no mark */
    struct gb_pending_batch marking;  /* a mark is being set behind them */
    struct gb_pending_mark *marks[GB_PENDING_MARKS]; /* those that are out, the oldest first */
    unsigned count;
    struct gb_pending_mark *spare;
    struct gb_pending_mark own; /* one there is always memory for */
    uint64_t numbered;          /* the number of the last one that was to be set */
    uint64_t owes; /* gb_pending.shared waits for a mark of this number or a greater; 0: not */
    enum gb_mark_state state;
    bool settling;                  /* BUSY, but no mark is being set: what is proven is being
                                       given back */
    bool gone;                      /* the stream has been destroyed */
    bool closed;                    /* its context is being ended: the driver is not to be
                                       asked about it */
    struct gb_pending_slot *slot;   /* NULL: none */
    bool noted;                     /* as in the slot */
    struct gb_pending_stream *next; /* of the list `ended` */
    UT_hash_handle hh;
};

typedef void (*gb_settle_block_fn)(void *owner, struct gb_block *block);

struct gb_pending {
    struct gb_lock lock;
    struct gb_pending_stream *streams;
    struct gb_pending_stream *ended; /* of destroyed streams, until their mark is reached */
    uint64_t shared;        /* bytes that every stream must prove that owes something */
    unsigned owing;         /* how many streams do */
    _Atomic uint64_t bytes; /* all pending bytes but those in slots */
    _Atomic int entries;    /* streams in the table and ended ones */
    bool gauged;            /* footprint mode: frees of pools are in no tally here */
    _Atomic uint64_t left;  /* about so much is left of the limit */
    struct gpubudget_accounting *ledger;
    gb_settle_block_fn settle_block; /* takes the block's charge back and frees the entry */
    void *owner;
    struct gb_pending_slot slots[GB_PENDING_SLOTS];
};

void gb_pending_init(struct gb_pending *pending, bool gauged,
                     struct gpubudget_accounting *ledger, gb_settle_block_fn settle_block,
                     void *owner);
/* Forgets everything; calls no driver. No other thread may use it. */
void gb_pending_clear(struct gb_pending *pending);
/* In the child of a fork. */
void gb_pending_forked(struct gb_pending *pending);

/*
 * The key of a stream as the program names it; is_thread: NULL is the per-thread stream. Asks
 * the driver for the current context where the stream is a default one.
 */
struct gb_stream_key gb_stream_key(const struct gb_driver_api *api, CUstream stream,
                                   bool is_thread);

/* The context in which the stream works, NULL where the driver does not tell. */
CUcontext gb_stream_context(const struct gb_stream_key *key);

/* Is it one and the same stream? */
static inline bool gb_stream_is(const struct gb_stream_key *one,
                                const struct gb_stream_key *other)
{
    return one->stream == other->stream && one->context == other->context &&
           one->thread == other->thread && one->api == other->api;
}

/* The same in place, where it is felt. */
static inline void gb_stream_key_set(struct gb_stream_key *key, const struct gb_driver_api *api,
                                     CUstream stream, bool is_thread)
{
    if (!stream || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD) {
        *key = gb_stream_key(api, stream, is_thread);
        return;
    }
    key->api = api;
    key->context = NULL;
    key->stream = stream;
    key->thread = 0;
}

/* Stands for a stream in the slots; 0: one that has none. Handles are aligned. */
static inline uintptr_t gb_pending_note_of(const struct gb_stream_key *key)
{
    if (key->thread != 0)
        return 0;
    return key->context ? (uintptr_t)key->context + 1 : (uintptr_t)key->stream;
}

/* The stream's slot, or NULL. Takes no lock. */
static inline struct gb_pending_slot *gb_pending_slot_of(struct gb_pending *pending,
                                                         uintptr_t note)
{
    unsigned place = gb_pending_place_of(note);
    struct gb_pending_slot *slot = &pending->slots[place];

    if (note == 0)
        return NULL;
    if (atomic_load_explicit(&slot->stream, memory_order_acquire) == note)
        return slot;
    slot = &pending->slots[gb_pending_place_beside(place)];
    return atomic_load_explicit(&slot->stream, memory_order_acquire) == note ? slot : NULL;
}

/* gb_pending_is_noted of a created stream. */
static inline bool gb_pending_is_noted_stream(struct gb_pending *pending, CUstream stream,
                                              bool loose)
{
    const struct gb_pending_slot *slot = gb_pending_slot_of(pending, (uintptr_t)stream);

    return slot && gb_pending_is_noted(slot, loose);
}

/* What has been freed in stream order: so much of a pool, and its address (0: not known); with
 * pool NULL nothing of a pool here or, loose, nobody knows what. */
struct gb_pending_freed {
    struct gb_pool *pool;
    uint64_t bytes;
    bool loose;
    uint64_t from;
};

/* Of pending.c, for the inline function only: the stream has no slot. */
bool gb_pending_prepare_entry(struct gb_pending *pending, const struct gb_stream_key *key);

/* Makes sure that frees on this stream can be noted; false when there is no memory. */
static inline bool gb_pending_prepare(struct gb_pending *pending,
                                      const struct gb_stream_key *key)
{
    return gb_pending_slot_of(pending, gb_pending_note_of(key)) ||
           gb_pending_prepare_entry(pending, key);
}

/*
 * After a successful free in stream order: bytes (without entry) or a block (with its entry,
 * then bytes is its charge) become pending, and a mark is recorded where none is out. Without a
 * prepared entry they are settled at once: the bytes are better given back early than never.
 * pool: whose memory bytes without an entry are, NULL where nobody can have them by waiting.
 */
void gb_pending_add(struct gb_pending *pending, const struct gb_stream_key *key,
                    struct gb_pool *pool, uint64_t bytes, struct gb_block *block);

/* gb_pending_add of the charge of a block, whose entry is given back. */
void gb_pending_add_freed(struct gb_pending *pending, const struct gb_stream_key *key,
                          struct gb_block *block);

/*
 * After a successful free in stream order of memory that a pool's gauge accounts for. The
 * driver lets go of it only when the host synchronises with the stream (measured,
 * docs/driver-behaviour.md): so the stream is remembered, and a mark is set where none is out.
 * Repeated frees on one stream cost one load, or where it is known what was freed one step.
 */
void gb_pending_note(struct gb_pending *pending, const struct gb_stream_key *key,
                     const struct gb_pending_freed *freed);

/*
 * Bytes of frees that are pending, on which streams is not known: they stay pending until each
 * stream whose frees are not all proven now has proven them; without one they are settled.
 */
void gb_pending_add_unproven(struct gb_pending *pending, uint64_t bytes);

/* All pending bytes. */
uint64_t gb_pending_bytes(struct gb_pending *pending);

/* Bytes whose free the next work of this stream is ordered behind; block charges left out. */
uint64_t gb_pending_on_stream(struct gb_pending *pending, const struct gb_stream_key *key);

/* Takes up to `most` of them away, for a grant of that pool on the stream; answers how many.
 * They are no longer pending; the caller moves the ledger. */
uint64_t gb_pending_take_over(struct gb_pending *pending, const struct gb_stream_key *key,
                              struct gb_pool *pool, uint64_t most);

/*
 * The same in footprint mode, where only the share falls: that of whoever has freed what lies
 * at the address, or where nothing known does of this stream's of which it is not known where
 * they lie.
 */
void gb_pending_reuse(struct gb_pending *pending, const struct gb_stream_key *key,
                      struct gb_pool *pool, uint64_t from, uint64_t bytes);
/* Only the first of the two; false: nothing known lies there. */
bool gb_pending_reuse_placed(struct gb_pending *pending, const struct gb_pool *pool,
                             uint64_t from, uint64_t bytes);

/* So much is left of the limit now. */
static inline void gb_pending_note_left(struct gb_pending *pending, uint64_t left)
{
    /* The highest bit is enough, and all threads read it. */
    left = left > 0 ? UINT64_C(1) << (63 - __builtin_clzll(left)) : 0;
    if (atomic_load_explicit(&pending->left, memory_order_relaxed) != left)
        atomic_store_explicit(&pending->left, left, memory_order_relaxed);
}

/* With less left every request looks at its pool anyway. */
#define GB_PENDING_LEFT_FEW (UINT64_C(512) << 20)

/* May another stream's request come to need just this free, and no work that comes later? As
 * long as twice as much is left it need not wait for it; nor is it, where there has been no
 * other stream near the limit, worth an event each time. */
static inline bool gb_pending_wants_mark(struct gb_pending *pending, uint64_t bytes)
{
    uint64_t left = atomic_load_explicit(&pending->left, memory_order_relaxed);

    return (left < GB_PENDING_LEFT_FEW || left / 2 < bytes) &&
           atomic_load_explicit(&pending->entries, memory_order_relaxed) > 1;
}

/* In footprint mode: from here on nobody keeps count of shares, so those there are are loose.
 */
void gb_pending_forget_shares(struct gb_pending *pending);

/* A pool has ended, and its entry may become another one's. */
void gb_pending_pool_ended(struct gb_pending *pending, const struct gb_pool *pool);

/* Queries marks, sets new ones, settles what is proven. Waits for nothing. */
void gb_pending_reap(struct gb_pending *pending);

/* Before the driver destroys the stream: the last moment for a mark. */
void gb_pending_stream_ends(struct gb_pending *pending, const struct gb_stream_key *key);
/* The driver refused: the stream goes on. */
void gb_pending_stream_stays(struct gb_pending *pending, const struct gb_stream_key *key);

/*
 * Around the driver call that may end a context. close waits for threads that are asking about
 * its streams, and keeps others from it: afterwards the handles may be dead. reopen when the
 * context has not ended.
 */
void gb_pending_context_close(struct gb_pending *pending, const struct gb_driver_api *api,
                              CUcontext context);
void gb_pending_context_reopen(struct gb_pending *pending, const struct gb_driver_api *api,
                               CUcontext context);

/* The context has ended, and with it its streams and all their work. */
void gb_pending_context_ended(struct gb_pending *pending, const struct gb_driver_api *api,
                              CUcontext context);

#endif
