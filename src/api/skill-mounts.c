/* SPDX-License-Identifier: Apache-2.0 */
/* Specs that name skills: their packages are looked up in the store, which takes a moment, and
   become mounts below /workspace/.skills. */
#include <string.h>

#include "api/internal.h"
#include "api/skills.h"

#define MOUNT_FORMAT "/workspace/.skills/%s"

static bool has_target(const struct session_spec *spec, const char *path)
{
    for (size_t i = 0; i < spec->mount_count; i++)
        if (strcmp(spec->mounts[i].mount_path, path) == 0)
            return true;
    return false;
}

int skills_mount(const struct api *api, const struct strings *names, const struct strings *paths,
                 struct session_spec *spec, struct error *err)
{
    for (size_t i = 0; i < names->count; i++) {
        char *target = xasprintf(MOUNT_FORMAT, names->items[i]);
        /* LangBot mounts what it knows of itself. */
        if (has_target(spec, target)) {
            free(target);
            continue;
        }
        if (spec->mount_count == SESSION_MOUNTS_MAX) {
            free(target);
            return error_set(err, ERROR_INVALID, "skills: more than %d mounts", SESSION_MOUNTS_MAX);
        }
        spec->mounts[spec->mount_count++] = (struct session_mount){
            .host_path = xstrdup(paths->items[i]),
            .mount_path = target,
            .mode = api->config.skills_writable ? MOUNT_RW : MOUNT_RO,
            .of_store = true,
        };
    }
    return 0;
}

/* --- REST: a request that waits for its skills, and is then handled once more --- */

struct waiting {
    struct later later;
    struct call call;
};

static void waiting_free(struct later *later)
{
    struct waiting *waiting = (struct waiting *)later;
    call_release(&waiting->call);
    free(waiting);
}

static void on_found(void *data, struct skill_answer *answer, const struct error *err)
{
    struct waiting *waiting = data;
    struct call *call = &waiting->call;
    if (!later_due(&waiting->later))
        return;
    if (err) {
        reply_error(call->api, call->req, err);
        return;
    }
    call->skill_names = answer->names;
    call->skill_paths = answer->paths;
    answer->names = answer->paths = (struct strings){0};
    call->skills_found = true;
    /* The handler keeps its own things with the request. */
    http_set_data(call->req, NULL, NULL);
    call_run(call);
    waiting_free(&waiting->later);
}

bool call_mount_skills(struct call *call, struct session_spec *spec)
{
    struct error err = ERROR_INIT;
    if (spec->skills.count == 0)
        return true;
    if (call->skills_found) {
        if (skills_mount(call->api, &call->skill_names, &call->skill_paths, spec, &err) == 0)
            return true;
        reply_error(call->api, call->req, &err);
        return false;
    }
    struct skill_ask ask;
    struct waiting *waiting = xcalloc(1, sizeof *waiting);
    waiting->call = *call;
    call->match = (struct route_match){0};
    call->body = NULL;
    later_begin(&waiting->later, call->api, call->req, waiting_free);
    skill_ask_init(&ask, SKILL_VERB_RESOLVE);
    ask.names = spec->skills;
    spec->skills = (struct strings){0};
    skills_ask(waiting->call.api, &ask, on_found, waiting);
    return false;
}
