/* SPDX-License-Identifier: Apache-2.0 */
/* The backend that runs nothing: sessions and processes are bookkeeping, their events come from the
   loop. Besides what null-backend.h says it knows these commands:

     error WORDS     writes them to its standard error
     flood N         writes N bytes: lines of 63 letters, one letter a line, from a to z and again
     pour N          the same, once it is sent something
     cat             standard input to standard output, until its end
     stubborn        hangs, and takes no notice of SIGTERM
     leak WORDS      writes them and ends, but something of it keeps the pipe open
     oom             is killed for memory
     break           ends its session

   and these images: "fail" cannot be made, "slow" takes its time, "stuck" is never ready by itself.

   Sessions that outlive() was called for stay, with their processes, in a list of this program when
   the backend is closed, and can be adopted by the next one. */
#include "null-backend.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/fd.h"
#include "core/json.h"
#include "sandbox/roots.h"

#define SLOW_MS 20

struct null_backend {
    struct backend base;
    struct null_session *sessions;
    struct null_event *first, **last;
    uv_timer_t timer;
    bool closing;
};

struct null_session {
    struct backend_session base;
    struct null_session *next;
    const struct backend_session_events *events;
    void *owner;
    char key[17];
    bool ready, ended, outlives;
    uv_timer_t *slow;
    struct null_process *processes;
    int leaked[16];
    size_t leaked_count;
    backend_done destroyed;
    void *destroyed_data;
};

struct null_process {
    struct backend_process base;
    struct null_process *next;
    const struct backend_process_events *events; /* NULL: nobody listens */
    void *owner;
    char *text;
    int fds[3];
    int terminal;
    uv_poll_t *polls[2];
    char buffer[4096];
    size_t buffered;
    uint64_t flood, flooded, pour;
    bool begun, started, over, killed, timed_out, stubborn;
    int exit_code, signal;
    const char *cause;
    uint32_t keep_id;
    int kept[BACKEND_KEPT_FDS];
    size_t kept_count;
};

enum null_what {
    NULL_READY,
    NULL_KEPT,
    NULL_STARTED,
    NULL_RUN,
    NULL_ENDED,
    NULL_GONE,
    NULL_MARKER
};

/* A question for a file, and its answer. */
struct null_marker {
    void (*done)(void *data, const void *bytes, size_t size, const struct error *err);
    backend_done bound; /* in its place, of one for a limit */
    void *data;
    unsigned char bytes[ROOTS_MARKER_MAX];
    size_t size;
    struct error err;
};

struct null_event {
    struct null_event *next;
    enum null_what what;
    struct null_session *session;
    struct null_process *process;
    struct null_marker *marker;
};

static struct null_session *survivors;

/* --- events ----------------------------------------------------------------------------------- */

static struct null_backend *backend_of(const struct null_session *session)
{
    return (struct null_backend *)session->base.backend;
}

static struct null_session *session_of(const struct null_process *process)
{
    return (struct null_session *)process->base.session;
}

static void on_timer(uv_timer_t *timer);

static void post_event(struct null_backend *backend, struct null_event given)
{
    struct null_event *event = xcalloc(1, sizeof *event);
    *event = given;
    *backend->last = event;
    backend->last = &event->next;
    uv_timer_start(&backend->timer, on_timer, 0, 0);
}

static void post(struct null_session *session, struct null_process *process, enum null_what what)
{
    post_event(backend_of(session),
               (struct null_event){.what = what, .session = session, .process = process});
}

/* Nothing is to come any more for this session, or only for this process of it. */
static void unpost(struct null_session *session, const struct null_process *process)
{
    struct null_backend *backend = backend_of(session);
    struct null_event **at = &backend->first;
    while (*at) {
        struct null_event *event = *at;
        if (event->session == session && (!process || event->process == process)) {
            *at = event->next;
            free(event);
        } else {
            at = &event->next;
        }
    }
    backend->last = at;
}

/* --- processes -------------------------------------------------------------------------------- */

static void on_poll_closed(uv_handle_t *handle)
{
    free(handle);
}

static void stop_polls(struct null_process *process)
{
    for (int i = 0; i < 2; i++) {
        if (process->polls[i])
            uv_close((uv_handle_t *)process->polls[i], on_poll_closed);
        process->polls[i] = NULL;
    }
}

