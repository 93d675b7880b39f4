/* SPDX-License-Identifier: Apache-2.0 */
/* `box events`: what happens to sessions, as it happens. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cli/cli.h"
#include "cli/client.h"
#include "cli/sse.h"
#include "cli/table.h"

struct events_options {
    struct client_options client;
    const char *session;
};

OPTION_TEXT(apply_session, struct events_options, session)

static const struct option events_options[] = {
    {"session", 0, "S", "of that session only", apply_session},
    {"json", 0, NULL, "one JSON object a line", client_apply_json},
    CLIENT_OPTIONS,
    {0},
};

/* The time of day here; what happened; to whom; and how it went. */
static void print_event(const char *name, const json_t *event)
{
    char text[16] = "";
    int64_t micro = parse_time(client_text(event, "time"));
    time_t when = (time_t)(micro / 1000000);
    struct tm parts;
    const json_t *code = json_object_get(event, "exit_code");
    const char *process = client_text(event, "process_id");
    cleanup_free char *session = printable(client_text(event, "session_id"));
    if (micro >= 0 && localtime_r(&when, &parts))
        strftime(text, sizeof text, "%H:%M:%S", &parts);
    printf("%-8s  %-16s  %s", text, name, session);
    if (process[0]) {
        cleanup_free char *clean = printable(process);
        printf("  process %s", clean);
    }
    if (json_is_integer(json_object_get(event, "exec_id")))
        printf("  #%lld", (long long)json_integer_value(json_object_get(event, "exec_id")));
    if (json_is_integer(code))
        printf("  exit %lld", (long long)json_integer_value(code));
    const char *cause = client_text(event, "cause");
    if (cause[0] && strcmp(cause, "exited") != 0)
        printf("  (%s)", cause);
    putchar('\n');
}

static int on_event(void *data, const char *name, char *text, size_t size, struct error *err)
{
    const struct events_options *options = data;
    if (strcmp(name, "error") == 0)
        return client_take_error(0, text, size, err);
    cleanup_json json_t *event = json_loadb(text, size, 0, NULL);
    if (!event)
        return error_set(err, ERROR_PROTOCOL, "an event that is not understood");
    if (options->client.json)
        puts(text);
    else
        print_event(name, event);
    /* Whoever reads this from a pipe wants it now. */
    return fflush(stdout) == 0 ? 0 : error_set(err, ERROR_SYSTEM, "cannot write the events");
}

static int events_body(struct client *client, void *target, const struct operands *words,
                       struct error *err)
{
    struct events_options *options = target;
    cleanup_sse struct sse sse = SSE_INIT;
    char buffer[16384];
    ssize_t n;
    cleanup_free char *where = options->session
                                   ? client_target("/v1/events?session=%s", options->session)
                                   : xstrdup("/v1/events");
    static const char *const headers[] = {"Accept: text/event-stream", NULL};
    const struct http_call call = {.target = where, .headers = headers};
    (void)words;
    if (client_call(client, &call, err) < 0)
        return -1;
    while ((n = http_client_read(client->http, buffer, sizeof buffer, err)) > 0) {
        if (sse_feed(&sse, buffer, (size_t)n, on_event, options, err) < 0)
            return -1;
    }
    return n < 0 ? -1 : error_set(err, ERROR_GONE, "boxd ended the stream of events");
}

static int events_main(const struct verb *verb, int argc, char **argv)
{
    struct events_options options = {0};
    return client_main(verb, argc, argv, &options, (struct verb_words){0}, events_body);
}

const struct verb verb_events = {
    .name = "events",
    .arguments = "[--session S] [--json]",
    .help = "Show what happens to sessions, as it happens.",
    .options = events_options,
    .run = events_main,
};
