/*
 * limits.c: what a limit of a context was before it is being set.
 */
#include "resource/limits.h"

#include <string.h>

#include "resource/capture.h"
#include "resource/lock.h"

/* More than set a limit at the same time. */
enum { PLACES = 16 };

/* One limit of one context, while calls that set it are going on. */
struct gb_limit_shared {
    const struct gb_driver_api *api;
    CUcontext context;
    CUlimit limit;
    unsigned calls; /* 0: free */
    bool known;
    size_t value; /* before all of them, or the last that was granted */
};

static struct gb_limit_shared places[PLACES];
static struct gb_lock lock = GB_LOCK_INIT;

/* With the lock held. */
static struct gb_limit_shared *place_of(const struct gb_driver_api *api, CUcontext context,
                                        CUlimit limit)
{
    struct gb_limit_shared *spare = NULL;

    for (int i = 0; i < PLACES; i++) {
        struct gb_limit_shared *place = &places[i];

        if (place->calls == 0)
            spare = place;
        else if (place->api == api && place->context == context && place->limit == limit)
            return place;
    }
    if (spare)
        *spare = (struct gb_limit_shared){
            .api = api, .context = context, .limit = limit, .calls = 0};
    return spare;
}

static bool ask(const struct gb_driver_api *api, CUlimit limit, size_t *value)
{
    struct gb_capture_mode saved;
    CUresult code;

    if (!api->cuCtxGetLimit)
        return false;
    saved = gb_capture_relax(api);
    code = api->cuCtxGetLimit(value, limit);
    gb_capture_restore(api, &saved);
    return code == CUDA_SUCCESS;
}

/*
 * Nobody sets the limit before he has asked, or found that it is known. So what is asked while
 * it is not known is the value before all of them.
 */
void gb_limit_change_begins(struct gb_limit_change *change, const struct gb_driver_api *api,
                            CUcontext context, CUlimit limit)
{
    struct gb_limit_shared *shared;
    bool known;

    *change = (struct gb_limit_change){.api = api, .limit = limit};
    gb_lock_take(&lock);
    shared = place_of(api, context, limit);
    if (shared)
        shared->calls++;
    known = shared && shared->known;
    gb_lock_drop(&lock);
    change->shared = shared;
    if (known)
        return;
    change->known = ask(api, limit, &change->value);
    if (!shared || !change->known)
        return;
    gb_lock_take(&lock);
    if (!shared->known) {
        shared->known = true;
        shared->value = change->value;
    }
    gb_lock_drop(&lock);
}

bool gb_limit_change_old(const struct gb_limit_change *change, size_t *value)
{
    bool known = change->known;

    *value = change->value;
    if (!change->shared)
        return known;
    gb_lock_take(&lock);
    known = change->shared->known;
    *value = change->shared->value;
    gb_lock_drop(&lock);
    return known;
}

void gb_limit_change_ends(struct gb_limit_change *change, bool granted, size_t value)
{
    if (!change->shared)
        return;
    gb_lock_take(&lock);
    if (granted) {
        change->shared->known = true;
        change->shared->value = value;
    }
    change->shared->calls--;
    gb_lock_drop(&lock);
    change->shared = NULL;
}

void gb_limits_forked(void)
{
    memset(places, 0, sizeof(places));
    gb_lock_init(&lock);
}
