/* SPDX-License-Identifier: Apache-2.0 */
/* Specs of LangBot's requests: sessions with commands, and managed processes. */
#include "api/rpc-spec.h"

#include <string.h>

#include "core/json.h"
#include "core/utf8.h"

#define COMMAND_MAX (128 * 1024 - 1) /* what the kernel takes as one argument */
#define PATH_BYTES  4095
#define ITEMS_MAX   4096 /* of args and env */
#define MEMORY_MAX  16777216
#define SKILL_MAX   64
#define TIMEOUT_SEC 30
#define TIMEOUT_MAX UINT32_MAX /* seconds; in milliseconds, it goes on as 64 bits */

static const char *const off_on[] = {"off", "on", NULL};
static const char *const mount_modes[] = {
#define X(name, text) text,
    MOUNT_MODES(X)
#undef X
        NULL,
};

#define MOUNT(member) .offset = offsetof(struct session_mount, member)

static const struct field mount_fields[] = {
    {.name = "host_path",
     .kind = FIELD_TEXT,
     MOUNT(host_path),
     .max = PATH_BYTES,
     .flags = FIELD_REQUIRED | FIELD_TRIMMED | FIELD_ABSOLUTE},
    {.name = "mount_path",
     .kind = FIELD_TEXT,
     MOUNT(mount_path),
     .max = PATH_BYTES,
     .flags = FIELD_REQUIRED | FIELD_TRIMMED | FIELD_ABSOLUTE},
    {.name = "mode", .kind = FIELD_CHOICE, MOUNT(mode), .names = mount_modes},
};

#define SPEC(member) .offset = offsetof(struct rpc_spec, member)

static const struct field spec_fields[] = {
    {.name = "cmd", .kind = FIELD_TEXT, SPEC(cmd), .max = COMMAND_MAX, .flags = FIELD_TRIMMED},
    {.name = "workdir",
     .kind = FIELD_TEXT,
     SPEC(workdir),
     .max = PATH_BYTES,
     .flags = FIELD_TRIMMED | FIELD_ABSOLUTE},
    {.name = "timeout_sec", .kind = FIELD_U64, SPEC(timeout_sec), .min = 1, .max = TIMEOUT_MAX},
    {.name = "network", .kind = FIELD_EITHER, SPEC(session.network), .names = off_on},
    {.name = "session_id",
     .kind = FIELD_TEXT,
     SPEC(session.name),
     .min = 1,
     .max = SESSION_NAME_MAX,
     .flags = FIELD_REQUIRED | FIELD_TRIMMED},
    {.name = "env", .kind = FIELD_ENV, SPEC(env), .max = ITEMS_MAX},
    {.name = "image", .kind = FIELD_TEXT, SPEC(session.image)},
    {.name = "host_path",
     .kind = FIELD_TEXT,
     SPEC(session.host_path),
     .max = PATH_BYTES,
     .flags = FIELD_NULLABLE | FIELD_TRIMMED | FIELD_ABSOLUTE},
    {.name = "host_path_mode",
     .kind = FIELD_CHOICE,
     SPEC(session.host_path_mode),
     .names = mount_modes},
    {.name = "mount_path",
     .kind = FIELD_TEXT,
     SPEC(session.mount_path),
     .max = PATH_BYTES,
     .flags = FIELD_TRIMMED | FIELD_ABSOLUTE},
    {.name = "extra_mounts",
     .kind = FIELD_LIST,
     SPEC(session.mounts),
     .max = SESSION_MOUNTS_MAX,
     .items = mount_fields,
     .item_fields = ARRAY_SIZE(mount_fields),
     .item_size = sizeof(struct session_mount),
     .count_offset = offsetof(struct rpc_spec, session.mount_count)},
    {.name = "skills",
     .kind = FIELD_TEXTS,
     .offset = offsetof(struct rpc_spec, session.skills),
     .max = SESSION_MOUNTS_MAX},
    {.name = "skill_name",
     .kind = FIELD_TEXT,
     SPEC(skill_name),
     .flags = FIELD_NULLABLE | FIELD_TRIMMED},
    {.name = "persistent", .kind = FIELD_FLAG, SPEC(session.persistent)},
    {.name = "cpus", .kind = FIELD_NUMBER, SPEC(session.cpus)},
    {.name = "memory_mb", .kind = FIELD_U64, SPEC(session.memory_mb), .min = 32, .max = MEMORY_MAX},
    {.name = "pids_limit", .kind = FIELD_U32, SPEC(session.pids_limit), .min = 1, .max = 4194304},
    {.name = "read_only_rootfs", .kind = FIELD_FLAG, SPEC(session.read_only_rootfs)},
    {.name = "workspace_quota_mb",
     .kind = FIELD_U64,
     SPEC(session.workspace_quota_mb),
     .max = 1073741824},
};

static void spec_init(struct rpc_spec *spec)
{
    *spec = (struct rpc_spec){
        .cmd = xstrdup(""),
        .workdir = xstrdup(SESSION_MOUNT_PATH),
        .timeout_sec = TIMEOUT_SEC,
    };
    session_spec_init(&spec->session);
    for (size_t i = 0; i < SESSION_MOUNTS_MAX; i++)
        spec->session.mounts[i].mode = MOUNT_RW;
}