static void close_process(struct null_process *process)
{
    stop_polls(process);
    for (int i = 0; i < 3; i++)
        fd_clear(&process->fds[i]);
    fd_clear(&process->terminal);
}

static void process_free(struct null_process *process)
{
    struct null_session *session = session_of(process);
    struct null_process **at = &session->processes;
    while (*at && *at != process)
        at = &(*at)->next;
    if (*at)
        *at = process->next;
    unpost(session, process);
    close_process(process);
    for (size_t i = 0; i < process->kept_count; i++)
        fd_clear(&process->kept[i]);
    free(process->text);
    free(process);
}

static void end(struct null_process *process, int exit_code, int signal_number, const char *cause)
{
    if (process->over)
        return;
    process->over = true;
    process->exit_code = exit_code;
    process->signal = signal_number;
    process->cause = cause;
    close_process(process);
    post(session_of(process), process, NULL_ENDED);
}

static void say(int fd, const char *words)
{
    if (write(fd, words, strlen(words)) < 0 || write(fd, "\n", 1) < 0)
        return;
}

static void pump(struct null_process *process);

static void on_poll(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    pump(poll->data);
}

static void watch(struct null_process *process, int which, int fd, int events)
{
    if (!process->polls[which]) {
        process->polls[which] = xmalloc(sizeof(uv_poll_t));
        process->polls[which]->data = process;
        uv_poll_init(backend_of(session_of(process))->base.loop, process->polls[which], fd);
    }
    if (events)
        uv_poll_start(process->polls[which], events, on_poll);
    else
        uv_poll_stop(process->polls[which]);
}

static void more_flood(struct null_process *process)
{
    while (process->buffered < sizeof process->buffer && process->flooded < process->flood) {
        uint64_t at = process->flooded++;
        process->buffer[process->buffered++] = at % 64 == 63 ? '\n' : (char)('a' + at / 64 % 26);
    }
}

/* cat and flood: as much as goes, then wait for what is missing. */
static void pump(struct null_process *process)
{
    int in = process->terminal >= 0 ? process->terminal : process->fds[0];
    int out = process->terminal >= 0 ? process->terminal : process->fds[1];
    bool cat = process->flood == 0;
    for (;;) {
        more_flood(process);
        if (process->buffered == 0 && !cat)
            return end(process, 0, 0, "exited");
        if (process->buffered == 0) {
            ssize_t n = read(in, process->buffer, sizeof process->buffer);
            if (n < 0 && errno == EAGAIN)
                break;
            if (n <= 0)
                return end(process, 0, 0, "exited");
            process->buffered = (size_t)n;
        }
        if (process->pour > 0) {
            process->flood = process->pour;
            process->pour = process->buffered = 0;
            cat = false;
            continue;
        }
        ssize_t n = write(out, process->buffer, process->buffered);
        if (n < 0 && errno != EAGAIN)
            return end(process, -1, 13, "signal");
        if (n < 0)
            break;
        memmove(process->buffer, process->buffer + n, process->buffered - (size_t)n);
        process->buffered -= (size_t)n;
    }
    if (process->terminal >= 0)
        return watch(process, 0, in, process->buffered ? UV_WRITABLE : UV_READABLE);
    if (cat || process->polls[0])
        watch(process, 0, in, cat && !process->buffered ? UV_READABLE : 0);
    watch(process, 1, out, process->buffered ? UV_WRITABLE : 0);
}

