/* SPDX-License-Identifier: Apache-2.0 */
/* Results of boxd's as results of ours. */
#include <signal.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/session-exec.h"

int exec_signal_number(const char *name)
{
    if (strncmp(name, "SIG", 3) == 0)
        name += 3;
    for (int number = 1; number < NSIG; number++) {
        const char *known = sigabbrev_np(number);
        if (known && strcmp(known, name) == 0)
            return number;
    }
    return 0;
}

static enum cause cause_from_name(const char *name)
{
    for (unsigned cause = 0; cause < CAUSE_MAX; cause++) {
        if (strcmp(cause_name((enum cause)cause), name) == 0)
            return (enum cause)cause;
    }
    return CAUSE_EXITED;
}

static void set_denied(struct outcome *outcome, const char *name)
{
    for (unsigned number = 0; number < DENIED_WORDS * 64; number++) {
        const char *known = seccomp_syscall_name((int)number);
        if (known && strcmp(known, name) == 0)
            outcome->denied[number / 64] |= 1ULL << (number % 64);
    }
}

void exec_result_from_json(const json_t *json, struct capture_result *ret)
{
    const json_t *exit_code = json_object_get(json, "exit_code");
    const json_t *denied = json_object_get(json, "denied_syscalls");
    struct outcome *outcome = &ret->outcome;
    *ret = (struct capture_result){0};
    outcome->timed_out = strcmp(client_text(json, "status"), "timed_out") == 0;
    outcome->exit_code = json_is_integer(exit_code) ? (int)json_integer_value(exit_code) : -1;
    outcome->signal = exec_signal_number(client_text(json, "signal"));
    /* Killed, and nobody says by what. */
    if (outcome->exit_code < 0 && outcome->signal == 0)
        outcome->signal = SIGKILL;
    outcome->cause = cause_from_name(client_text(json, "cause"));
    outcome->wall_us = client_number(json, "duration_ms") * 1000;
    for (size_t i = 0; i < json_array_size(denied); i++) {
        const char *name = json_string_value(json_array_get(denied, i));
        if (name)
            set_denied(outcome, name);
    }
}

int exec_failure_status(const struct error *err)
{
    if (err->code == ERROR_NOT_FOUND)
        return EXIT_NOT_FOUND;
    /* boxd's class for it is that of any bad request, or of any failed call. */
    return strstr(err->message, "cannot run '") ? EXIT_NOT_EXECUTABLE : EXIT_BOXD;
}
