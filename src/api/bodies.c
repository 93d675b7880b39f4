/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies of requests: the tables that decode and describe them. */
#include "api/decode.h"

#define TEXT_MAX    4095             /* of a path */
#define COMMAND_MAX (128 * 1024 - 1) /* what the kernel takes as one argument */
#define ARGS_MAX    4096
#define PLAIN       "^[^\\x00-\\x1f\\x7f-\\x9f]+$" /* no control characters */
#define TIMEOUT_MAX 31536000                       /* a year */

static const char *const off_on[] = {"off", "on", NULL};
static const char *const mount_modes[] = {
#define X(name, text) text,
    MOUNT_MODES(X)
#undef X
        NULL,
};
static const char *const encodings[] = {"utf-8", "base64", NULL};

#define SPEC(member) .offset = offsetof(struct session_spec, member)

static const struct field name_needed[] = {
    {.name = "session_id",
     .kind = FIELD_TEXT,
     SPEC(name),
     .min = 1,
     .max = SESSION_NAME_MAX,
     .flags = FIELD_REQUIRED,
     .pattern = PLAIN,
     .about = "The name of the session."},
};

static const struct field name_optional[] = {
    {.name = "session_id",
     .kind = FIELD_TEXT,
     SPEC(name),
     .min = 1,
     .max = SESSION_NAME_MAX,
     .pattern = PLAIN,
     .about = "If given, the same as in the path."},
};

#define MOUNT(member) .offset = offsetof(struct session_mount, member)

static const struct field mount_fields[] = {
    {.name = "host_path",
     .kind = FIELD_TEXT,
     MOUNT(host_path),
     .min = 1,
     .max = TEXT_MAX,
     .flags = FIELD_REQUIRED | FIELD_ABSOLUTE},
    {.name = "mount_path",
     .kind = FIELD_TEXT,
     MOUNT(mount_path),
     .min = 1,
     .max = TEXT_MAX,
     .flags = FIELD_REQUIRED | FIELD_ABSOLUTE},
    {.name = "mode", .kind = FIELD_CHOICE, MOUNT(mode), .names = mount_modes},
};

static const struct field spec_fields[] = {
    {.name = "image", .kind = FIELD_TEXT, SPEC(image), .min = 1, .max = 512},
    {.name = "network", .kind = FIELD_EITHER, SPEC(network), .names = off_on},
    {.name = "host_path",
     .kind = FIELD_TEXT,
     SPEC(host_path),
     .min = 1,
     .max = TEXT_MAX,
     .flags = FIELD_NULLABLE | FIELD_ABSOLUTE,
     .about = "A directory of the host, seen at mount_path."},
    {.name = "host_path_mode", .kind = FIELD_CHOICE, SPEC(host_path_mode), .names = mount_modes},
    {.name = "mount_path",
     .kind = FIELD_TEXT,
     SPEC(mount_path),
     .min = 1,
     .max = TEXT_MAX,
     .flags = FIELD_ABSOLUTE},
    {.name = "extra_mounts",
     .kind = FIELD_LIST,
     SPEC(mounts),
     .max = SESSION_MOUNTS_MAX,
     .items = mount_fields,
     .item_fields = ARRAY_SIZE(mount_fields),
     .item_size = sizeof(struct session_mount),
     .count_offset = offsetof(struct session_spec, mount_count)},
    {.name = "skills",
     .kind = FIELD_TEXTS,
     SPEC(skills),
     .max = SESSION_MOUNTS_MAX,
     .about = "Names in the skill store: mounted below /workspace/.skills."},
    {.name = "persistent",
     .kind = FIELD_FLAG,
     SPEC(persistent),
     .about = "Not ended for being idle."},
    {.name = "cpus", .kind = FIELD_NUMBER, SPEC(cpus), .min = 0.01, .max = 1024},
    {.name = "memory_mb", .kind = FIELD_U64, SPEC(memory_mb), .min = 32, .max = 16777216},
    {.name = "pids_limit", .kind = FIELD_U32, SPEC(pids_limit), .min = 1, .max = 4194304},
    {.name = "read_only_rootfs", .kind = FIELD_FLAG, SPEC(read_only_rootfs)},
    {.name = "workspace_quota_mb",
     .kind = FIELD_U64,
     SPEC(workspace_quota_mb),
     .max = 1073741824,
     .about = "0: none."},
    {.name = "recreate",
     .kind = FIELD_FLAG,
     SPEC(recreate),
     .about = "Whether a session that is there with other mounts is ended and made anew (the "
              "default); false: one that lacks a mount is refused (409)."},
};

