/* SPDX-License-Identifier: Apache-2.0 */
/* Opening a session: found and fitting, found and different, being made, being ended, or not there.
 */
#include <string.h>

#include "core/path.h"
#include "core/random.h"
#include "runtime/internal.h"

/* --- does it fit? ----------------------------------------------------------------------------- */

static bool same_text(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static int conflict(const struct session_spec *is, enum spec_field field, const char *value,
                    struct error *err)
{
    error_set(err, ERROR_SESSION_CONFLICT, "session '%s' exists with %s = %.160s", is->name,
              spec_field_name(field), value);
    return error_hint(err, "ask for that, use another session_id, or delete the session first");
}

static int conflict_number(const struct session_spec *is, enum spec_field field, double value,
                           struct error *err)
{
    char text[40];
    snprintf(text, sizeof text, "%.15g", value);
    return conflict(is, field, text, err);
}

static int conflict_flag(const struct session_spec *is, enum spec_field field, bool value,
                         struct error *err)
{
    return conflict(is, field, value ? "true" : "false", err);
}

static bool names(const struct session_spec *wanted, enum spec_field field)
{
    return wanted->named >> field & 1;
}

static int fits(const struct session_spec *is, const struct session_spec *wanted, struct error *err)
{
    if (names(wanted, SPEC_NETWORK) && is->network != wanted->network)
        return conflict(is, SPEC_NETWORK, is->network ? "on" : "off", err);
    if (names(wanted, SPEC_IMAGE) && !same_text(is->image, wanted->image))
        return conflict(is, SPEC_IMAGE, is->image, err);
    if (names(wanted, SPEC_HOST_PATH) && !same_text(is->host_path, wanted->host_path))
        return conflict(is, SPEC_HOST_PATH, is->host_path ? is->host_path : "null", err);
    if (names(wanted, SPEC_HOST_PATH_MODE) && is->host_path_mode != wanted->host_path_mode)
        return conflict(is, SPEC_HOST_PATH_MODE, mount_mode_name(is->host_path_mode), err);
    if (names(wanted, SPEC_MOUNT_PATH) && !same_text(is->mount_path, wanted->mount_path))
        return conflict(is, SPEC_MOUNT_PATH, is->mount_path, err);
    if (names(wanted, SPEC_PERSISTENT) && is->persistent != wanted->persistent)
        return conflict_flag(is, SPEC_PERSISTENT, is->persistent, err);
    if (names(wanted, SPEC_CPUS) && (is->cpus < wanted->cpus || is->cpus > wanted->cpus))
        return conflict_number(is, SPEC_CPUS, is->cpus, err);
    if (names(wanted, SPEC_MEMORY_MB) && is->memory_mb != wanted->memory_mb)
        return conflict_number(is, SPEC_MEMORY_MB, (double)is->memory_mb, err);
    if (names(wanted, SPEC_PIDS_LIMIT) && is->pids_limit != wanted->pids_limit)
        return conflict_number(is, SPEC_PIDS_LIMIT, is->pids_limit, err);
    if (names(wanted, SPEC_READ_ONLY_ROOTFS) && is->read_only_rootfs != wanted->read_only_rootfs)
        return conflict_flag(is, SPEC_READ_ONLY_ROOTFS, is->read_only_rootfs, err);
    if (names(wanted, SPEC_WORKSPACE_QUOTA_MB) &&
        is->workspace_quota_mb != wanted->workspace_quota_mb)
        return conflict_number(is, SPEC_WORKSPACE_QUOTA_MB, (double)is->workspace_quota_mb, err);
    return 0;
}

static bool has_mount(const struct session_spec *spec, const struct session_mount *mount)
{
    for (size_t i = 0; i < spec->mount_count; i++) {
        if (same_text(spec->mounts[i].host_path, mount->host_path) &&
            same_text(spec->mounts[i].mount_path, mount->mount_path) &&
            spec->mounts[i].mode == mount->mode)
            return true;
    }
    return false;
}

static bool has_mounts_of(const struct session_spec *spec, const struct session_spec *other)
{
    for (size_t i = 0; i < other->mount_count; i++)
        if (other->mounts[i].mode != MOUNT_NONE && !has_mount(spec, &other->mounts[i]))
            return false;
    return true;
}

/* In whatever order; one that is not mounted is none. More than was asked for are worth no
   refusal. */
static bool has_wanted_mounts(const struct session_spec *is, const struct session_spec *wanted)
{
    if (!names(wanted, SPEC_EXTRA_MOUNTS) && !names(wanted, SPEC_SKILLS))
        return true;
    return has_mounts_of(is, wanted) && (!wanted->recreate || has_mounts_of(wanted, is));
}

static int conflict_mounts(const struct session_spec *is, struct error *err)
{
    error_set(err, ERROR_SESSION_CONFLICT, "session '%s' exists without these mounts", is->name);
    return error_hint(err, "use another session_id, or delete the session first, with all that is "
                           "in it");
}

/* --- may it be made? -------------------------------------------------------------------------- */

static int check_root(const struct runtime *runtime, const char *field, const char *path,
                      struct error *err)
{
    const struct strings *roots = &runtime->config.allowed_roots;
    for (size_t i = 0; i < roots->count; i++) {
        cleanup_free char *root = path_normalise(roots->items[i], NULL);
        if (root && path_is_below(path, root))
            return 0;
    }
    error_set(err, ERROR_DENIED, "%s '%.200s' lies outside the allowed roots", field, path);
    return error_hint(err, "mounts.allowed_roots of boxd.yaml says what may be mounted");
}

/* The spawner checks again, by descriptor; this is the early and clear answer. */
static int check_roots(const struct runtime *runtime, const struct session_spec *spec,
                       struct error *err)
{
    if (runtime->config.allowed_roots.count == 0 && !runtime->config.only_allowed)
        return 0;
    if (spec->host_path && spec->host_path_mode != MOUNT_NONE && !spec->own_host_path &&
        check_root(runtime, "host_path", spec->host_path, err) < 0)
        return -1;
    for (size_t i = 0; i < spec->mount_count; i++) {
        if (spec->mounts[i].mode != MOUNT_NONE && !spec->mounts[i].of_store &&
            check_root(runtime, "extra_mounts: host_path", spec->mounts[i].host_path, err) < 0)
            return -1;
    }
    return 0;
}

static int may_create(const struct runtime *runtime, const struct session_spec *spec,
                      struct error *err)
{
    if (guards_ask(runtime, spec->name, err) < 0)
        return -1;
    const char *why = runtime->ops->unavailable(runtime->backend);
    if (why)
        return error_set(err, ERROR_UNAVAILABLE, "no sessions can be made: %s", why);
    if (check_roots(runtime, spec, err) < 0)
        return -1;
    if (runtime->table.count >= runtime->config.max_sessions) {
        error_set(err, ERROR_CAPACITY, "there are %zu sessions, and max_sessions is %u",
                  runtime->table.count, runtime->config.max_sessions);
        return error_hint(err, "delete sessions that are not needed, or raise limits.max_sessions");
    }
    return 0;
}

/* --- making it -------------------------------------------------------------------------------- */

static void on_ready(void *owner, const struct error *err)
{
    session_ready(owner, err);
}

static void on_ended(void *owner, const struct error *why)
{
    session_lost(owner, why);
}

const struct backend_session_events session_events = {.ready = on_ready, .ended = on_ended};

static void on_saved(struct record_waiter *waiter, const struct error *err)
{
    struct session *session = list_entry(waiter, struct session, saved);
    if (!err && session->state == SESSION_ENDING) /* boxd was told to stop meanwhile */
        return session_drop(session, session->end, NULL);
    if (err) {
        session->end = SESSION_END_FAILED;
        session->fail = error_copy(err);
        task_later(session->runtime, &session->gone_task);
        return;
    }
    session->backend = session->runtime->ops->create(session->runtime->backend, &session->spec,
                                                     session->key, &session_events, session);
    session_kick(session);
}

static struct session *create(struct opening *opening, struct error *err)
{
    struct runtime *runtime = opening->runtime;
    char key[SESSION_KEY_SIZE];
    if (may_create(runtime, &opening->spec, err) < 0 || random_hex(key, sizeof key, err) < 0)
        return NULL;
    struct session *session = session_new(runtime, &opening->spec, key, opening->actor);
    session->saved.done = on_saved;
    opening->created = true;
    return session;
}

/* --- requests --------------------------------------------------------------------------------- */

static void opening_free(struct opening *opening)
{
    if (opening->session)
        session_release(opening->session);
    if (opening->execution)
        opening->execution->opening = NULL;
    session_spec_release(&opening->spec);
    free(opening->err);
    memory_later(opening->runtime, opening);
}

void opening_tell(struct opening *opening)
{
    list_remove(&opening->link);
    task_cancel(&opening->task);
    struct execution *execution = opening->execution;
    session_done done = opening->done;
    opening->done = NULL;
    if (execution)
        execution->opening = NULL;
    opening->execution = NULL;
    if (done)
        done(opening->data, opening->err ? NULL : opening->session, opening->created, opening->err);
    if (execution && opening->err)
        execution_fail(execution, opening->err);
    else if (execution && execution->state == EXEC_OVER)
        task_later(opening->runtime, &execution->task); /* it waited for this */
    opening_free(opening);
}

static void on_opening(struct task *task)
{
    struct opening *opening = list_entry(task, struct opening, task);
    /* It was there when it was asked for, and is not any more. */
    if (opening->session && !opening->err && !opening->placed &&
        opening->session->state != SESSION_LIVE) {
        session_release(steal_ptr(opening->session));
        opening_go(opening);
        return;
    }
    opening_tell(opening);
}

static void on_again(struct task *task)
{
    opening_go(list_entry(task, struct opening, task));
}

struct opening *opening_new(struct runtime *runtime, const struct session_spec *spec,
                            session_done done, void *data)
{
    struct opening *opening = xcalloc(1, sizeof *opening);
    opening->runtime = runtime;
    opening->done = done;
    opening->data = data;
    memcpy(opening->actor, runtime->actor, sizeof opening->actor);
    list_init(&opening->link);
    task_init(&opening->task, on_opening);
    session_spec_copy(&opening->spec, spec);
    return opening;
}

void opening_fail(struct opening *opening, const struct error *err)
{
    list_remove(&opening->link);
    if (!opening->err)
        opening->err = error_copy(err);
    opening->task.run = on_opening;
    task_later(opening->runtime, &opening->task);
}

void openings_fail(struct list *openings, const struct error *err)
{
    while (!list_empty(openings))
        opening_fail(list_entry(openings->next, struct opening, link), err);
}

void openings_again(struct list *openings)
{
    while (!list_empty(openings)) {
        struct opening *opening = list_entry(openings->next, struct opening, link);
        list_remove(&opening->link);
        if (opening->placed && opening->execution)
            execution_unplace(opening->execution);
        opening->placed = false;
        if (opening->session)
            session_release(steal_ptr(opening->session));
        opening->task.run = on_again;
        task_later(opening->runtime, &opening->task);
    }
}

void openings_ready(struct session *session)
{
    struct list now;
    list_take(&now, &session->openings);
    while (!list_empty(&now)) {
        struct opening *opening = list_entry(now.next, struct opening, link);
        list_remove(&opening->link);
        if (opening->session) {
            opening_tell(opening);
            continue;
        }
        /* It wanted other mounts. */
        opening->task.run = on_again;
        task_later(session->runtime, &opening->task);
    }
}

/* In normal form, so that the same path written differently is no conflict. */
static int normalise(struct session_spec *spec, struct error *err)
{
    char **paths[SESSION_MOUNTS_MAX * 2 + 2] = {&spec->host_path, &spec->mount_path};
    size_t count = 2;
    for (size_t i = 0; i < spec->mount_count; i++) {
        paths[count++] = &spec->mounts[i].host_path;
        paths[count++] = &spec->mounts[i].mount_path;
    }
    for (size_t i = 0; i < count; i++) {
        if (!*paths[i])
            continue;
        char *normal = path_normalise(*paths[i], err);
        if (!normal)
            return -1;
        free(*paths[i]);
        *paths[i] = normal;
    }
    return 0;
}

static void give(struct opening *opening, struct session *session)
{
    opening->session = session;
    session_hold(session);
    session_touch(session);
    if (opening->execution) {
        opening->placed = true;
        execution_place(opening->execution, session);
    }
}

static void opening_new_session(struct opening *opening)
{
    struct error err = ERROR_INIT;
    struct session *session = create(opening, &err);
    if (!session)
        return opening_fail(opening, &err);
    list_append(&session->openings, &opening->link);
    give(opening, session);
    record_save(session, &session->saved);
}

/* Decides; may be called again for one that had to wait. */
void opening_go(struct opening *opening)
{
    struct runtime *runtime = opening->runtime;
    struct error err = ERROR_INIT;
    if (runtime->stopping) {
        error_set(&err, ERROR_UNAVAILABLE, "boxd is stopping");
        return opening_fail(opening, &err);
    }
    struct session *session = table_find(&runtime->table, opening->spec.name);
    if (!session)
        return opening_new_session(opening);
    bool ending = session->state == SESSION_ENDING || !list_empty(&session->deletions);
    if (!ending && session->state != SESSION_BROKEN) {
        if (fits(&session->spec, &opening->spec, &err) < 0)
            return opening_fail(opening, &err);
        if (has_wanted_mounts(&session->spec, &opening->spec)) {
            give(opening, session);
            opening->task.run = on_opening;
            if (session->state == SESSION_STARTING)
                list_append(&session->openings, &opening->link);
            else
                task_later(runtime, &opening->task);
            return;
        }
        if (!opening->spec.recreate && conflict_mounts(&session->spec, &err) < 0)
            return opening_fail(opening, &err);
        if (session->state == SESSION_STARTING) {
            list_append(&session->openings, &opening->link);
            return;
        }
    }
    struct error refused = ERROR_INIT;
    if (check_roots(runtime, &opening->spec, &refused) < 0)
        return opening_fail(opening, &refused);
    opening->task.run = on_again;
    list_append(&session->after, &opening->link);
    if (session->state != SESSION_STARTING) /* else a deletion waits for it to be made */
        session_finish(session, SESSION_END_REPLACED);
}

static struct opening *open_checked(struct runtime *runtime, const struct session_spec *spec,
                                    session_done done, void *data, bool *ret_good)
{
    struct error err = ERROR_INIT;
    struct opening *opening = opening_new(runtime, spec, done, data);
    *ret_good =
        session_spec_check(&opening->spec, &err) == 0 && normalise(&opening->spec, &err) == 0;
    if (!*ret_good)
        opening_fail(opening, &err);
    return opening;
}

void runtime_open_session(struct runtime *runtime, const struct session_spec *spec,
                          session_done done, void *data)
{
    bool good;
    struct opening *opening = open_checked(runtime, spec, done, data, &good);
    if (good)
        opening_go(opening);
}

struct execution *runtime_exec(struct runtime *runtime, const struct session_spec *spec,
                               const struct exec_request *request, session_done opened,
                               const struct exec_events *events, void *owner)
{
    bool good;
    struct opening *opening = open_checked(runtime, spec, opened, owner, &good);
    struct execution *execution = execution_new(runtime, request, events, owner);
    execution->opening = opening;
    opening->execution = execution;
    if (!good)
        return execution;
    if (execution->err)
        opening_fail(opening, execution->err);
    else
        opening_go(opening);
    return execution;
}
