/* SPDX-License-Identifier: Apache-2.0 */
/* `box status`: how boxd is. */
#include <inttypes.h>
#include <stdio.h>

#include "cli/cli.h"
#include "cli/client.h"
#include "cli/run-report.h"
#include "cli/table.h"

static const struct option status_options[] = {CLIENT_OPTION_JSON, CLIENT_OPTIONS, {0}};

static void print_count(const char *what, const json_t *status, const char *key, const char *limit)
{
    const json_t *limits = json_object_get(status, "limits");
    printf("%-11s %" PRIu64, what, client_number(status, key));
    if (limit && json_is_number(json_object_get(limits, limit)))
        printf(" of at most %" PRIu64, client_number(limits, limit));
    putchar('\n');
}

static void print_status(const struct client *client, const json_t *status)
{
    const json_t *backend = json_object_get(status, "backend");
    bool available = json_is_true(json_object_get(backend, "available"));
    const char *reason = client_text(backend, "reason");
    char age[32];
    format_age(client_number(status, "uptime_sec"), age, sizeof age);
    printf("boxd        %s, process %" PRIu64 ", up %s, at %s\n", client_text(status, "version"),
           client_number(status, "pid"), age, client->address);
    printf("backend     %s: %s%s%s\n", client_text(backend, "name"),
           available ? "available" : "not available", reason[0] ? ": " : "", reason);
    print_count("sessions", status, "active_sessions", "max_sessions");
    print_count("processes", status, "managed_processes", "max_managed_processes");
    print_count("commands", status, "running_commands", NULL);
    format_age(client_number(status, "session_ttl_sec"), age, sizeof age);
    printf("idle limit  %s\n", age);
}

static int status_body(struct client *client, void *target, const struct operands *words,
                       struct error *err)
{
    const struct client_options *options = target;
    json_t *status = NULL;
    (void)words;
    if (client_get(client, "/v1/status", &status, err) < 0)
        return -1;
    if (options->json) {
        run_print_json(status, JSON_INDENT(2));
        return 0;
    }
    print_status(client, status);
    json_decref(status);
    return 0;
}

static int status_main(const struct verb *verb, int argc, char **argv)
{
    struct client_options options = {0};
    return client_main(verb, argc, argv, &options, (struct verb_words){0}, status_body);
}

const struct verb verb_status = {
    .name = "status",
    .arguments = "[--json]",
    .help = "Say how boxd is, and what it holds.",
    .options = status_options,
    .run = status_main,
};