void rpc_spec_release(struct rpc_spec *spec)
{
    session_spec_release(&spec->session);
    free(spec->cmd);
    free(spec->workdir);
    free(spec->skill_name);
    strings_release(&spec->env);
    *spec = (struct rpc_spec){0};
}

static bool is_blank(const json_t *text)
{
    const char *data = json_string_value(text);
    size_t size = json_string_length(text);
    utf8_strip(&data, &size);
    return size == 0;
}

/* Who names a mount_path and no workdir means to work there. A workdir that is null or "" is none
   only in that case: else it is an error. The caller owns the reference. */
static json_t *with_workdir(const json_t *data)
{
    json_t *workdir = json_object_get(data, "workdir");
    json_t *mount_path = json_object_get(data, "mount_path");
    bool given = workdir && !json_is_null(workdir) &&
                 !(json_is_string(workdir) && json_string_length(workdir) == 0);
    if (given || !json_is_string(mount_path) || is_blank(mount_path))
        return json_incref((json_t *)data);
    json_t *copy = json_copy((json_t *)data);
    json_object_set(copy, "workdir", mount_path);
    return copy;
}

/* Letters are those of any script, and every character beyond ASCII counts as one: the name is only
   looked up, so that what is no letter finds no skill. */
static int check_skill(struct rpc_spec *spec, struct error *err)
{
    size_t characters = 0;
    bool letters = false;
    if (!spec->skill_name)
        return 0;
    if (!spec->skill_name[0]) {
        free(steal_ptr(spec->skill_name));
        return 0;
    }
    for (const unsigned char *at = (unsigned char *)spec->skill_name; *at; at++) {
        bool letter = *at >= 0x80 || (*at >= '0' && *at <= '9') || (*at >= 'A' && *at <= 'Z') ||
                      (*at >= 'a' && *at <= 'z');
        if (!letter && *at != '-' && *at != '_')
            return error_set(err, ERROR_INVALID,
                             "skill_name: must be of letters, digits, '-' and '_'");
        letters = letters || letter;
        characters += (*at & 0xC0) != 0x80;
    }
    if (!letters)
        return error_set(err, ERROR_INVALID, "skill_name: must have a letter or digit in it");
    if (characters > SKILL_MAX)
        return error_set(err, ERROR_INVALID, "skill_name: must be at most %d characters",
                         SKILL_MAX);
    return 0;
}

/* With a directory of the host at mount_path, commands are to run in it. Compared as texts, so that
   nothing but "/" itself is below a mount_path of "/", as the Python runtime has it. */
static int check_workdir(const struct rpc_spec *spec, struct error *err)
{
    const char *mount_path = spec->session.mount_path;
    size_t size = strlen(mount_path);
    if (!spec->session.host_path || spec->session.host_path_mode == MOUNT_NONE)
        return 0;
    if (strncmp(spec->workdir, mount_path, size) == 0 &&
        (spec->workdir[size] == '\0' || spec->workdir[size] == '/'))
        return 0;
    return error_set(err, ERROR_INVALID,
                     "workdir: must be mount_path or below it where there is a host_path");
}

int rpc_spec_decode(const json_t *data, struct rpc_spec *ret, struct error *err)
{
    struct fields table = {spec_fields, ARRAY_SIZE(spec_fields), ret};
    spec_init(ret);
    cleanup_json json_t *object = with_workdir(data);
    if (fields_decode(object, &table, 1, FIELDS_LAX | FIELDS_OPEN, err) < 0)
        return -1;
    if (session_spec_check(&ret->session, err) < 0 || check_skill(ret, err) < 0)
        return -1;
    return check_workdir(ret, err);
}

#define PROCESS(member) .offset = offsetof(struct process_spec, member)

static const struct field process_fields[] = {
    {.name = "process_id", .kind = FIELD_TEXT, PROCESS(id)},
    {.name = "command",
     .kind = FIELD_TEXT,
     PROCESS(command),
     .min = 1,
     .max = PATH_BYTES,
     .flags = FIELD_REQUIRED | FIELD_TRIMMED},
    {.name = "args", .kind = FIELD_TEXTS, PROCESS(args), .max = ITEMS_MAX},
    {.name = "env", .kind = FIELD_ENV, PROCESS(env), .max = ITEMS_MAX},
    {.name = "cwd",
     .kind = FIELD_TEXT,
     PROCESS(cwd),
     .max = PATH_BYTES,
     .flags = FIELD_TRIMMED | FIELD_ABSOLUTE},
    {.name = "memory_mb", .kind = FIELD_U64, PROCESS(memory_mb), .max = MEMORY_MAX},
};

int rpc_process_decode(const json_t *data, struct process_spec *ret, struct error *err)
{
    struct fields table = {process_fields, ARRAY_SIZE(process_fields), ret};
    process_spec_init(ret);
    if (fields_decode(data, &table, 1, FIELDS_LAX | FIELDS_OPEN, err) < 0)
        return -1;
    return process_spec_check(ret, err);
}
