/* SPDX-License-Identifier: Apache-2.0 */
/* Requests to the spawner. They are sent as its socket takes them, in order, and never waited for:
   an answer is matched to its request by the tag. */
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

#include "backend/native-internal.h"
#include "core/fd.h"

static void list_add(struct call_list *list, struct spawner_call *call)
{
    call->next = NULL;
    *list->end = call;
    list->end = &call->next;
}

static struct spawner_call *list_shift(struct call_list *list)
{
    struct spawner_call *call = list->first;
    if (call) {
        list->first = call->next;
        if (!list->first)
            list->end = &list->first;
    }
    return call;
}

/* Answers come nearly in order, so it is near the beginning. */
static struct spawner_call *list_take(struct call_list *list, uint32_t tag)
{
    struct spawner_call **at = &list->first;
    while (*at && (*at)->tag != tag)
        at = &(*at)->next;
    struct spawner_call *call = *at;
    if (!call)
        return NULL;
    *at = call->next;
    if (!call->next)
        list->end = at;
    return call;
}

void native_calls_init(struct native *native)
{
    native->unsent.end = &native->unsent.first;
    native->unanswered.end = &native->unanswered.first;
}

void native_calls_fail(struct native *native)
{
    struct call_list *lists[] = {&native->unanswered, &native->unsent};
    for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
        struct spawner_call *call;
        while ((call = list_shift(lists[i]))) {
            call->answer(call->data, NULL, NULL, 0);
            free(call);
        }
    }
}

static void lost(struct native *native)
{
    struct error err = ERROR_INIT;
    if (native->gone)
        return;
    native->gone = true;
    uv_poll_stop(&native->poll);
    error_set(&err, ERROR_UNAVAILABLE, "the spawner has ended");
    memcpy(native->reason, err.message, sizeof native->reason);
    native_calls_fail(native);
    if (native->base.lost)
        native->base.lost(native->base.lost_data, &err);
}

static void on_socket(uv_poll_t *poll, int status, int events);

/* Only the loop tells that something went wrong: whoever just asked may not have got its pointer
   yet. */
static void send_waiting(struct native *native, bool from_loop)
{
    while (native->unsent.first && !native->gone) {
        struct spawner_call *call = native->unsent.first;
        ssize_t n = send(native->sock, call->message, call->size, MSG_NOSIGNAL | MSG_DONTWAIT);
        bool refused = n < 0 && errno == EMSGSIZE; /* such a spec cannot be */
        if (n < 0 && !(refused && from_loop)) {
            if (!native->writing)
                uv_poll_start(&native->poll, UV_READABLE | UV_WRITABLE, on_socket);
            native->writing = true;
            return;
        }
        list_shift(&native->unsent);
        if (refused) {
            call->answer(call->data, NULL, NULL, 0);
            free(call);
            continue;
        }
        list_add(&native->unanswered, call);
    }
    if (native->writing && !native->gone)
        uv_poll_start(&native->poll, UV_READABLE, on_socket);
    native->writing = false;
}

void native_call(struct native *native, const void *message, size_t size, spawner_answer answer,
                 void *data)
{
    struct spawner_call *call = xmalloc(sizeof *call + size);
    call->tag = ++native->next_tag;
    call->answer = answer;
    call->data = data;
    call->size = size;
    memcpy(call->message, message, size);
    memcpy(call->message + offsetof(struct spawner_request, tag), &call->tag, sizeof call->tag);
    list_add(&native->unsent, call);
    if (!native->writing)
        send_waiting(native, false);
}

static void session_ended(struct native *native, const struct spawner_reply *reply)
{
    struct native_session *session = native->sessions;
    struct error err = ERROR_INIT;
    while (session && session->number != reply->session)
        session = session->next;
    if (!session)
        return;
    session->oom = reply->lane == 1;
    error_set(&err, ERROR_GONE,
              session->oom ? "the session ran out of memory and ended"
                           : "the session's init ended");
    native_session_ended(session, &err);
}

int native_no_descriptors(struct error *err)
{
    error_set(err, ERROR_UNAVAILABLE, "boxd has no file descriptor left for the session");
    return error_hint(err, "raise boxd's limit on open files (LimitNOFILE=, ulimit -n), or end "
                           "sessions and connections that are not needed");
}

/* What was asked for has been done, but is of no use: an error that still says which session. */
static void without_descriptors(struct spawner_reply *reply)
{
    struct error err = ERROR_INIT;
    native_no_descriptors(&err);
    reply->code = err.code;
    memcpy(reply->message, err.message, sizeof reply->message);
    memcpy(reply->hint, err.hint, sizeof reply->hint);
}

static bool read_one(struct native *native)
{
    struct spawner_reply reply = {0};
    int fds[FD_PASS_MAX];
    size_t count = ARRAY_SIZE(fds);
    ssize_t n = fd_receive(native->sock, &reply, sizeof reply, fds, &count, MSG_DONTWAIT);
    if (n == -EAGAIN)
        return false;
    if (n == -EMFILE) {
        without_descriptors(&reply);
        count = 0;
        n = sizeof reply;
    }
    if (n <= 0) {
        lost(native);
        return false;
    }
    if ((size_t)n < offsetof(struct spawner_reply, message)) {
        while (count > 0)
            close(fds[--count]);
        return true;
    }
    if (reply.type == SPAWNER_ENDED) {
        session_ended(native, &reply);
    } else {
        struct spawner_call *call = list_take(&native->unanswered, reply.tag);
        if (call)
            call->answer(call->data, &reply, fds, count);
        free(call);
    }
    while (count > 0)
        fd_clear(&fds[--count]);
    return true;
}

static void read_all(struct native *native)
{
    while (!native->gone && read_one(native))
        ;
}

static void on_socket(uv_poll_t *poll, int status, int events)
{
    struct native *native = poll->data;
    if (status < 0) {
        lost(native);
        return;
    }
    if (events & UV_READABLE)
        read_all(native);
    if ((events & UV_WRITABLE) && !native->gone)
        send_waiting(native, true);
}

int native_watch(struct native *native)
{
    native->poll.data = native;
    return uv_poll_start(&native->poll, UV_READABLE, on_socket);
}
