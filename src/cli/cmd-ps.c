/* SPDX-License-Identifier: Apache-2.0 */
/* `box ps`: the sessions there are, and the managed processes in them. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/client.h"
#include "cli/run-report.h"
#include "cli/table.h"

struct ps_options {
    struct client_options client;
    bool all;
    bool quiet;
};

OPTION_SWITCH(apply_all, struct ps_options, all)
OPTION_SWITCH(apply_quiet, struct ps_options, quiet)

static const struct option ps_options[] = {
    {"all", 'a', NULL, "also sessions that broke, and processes that have exited", apply_all},
    {"quiet", 'q', NULL, "names only", apply_quiet},
    CLIENT_OPTION_JSON,
    CLIENT_OPTIONS,
    {0},
};

/* A list need not hold the processes; then each session is asked. One that went meanwhile is left
   without. */
static int add_processes(struct client *client, json_t *sessions, struct error *err)
{
    for (size_t i = 0; i < json_array_size(sessions); i++) {
        json_t *session = json_array_get(sessions, i);
        json_t *answer = NULL;
        if (json_object_get(session, "processes"))
            continue;
        cleanup_free char *target =
            client_target("/v1/sessions/%s/processes", client_text(session, "session_id"));
        if (client_get(client, target, &answer, err) == 0)
            json_object_set(session, "processes", json_object_get(answer, "processes"));
        else if (err->code != ERROR_NO_SESSION && err->code != ERROR_GONE)
            return -1;
        json_decref(answer);
    }
    return 0;
}

static void drop_unless(json_t *array, bool (*wanted)(const json_t *item))
{
    for (size_t i = json_array_size(array); i-- > 0;) {
        if (!wanted(json_array_get(array, i)))
            json_array_remove(array, i);
    }
}

static bool is_whole(const json_t *session)
{
    return strcmp(client_text(session, "state"), "broken") != 0;
}

static bool is_running(const json_t *process)
{
    return strcmp(client_text(process, "status"), "running") == 0;
}

/* --- for people ---------------------------------------------------------------------------------
 */

static void add_session(struct table *table, const json_t *session)
{
    char text[64];
    table_add(table, client_text(session, "session_id"));
    table_add(table, client_text(session, "state"));
    format_since(client_text(session, "created_at"), text, sizeof text);
    table_add(table, text);
    format_since(client_text(session, "last_used_at"), text, sizeof text);
    table_add(table, text);
    snprintf(text, sizeof text, "%g", json_number_value(json_object_get(session, "cpus")));
    table_add(table, text);
    table_add_size(table, client_number(session, "memory_mb") << 20);
    table_add(table, client_text(session, "network"));
    uint64_t running = client_number(session, "running");
    snprintf(text, sizeof text, "%u command%s", (unsigned)running, running == 1 ? "" : "s");
    table_add(table, running ? text : "");
}

static void add_process(struct table *table, const json_t *process)
{
    const json_t *args = json_object_get(process, "args");
    const json_t *code = json_object_get(process, "exit_code");
    cleanup_free char *name = xasprintf("  %s", client_text(process, "process_id"));
    cleanup_free char *line = xstrdup(client_text(process, "command"));
    char text[64];
    table_add(table, name);
    if (json_is_integer(code))
        snprintf(text, sizeof text, "exited %d", (int)json_integer_value(code));
    else
        snprintf(text, sizeof text, "%s", client_text(process, "status"));
    table_add(table, text);
    format_since(client_text(process, "started_at"), text, sizeof text);
    table_add(table, text);
    for (int i = 0; i < 4; i++) /* idle, CPUs, memory, network are the session's */
        table_add(table, " ");
    for (size_t i = 0; i < json_array_size(args); i++) {
        const char *arg = json_string_value(json_array_get(args, i));
        cleanup_free char *old = line;
        line = xasprintf("%s %s", old, arg ? arg : "");
    }
    table_add(table, line);
}

static void print_table(const json_t *sessions)
{
    static const char *const headings[] = {"SESSION", "STATE",   ">AGE",    ">IDLE", ">CPUS",
                                           ">MEMORY", "NETWORK", "RUNNING", NULL};
    cleanup_table struct table table;
    table_init(&table, headings);
    for (size_t i = 0; i < json_array_size(sessions); i++) {
        const json_t *session = json_array_get(sessions, i);
        const json_t *processes = json_object_get(session, "processes");
        add_session(&table, session);
        for (size_t j = 0; j < json_array_size(processes); j++)
            add_process(&table, json_array_get(processes, j));
    }
    table_print(&table, table_width(STDOUT_FILENO), 0, "\n", stdout);
}

/* --- the verb -----------------------------------------------------------------------------------
 */

static int ps_body(struct client *client, void *target, const struct operands *words,
                   struct error *err)
{
    const struct ps_options *options = target;
    cleanup_json json_t *sessions = NULL;
    (void)words;
    if (client_sessions(client, NULL, &sessions, err) < 0)
        return -1;
    if (!options->all)
        drop_unless(sessions, is_whole);
    if (options->quiet) {
        /* As they are: this is for programs. */
        for (size_t i = 0; i < json_array_size(sessions); i++)
            puts(client_text(json_array_get(sessions, i), "session_id"));
        return 0;
    }
    if (add_processes(client, sessions, err) < 0)
        return -1;
    for (size_t i = 0; !options->all && i < json_array_size(sessions); i++)
        drop_unless(json_object_get(json_array_get(sessions, i), "processes"), is_running);
    if (options->client.json)
        run_print_json(json_pack("{s:O}", "sessions", sessions), JSON_INDENT(2));
    else
        print_table(sessions);
    return 0;
}

static int ps_main(const struct verb *verb, int argc, char **argv)
{
    struct ps_options options = {0};
    return client_main(verb, argc, argv, &options, (struct verb_words){0}, ps_body);
}

const struct verb verb_ps = {
    .name = "ps",
    .arguments = "[-a] [-q] [--json]",
    .help = "List sessions and the processes in them.",
    .options = ps_options,
    .run = ps_main,
};
