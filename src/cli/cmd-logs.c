/* SPDX-License-Identifier: Apache-2.0 */
/* `box logs`: what a managed process, or an earlier command, has written.

   boxd keeps the end of it and counts all of it: an offset that is no longer there is moved up.
   A log is read in pages up to the size it had when it was first asked for; what is written while
   it is read is for --follow. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/client.h"
#include "core/buf.h"
#include "core/fd.h"
#include "core/parse.h"

#define TAIL_BYTES_MAX (256u * 1024 * 1024)
#define FOLLOW_MS      300

struct logs_options {
    struct client_options client;
    bool follow;
    bool errors;
    bool tail_given;
    uint64_t tail;
};

struct log {
    struct client *client;
    const struct logs_options *options;
    char *target;  /* up to its "?stream=" */
    bool command;  /* an earlier command, which boxd does not follow for us */
    uint64_t next; /* offset */
    bool running;
};

OPTION_SWITCH(apply_follow, struct logs_options, follow)
OPTION_SWITCH(apply_errors, struct logs_options, errors)

static int apply_tail(void *target, const char *value, struct error *err)
{
    struct logs_options *options = target;
    if (parse_u64(value, UINT32_MAX, &options->tail) < 0)
        return error_set(err, ERROR_INVALID, "'%.64s' is not a number of lines", value);
    options->tail_given = true;
    return 0;
}

static const struct option logs_options[] = {
    {"follow", 'f', NULL, "go on as more is written, until it ends", apply_follow},
    {"stderr", 0, NULL, "standard error, not standard output", apply_errors},
    {"tail", 'n', "N", "only the last N lines", apply_tail},
    CLIENT_OPTIONS,
    {0},
};

static uint64_t header_number(struct client *client, const char *name, uint64_t otherwise)
{
    const char *text = http_client_header(client->http, name);
    uint64_t value;
    return text && parse_u64(text, UINT64_MAX, &value) == 0 ? value : otherwise;
}

static int put(const char *bytes, size_t size, void *data)
{
    (void)data;
    return fd_write_all(STDOUT_FILENO, bytes, size);
}

static int keep(const char *bytes, size_t size, void *data)
{
    return buf_append(data, bytes, size) == size ? 0 : -EFBIG;
}

/* One answer, from log->next on, to the sink; *ret_total is how much there is by now. */
static int read_page(struct log *log, bool follow, int (*sink)(const char *, size_t, void *),
                     void *data, uint64_t *ret_total, struct error *err)
{
    cleanup_free char *target = xasprintf("%s%s&offset=%" PRIu64 "%s", log->target,
                                          log->options->errors ? "stderr" : "stdout", log->next,
                                          follow ? "&follow=true" : "");
    const struct http_call call = {.target = target};
    if (client_call(log->client, &call, err) < 0)
        return -1;
    uint64_t next = header_number(log->client, "X-Log-Next", log->next);
    *ret_total = header_number(log->client, "X-Log-Total", next);
    const char *running = http_client_header(log->client->http, "X-Log-Running");
    log->running = running && strcmp(running, "true") == 0;
    if (http_client_copy(log->client->http, sink, data, err) < 0)
        return -1;
    log->next = next;
    return 0;
}

static int read_all(struct log *log, int (*sink)(const char *, size_t, void *), void *data,
                    struct error *err)
{
    uint64_t end = UINT64_MAX;
    for (;;) {
        uint64_t before = log->next;
        uint64_t total;
        if (read_page(log, false, sink, data, &total, err) < 0)
            return -1;
        if (end == UINT64_MAX)
            end = total;
        if (log->next == before || log->next >= end)
            return 0;
    }
}

static int print_tail(struct log *log, struct error *err)
{
    cleanup_buf struct buf text = BUF_INIT(TAIL_BYTES_MAX);
    uint64_t lines = log->options->tail;
    if (read_all(log, keep, &text, err) < 0)
        return -1;
    if (lines == 0 || text.size == 0)
        return 0;
    /* The newline at the very end closes the last line; it does not open another. */
    size_t at = text.size - 1;
    while (at > 0 && (text.data[at - 1] != '\n' || --lines > 0))
        at--;
    int errnum = -put(text.data + at, text.size - at, NULL);
    return errnum ? error_errno(err, errnum, "cannot write to standard output") : 0;
}

static int follow(struct log *log, struct error *err)
{
    uint64_t total;
    if (!log->command)
        return read_page(log, true, put, NULL, &total, err);
    while (log->running) {
        poll(NULL, 0, FOLLOW_MS);
        if (read_all(log, put, NULL, err) < 0)
            return -1;
    }
    return 0;
}

static int logs_body(struct client *client, void *data, const struct operands *words,
                     struct error *err)
{
    const struct logs_options *options = data;
    const char *what = words->count > 1 ? words->words[1] : "default";
    bool command = what[0] == '#';
    uint64_t number;
    if (command && parse_u64(what + 1, UINT32_MAX, &number) < 0)
        return error_set(err, ERROR_INVALID, "'%.64s' is not the number of a command, such as '#3'",
                         what);
    cleanup_free char *target =
        command ? client_target("/v1/sessions/%s/execs/%s/log?stream=", words->words[0], what + 1)
                : client_target("/v1/sessions/%s/processes/%s/log?stream=", words->words[0], what);
    struct log log = {.client = client, .options = options, .target = target, .command = command};
    int rc = options->tail_given ? print_tail(&log, err) : read_all(&log, put, NULL, err);
    if (rc == 0 && options->follow)
        rc = follow(&log, err);
    return rc;
}

static int logs_main(const struct verb *verb, int argc, char **argv)
{
    struct logs_options options = {0};
    const struct verb_words want = {.min = 1, .max = 2};
    return client_main(verb, argc, argv, &options, want, logs_body);
}

const struct verb verb_logs = {
    .name = "logs",
    .arguments = "SESSION [PROCESS | '#'COMMAND] [-f] [--stderr] [--tail N]",
    .help = "Print what a process or an earlier command has written.",
    .options = logs_options,
    .run = logs_main,
};
