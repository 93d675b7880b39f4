/* SPDX-License-Identifier: Apache-2.0 */
/* A command in a session of boxd's.

   Output comes as server-sent events, each piece in base64 so that no byte of it is changed, and is
   written at once. Signals keep their usual meaning: when this process dies its connection closes,
   and boxd ends a command whose client has left. That is also what a reader that leaves (SIGPIPE)
   does. */
#include "cli/session-exec.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/run-report.h"
#include "cli/sse.h"
#include "core/base64.h"
#include "core/fd.h"

#define INPUT_MAX (8u * 1024 * 1024)

enum {
    STREAM_GOES_ON = 0,
    STREAM_RESULT = 1,
};

struct streaming {
    json_t *result;
    int errnums[2]; /* of standard output and standard error: why it could not be written */
};

/* --- the request --------------------------------------------------------------------------------
 */

static int set_argv(json_t *body, char **argv, struct error *err)
{
    json_t *array = json_array();
    json_object_set_new(body, "argv", array);
    for (; *argv; argv++) {
        if (json_array_append_new(array, json_string(*argv)) < 0)
            return error_set(err, ERROR_INVALID, "'%.200s' is not UTF-8, which boxd needs", *argv);
    }
    return 0;
}

static int set_input(json_t *body, struct error *err)
{
    cleanup_buf struct buf input = BUF_INIT(INPUT_MAX + 1);
    size_t room;
    char *at;
    ssize_t n = 0;
    while ((at = buf_reserve(&input, 65536, &room))) {
        n = read(STDIN_FILENO, at, room);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        input.size += (size_t)n;
    }
    if (n < 0)
        return error_errno(err, errno, "cannot read standard input");
    if (input.size > INPUT_MAX) {
        error_set(err, ERROR_LIMIT, "standard input is larger than %u MiB", INPUT_MAX >> 20);
        return error_hint(err, "put it into a file of the session: box cp - SESSION:/workspace/in");
    }
    size_t length = base64_size(input.size);
    cleanup_free char *text = xmalloc(length + 1);
    base64_encode(input.data, input.size, text);
    json_object_set_new(body, "stdin_base64", json_stringn(text, length));
    return 0;
}

static int make_body(const struct run_options *options, json_t **ret, struct error *err)
{
    cleanup_json json_t *body = json_object();
    json_t *env = NULL;
    if (set_argv(body, options->command, err) < 0 || run_options_env(options, &env, err) < 0)
        return -1;
    json_object_set_new(body, "env", env);
    if (options->workdir && json_object_set_new(body, "workdir", json_string(options->workdir)) < 0)
        return error_set(err, ERROR_INVALID, "the working directory is not UTF-8");
    if (options->given & GIVEN_TIMEOUT)
        json_object_set_new(body, "timeout_sec", json_real((double)options->timeout_ms / 1000));
    if (options->concurrent)
        json_object_set_new(body, "concurrent", json_true());
    if (!options->client.json) {
        json_object_set_new(body, "stream", json_true());
        json_object_set_new(body, "encoding", json_string("base64"));
    }
    if (options->interactive && set_input(body, err) < 0)
        return -1;
    *ret = steal_ptr(body);
    return 0;
}

/* --- output as it comes -------------------------------------------------------------------------
 */

static int pass_on(struct streaming *streaming, int which, char *text, size_t size,
                   struct error *err)
{
    cleanup_json json_t *piece = json_loadb(text, size, 0, NULL);
    const json_t *data = json_object_get(piece, "data");
    if (!json_is_string(data))
        return error_set(err, ERROR_PROTOCOL, "output in a form that is not understood");
    cleanup_free char *bytes = NULL;
    size_t decoded;
    if (base64_decode(json_string_value(data), json_string_length(data), &bytes, &decoded, err) < 0)
        return error_wrap(err, "output");
    if (streaming->errnums[which] == 0)
        streaming->errnums[which] =
            -fd_write_all(which == 0 ? STDOUT_FILENO : STDERR_FILENO, bytes, decoded);
    return STREAM_GOES_ON;
}

