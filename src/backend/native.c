/* SPDX-License-Identifier: Apache-2.0 */
/* The native backend: sessions made by the spawner, and taken over from an earlier one. */
#include "backend/native.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "backend/native-internal.h"
#include "core/fd.h"
#include "core/log.h"

#define MIB              (1024ULL * 1024)
#define READY_TIMEOUT_MS 30000

/* --- specs ---------------------------------------------------------------------------------------
 */

static int convert_mounts(const struct session_spec *from, struct sandbox_spec *to,
                          struct error *err)
{
    if (from->host_path && from->host_path_mode != MOUNT_NONE &&
        sandbox_spec_add_mount(to, from->host_path, from->mount_path,
                               from->host_path_mode == MOUNT_RW, err) < 0)
        return error_wrap(err, "host_path");
    if (to->mount_count > 0)
        to->mounts[0].make = from->make_host_path;
    for (size_t i = 0; i < from->mount_count; i++) {
        const struct session_mount *mount = &from->mounts[i];
        if (mount->mode != MOUNT_NONE &&
            sandbox_spec_add_mount(to, mount->host_path, mount->mount_path, mount->mode == MOUNT_RW,
                                   err) < 0)
            return error_wrap(err, "extra_mounts");
    }
    return 0;
}

static int convert(const struct native_options *options, const struct session_spec *from,
                   const char *key, struct sandbox_spec *to, struct error *err)
{
    if (strcmp(from->image, "host") != 0 && strcmp(from->image, SESSION_IMAGE_DEFAULT) != 0) {
        error_set(err, ERROR_INVALID, "image: there is no '%.200s' here", from->image);
        return error_hint(err, "leave it out, or use \"host\": the host's own /usr, read-only");
    }
    memcpy(to->key, key, sizeof to->key);
    to->network = from->network ? NETWORK_ON : NETWORK_OFF;
    if (from->network)
        strings_copy(&to->allow_net, &options->allow_net);
    to->writable_root = !from->read_only_rootfs;
    to->memory_bytes = from->memory_mb * MIB;
    to->cpu_milli = (uint32_t)(from->cpus * 1000 + 0.5);
    to->pids = from->pids_limit;
    to->quota_bytes = from->workspace_quota_mb * MIB;
    if (sandbox_spec_set_workspace(to, from->mount_path, err) < 0)
        return error_wrap(err, "mount_path");
    to->strict = options->strict;
    if (options->scratch_bytes)
        to->scratch_bytes = options->scratch_bytes;
    /* Scratch is memory: more of it than the session may have would only be a longer way to be
       killed. */
    if (to->scratch_bytes > to->memory_bytes)
        to->scratch_bytes = to->memory_bytes;
    return convert_mounts(from, to, err);
}

/* --- sessions ------------------------------------------------------------------------------------
 */

static struct native_session *session_new(struct native *native, const struct session_spec *spec,
                                          const char *key,
                                          const struct backend_session_events *events, void *owner)
{
    struct native_session *session = xcalloc(1, sizeof *session);
    session->base.backend = &native->base;
    session->events = events;
    session->owner = owner;
    session->control = -1;
    session->waiting_end = &session->waiting;
    session->memory_bytes = spec->memory_mb * MIB;
    memcpy(session->key, key, strnlen(key, sizeof session->key - 1));
    uv_timer_init(native->base.loop, &session->timer);
    session->timer.data = session;
    session->holds = 1; /* the timer's */
    session->next = native->sessions;
    session->at = &native->sessions;
    if (session->next)
        session->next->at = &session->next;
    native->sessions = session;
    return session;
}

static void on_late(uv_timer_t *timer)
{
    struct native_session *session = timer->data;
    struct error err = ERROR_INIT;
    error_set(&err, ERROR_GONE, "the session was not ready in %d s", READY_TIMEOUT_MS / 1000);
    native_session_failed(session, &err);
}

static void on_refused(uv_timer_t *timer)
{
    struct native_session *session = timer->data;
    struct error err = session->error;
    native_session_failed(session, &err);
}

/* Told from the loop: whoever asked has not got its pointer yet. */
static void refuse(struct native_session *session, const struct error *err)
{
    session->error = *err;
    uv_timer_start(&session->timer, on_refused, 0, 0);
}

