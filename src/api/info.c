/* SPDX-License-Identifier: Apache-2.0 */
/* What sessions, processes and results look like in an answer. */
#include <stdlib.h>
#include <string.h>

#include "api/internal.h"
#include "api/signals.h"
#include "core/clock.h"
#include "core/utf8.h"

#define PREVIEW_CHARACTERS 4000
#define PREVIEW_BYTES      (PREVIEW_CHARACTERS * 4)

/* Sentences, one a line, as an array. */
static void out_lines(struct json_out *out, const char *key, const char *text)
{
    out_open(out, key, '[');
    for (const char *line = text ? text : ""; *line;) {
        size_t size = strcspn(line, "\n");
        if (size)
            out_bytes(out, NULL, line, size);
        line += size + (line[size] == '\n');
    }
    out_close(out, ']');
}

static void out_mounts(struct json_out *out, const struct session_spec *spec)
{
    out_open(out, "extra_mounts", '[');
    for (size_t i = 0; i < spec->mount_count; i++) {
        out_open(out, NULL, '{');
        out_text(out, "host_path", spec->mounts[i].host_path);
        out_text(out, "mount_path", spec->mounts[i].mount_path);
        out_text(out, "mode", mount_mode_name(spec->mounts[i].mode));
        out_close(out, '}');
    }
    out_close(out, ']');
}

struct visit {
    struct json_out *out;
    struct session *session;
};

static void visit_process(struct process *process, void *data)
{
    struct visit *visit = data;
    out_process(visit->out, NULL, session_name(visit->session), process, false);
}

/* 0 is null. */
static void out_when(struct json_out *out, const char *key, int64_t us, bool langbot)
{
    char text[CLOCK_TEXT_SIZE];
    if (!langbot || us == 0) {
        out_time(out, key, us);
        return;
    }
    clock_python_text(us, "Z", text);
    out_text(out, key, text);
}

void out_session_fields(struct json_out *out, struct api *api, struct session *session,
                        const char *name, bool langbot)
{
    const struct session_spec *spec = session_spec(session);
    out_text(out, "session_id", name);
    out_text(out, "backend_name", runtime_backend(api->runtime)->ops->name);
    out_text(out, "backend_session_id", session_backend_id(session));
    out_text(out, "image", spec->image);
    out_text(out, "network", spec->network ? "on" : "off");
    out_text(out, "host_path", spec->host_path);
    out_text(out, "host_path_mode", mount_mode_name(spec->host_path_mode));
    out_text(out, "mount_path", spec->mount_path);
    out_flag(out, "persistent", spec->persistent);
    out_double(out, "cpus", spec->cpus);
    out_unsigned(out, "memory_mb", spec->memory_mb);
    out_unsigned(out, "pids_limit", spec->pids_limit);
    out_flag(out, "read_only_rootfs", spec->read_only_rootfs);
    out_unsigned(out, "workspace_quota_mb", spec->workspace_quota_mb);
    out_when(out, "created_at", session_created_us(session), langbot);
    out_when(out, "last_used_at", session_last_used_us(session), langbot);
    out_text(out, "state", session_state_name(session_state(session)));
    out_mounts(out, spec);
    out_unsigned(out, "running", session_running(session));
    out_lines(out, "notes", session_notes(session));
}

