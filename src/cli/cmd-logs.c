/* SPDX-License-Identifier: Apache-2.0 */
/* `box logs`: what a managed process, or an earlier command, has written.

   boxd keeps the end of each of its two streams and counts all of it: an offset that is no longer
   there is moved up. A log is read in pages up to the size it had when it was first asked for; what
   is written while it is read is for --follow. The streams are apart: in which order lines of both
   were written is only seen while they are followed. */
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
    bool output; /* neither this nor the next: both */
    bool errors;
    bool tail_given;
    uint64_t tail;
};

/* One stream. */
struct log {
    struct client *client;
    const struct logs_options *options;
    const char *target; /* up to its "?stream=" */
    const char *stream;
    int fd;        /* where it goes */
    uint64_t next; /* offset */
    bool running;
    bool over; /* followed to its end */
};

/* Those that were asked for. */
struct logs {
    struct log logs[2];
    size_t count;
};

OPTION_SWITCH(apply_follow, struct logs_options, follow)
OPTION_SWITCH(apply_output, struct logs_options, output)
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
    {"stdout", 0, NULL, "standard output only", apply_output},
    {"stderr", 0, NULL, "standard error only, to standard output", apply_errors},
    {"tail", 'n', "N", "only the last N lines of each", apply_tail},
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
    const struct log *log = data;
    return fd_write_all(log->fd, bytes, size);
}

static int keep(const char *bytes, size_t size, void *data)
{
    return buf_append(data, bytes, size) == size ? 0 : -EFBIG;
}

static int put_failed(const struct log *log, int errnum, struct error *err)
{
    return error_errno(err, errnum, "cannot write to standard %s",
                       log->fd == STDOUT_FILENO ? "output" : "error");
}

static int ask(const struct log *log, bool follow, struct error *err)
{
    cleanup_free char *target = xasprintf("%s%s&offset=%" PRIu64 "%s", log->target, log->stream,
                                          log->next, follow ? "&follow=true" : "");
    const struct http_call call = {.target = target};
    return client_call(log->client, &call, err);
}

/* One answer, from log->next on, to the sink; *ret_total is how much there is by now. */
static int read_page(struct log *log, int (*sink)(const char *, size_t, void *), void *data,
                     uint64_t *ret_total, struct error *err)
{
    if (ask(log, false, err) < 0)
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
        if (read_page(log, sink, data, &total, err) < 0)
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
    int errnum = -put(text.data + at, text.size - at, log);
    return errnum ? put_failed(log, errnum, err) : 0;
}

/* --- as it is written ---------------------------------------------------------------------------
 */

/* Commands are not followed by boxd for us. */
static int follow_command(struct logs *logs, struct error *err)
{
    while (logs->logs[0].running) {
        poll(NULL, 0, FOLLOW_MS);
        for (size_t i = 0; i < logs->count; i++) {
            if (read_all(&logs->logs[i], put, &logs->logs[i], err) < 0)
                return -1;
        }
    }
    return 0;
}

static int pass_piece(struct log *log, struct error *err)
{
    char piece[16384];
    ssize_t n = http_client_read(log->client->http, piece, sizeof piece, err);
    if (n < 0)
        return -1;
    log->over = n == 0;
    int errnum = -put(piece, (size_t)n, log);
    return errnum ? put_failed(log, errnum, err) : 0;
}

/* Waits for any of them, and passes on what there is. */
static int pass_some(struct logs *logs, struct error *err)
{
    struct pollfd fds[ARRAY_SIZE(logs->logs)];
    bool ready[ARRAY_SIZE(logs->logs)];
    bool any = false;
    for (size_t i = 0; i < logs->count; i++) {
        const struct log *log = &logs->logs[i];
        const struct http_client *http = log->client->http;
        ready[i] = !log->over && http_client_buffered(http);
        any |= ready[i];
        fds[i] = (struct pollfd){.fd = log->over ? -1 : http_client_fd(http), .events = POLLIN};
    }
    if (poll(fds, logs->count, any ? 0 : -1) < 0 && errno != EINTR)
        return error_errno(err, errno, "poll");
    for (size_t i = 0; i < logs->count; i++) {
        if ((ready[i] || fds[i].revents) && pass_piece(&logs->logs[i], err) < 0)
            return -1;
    }
    return 0;
}

static int follow_process(struct logs *logs, struct error *err)
{
    bool over = false;
    for (size_t i = 0; i < logs->count; i++) {
        if (ask(&logs->logs[i], true, err) < 0)
            return -1;
    }
    while (!over) {
        if (pass_some(logs, err) < 0)
            return -1;
        over = true;
        for (size_t i = 0; i < logs->count; i++)
            over &= logs->logs[i].over;
    }
    return 0;
}

/* --- the verb -----------------------------------------------------------------------------------
 */

/* One stream that was chosen goes to standard output, wherever it was written to: it is what is
   looked for. */
static void add_log(struct logs *logs, struct client *client, const struct logs_options *options,
                    const char *target, bool errors)
{
    bool alone = options->output != options->errors;
    logs->logs[logs->count++] = (struct log){
        .client = client,
        .options = options,
        .target = target,
        .stream = errors ? "stderr" : "stdout",
        .fd = errors && !alone ? STDERR_FILENO : STDOUT_FILENO,
    };
}

static int print_logs(struct logs *logs, const struct logs_options *options, bool command,
                      struct error *err)
{
    for (size_t i = 0; i < logs->count; i++) {
        struct log *log = &logs->logs[i];
        if ((options->tail_given ? print_tail(log, err) : read_all(log, put, log, err)) < 0)
            return -1;
    }
    if (!options->follow)
        return 0;
    return command ? follow_command(logs, err) : follow_process(logs, err);
}

static int logs_body(struct client *client, void *data, const struct operands *words,
                     struct error *err)
{
    const struct logs_options *options = data;
    const char *what = words->count > 1 ? words->words[1] : "default";
    bool command = what[0] == '#';
    struct client second = *client; /* but for its connection */
    struct logs logs = {0};
    uint64_t number;
    if (command && parse_u64(what + 1, UINT32_MAX, &number) < 0)
        return error_set(err, ERROR_INVALID, "'%.64s' is not the number of a command, such as '#3'",
                         what);
    cleanup_free char *target =
        command ? client_target("/v1/sessions/%s/execs/%s/log?stream=", words->words[0], what + 1)
                : client_target("/v1/sessions/%s/processes/%s/log?stream=", words->words[0], what);
    if (http_client_connect(client->address, client->token, &second.http, err) < 0)
        return -1;
    if (options->output || !options->errors)
        add_log(&logs, client, options, target, false);
    if (options->errors || !options->output)
        add_log(&logs, &second, options, target, true);
    int rc = print_logs(&logs, options, command, err);
    http_client_free(second.http);
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
    .arguments = "SESSION [PROCESS | '#'COMMAND] [-f] [--stdout | --stderr] [--tail N]",
    .help = "Print what a process or an earlier command has written.",
    .options = logs_options,
    .run = logs_main,
};
