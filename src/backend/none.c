/* SPDX-License-Identifier: Apache-2.0 */
/* What stands where no backend could be had: it says why, and the rest of boxd goes on. No session
   is ever made by it, because unavailable() is asked first, and none is adopted, because records
   name the backend they are of; so what works on sessions is not there. */
#include "backend/backend.h"
#include "core/json.h"
#include "core/mem.h"

struct none_backend {
    struct backend base;
    char *why;
};

/* A refusal on its way. */
struct refusal {
    uv_timer_t timer; /* none is told before the function that asked has returned */
    struct error err;
    void (*done)(void *data, const void *bytes, size_t size, const struct error *err);
    void *data;
};

static void none_sweep(struct backend *base)
{
    (void)base;
}

static void none_describe(struct backend *base,
                          void (*done)(void *data, const json_t *described,
                                       const struct error *err),
                          void *data)
{
    const struct none_backend *backend = (const struct none_backend *)base;
    cleanup_json json_t *described =
        json_pack("{s:s, s:s, s:[]}", "name", base->ops->name, "reason", backend->why, "isolation");
    done(data, described, NULL);
}

static void on_refusal_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void on_refusal(uv_timer_t *timer)
{
    struct refusal *refusal = timer->data;
    refusal->done(refusal->data, NULL, 0, &refusal->err);
    uv_close((uv_handle_t *)timer, on_refusal_closed);
}

static void none_read_marker(struct backend *base, const char *directory, const char *name,
                             void (*done)(void *data, const void *bytes, size_t size,
                                          const struct error *err),
                             void *data)
{
    (void)directory;
    (void)name;
    struct refusal *refusal = xcalloc(1, sizeof *refusal);
    refusal->done = done;
    refusal->data = data;
    error_set(&refusal->err, ERROR_UNAVAILABLE, "there is no backend: %s",
              base->ops->unavailable(base));
    uv_timer_init(base->loop, &refusal->timer);
    refusal->timer.data = refusal;
    uv_timer_start(&refusal->timer, on_refusal, 0, 0);
}

static const char *none_cgroup_kind(struct backend *base)
{
    (void)base;
    return "none";
}

static const char *none_unavailable(struct backend *base)
{
    return ((struct none_backend *)base)->why;
}

static void none_close(struct backend *base)
{
    free(((struct none_backend *)base)->why);
    free(base);
}

static const struct backend_ops ops = {
    .name = "none",
    .sweep = none_sweep,
    .describe = none_describe,
    .read_marker = none_read_marker,
    .cgroup_kind = none_cgroup_kind,
    .unavailable = none_unavailable,
    .close = none_close,
};

struct backend *backend_none_new(uv_loop_t *loop, const char *why)
{
    struct none_backend *backend = xcalloc(1, sizeof *backend);
    backend->base.ops = &ops;
    backend->base.loop = loop;
    backend->why = xstrdup(why);
    return &backend->base;
}
