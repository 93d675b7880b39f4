/* SPDX-License-Identifier: Apache-2.0 */
/* Which backend runs sessions: the table of those that LangBot may ask for, and choosing. */
#include "daemon/backends.h"

#include <string.h>

#include "core/log.h"

static const struct kind {
    const char *name;
    bool local; /* among what "local" stands for, in this order */
    bool built; /* in this version */
} kinds[] = {
    {"native", true, true},  {"docker", true, false}, {"podman", true, false},
    {"nsjail", true, false}, {"e2b", false, false},
};

static struct backend *get(struct daemon *daemon, const struct kind *kind)
{
    return kind->built ? daemon->native : NULL;
}

static bool works(struct backend *backend)
{
    return backend && !backend->ops->unavailable(backend);
}

/* One that does not work is better than none: it knows why. */
static struct backend *find_local(struct daemon *daemon)
{
    struct backend *first = NULL;
    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
        struct backend *backend = kinds[i].local ? get(daemon, &kinds[i]) : NULL;
        if (works(backend))
            return backend;
        if (!first)
            first = backend;
    }
    return first;
}

static const struct kind *find_kind(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
        if (strcmp(kinds[i].name, name) == 0)
            return &kinds[i];
    return NULL;
}

/* The caller frees. */
static char *list_built(void)
{
    char *text = xstrdup("local");
    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
        if (!kinds[i].built)
            continue;
        char *longer = xasprintf("%s, %s", text, kinds[i].name);
        free(text);
        text = longer;
    }
    return text;
}

static struct backend *refuse(struct daemon *daemon, const char *name, bool known)
{
    cleanup_free char *built = list_built();
    cleanup_free char *why =
        known ? xasprintf("boxd " BOX_VERSION " has no backend '%s' yet; there is: %s", name, built)
              : xasprintf("there is no backend '%.60s'; there is: %s", name, built);
    daemon_tell_once(daemon, "no_backend", why);
    return backend_none_new(&daemon->loop, why);
}

struct backend *backends_find(struct daemon *daemon)
{
    const char *name = daemon->config->backend;
    const struct kind *kind = find_kind(name);
    struct backend *backend = NULL;
    if (strcmp(name, "local") == 0)
        backend = find_local(daemon);
    else if (kind)
        backend = get(daemon, kind);
    return backend ? backend : refuse(daemon, name, kind != NULL);
}

void backends_close(struct daemon *daemon, struct backend *backend)
{
    if (backend != daemon->native)
        backend->ops->close(backend);
}

void backends_select(struct daemon *daemon)
{
    struct error err = ERROR_INIT;
    struct backend *old = runtime_backend(daemon->runtime);
    struct backend *new = backends_find(daemon);
    if (new == old)
        return;
    if (runtime_set_backend(daemon->runtime, new, &err) < 0) {
        log_error(LOG_WARN, "backend_kept", &err, LOG_TEXT("backend", old->ops->name),
                  LOG_TEXT("wanted", daemon->config->backend));
        backends_close(daemon, new);
        return;
    }
    backends_close(daemon, old);
    log_event(LOG_INFO, "backend", LOG_TEXT("backend", new->ops->name));
}