static void take_created(struct native_session *session, const struct spawner_reply *reply,
                         int *fds, size_t count)
{
    struct native_lane *lane = native_lane(session, 0);
    session->state = NATIVE_BUILDING;
    session->range = reply->range;
    session->linked = reply->linked;
    memcpy(session->group, reply->group, sizeof session->group);
    session->group[sizeof session->group - 1] = '\0';
    if (reply->message[0])
        session->notes = xstrndup(reply->message, sizeof reply->message - 1);
    else if (reply->cgroup < CGROUP_VERSION_MAX) /* nothing is weaker, so all limits hold */
        native_of(session)->cgroup = (enum cgroup_version)reply->cgroup;
    native_session_connect(session, steal_fd(&fds[0]));
    lane->group = peer_lane_group(reply, fds + 2, count - 2);
    for (size_t i = 2; i < count; i++)
        fds[i] = -1;
    native_lane_ready(lane, steal_fd(&fds[1]));
    uv_timer_start(&session->timer, on_late, READY_TIMEOUT_MS, 0);
    native_dispatch(session);
}

static void on_created(void *data, const struct spawner_reply *reply, int *fds, size_t count)
{
    struct native_session *session = data;
    struct error err = ERROR_INIT;
    int rc = spawner_answered(reply, &err);
    if (reply) /* 0 if there is none */
        session->number = reply->session;
    if (rc == 0 && count < 2)
        rc = error_set(&err, ERROR_PROTOCOL, "the spawner sent no sockets");
    /* Somebody has deleted it meanwhile. */
    if (session->state == NATIVE_LEAVING)
        native_session_destroy(session);
    else if (rc < 0)
        native_session_failed(session, &err);
    else
        take_created(session, reply, fds, count);
    native_session_drop(session);
}

struct native_session *native_make(struct native *native, const struct session_spec *spec,
                                   const char *key, const struct backend_session_events *events,
                                   void *owner)
{
    struct native_session *session = session_new(native, spec, key, events, owner);
    const struct spawner_request head = {.type = SPAWNER_CREATE};
    struct sandbox_spec sandbox;
    struct error err = ERROR_INIT;
    sandbox_spec_init(&sandbox);
    static unsigned char data[sizeof head + SPEC_WIRE_MAX];
    struct wire_writer writer = {.data = data + sizeof head, .capacity = SPEC_WIRE_MAX};
    if (native->gone)
        error_set(&err, ERROR_UNAVAILABLE, "%s", native->reason);
    else if (convert(native->options, spec, session->key, &sandbox, &err) == 0 &&
             sandbox_spec_check(&sandbox, &err) == 0) {
        memcpy(data, &head, sizeof head);
        sandbox_spec_encode(&sandbox, &writer);
        if (writer.overflow)
            error_set(&err, ERROR_LIMIT, "the spec is too large");
    }
    sandbox_spec_bounded(&sandbox, &session->bounded);
    sandbox_spec_release(&sandbox);
    if (err.code) {
        refuse(session, &err);
        return session;
    }
    native_session_hold(session);
    native_call(native, data, sizeof head + writer.size, on_created, session);
    return session;
}

static void on_given(uv_timer_t *timer)
{
    native_session_ready(timer->data);
}

static struct backend_session *native_create(struct backend *backend,
                                             const struct session_spec *spec, const char *key,
                                             const struct backend_session_events *events,
                                             void *owner)
{
    struct native *native = (struct native *)backend;
    struct native_session *spare = native_spare_take(native, spec);
    if (!spare)
        return &native_make(native, spec, key, events, owner)->base;
    spare->events = events;
    spare->owner = owner;
    if (spare->state == NATIVE_LIVE) {
        /* It is, but its new owner has to be told so, and not before it has got the pointer. */
        spare->state = NATIVE_BUILDING;
        uv_timer_start(&spare->timer, on_given, 0, 0);
    }
    return &spare->base;
}

static void on_adopted(void *data, const struct spawner_reply *reply, int *fds, size_t count)
{
    struct native_session *session = data;
    struct error err = ERROR_INIT;
    int rc = spawner_answered(reply, &err);
    if (reply) /* 0 if there is none */
        session->number = reply->session;
    if (rc == 0 && count < 1)
        rc = error_set(&err, ERROR_PROTOCOL, "the spawner sent no socket");
    if (session->state == NATIVE_LEAVING) {
        native_session_destroy(session);
    } else if (rc < 0) {
        native_session_failed(session, &err);
    } else {
        session->state = NATIVE_ADOPTING;
        native_session_connect(session, steal_fd(&fds[0]));
        uv_timer_start(&session->timer, on_late, READY_TIMEOUT_MS, 0);
    }
    native_session_drop(session);
}

