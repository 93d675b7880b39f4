/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies of requests: the tables that decode and describe them. */
#include "api/decode.h"

#include <string.h>

#include "api/signals.h"
#include "core/base64.h"

#define TEXT_MAX    4095             /* of a path */
#define COMMAND_MAX (128 * 1024 - 1) /* what the kernel takes as one argument */
#define TIMEOUT_MAX 31536000         /* a year */

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
     .about = "The name of the session."},
};

static const struct field name_optional[] = {
    {.name = "session_id",
     .kind = FIELD_TEXT,
     SPEC(name),
     .min = 1,
     .max = SESSION_NAME_MAX,
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
};

#define EXEC(member) .offset = offsetof(struct exec_order, member)

static const struct field exec_fields[] = {
    {.name = "cmd",
     .kind = FIELD_VIEW,
     EXEC(cmd),
     .min = 1,
     .max = COMMAND_MAX,
     .about = "Run as sh -lc CMD."},
    {.name = "argv",
     .kind = FIELD_TEXTS,
     EXEC(argv),
     .min = 1,
     .max = 16384,
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
    {.name = "env", .kind = FIELD_ENV, EXEC(env), .max = 4096},
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
    {.name = "process_id", .kind = FIELD_TEXT, PROCESS(id), .min = 1, .max = SESSION_NAME_MAX},
    {.name = "command",
     .kind = FIELD_TEXT,
     PROCESS(command),
     .min = 1,
     .max = TEXT_MAX,
     .flags = FIELD_REQUIRED},
    {.name = "args", .kind = FIELD_TEXTS, PROCESS(args), .max = 16384},
    {.name = "env", .kind = FIELD_ENV, PROCESS(env), .max = 4096},
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

static int decode(const json_t *object, const struct route_body *body, void *const *targets,
                  struct error *err)
{
    struct fields parts[ARRAY_SIZE(body->parts)];
    size_t count = 0;
    for (; count < ARRAY_SIZE(parts) && body->parts[count].table; count++)
        parts[count] =
            (struct fields){body->parts[count].table, body->parts[count].count, targets[count]};
    return fields_decode(object, parts, count, FIELDS_STRICT, err);
}

/* The defaults, ready to be written over. */
static void spec_begin(const json_t *body, const struct session_spec *defaults,
                       struct session_spec *ret)
{
    session_spec_copy(ret, defaults);
    free(steal_ptr(ret->name));
    if (!json_object_get(body, "extra_mounts"))
        return;
    for (size_t i = 0; i < ret->mount_count; i++) {
        free(ret->mounts[i].host_path);
        free(ret->mounts[i].mount_path);
    }
    ret->mount_count = 0;
    for (size_t i = 0; i < SESSION_MOUNTS_MAX; i++)
        ret->mounts[i] = (struct session_mount){.mode = MOUNT_RW};
}

int decode_session(const json_t *body, const struct session_spec *defaults,
                   struct session_spec *ret, struct error *err)
{
    spec_begin(body, defaults, ret);
    if (decode(body, &body_session, (void *[]){ret, ret}, err) < 0)
        return -1;
    return session_spec_check(ret, err);
}

void exec_order_release(struct exec_order *order)
{
    strings_release(&order->argv);
    strings_release(&order->env);
    free(steal_ptr(order->input));
}

static void order_begin(const struct exec_limits *limits, struct exec_order *ret)
{
    *ret = (struct exec_order){.timeout_sec = (double)limits->default_ms / 1000};
}

static int check_order(struct exec_order *order, const struct exec_limits *limits,
                       struct error *err)
{
    double maximum = (double)limits->maximum_ms / 1000;
    if (!order->cmd.data && !order->argv.count)
        return error_set(err, ERROR_INVALID, "cmd: is missing");
    if (order->cmd.data && order->argv.count)
        return error_set(err, ERROR_INVALID, "argv: cannot be given together with cmd");
    if (order->cmd.data && !order->cmd.data[strspn(order->cmd.data, " \t\r\n")])
        return error_set(err, ERROR_INVALID, "cmd: must not be blank");
    if (order->argv.count && !order->argv.items[0][0])
        return error_set(err, ERROR_INVALID, "argv[0]: must not be empty");
    if (maximum > 0 && order->timeout_sec <= 0)
        return error_set(err, ERROR_INVALID, "timeout_sec: must be above 0 here, and at most %.12g",
                         maximum);
    if (maximum > 0 && order->timeout_sec > maximum)
        return error_set(err, ERROR_INVALID, "timeout_sec: must be at most %.12g", maximum);
    if (order->text.data && order->base64.data)
        return error_set(err, ERROR_INVALID, "stdin_base64: cannot be given together with stdin");
    if (order->base64.data && base64_decode(order->base64.data, order->base64.size, &order->input,
                                            &order->input_size, err) < 0)
        return error_wrap(err, "stdin_base64");
    return 0;
}

int decode_exec(const json_t *body, const char *session, const struct session_spec *defaults,
                const struct exec_limits *limits, struct exec_order *ret,
                struct session_spec *ret_spec, bool *ret_has_spec, struct error *err)
{
    order_begin(limits, ret);
    if (decode(body, &body_exec, (void *[]){ret, ret}, err) < 0 ||
        check_order(ret, limits, err) < 0)
        return -1;
    *ret_has_spec = ret->spec != NULL;
    if (!ret->spec)
        return 0;
    spec_begin(ret->spec, defaults, ret_spec);
    if (decode(ret->spec, &body_session_nested, (void *[]){ret_spec, ret_spec}, err) < 0)
        return error_wrap(err, "spec");
    if (ret_spec->name && strcmp(ret_spec->name, session) != 0)
        return error_set(err, ERROR_INVALID, "spec: session_id: must be the one in the path");
    if (!ret_spec->name)
        ret_spec->name = xstrdup(session);
    return session_spec_check(ret_spec, err) < 0 ? error_wrap(err, "spec") : 0;
}

int decode_exec_flat(const json_t *body, const struct session_spec *defaults,
                     const struct exec_limits *limits, struct exec_order *ret,
                     struct session_spec *ret_spec, struct error *err)
{
    order_begin(limits, ret);
    spec_begin(body, defaults, ret_spec);
    if (decode(body, &body_exec_flat, (void *[]){ret_spec, ret_spec, ret}, err) < 0 ||
        check_order(ret, limits, err) < 0)
        return -1;
    return session_spec_check(ret_spec, err);
}

void exec_order_request(const struct exec_order *order, struct exec_request *ret)
{
    *ret = (struct exec_request){
        .command = order->cmd.data,
        .argv = order->argv.count ? order->argv.items : NULL,
        .workdir = order->workdir.data,
        .timeout_ms = (uint64_t)(order->timeout_sec * 1000),
        .env = order->env,
        .input = order->base64.data ? order->input : order->text.data,
        .input_size = order->base64.data ? order->input_size : order->text.size,
        .concurrent = order->concurrent,
    };
    /* What is above nothing must not become "none". */
    if (order->timeout_sec > 0 && ret->timeout_ms == 0)
        ret->timeout_ms = 1;
}

int decode_process(const json_t *body, struct process_spec *ret, struct error *err)
{
    process_spec_init(ret);
    if (decode(body, &body_process, (void *[]){ret}, err) < 0)
        return -1;
    return process_spec_check(ret, err);
}

int decode_signal(const json_t *body, int *ret, struct error *err)
{
    const json_t *value = NULL;
    if (decode(body, &body_signal, (void *[]){&value}, err) < 0)
        return -1;
    int number = -1;
    if (json_is_string(value))
        number = signal_number(json_string_value(value));
    else if (json_is_integer(value) && json_integer_value(value) > 0 &&
             json_integer_value(value) <= SIGNAL_MAX)
        number = (int)json_integer_value(value);
    if (number < 0)
        return error_set(err, ERROR_INVALID, "signal: must be the name or number of a signal");
    *ret = number;
    return 0;
}

struct resize {
    int type;
    struct terminal_size size;
};

int decode_resize(const json_t *message, struct terminal_size *ret, struct error *err)
{
    static const char *const types[] = {"resize", NULL};
    static const struct field fields[] = {
        {.name = "type",
         .kind = FIELD_CHOICE,
         .flags = FIELD_REQUIRED,
         .names = types,
         .offset = offsetof(struct resize, type)},
        {.name = "rows",
         .kind = FIELD_U16,
         .flags = FIELD_REQUIRED,
         .min = 1,
         .max = 10000,
         .offset = offsetof(struct resize, size.rows)},
        {.name = "cols",
         .kind = FIELD_U16,
         .flags = FIELD_REQUIRED,
         .min = 1,
         .max = 10000,
         .offset = offsetof(struct resize, size.columns)},
    };
    struct resize resize;
    struct fields part = {fields, ARRAY_SIZE(fields), &resize};
    if (fields_decode(message, &part, 1, FIELDS_STRICT, err) < 0)
        return -1;
    *ret = resize.size;
    return 0;
}
