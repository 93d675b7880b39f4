/* SPDX-License-Identifier: Apache-2.0 */
/* What stands in a session's record, and the reading of one that may be torn, old or somebody
 * else's. */
#include <stdio.h>
#include <string.h>

#include "runtime/internal.h"

#define RECORD_VERSION 1

/* --- writing ---------------------------------------------------------------------------------- */

static json_t *strings_json(const struct strings *list)
{
    json_t *array = json_array();
    for (size_t i = 0; i < list->count; i++) {
        if (json_array_append_new(array, json_string(list->items[i])) < 0) {
            json_decref(array);
            return NULL;
        }
    }
    return array;
}

static json_t *mounts_json(const struct session_spec *spec)
{
    json_t *array = json_array();
    for (size_t i = 0; i < spec->mount_count; i++) {
        const struct session_mount *mount = &spec->mounts[i];
        json_array_append_new(array, json_pack("{s:s, s:s, s:s}", "host_path", mount->host_path,
                                               "mount_path", mount->mount_path, "mode",
                                               mount_mode_name(mount->mode)));
    }
    return array;
}

static json_t *spec_json(const struct session_spec *spec)
{
    return json_pack("{s:s, s:s, s:b, s:s*, s:s, s:s, s:o, s:b, s:f, s:I, s:I, s:b, s:I}",
                     "session_id", spec->name, "image", spec->image, "network", spec->network,
                     "host_path", spec->host_path, "host_path_mode",
                     mount_mode_name(spec->host_path_mode), "mount_path", spec->mount_path,
                     "extra_mounts", mounts_json(spec), "persistent", spec->persistent, "cpus",
                     spec->cpus, "memory_mb", (json_int_t)spec->memory_mb, "pids_limit",
                     (json_int_t)spec->pids_limit, "read_only_rootfs", spec->read_only_rootfs,
                     "workspace_quota_mb", (json_int_t)spec->workspace_quota_mb);
}

/* Names alone: values may be secrets, and nobody needs them again. */
static json_t *names_json(const struct strings *env)
{
    json_t *array = json_array();
    for (size_t i = 0; i < env->count; i++)
        json_array_append_new(array, json_stringn(env->items[i], strcspn(env->items[i], "=") + 1));
    return array;
}

json_t *record_process_spec(const struct process_spec *spec)
{
    return json_pack("{s:s, s:s, s:o, s:o, s:s, s:I}", "id", spec->id, "command", spec->command,
                     "args", strings_json(&spec->args), "env", names_json(&spec->env), "cwd",
                     spec->cwd, "memory_mb", (json_int_t)spec->memory_mb);
}

static json_t *process_json(const struct process *process)
{
    json_t *root = record_process_spec(&process->spec);
    json_t *life = json_pack(
        "{s:I, s:b, s:I, s:I, s:b, s:i, s:s, s:s}", "keep_id", (json_int_t)process->keep_id,
        "running", process->state != PROCESS_ENDED, "started_us", (json_int_t)process->started_us,
        "exited_us", (json_int_t)process->exited_us, "exit_known", process->exit_known, "exit_code",
        process->exit_code, "cause", process->cause, "actor", process->actor);
    json_object_update(root, life);
    json_decref(life);
    return root;
}

/* What a successor begins with: commands up to there are not recorded one by one. */
static unsigned record_next_number(const struct session *session)
{
    return session->next_number - session->next_number % RECORD_NUMBERS + RECORD_NUMBERS;
}

json_t *record_make(const struct session *session)
{
    json_t *processes = json_array();
    list_each(at, &session->processes)
    {
        const struct process *process = list_entry(at, struct process, link);
        if (process->state != PROCESS_WAITING)
            json_array_append_new(processes, process_json(process));
    }
    return json_pack(
        "{s:i, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:o, s:O?, s:o}", "version", RECORD_VERSION,
        "key", session->key, "state", session->backend_record ? "ready" : "starting", "backend",
        session->runtime->ops->name, "actor", session->actor, "created_us",
        (json_int_t)session->created_us, "last_used_us", (json_int_t)session->last_used_us,
        "next_number", (json_int_t)record_next_number(session), "next_keep",
        (json_int_t)session->next_keep, "spec", spec_json(&session->spec), "record",
        session->backend_record, "processes", processes);
}

/* --- reading ---------------------------------------------------------------------------------- */