static struct backend_session *
native_adopt(struct backend *backend, const struct session_spec *spec, const char *key,
             const json_t *record, const struct backend_session_events *events, void *owner)
{
    struct native *native = (struct native *)backend;
    const char *made = json_string_value(json_object_get(record, "key"));
    struct native_session *session = session_new(native, spec, made ? made : key, events, owner);
    struct sandbox_spec sandbox;
    struct error err = ERROR_INIT;
    const char *group = json_string_value(json_object_get(record, "group"));
    const char *notes = json_string_value(json_object_get(record, "notes"));
    const json_t *range = json_object_get(record, "range");
    struct spawner_adopt request = {
        .head = {.type = SPAWNER_ADOPT},
        .range = (uint32_t)json_integer_value(range),
        .linked = json_is_true(json_object_get(record, "linked")),
    };
    if (!group || strlen(group) >= sizeof request.group || !json_is_integer(range)) {
        error_set(&err, ERROR_GONE, "the session's record does not tell where it is");
        refuse(session, &err);
        return &session->base;
    }
    memcpy(request.key, session->key, sizeof request.key);
    memcpy(request.group, group, strlen(group));
    memcpy(session->group, request.group, sizeof session->group);
    session->range = request.range;
    session->linked = request.linked;
    session->notes = xstrdup(notes ? notes : "");
    sandbox_spec_init(&sandbox);
    if (convert(native->options, spec, session->key, &sandbox, NULL) == 0)
        sandbox_spec_bounded(&sandbox, &session->bounded);
    sandbox_spec_release(&sandbox);
    native_session_hold(session);
    native_call(native, &request, sizeof request, on_adopted, session);
    return &session->base;
}

static json_t *native_record(const struct backend_session *base)
{
    const struct native_session *session = (const struct native_session *)base;
    return json_pack("{s:s, s:s, s:I, s:b, s:s}", "key", session->key, "group", session->group,
                     "range", (json_int_t)session->range, "linked", session->linked != 0, "notes",
                     session->notes ? session->notes : "");
}

static void native_outlive(struct backend_session *base, uint32_t seconds)
{
    const struct init_outlive message = {.type = INIT_OUTLIVE, .seconds = seconds};
    native_send((struct native_session *)base, &message, sizeof message, NULL, 0);
}

void native_destroy(struct backend_session *base, backend_done done, void *data)
{
    struct native_session *session = (struct native_session *)base;
    bool asked = session->number != 0 || session->state == NATIVE_ENDED;
    session->state = NATIVE_LEAVING;
    session->told = true;
    session->destroyed = done;
    session->destroyed_data = data;
    uv_timer_stop(&session->timer);
    /* Else it follows when the spawner has said what it is about. A refusal that was not told yet
       has nothing to end, but takes the same way: number 0 is nobody's. */
    if (asked || session->error.code)
        native_session_destroy(session);
}

static const char *native_notes(const struct backend_session *base)
{
    const struct native_session *session = (const struct native_session *)base;
    return session->notes ? session->notes : "";
}

static const char *native_id(const struct backend_session *base)
{
    return ((const struct native_session *)base)->key;
}

struct usage_question {
    void (*done)(void *data, const struct backend_usage *usage, const struct error *err);
    void *data;
};

static void on_usage(void *data, const struct spawner_reply *reply, int *fds, size_t count)
{
    struct usage_question *question = data;
    struct error err = ERROR_INIT;
    (void)fds;
    (void)count;
    if (spawner_answered(reply, &err) < 0) {
        question->done(question->data, NULL, &err);
    } else {
        const struct backend_usage usage = {.cpu_us = reply->usage.cpu_us,
                                            .memory_bytes = reply->usage.memory_bytes,
                                            .processes = reply->usage.processes};
        question->done(question->data, &usage, NULL);
    }
    free(question);
}

static void native_usage(struct backend_session *base,
                         void (*done)(void *data, const struct backend_usage *usage,
                                      const struct error *err),
                         void *data)
{
    const struct native_session *session = (const struct native_session *)base;
    const struct spawner_request request = {.type = SPAWNER_USAGE, .session = session->number};
    struct usage_question *question = xmalloc(sizeof *question);
    *question = (struct usage_question){.done = done, .data = data};
    native_call(native_of(session), &request, sizeof request, on_usage, question);
}

/* --- files
 * ---------------------------------------------------------------------------------------- */

