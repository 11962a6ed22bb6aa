/*
 * uses.c: which streams still use a block.
 */
#include "resource/uses.h"

#include <stdlib.h>

#include "resource/capture.h"

/* Uses that are waited for between two looks at the block. */
enum { BATCH = 8 };

/* Reads that a block has before the first of them are asked whether they are over: streams come
 * and go, and a block may stay. */
enum { MANY = 32 };

/*
 * The same stream for a use: its handle may be another's once it has been destroyed, so created
 * ones are told apart by their number, too, where the driver (12.0) has one.
 */
static struct gb_stream_key use_key(const struct gb_stream_key *key)
{
    struct gb_stream_key named = *key;
    unsigned long long id = 0;
    struct gb_capture_mode saved;

    if (key->context || key->thread != 0 || !key->api->cuStreamGetId)
        return named;
    saved = gb_capture_relax(key->api);
    if (key->api->cuStreamGetId(key->stream, &id) == CUDA_SUCCESS)
        named.thread = id;
    gb_capture_restore(key->api, &saved);
    return named;
}

static void drop_all(struct gb_events *events, struct gb_use *list)
{
    while (list) {
        struct gb_use *next = list->next;

        gb_event_drop(events, list->event);
        free(list);
        list = next;
    }
}

/* What a stream has to wait for, some at a time, in the order of their serials. */
struct collect {
    const struct gb_stream_key *key;
    bool writes;
    uint64_t from;   /* serials above this */
    uint64_t last;   /* up to this; 0: up to all that are there now */
    unsigned number; /* of the next two */
    struct gb_event *events[BATCH];
    uint64_t serials[BATCH];
    struct gb_events *pool;
};

/* Keeps the oldest ones: those that do not fit come with the next look. */
static void collect_one(struct collect *wanted, const struct gb_use *use)
{
    unsigned place;

    if (use->serial <= wanted->from || use->serial > wanted->last ||
        gb_stream_is(&use->key, wanted->key))
        return;
    if (wanted->number == BATCH && use->serial > wanted->serials[BATCH - 1])
        return;
    if (wanted->number < BATCH)
        wanted->number++;
    for (place = wanted->number - 1; place > 0; place--) {
        if (wanted->serials[place - 1] < use->serial)
            break;
        wanted->serials[place] = wanted->serials[place - 1];
        wanted->events[place] = wanted->events[place - 1];
    }
    wanted->serials[place] = use->serial;
    wanted->events[place] = use->event;
}

/* With the block's shard locked. */
static void collect(struct gb_block *block, void *arg)
{
    struct collect *wanted = arg;
    const struct gb_uses *uses = block->uses;

    wanted->number = 0;
    if (!uses)
        return;
    wanted->pool = uses->events;
    if (wanted->last == 0)
        wanted->last = uses->serial;
    if (uses->write)
        collect_one(wanted, uses->write);
    for (const struct gb_use *use = wanted->writes ? uses->reads : NULL; use; use = use->next)
        collect_one(wanted, use);
    for (unsigned i = 0; i < wanted->number; i++)
        gb_event_keep(wanted->events[i]);
}

/* Waits for what was collected, and lets go of it. */
static CUresult wait_for(struct collect *wanted)
{
    CUresult code = CUDA_SUCCESS;

    for (unsigned i = 0; i < wanted->number; i++) {
        if (code == CUDA_SUCCESS)
            code = gb_event_wait_on(wanted->pool, wanted->events[i], wanted->key->stream);
        gb_event_drop(wanted->pool, wanted->events[i]);
    }
    return code;
}

static bool captures(const struct gb_stream_key *key)
{
    struct gb_capture_mode saved = gb_capture_relax(key->api);
    bool yes = gb_capture_on(key->api, key->stream);

    gb_capture_restore(key->api, &saved);
    return yes;
}

gpubudget_status_t gb_uses_prepare(struct gb_block_table *table, gpubudget_block_id_t id,
                                   const struct gb_stream_key *key, gpubudget_access_t access,
                                   CUresult *code)
{
    const struct gb_stream_key named = use_key(key);
    struct collect wanted = {.key = &named, .writes = access != GPUBUDGET_ACCESS_READ};

    *code = CUDA_SUCCESS;
    if (captures(key))
        return GPUBUDGET_STREAM_MISUSE;
    do {
        if (!gb_block_table_with(table, id.pointer, id.generation, collect, &wanted))
            return GPUBUDGET_USE_AFTER_FREE;
        if (wanted.number > 0)
            wanted.from = wanted.serials[wanted.number - 1];
        *code = wait_for(&wanted);
        if (*code != CUDA_SUCCESS)
            return GPUBUDGET_DRIVER;
    } while (wanted.number == BATCH);
    return GPUBUDGET_OK;
}

