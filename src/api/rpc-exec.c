/* SPDX-License-Identifier: Apache-2.0 */
/* box_exec: a command, in a session that is made if it is not there. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "api/rpc-internal.h"
#include "core/utf8.h"

#define SIGNAL_EXIT 128

/* --- the result --- */

static void out_exit_code(struct json_out *out, const struct backend_outcome *outcome)
{
    if (outcome->timed_out)
        out_null(out, "exit_code");
    else if (outcome->exit_code >= 0)
        out_signed(out, "exit_code", outcome->exit_code);
    else /* as a shell tells of a child that a signal has ended */
        out_signed(out, "exit_code",
                   SIGNAL_EXIT + (outcome->signal > 0 ? outcome->signal : SIGKILL));
}

/* Without white space around it; what was not kept is told of behind it. */
static void out_captured(struct json_out *out, const char *key, const struct exec_stream *stream,
                         const char *otherwise)
{
    const char *text = stream->data ? stream->data : "";
    size_t size = stream->data ? stream->size : 0;
    utf8_strip(&text, &size);
    if (stream->bytes > stream->size) {
        char note[128];
        int note_size =
            snprintf(note, sizeof note,
                     "\n... [raw output clipped at %zu bytes, %" PRIu64 " bytes discarded]",
                     stream->size, stream->bytes - stream->size);
        cleanup_free char *whole = xmalloc(size + (size_t)note_size);
        memcpy(whole, text, size);
        memcpy(whole + size, note, (size_t)note_size);
        out_bytes(out, key, whole, size + (size_t)note_size);
    } else if (size == 0 && otherwise) {
        out_text(out, key, otherwise);
    } else {
        out_bytes(out, key, text, size);
    }
}

static void out_rpc_result(struct json_out *out, const struct rpc_call *call,
                           const struct exec_result *result)
{
    const struct backend_outcome *outcome = &result->outcome;
    char late[64];
    snprintf(late, sizeof late, "Command timed out after %" PRIu64 " seconds.", call->timeout_sec);
    out_open(out, NULL, '{');
    out_text(out, "session_id", rpc_logical(call, call->session));
    out_text(out, "backend_name", runtime_backend(call->api->runtime)->ops->name);
    out_text(out, "status", outcome->timed_out ? "timed_out" : "completed");
    out_exit_code(out, outcome);
    out_captured(out, "stdout", &result->streams[STREAM_OUTPUT], NULL);
    out_captured(out, "stderr", &result->streams[STREAM_ERROR], outcome->timed_out ? late : NULL);
    out_unsigned(out, "duration_ms", outcome->wall_us / 1000);
    out_outcome(out, result);
    out_warnings(out, call);
    out_close(out, '}');
}

/* --- the command --- */

static void on_done(void *owner, const struct exec_result *result, const struct error *err)
{
    struct rpc_call *call = owner;
    call->execution = NULL;
    if (err) {
        rpc_fail(call, err);
        return;
    }
    out_rpc_result(rpc_answer(call), call, result);
    rpc_send(call);
}

static uint64_t cut_timeout(const struct api *api, uint64_t seconds)
{
    uint64_t maximum = api->config.maximum_timeout_ms / 1000;
    return maximum > 0 && seconds > maximum ? maximum : seconds;
}

static void run(struct rpc_call *call, struct rpc_spec *spec)
{
    static const struct exec_events events = {.done = on_done};
    call->timeout_sec = cut_timeout(call->api, spec->timeout_sec);
    struct exec_request request = {
        .command = spec->cmd,
        .workdir = spec->workdir,
        .timeout_ms = call->timeout_sec * 1000,
        .env = spec->env,
    };
    call->execution =
        runtime_exec(call->api->runtime, &spec->session, &request, NULL, &events, call);
}

void rpc_exec(struct rpc_call *call)
{
    struct rpc_spec spec = {0};
    if (rpc_take_spec(call, true, &spec))
        rpc_with_skills(call, &spec, run);
    rpc_spec_release(&spec);
}
