/* SPDX-License-Identifier: Apache-2.0 */
/* The result of a command, or the reason why there is none, as one JSON object. */
#include "cli/run-report.h"

#include <string.h>

#include "cli/cli.h"
#include "cli/plan-json.h"

static json_t *stream_to_json(const struct capture_stream *stream)
{
    return json_text(stream->kept.data ? stream->kept.data : "", stream->kept.size);
}

static bool is_clipped(const struct capture_stream *stream)
{
    return stream->bytes > stream->kept.size;
}

static json_t *denied_to_json(const struct outcome *outcome)
{
    cleanup_strings struct strings names = {0};
    json_t *array = json_array();
    run_denied_names(outcome, &names);
    for (size_t i = 0; i < names.count; i++)
        json_array_append_new(array, json_string(names.items[i]));
    return array;
}

static json_t *ms_to_json(uint64_t us)
{
    return json_real((double)us / 1000);
}

json_t *run_result_to_json(const struct capture_result *result, const struct plan *plan,
                           const struct sandbox_spec *spec)
{
    const struct outcome *outcome = &result->outcome;
    json_t *object = json_object();
    json_object_set_new(object, "status",
                        json_string(outcome->timed_out ? "timed_out" : "completed"));
    json_object_set_new(object, "exit_code",
                        outcome->exit_code >= 0 ? json_integer(outcome->exit_code) : json_null());
    json_object_set_new(object, "signal",
                        outcome->signal > 0 ? json_integer(outcome->signal) : json_null());
    json_object_set_new(object, "cause", json_string(cause_name(outcome->cause)));
    json_object_set_new(object, "denied_syscalls", denied_to_json(outcome));
    json_object_set_new(object, "stdout", stream_to_json(&result->output));
    json_object_set_new(object, "stderr", stream_to_json(&result->errors));
    json_object_set_new(object, "stdout_bytes", json_integer((json_int_t)result->output.bytes));
    json_object_set_new(object, "stderr_bytes", json_integer((json_int_t)result->errors.bytes));
    json_object_set_new(object, "stdout_clipped", json_boolean(is_clipped(&result->output)));
    json_object_set_new(object, "stderr_clipped", json_boolean(is_clipped(&result->errors)));
    json_object_set_new(object, "duration_ms", ms_to_json(outcome->wall_us));
    json_object_set_new(object, "cpu_ms", ms_to_json(outcome->cpu_us));
    json_object_set_new(object, "peak_memory_bytes", json_integer((json_int_t)outcome->peak_bytes));
    json_object_set_new(object, "peak_memory_of",
                        json_string(outcome->peak_of_tree ? "tree" : "largest process"));
    json_object_set_new(object, "isolation", isolation_to_json(plan, spec));
    return object;
}

json_t *run_error_to_json(const struct error *err)
{
    json_t *inner = json_object();
    json_object_set_new(inner, "code", json_string(error_code_name(err->code)));
    json_object_set_new(inner, "message", json_text(err->message, strlen(err->message)));
    if (err->hint[0])
        json_object_set_new(inner, "hint", json_text(err->hint, strlen(err->hint)));
    return json_pack("{s:o}", "error", inner);
}

void run_print_json(json_t *value, size_t flags)
{
    json_dumpf(value, stdout, flags | JSON_REAL_PRECISION(12));
    putchar('\n');
    json_decref(value);
}

int run_fail(bool json, const char *verb, const struct error *err, int status)
{
    if (json)
        run_print_json(run_error_to_json(err), JSON_COMPACT);
    else
        cli_fail(verb, err);
    return status;
}