static int malformed(struct error *err, const json_error_t *where)
{
    return error_set(err, ERROR_PROTOCOL, "malformed record: %s", where->text);
}

static int read_strings(const json_t *array, struct strings *list, struct error *err)
{
    size_t index;
    json_t *item;
    json_array_foreach(array, index, item)
    {
        if (!json_is_string(item))
            return error_set(err, ERROR_PROTOCOL, "malformed record: a list of strings is not one");
        strings_add(list, json_string_value(item));
    }
    return 0;
}

static int read_mounts(json_t *array, struct session_spec *spec, struct error *err)
{
    size_t index;
    json_t *item;
    json_error_t where;
    if (json_array_size(array) > SESSION_MOUNTS_MAX)
        return error_set(err, ERROR_PROTOCOL, "malformed record: too many mounts");
    json_array_foreach(array, index, item)
    {
        const char *host_path, *mount_path, *mode;
        if (json_unpack_ex(item, &where, 0, "{s:s, s:s, s:s}", "host_path", &host_path,
                           "mount_path", &mount_path, "mode", &mode) < 0)
            return malformed(err, &where);
        spec->mounts[spec->mount_count++] = (struct session_mount){
            .host_path = xstrdup(host_path),
            .mount_path = xstrdup(mount_path),
            .mode = mount_mode_from_name(mode),
        };
    }
    return 0;
}

static int read_spec(json_t *root, struct session_spec *spec, struct error *err)
{
    json_error_t where;
    const char *name, *image, *host_path = NULL, *mode, *mount_path;
    json_t *mounts;
    int network, persistent, read_only;
    json_int_t memory, pids, quota;
    if (json_unpack_ex(
            root, &where, 0, "{s:s, s:s, s:b, s?:s, s:s, s:s, s:o, s:b, s:F, s:I, s:I, s:b, s:I}",
            "session_id", &name, "image", &image, "network", &network, "host_path", &host_path,
            "host_path_mode", &mode, "mount_path", &mount_path, "extra_mounts", &mounts,
            "persistent", &persistent, "cpus", &spec->cpus, "memory_mb", &memory, "pids_limit",
            &pids, "read_only_rootfs", &read_only, "workspace_quota_mb", &quota) < 0)
        return malformed(err, &where);
    if (memory < 0 || pids < 0 || pids > UINT32_MAX || quota < 0)
        return error_set(err, ERROR_PROTOCOL, "malformed record: a limit out of range");
    spec->name = xstrdup(name);
    spec->image = xstrdup(image);
    spec->network = network;
    spec->host_path = host_path ? xstrdup(host_path) : NULL;
    spec->host_path_mode = mount_mode_from_name(mode);
    spec->mount_path = xstrdup(mount_path);
    spec->persistent = persistent;
    spec->memory_mb = (uint64_t)memory;
    spec->pids_limit = (uint32_t)pids;
    spec->read_only_rootfs = read_only;
    spec->workspace_quota_mb = (uint64_t)quota;
    if (read_mounts(mounts, spec, err) < 0)
        return -1;
    return session_spec_check(spec, err);
}

static int read_process(json_t *root, struct session *session, struct error *err)
{
    json_error_t where;
    const char *id, *command, *cwd, *cause, *actor;
    json_t *args, *env;
    json_int_t memory, keep, started, exited;
    int running, known, code;
    if (json_unpack_ex(root, &where, 0,
                       "{s:s, s:s, s:o, s:o, s:s, s:I, s:I, s:b, s:I, s:I, s:b, s:i, s:s, s:s}",
                       "id", &id, "command", &command, "args", &args, "env", &env, "cwd", &cwd,
                       "memory_mb", &memory, "keep_id", &keep, "running", &running, "started_us",
                       &started, "exited_us", &exited, "exit_known", &known, "exit_code", &code,
                       "cause", &cause, "actor", &actor) < 0)
        return malformed(err, &where);
    if (memory < 0 || keep <= 0 || keep >= UINT32_MAX)
        return error_set(err, ERROR_PROTOCOL, "malformed record: a number out of range");
    struct process_spec spec = {.id = xstrdup(id),
                                .command = xstrdup(command),
                                .cwd = xstrdup(cwd),
                                .memory_mb = (uint64_t)memory};
    int result = read_strings(args, &spec.args, err) < 0 || read_strings(env, &spec.env, err) < 0 ||
                         process_spec_check(&spec, err) < 0
                     ? -1
                     : 0;
    if (result == 0) {
        struct process *process = process_new(session, &spec);
        process->keep_id = (uint32_t)keep;
        process->started_us = started;
        process->exited_us = exited;
        process->exit_known = known;
        process->exit_code = code;
        process->adopt = running;
        process->state = PROCESS_ENDED; /* until it turns up */
        snprintf(process->cause, sizeof process->cause, "%s", cause);
        snprintf(process->actor, sizeof process->actor, "%s", actor);
        if (session->next_keep <= process->keep_id)
            session->next_keep = process->keep_id + 1;
    }
    process_spec_release(&spec);
    return result;
}