#define EXEC(member) .offset = offsetof(struct exec_order, member)

static const struct field exec_fields[] = {
    {.name = "cmd",
     .kind = FIELD_VIEW,
     EXEC(cmd),
     .min = 1,
     .max = COMMAND_MAX,
     .pattern = "\\S",
     .about = "Run as sh -lc CMD."},
    {.name = "argv",
     .kind = FIELD_TEXTS,
     EXEC(argv),
     .min = 1,
     .max = ARGS_MAX,
     .about = "Instead of cmd: run as it is."},
    {.name = "workdir",
     .kind = FIELD_VIEW,
     EXEC(workdir),
     .min = 1,
     .max = TEXT_MAX,
     .flags = FIELD_NULLABLE | FIELD_ABSOLUTE,
     .about = "Made if it is missing."},
    {.name = "timeout_sec",
     .kind = FIELD_NUMBER,
     EXEC(timeout_sec),
     .max = TIMEOUT_MAX,
     .about = "0: none, if the configuration allows."},
    {.name = "env", .kind = FIELD_ENV, EXEC(env), .max = ARGS_MAX},
    {.name = "stdin", .kind = FIELD_VIEW, EXEC(text), .flags = FIELD_NULLABLE},
    {.name = "stdin_base64", .kind = FIELD_VIEW, EXEC(base64), .flags = FIELD_NULLABLE},
    {.name = "encoding",
     .kind = FIELD_CHOICE,
     EXEC(encoding),
     .names = encodings,
     .about = "Of the output in the answer."},
    {.name = "concurrent",
     .kind = FIELD_FLAG,
     EXEC(concurrent),
     .about = "Beside the session's other commands, not behind them."},
    {.name = "stream",
     .kind = FIELD_FLAG,
     EXEC(stream),
     .about = "Answer with server-sent events as output comes."},
};

static const struct field nested_fields[] = {
    {.name = "spec",
     .kind = FIELD_OBJECT,
     EXEC(spec),
     .flags = FIELD_NULLABLE,
     .about = "Makes the session if it is not there."},
};

#define PROCESS(member) .offset = offsetof(struct process_spec, member)

static const struct field process_fields[] = {
    {.name = "process_id",
     .kind = FIELD_TEXT,
     PROCESS(id),
     .min = 1,
     .max = SESSION_NAME_MAX,
     .pattern = PLAIN},
    {.name = "command",
     .kind = FIELD_TEXT,
     PROCESS(command),
     .min = 1,
     .max = TEXT_MAX,
     .flags = FIELD_REQUIRED},
    {.name = "args", .kind = FIELD_TEXTS, PROCESS(args), .max = ARGS_MAX},
    {.name = "env", .kind = FIELD_ENV, PROCESS(env), .max = ARGS_MAX},
    {.name = "cwd",
     .kind = FIELD_TEXT,
     PROCESS(cwd),
     .min = 1,
     .max = TEXT_MAX,
     .flags = FIELD_ABSOLUTE},
    {.name = "memory_mb",
     .kind = FIELD_U64,
     PROCESS(memory_mb),
     .max = 16777216,
     .about = "0: the session's."},
};

static const struct field signal_fields[] = {
    {.name = "signal",
     .kind = FIELD_VALUE,
     .flags = FIELD_REQUIRED,
     .about = "A name, with or without SIG, or a number."},
};

#define TABLE(table)             \
    {                            \
        table, ARRAY_SIZE(table) \
    }

const struct route_body body_session = {"SessionSpec", {TABLE(name_needed), TABLE(spec_fields)}};
const struct route_body body_session_nested = {"SessionDetails",
                                               {TABLE(name_optional), TABLE(spec_fields)}};
const struct route_body body_exec = {
    "ExecRequest", {TABLE(exec_fields), TABLE(nested_fields)}, .one_of = {"cmd", "argv"}};
const struct route_body body_exec_flat = {
    "ExecSpec",
    {TABLE(name_needed), TABLE(spec_fields), TABLE(exec_fields)},
    .one_of = {"cmd", "argv"}};
const struct route_body body_process = {"ProcessSpec", {TABLE(process_fields)}};
const struct route_body body_signal = {"Signal", {TABLE(signal_fields)}};
