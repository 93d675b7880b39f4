/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies of requests, decoded by the tables of bodies.c, and what no table can say. */
#include "api/decode.h"

#include <string.h>

#include "api/signals.h"
#include "core/base64.h"

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

/* What a request does not name may be otherwise in a session that is there: only LangBot sends all
   of it. */
static uint32_t named_fields(const json_t *body)
{
    uint32_t named = 0;
    for (int field = 0; field < SPEC_FIELD_MAX; field++) {
        if (json_object_get(body, spec_field_name((enum spec_field)field)))
            named |= UINT32_C(1) << field;
    }
    return named;
}

/* The defaults, ready to be written over. */
static void spec_begin(const json_t *body, const struct session_spec *defaults,
                       struct session_spec *ret)
{
    session_spec_copy(ret, defaults);
    free(steal_ptr(ret->name));
    ret->named = named_fields(body);
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