struct fields {
    const char *state, *backend, *actor;
    json_int_t created, used, number, keep;
    json_t *spec, *record, *processes;
};

static int read_fields(json_t *root, const char *key, struct fields *f, struct error *err)
{
    json_error_t where;
    const char *own;
    int version;
    if (json_unpack_ex(root, &where, 0,
                       "{s:i, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:o, s:o, s:o}", "version",
                       &version, "key", &own, "state", &f->state, "backend", &f->backend, "actor",
                       &f->actor, "created_us", &f->created, "last_used_us", &f->used,
                       "next_number", &f->number, "next_keep", &f->keep, "spec", &f->spec, "record",
                       &f->record, "processes", &f->processes) < 0)
        return malformed(err, &where);
    if (version != RECORD_VERSION)
        return error_set(err, ERROR_PROTOCOL, "a record of version %d", version);
    if (strcmp(own, key) != 0)
        return error_set(err, ERROR_PROTOCOL, "a record under a name that is not its own");
    if (f->number < 1 || f->number > UINT32_MAX || f->keep < 1 || f->keep > UINT32_MAX)
        return error_set(err, ERROR_PROTOCOL, "malformed record: a number out of range");
    return 0;
}

/* Files come in any order; sessions are listed in that of their creation. */
static void put_in_order(struct session *session)
{
    struct list *at = session->link.prev;
    struct list *head = &session->runtime->sessions;
    while (at != head && list_entry(at, struct session, link)->created_us > session->created_us)
        at = at->prev;
    list_remove(&session->link);
    list_append(at->next, &session->link);
}

static int make_session(struct runtime *runtime, const char *key, const struct fields *f,
                        const struct session_spec *spec, struct session **ret, struct error *err)
{
    struct session *session = session_new(runtime, spec, key, f->actor);
    session->created_us = f->created;
    session->last_used_us = f->used;
    put_in_order(session);
    session->next_number = (unsigned)f->number;
    session->next_keep = (uint32_t)f->keep;
    session->adopted = true;
    size_t index;
    json_t *item;
    json_array_foreach(f->processes, index, item)
    {
        if (read_process(item, session, err) == 0)
            continue;
        session_forget_processes(session);
        table_remove(&runtime->table, session);
        list_remove(&session->link);
        session->gone = true;
        session_release(session);
        return -1;
    }
    session->adopt_record = json_incref(f->record);
    *ret = session;
    return 0;
}

int record_parse(struct runtime *runtime, const char *key, const char *text, size_t size,
                 struct session **ret, struct error *err)
{
    json_error_t where;
    struct fields f;
    json_t *root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &where);
    if (!root)
        return malformed(err, &where);
    struct session_spec spec = {0};
    int result = read_fields(root, key, &f, err);
    if (result == 0)
        result = read_spec(f.spec, &spec, err);
    if (result == 0 && strcmp(f.state, "ready") != 0 && strcmp(f.state, "starting") != 0)
        result = error_set(err, ERROR_PROTOCOL, "malformed record: state '%.20s'", f.state);
    if (result == 0 && table_find(&runtime->table, spec.name))
        result = error_set(err, ERROR_PROTOCOL, "a second record of session '%s'", spec.name);
    if (result == 0 && strcmp(f.state, "ready") == 0 && strcmp(f.backend, runtime->ops->name) != 0)
        result = error_set(err, ERROR_PROTOCOL, "a session of backend '%.20s'", f.backend);
    if (result == 0) {
        *ret = NULL;
        if (strcmp(f.state, "ready") == 0)
            result = make_session(runtime, key, &f, &spec, ret, err);
    }
    session_spec_release(&spec);
    json_decref(root);
    return result;
}