/* What becomes of a block's uses with a new one. */
struct install {
    struct gb_use *use;   /* the new one; NULL once it is noted */
    struct gb_uses *uses; /* for a block that has none yet; NULL once it is used */
    bool writes;
    bool many;          /* written: gb_uses.trim_at is reached */
    struct gb_use *out; /* that it replaces */
};

static struct gb_use **read_of(struct gb_uses *uses, const struct gb_stream_key *key)
{
    struct gb_use **link = &uses->reads;

    while (*link && !gb_stream_is(&(*link)->key, key))
        link = &(*link)->next;
    return link;
}

/* With the block's shard locked, or the block in one hand. */
static void install(struct gb_block *block, void *arg)
{
    struct install *new = arg;
    struct gb_uses *uses;
    struct gb_use **link;

    if (!block->uses) {
        block->uses = new->uses;
        new->uses = NULL;
    }
    uses = block->uses;
    new->use->serial = ++uses->serial;
    if (new->writes) {
        new->out = uses->reads;
        uses->reads = NULL;
        uses->read_count = 0;
        if (uses->write) {
            uses->write->next = new->out;
            new->out = uses->write;
        }
        uses->write = new->use;
        new->use->next = NULL;
    } else {
        link = read_of(uses, &new->use->key);
        new->out = *link;
        if (*link) {
            *link = new->out->next;
            new->out->next = NULL;
        } else {
            uses->read_count++;
        }
        new->use->next = uses->reads;
        uses->reads = new->use;
        new->many = uses->read_count >= uses->trim_at;
    }
    new->use = NULL;
}

/* The place for a use of which the caller gives the event. */
static bool make_room(struct install *new, struct gb_events *events,
                      const struct gb_stream_key *key, bool writes)
{
    *new = (struct install){.use = calloc(1, sizeof(*new->use)),
                            .uses = calloc(1, sizeof(*new->uses)),
                            .writes = writes};
    if (!new->use || !new->uses) {
        free(new->use);
        free(new->uses);
        new->use = NULL;
        new->uses = NULL;
        return false;
    }
    new->use->key = use_key(key);
    new->uses->events = events;
    new->uses->trim_at = MANY;
    return true;
}

/* A recorded use, and the place for it. */
static gpubudget_status_t make(struct install *new, struct gb_events *events,
                               const struct gb_stream_key *key, bool writes, CUresult *code)
{
    gpubudget_status_t status;

    if (!make_room(new, events, key, writes))
        return GPUBUDGET_OUT_OF_HOST_MEMORY;
    status = gb_events_record(events, key, true, &new->use->event, code);
    if (status != GPUBUDGET_OK) {
        free(new->use);
        free(new->uses);
        new->use = NULL;
        new->uses = NULL;
    }
    return status;
}

/* Lets go of what was not needed. */
static void clean_up(struct install *new, struct gb_events *events)
{
    drop_all(events, new->out);
    drop_all(events, new->use);
    free(new->uses);
}

/* The oldest reads of a block, and then those of them that are over. */
struct trimming {
    unsigned number;
    struct gb_event *events[MANY];
    uint64_t serials[MANY];
    struct gb_use *out;
};

/* With the block's shard locked. New reads stand in front. */
static void oldest(struct gb_block *block, void *arg)
{
    struct trimming *trimming = arg;
    const struct gb_uses *uses = block->uses;
    unsigned skipped;

    if (!uses)
        return;
    skipped = uses->read_count > MANY ? uses->read_count - MANY : 0;
    for (const struct gb_use *use = uses->reads; use && trimming->number < MANY;
         use = use->next) {
        if (skipped > 0) {
            skipped--;
            continue;
        }
        gb_event_keep(use->event);
        trimming->events[trimming->number] = use->event;
        trimming->serials[trimming->number++] = use->serial;
    }
}

/* The same. */
static void take_out(struct gb_block *block, void *arg)
{
    struct trimming *trimming = arg;
    struct gb_uses *uses = block->uses;
    struct gb_use **link = uses ? &uses->reads : NULL;

    while (link && *link) {
        struct gb_use *use = *link;
        unsigned i = 0;

        while (i < trimming->number && trimming->serials[i] != use->serial)
            i++;
        if (i == trimming->number) {
            link = &use->next;
            continue;
        }
        *link = use->next;
        use->next = trimming->out;
        trimming->out = use;
        uses->read_count--;
    }
    if (uses)
        uses->trim_at = uses->read_count * 2 > MANY ? uses->read_count * 2 : MANY;
}