static bool starts_with(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static void run(struct null_process *process)
{
    struct null_session *session = session_of(process);
    const char *text = process->text;
    process->stubborn = strcmp(text, "stubborn") == 0;
    if (strcmp(text, "hang") == 0 || process->stubborn)
        return;
    if (strcmp(text, "cat") == 0 || starts_with(text, "flood ") || starts_with(text, "pour ") ||
        process->terminal >= 0) {
        if (starts_with(text, "flood "))
            process->flood = strtoull(text + 6, NULL, 10);
        if (starts_with(text, "pour "))
            process->pour = strtoull(text + 5, NULL, 10);
        for (int i = 0; i < 2; i++) {
            if (process->fds[i] >= 0)
                fcntl(process->fds[i], F_SETFL, fcntl(process->fds[i], F_GETFL) | O_NONBLOCK);
        }
        return pump(process);
    }
    if (starts_with(text, "echo ") || starts_with(text, "leak "))
        say(process->fds[1], text + 5);
    if (starts_with(text, "leak ") && session->leaked_count < 16)
        session->leaked[session->leaked_count++] = steal_fd(&process->fds[1]);
    if (starts_with(text, "error "))
        say(process->fds[2], text + 6);
    if (strcmp(text, "oom") == 0)
        return end(process, -1, 9, "oom");
    if (strcmp(text, "break") == 0) {
        session->ended = true;
        end(process, -1, 9, "signal");
        post(session, NULL, NULL_GONE);
        return;
    }
    end(process, starts_with(text, "exit ") ? atoi(text + 5) : 0, 0, "exited");
}

static void tell_started(struct null_process *process)
{
    struct error err;
    if (process->over || !process->events)
        return;
    if (strcmp(process->text, "fail") == 0) {
        const struct backend_process_events *events = process->events;
        void *owner = process->owner;
        error_set(&err, ERROR_NOT_FOUND, "there is no program 'fail'");
        process_free(process);
        events->started(owner, -1, &err);
        return;
    }
    int master = -1;
    if (process->terminal == -2) {
        int pair[2];
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0) {
            process->terminal = pair[0];
            master = pair[1];
        }
    }
    process->started = true;
    post(session_of(process), process, NULL_RUN);
    process->events->started(process->owner, master, NULL);
}

static void tell_ended(struct null_process *process)
{
    const struct backend_process_events *events = process->events;
    void *owner = process->owner;
    struct error err;
    struct backend_outcome outcome = {
        .timed_out = process->timed_out,
        .exit_code = process->exit_code,
        .signal = process->signal,
        .cause = process->cause,
        .wall_us = 1000,
        .cpu_us = 500,
        .peak_bytes = 4096,
    };
    bool lost = session_of(process)->ended || session_of(process)->destroyed;
    process_free(process);
    error_set(&err, ERROR_GONE, "its session ended");
    if (events)
        events->ended(owner, lost ? NULL : &outcome, lost ? &err : NULL);
}

static char *text_of(const struct backend_command *command)
{
    char *const *argv = command->argv;
    if (argv[0] && argv[1] && strcmp(argv[0], "sh") == 0 && argv[2] && argv[1][0] == '-')
        return xstrdup(argv[2]);
    char *text = xstrdup(argv[0] ? argv[0] : "");
    for (size_t i = 1; argv[0] && argv[i]; i++) {
        char *longer = xasprintf("%s %s", text, argv[i]);
        free(text);
        text = longer;
    }
    return text;
}

static struct backend_process *null_start(struct backend_session *base,
                                          const struct backend_command *command,
                                          const struct backend_process_events *events, void *owner)
{
    struct null_session *session = (struct null_session *)base;
    struct null_process *process = xcalloc(1, sizeof *process);
    process->base.session = base;
    process->events = events;
    process->owner = owner;
    process->text = text_of(command);
    process->keep_id = command->keep_id;
    process->terminal = command->terminal ? -2 : -1;
    for (int i = 0; i < 3; i++)
        process->fds[i] = command->terminal ? -1 : fcntl(command->fds[i], F_DUPFD_CLOEXEC, 3);
    struct null_process **at = &session->processes;
    while (*at)
        at = &(*at)->next;
    *at = process;
    if (session->ready)
        post(session, process, NULL_STARTED);
    return &process->base;
}

static struct backend_process *null_adopt_process(struct backend_session *base, uint32_t keep_id,
                                                  const struct backend_process_events *events,
                                                  void *owner)
{
    struct null_session *session = (struct null_session *)base;
    for (struct null_process *process = session->processes; process; process = process->next) {
        if (process->keep_id != keep_id || process->events)
            continue;
        process->events = events;
        process->owner = owner;
        if (process->over)
            post(session, process, NULL_ENDED);
        else if (process->started)
            post(session, process, NULL_RUN);
        return &process->base;
    }
    return NULL;
}

