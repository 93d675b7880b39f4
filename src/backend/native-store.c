/* SPDX-License-Identifier: Apache-2.0 */
/* Hard limits on skill stores: asked of the spawner, which may set them and knows whose they are.
 */
#include <string.h>

#include "backend/native-internal.h"
#include "sandbox/roots.h"

_Static_assert(SPAWNER_TENANT_SIZE == ROOTS_TENANT_MAX + 1, "a tenant's name fits exactly");

struct question {
    backend_done done;
    void *data;
    struct error err;
    uv_timer_t timer;
};

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void tell(struct question *question)
{
    question->done(question->data, question->err.code ? &question->err : NULL);
    uv_close((uv_handle_t *)&question->timer, on_closed);
}

static void on_refused(uv_timer_t *timer)
{
    tell(timer->data);
}

static void on_answer(void *data, const struct spawner_reply *reply, int *fds, size_t count)
{
    struct question *question = data;
    (void)fds;
    (void)count;
    spawner_answered(reply, &question->err);
    tell(question);
}

void native_store(struct backend *backend, const struct backend_bound *bound, backend_done done,
                  void *data)
{
    struct native *native = (struct native *)backend;
    const char *tenant = bound->tenant ? bound->tenant : "";
    struct spawner_store request = {.head = {.type = SPAWNER_STORE},
                                    .bytes = bound->bytes,
                                    .inodes = bound->inodes,
                                    .known = bound->known};
    struct question *question = xcalloc(1, sizeof *question);
    *question = (struct question){.done = done, .data = data};
    uv_timer_init(backend->loop, &question->timer);
    question->timer.data = question;
    if (native->gone)
        error_set(&question->err, ERROR_UNAVAILABLE, "%s", native->reason);
    else if (strlen(tenant) >= sizeof request.tenant || strlen(bound->root) >= sizeof request.root)
        error_set(&question->err, ERROR_INVALID, "the store's path or name is too long");
    if (question->err.code) { /* told from the loop: who asked does not expect an answer yet */
        uv_timer_start(&question->timer, on_refused, 0, 0);
        return;
    }
    memcpy(request.tenant, tenant, strlen(tenant));
    memcpy(request.root, bound->root, strlen(bound->root));
    native_call(native, &request, sizeof request, on_answer, question);
}