static int native_file(struct backend_session *base, const struct file_request *request,
                       const char *path, const char *to, int *ret_sock, struct error *err)
{
    struct native_session *session = (struct native_session *)base;
    struct {
        struct init_file head;
        char paths[2 * INIT_PATH_MAX];
    } message = {.head = {.type = INIT_FILE, .request = *request}};
    size_t path_size = strlen(path) + 1;
    size_t to_size = to ? strlen(to) + 1 : 0;
    int pair[2];
    if (path_size > INIT_PATH_MAX || to_size > INIT_PATH_MAX) {
        error_set(err, ERROR_INVALID, "the path is longer than %u bytes", INIT_PATH_MAX - 1);
        if (err)
            err->errnum = ENAMETOOLONG;
        return -1;
    }
    message.head.path_size = (uint32_t)path_size;
    message.head.to_size = (uint32_t)to_size;
    memcpy(message.paths, path, path_size);
    if (to)
        memcpy(message.paths + path_size, to, to_size);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return error_errno(err, errno, "cannot make a socket");
    int rc = native_send(session, &message, sizeof message.head + path_size + to_size, &pair[1], 1);
    close(pair[1]);
    if (rc < 0) {
        close(pair[0]);
        return error_set(err, rc == -EAGAIN ? ERROR_UNAVAILABLE : ERROR_GONE,
                         rc == -EAGAIN ? "the session has too many requests for files to answer"
                                       : "the session has ended");
    }
    fcntl(pair[0], F_SETFL, O_NONBLOCK);
    *ret_sock = pair[0];
    return 0;
}

/* --- the backend
 * ----------------------------------------------------------------------------------- */

static void on_swept(void *data, const struct spawner_reply *reply, int *fds, size_t count)
{
    struct native *native = data;
    struct error err = ERROR_INIT;
    (void)fds;
    (void)count;
    /* A spawner that could not get ready answers everything with the reason. */
    if (reply && reply->code) {
        peer_spawner_failed(reply, &err);
        log_error(LOG_ERROR, "no_sessions", &err);
        cleanup_free char *fix = err.hint[0] ? xasprintf(" (%s)", err.hint) : xstrdup("");
        snprintf(native->reason, sizeof native->reason, "%.300s%.200s", err.message, fix);
    } else if (reply && reply->cgroup < CGROUP_VERSION_MAX) {
        native->cgroup = (enum cgroup_version)reply->cgroup;
    }
}

static void native_sweep(struct backend *backend)
{
    const struct spawner_request request = {.type = SPAWNER_SWEEP};
    native_call((struct native *)backend, &request, sizeof request, on_swept, backend);
}

static const char *native_unavailable(struct backend *backend)
{
    const struct native *native = (const struct native *)backend;
    return native->reason[0] ? native->reason : NULL;
}

/* As the spawner sees it, whose groups they are: the front may see none. */
static const char *native_cgroup_kind(struct backend *backend)
{
    return native_cgroup_name(((const struct native *)backend)->cgroup);
}

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void native_close(struct backend *backend)
{
    struct native *native = (struct native *)backend;
    native->gone = true;
    native->base.lost = NULL;
    native_calls_fail(native);
    native_spare_release(native);
    while (native->sessions)
        native_session_abandon(native->sessions);
    fd_clear(&native->sock);
    uv_close((uv_handle_t *)&native->poll, on_closed);
}

static const struct backend_ops native_ops = {
    .name = "native",
    .create = native_create,
    .adopt = native_adopt,
    .sweep = native_sweep,
    .record = native_record,
    .outlive = native_outlive,
    .destroy = native_destroy,
    .notes = native_notes,
    .id = native_id,
    .usage = native_usage,
    .start = native_start,
    .adopt_process = native_adopt_process,
    .keep = native_keep,
    .signal = native_signal,
    .kill = native_kill,
    .file = native_file,
    .describe = native_describe,
    .read_marker = native_marker,
    .bound_store = native_store,
    .cgroup_kind = native_cgroup_kind,
    .unavailable = native_unavailable,
    .close = native_close,
};

int native_spawn(const struct native_options *options, int *ret_sock, pid_t *ret_pid,
                 struct error *err)
{
    return spawner_fork(options->spawner, ret_sock, ret_pid, err);
}

struct backend *native_new(uv_loop_t *loop, int sock, const struct native_options *options)
{
    struct native *native = xcalloc(1, sizeof *native);
    int size = SPEC_WIRE_MAX * 2;
    native->base.ops = &native_ops;
    native->base.loop = loop;
    native->options = options;
    native->sock = sock;
    native_calls_init(native);
    /* A spec with many mounts is larger than the default buffer takes in one message. */
    setsockopt(sock, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    fcntl(sock, F_SETFL, O_NONBLOCK);
    if (uv_poll_init(loop, &native->poll, sock) < 0)
        abort();
    native_watch(native);
    return &native->base;
}