static bool null_keep(struct backend_process *base, const int *fds, size_t count)
{
    struct null_process *process = (struct null_process *)base;
    for (size_t i = 0; i < process->kept_count; i++)
        fd_clear(&process->kept[i]);
    process->kept_count = 0;
    for (size_t i = 0; i < count; i++)
        process->kept[process->kept_count++] = fcntl(fds[i], F_DUPFD_CLOEXEC, 3);
    return true;
}

static void null_signal(struct backend_process *base, int number)
{
    struct null_process *process = (struct null_process *)base;
    if (number == 15 && process->stubborn)
        return;
    end(process, -1, number, "signal");
}

static void null_kill(struct backend_process *base, bool timed_out)
{
    struct null_process *process = (struct null_process *)base;
    process->timed_out = timed_out;
    end(process, -1, 9, timed_out ? "timeout" : "signal");
}

/* --- sessions --------------------------------------------------------------------------------- */

static void on_slow_closed(uv_handle_t *handle)
{
    free(handle);
}

static void stop_slow(struct null_session *session)
{
    if (session->slow)
        uv_close((uv_handle_t *)session->slow, on_slow_closed);
    session->slow = NULL;
}

static void session_unlink(struct null_session *session)
{
    struct null_session **at = &backend_of(session)->sessions;
    while (*at && *at != session)
        at = &(*at)->next;
    if (*at)
        *at = session->next;
    session->next = NULL;
}

static void session_free(struct null_session *session)
{
    stop_slow(session);
    for (struct null_process *process = session->processes, *next; process; process = next) {
        next = process->next;
        process_free(process);
    }
    unpost(session, NULL);
    for (size_t i = 0; i < session->leaked_count; i++)
        fd_clear(&session->leaked[i]);
    session_unlink(session);
    free(session);
}

static void on_slow(uv_timer_t *timer)
{
    struct null_session *session = timer->data;
    stop_slow(session);
    post(session, NULL, NULL_READY);
}

static void session_begin(struct null_session *session)
{
    struct null_backend *backend = backend_of(session);
    session->next = backend->sessions;
    backend->sessions = session;
}

static struct backend_session *null_create(struct backend *base, const struct session_spec *spec,
                                           const char *key,
                                           const struct backend_session_events *events, void *owner)
{
    struct null_session *session = xcalloc(1, sizeof *session);
    session->base.backend = base;
    session->events = events;
    session->owner = owner;
    snprintf(session->key, sizeof session->key, "%s", key);
    session_begin(session);
    session->ended = strcmp(spec->image, "fail") == 0;
    if (strcmp(spec->image, "stuck") == 0)
        return &session->base;
    if (strcmp(spec->image, "slow") != 0) {
        post(session, NULL, NULL_READY);
        return &session->base;
    }
    session->slow = xmalloc(sizeof *session->slow);
    uv_timer_init(base->loop, session->slow);
    session->slow->data = session;
    uv_timer_start(session->slow, on_slow, SLOW_MS, 0);
    return &session->base;
}

static struct backend_session *null_adopt(struct backend *base, const struct session_spec *spec,
                                          const char *key, const json_t *record,
                                          const struct backend_session_events *events, void *owner)
{
    (void)spec;
    const char *recorded = json_string_value(json_object_get(record, "key"));
    struct null_session **at = &survivors;
    while (*at && strcmp((*at)->key, key) != 0)
        at = &(*at)->next;
    struct null_session *session = *at;
    if (session && recorded && strcmp(recorded, key) == 0) {
        *at = session->next;
    } else {
        session = xcalloc(1, sizeof *session);
        session->ended = true;
        snprintf(session->key, sizeof session->key, "%s", key);
    }
    session->base.backend = base;
    session->events = events;
    session->owner = owner;
    session_begin(session);
    for (struct null_process *process = session->processes; process; process = process->next)
        post(session, process, NULL_KEPT);
    post(session, NULL, NULL_READY);
    return &session->base;
}

static void null_sweep(struct backend *base)
{
    while (survivors) {
        struct null_session *session = survivors;
        survivors = session->next;
        session->base.backend = base;
        session_free(session);
    }
}

static json_t *null_record(const struct backend_session *base)
{
    return json_pack("{s:s}", "key", ((const struct null_session *)base)->key);
}

