/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a marker of the host: a question to the spawner, which knows what may be read. */
#include <string.h>

#include "backend/native-internal.h"
#include "sandbox/roots.h"

_Static_assert(SPAWNER_MARKER_NAME == ROOTS_MARKER_NAME, "a marker's name fits exactly");
_Static_assert(SPAWNER_MARKER_MAX == ROOTS_MARKER_MAX, "a marker fits exactly");

struct question {
    void (*done)(void *data, const void *bytes, size_t size, const struct error *err);
    void *data;
    struct error err;
    uv_timer_t timer;
};

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void tell(struct question *question, const void *bytes, size_t size)
{
    question->done(question->data, bytes, size, question->err.code ? &question->err : NULL);
    uv_close((uv_handle_t *)&question->timer, on_closed);
}

static void on_refused(uv_timer_t *timer)
{
    tell(timer->data, NULL, 0);
}

static void on_answer(void *data, const struct spawner_reply *reply, int *fds, size_t count)
{
    struct question *question = data;
    size_t size = 0;
    (void)fds;
    (void)count;
    if (spawner_answered(reply, &question->err) == 0) {
        size = reply->marker_size;
        if (size < 1 || size > sizeof reply->marker)
            error_set(&question->err, ERROR_PROTOCOL, "the spawner sent no marker");
    }
    if (question->err.code)
        tell(question, NULL, 0);
    else
        tell(question, reply->marker, size);
}

void native_marker(struct backend *backend, const char *directory, const char *name,
                   void (*done)(void *data, const void *bytes, size_t size,
                                const struct error *err),
                   void *data)
{
    struct native *native = (struct native *)backend;
    struct spawner_marker request = {.head = {.type = SPAWNER_MARKER}};
    struct question *question = xcalloc(1, sizeof *question);
    *question = (struct question){.done = done, .data = data};
    uv_timer_init(backend->loop, &question->timer);
    question->timer.data = question;
    if (native->gone)
        error_set(&question->err, ERROR_UNAVAILABLE, "%s", native->reason);
    else if (strlen(name) >= sizeof request.name || strlen(directory) >= sizeof request.directory)
        error_set(&question->err, ERROR_INVALID, "the name or its directory is too long");
    if (question->err.code) { /* told from the loop: who asked does not expect an answer yet */
        uv_timer_start(&question->timer, on_refused, 0, 0);
        return;
    }
    memcpy(request.name, name, strlen(name));
    memcpy(request.directory, directory, strlen(directory));
    native_call(native, &request, sizeof request, on_answer, question);
}