/* Forgets reads that are over. */
static void trim(struct gb_block_table *table, struct gb_events *events,
                 gpubudget_block_id_t id)
{
    struct trimming trimming = {.number = 0};
    unsigned over = 0;

    gb_block_table_with(table, id.pointer, id.generation, oldest, &trimming);
    for (unsigned i = 0; i < trimming.number; i++) {
        if (gb_event_is_over(events, trimming.events[i]))
            trimming.serials[over++] = trimming.serials[i];
        gb_event_drop(events, trimming.events[i]);
    }
    trimming.number = over;
    gb_block_table_with(table, id.pointer, id.generation, take_out, &trimming);
    drop_all(events, trimming.out);
}

gpubudget_status_t gb_uses_finish(struct gb_block_table *table, struct gb_events *events,
                                  gpubudget_block_id_t id, const struct gb_stream_key *key,
                                  gpubudget_access_t access, CUresult *code)
{
    struct gb_block copy;
    struct install new;
    gpubudget_status_t status;

    *code = CUDA_SUCCESS;
    /* A stale one costs no event. */
    if (!gb_block_table_find(table, id.pointer, &copy) || copy.generation != id.generation)
        return GPUBUDGET_USE_AFTER_FREE;
    status = make(&new, events, key, access != GPUBUDGET_ACCESS_READ, code);
    if (status != GPUBUDGET_OK)
        return status;
    if (!gb_block_table_with(table, id.pointer, id.generation, install, &new))
        status = GPUBUDGET_USE_AFTER_FREE;
    clean_up(&new, events);
    if (new.many)
        trim(table, events, id);
    return status;
}

/* A read of a stream that has one already: the later event takes the earlier one's place. */
struct renewal {
    const struct gb_stream_key *key;
    struct gb_event *event; /* the new one, then the old one, to be let go of */
    bool done;
};

/* With the block's shard locked. */
static void renew(struct gb_block *block, void *arg)
{
    struct renewal *renewal = arg;
    struct gb_use *use = block->uses ? *read_of(block->uses, renewal->key) : NULL;
    struct gb_event *old;

    if (!use)
        return;
    old = use->event;
    use->event = renewal->event;
    use->serial = ++block->uses->serial;
    renewal->event = old;
    renewal->done = true;
}

gpubudget_status_t gb_uses_note(struct gb_block_table *table, struct gb_events *events,
                                const struct gb_touched *touched, size_t count, int device,
                                const struct gb_stream_key *key, bool captures, CUresult *code)
{
    const struct gb_stream_key named = use_key(key);
    struct gb_event *event;
    gpubudget_status_t status = gb_events_record(events, key, captures, &event, code);

    if (status != GPUBUDGET_OK)
        return status;
    for (size_t i = 0; i < count; i++) {
        const gpubudget_block_id_t id = touched[i].id;
        struct renewal renewal = {.key = &named, .event = event};
        struct install new;

        if (touched[i].device != device)
            continue;
        gb_event_keep(event);
        gb_block_table_with(table, id.pointer, id.generation, renew, &renewal);
        if (renewal.done) {
            gb_event_drop(events, renewal.event);
            continue;
        }
        if (!make_room(&new, events, key, false)) {
            gb_event_drop(events, event);
            status = GPUBUDGET_OUT_OF_HOST_MEMORY;
            continue;
        }
        new.use->event = event;
        gb_block_table_with(table, id.pointer, id.generation, install, &new);
        clean_up(&new, events);
        if (new.many)
            trim(table, events, id);
    }
    gb_event_drop(events, event);
    return status;
}

gpubudget_status_t gb_uses_seed(struct gb_block *block, struct gb_events *events,
                                const struct gb_stream_key *key, CUresult *code)
{
    struct install new;
    gpubudget_status_t status = make(&new, events, key, true, code);

    if (status == GPUBUDGET_OK) {
        install(block, &new);
        clean_up(&new, events);
    }
    return status;
}

static CUresult wait_on_list(struct gb_events *events, const struct gb_use *list,
                             const struct gb_stream_key *key)
{
    CUresult code = CUDA_SUCCESS;

    for (; list && code == CUDA_SUCCESS; list = list->next)
        if (!key)
            code = gb_event_wait(events, list->event);
        else if (!gb_stream_is(&list->key, key))
            code = gb_event_wait_on(events, list->event, key->stream);
    return code;
}

CUresult gb_uses_wait(const struct gb_uses *uses, const struct gb_stream_key *key)
{
    struct gb_stream_key named;
    CUresult code;

    if (key) {
        named = use_key(key);
        key = &named;
    }
    code = wait_on_list(uses->events, uses->write, key);
    return code == CUDA_SUCCESS ? wait_on_list(uses->events, uses->reads, key) : code;
}

void gb_uses_end(struct gb_uses *uses)
{
    if (!uses)
        return;
    drop_all(uses->events, uses->write);
    drop_all(uses->events, uses->reads);
    free(uses);
}