static void null_outlive(struct backend_session *base, uint32_t seconds)
{
    ((struct null_session *)base)->outlives = seconds > 0;
}

static void null_destroy(struct backend_session *base, backend_done done, void *data)
{
    struct null_session *session = (struct null_session *)base;
    session->destroyed = done;
    session->destroyed_data = data;
    stop_slow(session);
    for (struct null_process *process = session->processes; process; process = process->next)
        end(process, -1, 9, "signal");
    post(session, NULL, NULL_GONE);
}

static const char *null_notes(const struct backend_session *base)
{
    (void)base;
    return "nothing is isolated";
}

static const char *null_id(const struct backend_session *base)
{
    return ((const struct null_session *)base)->key;
}

static void null_usage(struct backend_session *base,
                       void (*done)(void *data, const struct backend_usage *usage,
                                    const struct error *err),
                       void *data)
{
    struct backend_usage usage = {.cpu_us = 1, .memory_bytes = 4096};
    for (struct null_process *at = ((struct null_session *)base)->processes; at; at = at->next)
        usage.processes++;
    done(data, &usage, NULL);
}

/* --- telling ---------------------------------------------------------------------------------- */

static void tell_ready(struct null_session *session)
{
    struct error err;
    if (session->destroyed || session->ready)
        return;
    if (session->ended) {
        const struct backend_session_events *events = session->events;
        void *owner = session->owner;
        error_set(&err, ERROR_GONE, "nothing of it is left");
        /* What was started in it is told first. */
        while (session->processes) {
            struct null_process *process = session->processes;
            const struct backend_process_events *told = process->events;
            void *process_owner = process->owner;
            process_free(process);
            if (told)
                told->started(process_owner, -1, &err);
        }
        session_free(session);
        events->ready(owner, &err);
        return;
    }
    session->ready = true;
    for (struct null_process *process = session->processes, *next; process; process = next) {
        next = process->next;
        if (!process->events) /* of an earlier boxd, and nobody wanted it */
            process_free(process);
        else if (!process->started)
            post(session, process, NULL_STARTED);
    }
    session->events->ready(session->owner, NULL);
}

static void tell_kept(struct null_process *process)
{
    struct null_session *session = session_of(process);
    int fds[BACKEND_KEPT_FDS];
    if (session->destroyed)
        return;
    memcpy(fds, process->kept, sizeof fds);
    for (size_t i = 0; i < process->kept_count; i++)
        fds[i] = fcntl(process->kept[i], F_DUPFD_CLOEXEC, 3);
    session->events->kept(session->owner, process->keep_id, fds, process->kept_count);
}

static void tell_gone(struct null_session *session)
{
    struct error err;
    if (!session->destroyed) {
        error_set(&err, ERROR_GONE, "it broke");
        while (session->processes) {
            struct null_process *process = session->processes;
            process->over = true;
            tell_ended(process);
        }
        session->events->ended(session->owner, &err);
        return;
    }
    backend_done done = session->destroyed;
    void *data = session->destroyed_data;
    session_free(session);
    done(data, NULL);
}

static void tell_marker(struct null_marker *marker)
{
    if (marker->bound)
        marker->bound(marker->data, &marker->err);
    else
        marker->done(marker->data, marker->err.code ? NULL : marker->bytes, marker->size,
                     marker->err.code ? &marker->err : NULL);
    free(marker);
}

static void tell(const struct null_event *event)
{
    switch (event->what) {
    case NULL_READY:
        return tell_ready(event->session);
    case NULL_KEPT:
        return tell_kept(event->process);
    case NULL_STARTED:
        return tell_started(event->process);
    case NULL_RUN:
        if (!event->process->over)
            run(event->process);
        return;
    case NULL_ENDED:
        return tell_ended(event->process);
    case NULL_GONE:
        return tell_gone(event->session);
    case NULL_MARKER:
        return tell_marker(event->marker);
    }
}

static void on_timer(uv_timer_t *timer)
{
    struct null_backend *backend = timer->data;
    struct null_event *event = backend->first;
    if (!event)
        return;
    backend->first = event->next;
    if (!backend->first)
        backend->last = &backend->first;
    if (backend->first)
        uv_timer_start(timer, on_timer, 0, 0);
    tell(event);
    free(event);
}

