/* SPDX-License-Identifier: Apache-2.0 */
/* What `box run` says of a command's end, in an exit status and a line. */
#include "cli/run-report.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>

#include "cli/cli.h"

/* A reader that left is the reader's business, as in any pipeline. */
static bool was_lost(const struct capture_stream *stream)
{
    return stream->errnum != 0 && stream->errnum != EPIPE;
}

int run_exit_status(const struct capture_result *result)
{
    const struct outcome *outcome = &result->outcome;
    if (outcome->timed_out)
        return EXIT_TIMED_OUT;
    /* Whichever process it hit, and whatever the first one made of that. */
    if (outcome->cause == CAUSE_OOM)
        return EXIT_SIGNAL + SIGKILL;
    if (outcome->exit_code < 0)
        return EXIT_SIGNAL + outcome->signal;
    if (outcome->exit_code == 0 && (was_lost(&result->output) || was_lost(&result->errors)))
        return EXIT_BOXD;
    return outcome->exit_code;
}

int run_start_status(const struct error *err)
{
    if (err->code == ERROR_NOT_FOUND)
        return EXIT_NOT_FOUND;
    if (err->code == ERROR_DENIED || err->errnum == ENOEXEC || err->errnum == EISDIR)
        return EXIT_NOT_EXECUTABLE;
    return EXIT_BOXD;
}

void format_size(uint64_t bytes, char *ret, size_t size)
{
    static const char units[] = "KMGT";
    double value = (double)bytes;
    size_t unit = 0;
    if (bytes < 1024) {
        snprintf(ret, size, "%" PRIu64, bytes);
        return;
    }
    for (value /= 1024; value >= 1024 && unit + 1 < sizeof units - 1; unit++)
        value /= 1024;
    snprintf(ret, size, "%.4g%c", value, units[unit]);
}

void format_duration(uint64_t ms, char *ret, size_t size)
{
    if (ms < 1000)
        snprintf(ret, size, "%" PRIu64 "ms", ms);
    else
        snprintf(ret, size, "%.10gs", (double)ms / 1000);
}

void run_denied_names(const struct outcome *outcome, struct strings *ret)
{
    for (unsigned number = 0; number < DENIED_WORDS * 64; number++) {
        if (!(outcome->denied[number / 64] >> (number % 64) & 1))
            continue;
        const char *name = seccomp_syscall_name((int)number);
        strings_take(ret, name ? xstrdup(name) : xasprintf("syscall_%u", number));
    }
}

/* --- the line --------------------------------------------------------------------------------- */

static void explain_timeout(const struct run_options *options, const struct outcome *outcome,
                            FILE *out)
{
    char text[32];
    (void)outcome;
    format_duration(options->timeout_ms, text, sizeof text);
    fprintf(out, "box: timed out after %s\n", text);
    /* Who named the limit knows how. */
    if (!(options->given & GIVEN_TIMEOUT))
        fputs("  fix: --timeout TIME, such as 5m; 0 for no limit\n", out);
}

static void explain_oom(const struct run_options *options, const struct outcome *outcome, FILE *out)
{
    char text[32];
    (void)outcome;
    format_size(options->spec.memory_bytes, text, sizeof text);
    fprintf(out, "box: out of memory: killed (limit %s)\n", text);
}

static void explain_pids(const struct run_options *options, const struct outcome *outcome,
                         FILE *out)
{
    (void)outcome;
    fprintf(out, "box: process limit reached (%" PRIu32 "): a new process was refused\n",
            options->spec.pids);
}

static void explain_disk(const struct run_options *options, const struct outcome *outcome,
                         FILE *out)
{
    (void)outcome;
    fprintf(out, "box: disk full: no space left in a limited directory (see --tmp-size%s)\n",
            options->spec.quota_bytes ? ", --workspace-quota" : "");
}

static void explain_denied(const struct run_options *options, const struct outcome *outcome,
                           FILE *out)
{
    cleanup_strings struct strings names = {0};
    (void)options;
    run_denied_names(outcome, &names);
    fprintf(out, "box: denied system call%s:", names.count == 1 ? "" : "s");
    for (size_t i = 0; i < names.count; i++)
        fprintf(out, "%s %s", i ? "," : "", names.items[i]);
    fputs("\n", out);
}

/* An exit or a signal of the command's own speaks for itself. */
static void (*const explain[CAUSE_MAX])(const struct run_options *, const struct outcome *,
                                        FILE *) = {
    [CAUSE_TIMEOUT] = explain_timeout,       [CAUSE_OOM] = explain_oom,
    [CAUSE_PIDS_LIMIT] = explain_pids,       [CAUSE_DISK_QUOTA] = explain_disk,
    [CAUSE_DENIED_SYSCALL] = explain_denied,
};

static void explain_stream(const struct capture_stream *stream, const char *name, FILE *out)
{
    if (was_lost(stream))
        fprintf(out, "box: cannot write to standard %s: %s\n", name, strerror(stream->errnum));
}

void run_explain(const struct run_options *options, const struct capture_result *result, FILE *out)
{
    const struct outcome *outcome = &result->outcome;
    if ((unsigned)outcome->cause < CAUSE_MAX && explain[outcome->cause])
        explain[outcome->cause](options, outcome, out);
    explain_stream(&result->output, "output", out);
    explain_stream(&result->errors, "error", out);
}
