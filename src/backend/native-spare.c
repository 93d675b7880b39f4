/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions made ahead, so that who asks for one need not wait until it is made.

   Sessions that differ in nothing but their name are alike before their first command: without
   mounts, network and quota there is nothing of anybody's in them. When the last two of that kind
   that were asked for were alike too, a few more are made while nobody waits, and the next request
   is given one. A spare is nobody's: it has no record, is not told to outlive this process, and is
   swept with whatever else an earlier boxd left.

   It keeps the key that it was made with, which is why adoption takes that from the record. */
#include <string.h>

#include "backend/native-internal.h"
#include "core/random.h"

static bool is_plain(const struct session_spec *spec)
{
    return !spec->network && spec->mount_count == 0 && spec->workspace_quota_mb == 0 &&
           (!spec->host_path || spec->host_path_mode == MOUNT_NONE);
}

static bool alike(const struct session_spec *a, const struct session_spec *b)
{
    return a->image && strcmp(a->image, b->image) == 0 &&
           strcmp(a->mount_path, b->mount_path) == 0 && a->memory_mb == b->memory_mb &&
           !(a->cpus < b->cpus || a->cpus > b->cpus) && a->pids_limit == b->pids_limit &&
           a->read_only_rootfs == b->read_only_rootfs;
}

static void forget(struct native_spares *spares, const struct native_session *session)
{
    for (unsigned i = 0; i < spares->count; i++) {
        if (spares->items[i] == session) {
            spares->items[i] = spares->items[--spares->count];
            return;
        }
    }
}

/* One that could not be made is not tried again until somebody got one in the usual way. */
static void on_ready(void *owner, const struct error *err)
{
    struct native_session *session = owner;
    if (err)
        forget(&native_of(session)->spares, session);
}

static void on_ended(void *owner, const struct error *why)
{
    struct native_session *session = owner;
    (void)why;
    forget(&native_of(session)->spares, session);
    native_destroy(&session->base, NULL, NULL);
}

static const struct backend_session_events spare_events = {.ready = on_ready, .ended = on_ended};

static void drop_all(struct native_spares *spares)
{
    while (spares->count > 0)
        native_destroy(&spares->items[--spares->count]->base, NULL, NULL);
}

struct native_session *native_spare_take(struct native *native, const struct session_spec *spec)
{
    struct native_spares *spares = &native->spares;
    if (native->options->spares == 0 || !is_plain(spec))
        return NULL;
    spares->steady = alike(&spares->last, spec);
    if (!spares->steady) {
        session_spec_release(&spares->last);
        session_spec_copy(&spares->last, spec);
        return NULL;
    }
    if (spares->count == 0 || !alike(&spares->spec, spec))
        return NULL;
    /* The oldest is the likeliest to be up. */
    struct native_session *session = spares->items[0];
    memmove(spares->items, spares->items + 1, --spares->count * sizeof spares->items[0]);
    return session;
}

void native_spare_refill(struct native *native)
{
    struct native_spares *spares = &native->spares;
    char key[SPEC_KEY_MAX];
    if (!spares->steady || native->gone || spares->count >= native->options->spares)
        return;
    if (!alike(&spares->spec, &spares->last)) {
        drop_all(spares);
        session_spec_release(&spares->spec);
        session_spec_copy(&spares->spec, &spares->last);
    }
    /* One at a time: the next when this one is up. */
    for (unsigned i = 0; i < spares->count; i++)
        if (spares->items[i]->state != NATIVE_LIVE)
            return;
    if (random_hex(key, sizeof key, NULL) < 0)
        return;
    struct native_session *session = native_make(native, &spares->spec, key, &spare_events, NULL);
    session->owner = session;
    spares->items[spares->count++] = session;
}

void native_spare_release(struct native *native)
{
    native->spares.count = 0;
    session_spec_release(&native->spares.spec);
    session_spec_release(&native->spares.last);
}