/* --- the whole -------------------------------------------------------------------------------- */

static int null_file(struct backend_session *base, const struct file_request *request,
                     const char *path, const char *to, int *ret_sock, struct error *err)
{
    (void)base;
    (void)request;
    (void)path;
    (void)to;
    (void)ret_sock;
    return error_set(err, ERROR_UNSUPPORTED, "the null backend has no files");
}

static void null_describe(struct backend *base,
                          void (*done)(void *data, const json_t *described,
                                       const struct error *err),
                          void *data)
{
    cleanup_json json_t *described = json_pack("{s:s, s:[]}", "name", base->ops->name, "isolation");
    done(data, described, NULL);
}

/* It has no roots: whatever directory is asked for is one. */
static void null_read_marker(struct backend *base, const char *directory, const char *name,
                             void (*done)(void *data, const void *bytes, size_t size,
                                          const struct error *err),
                             void *data)
{
    struct mount_policy policy = {0};
    struct null_marker *marker = xcalloc(1, sizeof *marker);
    marker->done = done;
    marker->data = data;
    strings_add(&policy.allowed_roots, directory);
    roots_read_marker(&policy, directory, name, marker->bytes, &marker->size, &marker->err);
    strings_release(&policy.allowed_roots);
    post_event((struct null_backend *)base,
               (struct null_event){.what = NULL_MARKER, .marker = marker});
}

static void null_bound_store(struct backend *base, const struct backend_bound *bound,
                             backend_done done, void *data)
{
    struct null_marker *marker = xcalloc(1, sizeof *marker);
    marker->bound = done;
    marker->data = data;
    error_set(&marker->err, ERROR_UNSUPPORTED, "the null backend cannot limit '%.200s'",
              bound->root);
    post_event((struct null_backend *)base,
               (struct null_event){.what = NULL_MARKER, .marker = marker});
}

static const char *null_cgroup_kind(struct backend *base)
{
    (void)base;
    return "none";
}

static const char *null_unavailable(struct backend *base)
{
    (void)base;
    return NULL;
}

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void survive(struct null_session *session)
{
    stop_slow(session);
    unpost(session, NULL);
    session_unlink(session);
    session->ready = false;
    for (struct null_process *process = session->processes, *next; process; process = next) {
        next = process->next;
        stop_polls(process);
        process->events = NULL;
        if (process->kept_count == 0)
            process_free(process);
    }
    session->next = survivors;
    survivors = session;
}

static void null_close(struct backend *base)
{
    struct null_backend *backend = (struct null_backend *)base;
    for (struct null_session *session = backend->sessions, *next; session; session = next) {
        next = session->next;
        if (session->outlives && !session->destroyed)
            survive(session);
        else
            session_free(session);
    }
    while (backend->first) { /* of no session: markers */
        struct null_event *event = backend->first;
        backend->first = event->next;
        error_set(&event->marker->err, ERROR_UNAVAILABLE, "the backend is closed");
        tell_marker(event->marker);
        free(event);
    }
    uv_close((uv_handle_t *)&backend->timer, on_closed);
}

static const struct backend_ops ops = {
    .name = "null",
    .create = null_create,
    .adopt = null_adopt,
    .sweep = null_sweep,
    .record = null_record,
    .outlive = null_outlive,
    .destroy = null_destroy,
    .notes = null_notes,
    .id = null_id,
    .usage = null_usage,
    .start = null_start,
    .adopt_process = null_adopt_process,
    .keep = null_keep,
    .signal = null_signal,
    .kill = null_kill,
    .file = null_file,
    .describe = null_describe,
    .read_marker = null_read_marker,
    .bound_store = null_bound_store,
    .cgroup_kind = null_cgroup_kind,
    .unavailable = null_unavailable,
    .close = null_close,
};

struct backend *backend_null_new(uv_loop_t *loop)
{
    struct null_backend *backend = xcalloc(1, sizeof *backend);
    backend->base.ops = &ops;
    backend->base.loop = loop;
    backend->last = &backend->first;
    uv_timer_init(loop, &backend->timer);
    backend->timer.data = backend;
    return &backend->base;
}