void out_session(struct json_out *out, struct api *api, struct session *session, bool processes)
{
    out_open(out, NULL, '{');
    out_session_fields(out, api, session, session_name(session), false);
    if (processes) {
        struct visit visit = {out, session};
        out_open(out, "processes", '[');
        session_each_process(session, visit_process, &visit);
        out_close(out, ']');
    }
    out_close(out, '}');
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The names of the variables, sorted; never their values. */
static void out_env_keys(struct json_out *out, const struct strings *env)
{
    cleanup_strings struct strings keys = {0};
    for (size_t i = 0; i < env->count; i++)
        strings_take(&keys, xstrndup(env->items[i], strcspn(env->items[i], "=")));
    if (keys.count)
        qsort(keys.items, keys.count, sizeof *keys.items, compare_texts);
    out_open(out, "env_keys", '[');
    for (size_t i = 0; i < keys.count; i++)
        out_text(out, NULL, keys.items[i]);
    out_close(out, ']');
}

static void out_texts(struct json_out *out, const char *key, const struct strings *texts)
{
    out_open(out, key, '[');
    for (size_t i = 0; i < texts->count; i++)
        out_text(out, NULL, texts->items[i]);
    out_close(out, ']');
}

static void out_preview(struct json_out *out, const struct process *process, bool strip)
{
    char tail[PREVIEW_BYTES];
    size_t size = process_error_tail(process, tail, sizeof tail);
    const char *text = tail;
    if (strip)
        utf8_strip(&text, &size);
    size_t start = size;
    for (size_t characters = 0; start > 0; start--) {
        /* Every byte that does not go on with a sequence begins a character. */
        if (((unsigned char)text[start - 1] & 0xC0) != 0x80 && ++characters == PREVIEW_CHARACTERS) {
            start--;
            break;
        }
    }
    out_bytes(out, "stderr_preview", text + start, size - start);
}

void out_process(struct json_out *out, const char *key, const char *session,
                 const struct process *process, bool langbot)
{
    struct process_info info;
    process_info(process, &info);
    out_open(out, key, '{');
    out_text(out, "session_id", session);
    out_text(out, "process_id", info.id);
    out_text(out, "status", info.running ? "running" : "exited");
    out_text(out, "command", info.spec->command);
    out_texts(out, "args", &info.spec->args);
    out_text(out, "cwd", info.spec->cwd);
    out_env_keys(out, &info.spec->env);
    out_flag(out, "attached", info.attached);
    out_when(out, "started_at", info.started_us, langbot);
    out_when(out, "exited_at", info.exited_us, langbot);
    if (!info.running && info.exit_known)
        out_signed(out, "exit_code", info.exit_code);
    else
        out_null(out, "exit_code");
    out_text(out, "cause", info.cause);
    out_preview(out, process, langbot);
    out_unsigned(out, "stdout_bytes", info.bytes[STREAM_OUTPUT]);
    out_unsigned(out, "stderr_bytes", info.bytes[STREAM_ERROR]);
    out_close(out, '}');
}

static void out_denied(struct json_out *out, const char *names)
{
    out_open(out, "denied_syscalls", '[');
    while (*names) {
        size_t size = strcspn(names, ", ");
        if (size)
            out_bytes(out, NULL, names, size);
        names += size + strspn(names + size, ", ");
    }
    out_close(out, ']');
}

static void out_stream(struct json_out *out, const char *key, const struct exec_stream *stream,
                       bool texts, bool base64)
{
    const char *data = stream->data && texts ? stream->data : "";
    size_t size = stream->data && texts ? stream->size : 0;
    if (base64)
        out_base64(out, key, data, size);
    else
        out_bytes(out, key, data, size);
}

void out_outcome(struct json_out *out, const struct exec_result *result)
{
    const struct backend_outcome *outcome = &result->outcome;
    const struct exec_stream *output = &result->streams[STREAM_OUTPUT];
    const struct exec_stream *errors = &result->streams[STREAM_ERROR];
    char signal[SIGNAL_TEXT_SIZE];
    out_unsigned(out, "exec_id", result->number);
    out_text(out, "cause", outcome->cause);
    out_text(out, "signal", signal_text(outcome->signal, signal));
    out_denied(out, outcome->denied);
    out_unsigned(out, "stdout_bytes", output->bytes);
    out_unsigned(out, "stderr_bytes", errors->bytes);
    out_flag(out, "stdout_truncated", output->bytes > output->size);
    out_flag(out, "stderr_truncated", errors->bytes > errors->size);
    out_ms(out, "cpu_ms", outcome->cpu_us);
    out_unsigned(out, "peak_memory_bytes", outcome->peak_bytes);
}

void out_result(struct json_out *out, struct api *api, const char *session,
                const struct exec_result *result, bool texts, bool base64)
{
    const struct backend_outcome *outcome = &result->outcome;
    out_open(out, NULL, '{');
    out_text(out, "session_id", session);
    out_text(out, "backend_name", runtime_backend(api->runtime)->ops->name);
    out_text(out, "status", outcome->timed_out ? "timed_out" : "completed");
    if (outcome->timed_out || outcome->exit_code < 0)
        out_null(out, "exit_code");
    else
        out_signed(out, "exit_code", outcome->exit_code);
    out_stream(out, "stdout", &result->streams[STREAM_OUTPUT], texts, base64);
    out_stream(out, "stderr", &result->streams[STREAM_ERROR], texts, base64);
    out_ms(out, "duration_ms", outcome->wall_us);
    out_outcome(out, result);
    out_text(out, "encoding", base64 ? "base64" : "utf-8");
    out_close(out, '}');
}