static int on_event(void *data, const char *name, char *text, size_t size, struct error *err)
{
    struct streaming *streaming = data;
    if (strcmp(name, "stdout") == 0)
        return pass_on(streaming, 0, text, size, err);
    if (strcmp(name, "stderr") == 0)
        return pass_on(streaming, 1, text, size, err);
    if (strcmp(name, "error") == 0)
        return client_take_error(0, text, size, err);
    if (strcmp(name, "result") != 0)
        return STREAM_GOES_ON;
    streaming->result = json_loadb(text, size, 0, NULL);
    return streaming->result ? STREAM_RESULT
                             : error_set(err, ERROR_PROTOCOL, "a result that is not understood");
}

static int follow(struct client *client, struct streaming *streaming, struct error *err)
{
    cleanup_sse struct sse sse = SSE_INIT;
    char buffer[65536];
    for (;;) {
        ssize_t n = http_client_read(client->http, buffer, sizeof buffer, err);
        if (n < 0)
            return -1;
        if (n == 0)
            return error_set(err, ERROR_GONE, "boxd ended the answer before the command's result");
        int rc = sse_feed(&sse, buffer, (size_t)n, on_event, streaming, err);
        if (rc != STREAM_GOES_ON)
            return rc < 0 ? -1 : 0;
    }
}

/* --- the end ------------------------------------------------------------------------------------
 */

/* Limits are not in the result: they are the session's. */
static void find_limits(struct client *client, struct run_options *options, enum cause cause)
{
    cleanup_json json_t *session = NULL;
    cleanup_free char *target = client_target("/v1/sessions/%s", options->session);
    struct error ignored = ERROR_INIT;
    if (cause != CAUSE_OOM && cause != CAUSE_PIDS_LIMIT)
        return;
    if (client_get(client, target, &session, &ignored) < 0)
        return;
    options->spec.memory_bytes = client_number(session, "memory_mb") << 20;
    options->spec.pids = (uint32_t)client_number(session, "pids_limit");
}

static int conclude(struct client *client, struct run_options *options,
                    const struct streaming *streaming)
{
    struct capture_result result;
    exec_result_from_json(streaming->result, &result);
    result.output.errnum = streaming->errnums[0];
    result.errors.errnum = streaming->errnums[1];
    find_limits(client, options, result.outcome.cause);
    /* A time limit that nobody named is boxd's: what has passed tells it, to the second. */
    if (!(options->given & GIVEN_TIMEOUT))
        options->timeout_ms = result.outcome.wall_us / 1000 / 1000 * 1000;
    if (!options->quiet && !options->client.json)
        run_explain(options, &result, stderr);
    return run_exit_status(&result);
}

static int attempt(struct client *client, const struct run_options *options, const json_t *body,
                   struct streaming *ret, struct error *err)
{
    cleanup_free char *target = client_target("/v1/sessions/%s/exec", options->session);
    cleanup_free char *text = json_dumps(body, JSON_COMPACT);
    const struct http_call call = {
        .method = "POST",
        .target = target,
        .type = "application/json",
        .body = text,
        .body_size = strlen(text),
    };
    if (options->client.json)
        return client_request(client, "POST", target, json_deep_copy(body), &ret->result, err);
    if (client_call(client, &call, err) < 0)
        return -1;
    return follow(client, ret, err);
}

/* A session that is there is taken as it is, unless the line says what it should be: then boxd
   compares. */
static int run_command(struct client *client, const struct run_options *options, json_t *body,
                       struct streaming *ret, struct error *err)
{
    cleanup_json json_t *spec = NULL;
    if (run_options_to_spec(options, &spec, err) < 0)
        return -1;
    bool says = json_object_size(spec) > 0;
    json_object_set_new(spec, "recreate", json_false());
    if (says) {
        json_object_set(body, "spec", spec);
        return attempt(client, options, body, ret, err);
    }
    int rc = attempt(client, options, body, ret, err);
    if (rc == 0 || err->code != ERROR_NO_SESSION || !options->create)
        return rc;
    *err = (struct error)ERROR_INIT;
    json_object_set(body, "spec", spec);
    return attempt(client, options, body, ret, err);
}

int session_exec(struct client *client, struct run_options *options, struct error *err)
{
    struct streaming streaming = {0};
    cleanup_json json_t *body = NULL;
    if (make_body(options, &body, err) < 0)
        return -1;
    if (run_command(client, options, body, &streaming, err) < 0) {
        client->failure = exec_failure_status(err);
        return -1;
    }
    int status = conclude(client, options, &streaming);
    if (options->client.json)
        run_print_json(json_incref(streaming.result), JSON_COMPACT);
    json_decref(streaming.result);
    return status;
}
