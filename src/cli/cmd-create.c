/* SPDX-License-Identifier: Apache-2.0 */
/* `box create`: a session, to be used later. */
#include <stdio.h>

#include "cli/cli.h"
#include "cli/run-options.h"
#include "cli/run-report.h"
#include "cli/table.h"

/* What it has less than promised. */
static void print_notes(const json_t *info)
{
    const json_t *notes = json_object_get(info, "notes");
    for (size_t i = 0; i < json_array_size(notes); i++) {
        const char *note = json_string_value(json_array_get(notes, i));
        if (note)
            fprintf(stderr, "box: note: %s\n", note);
    }
}

static int create_body(struct client *client, void *target, const struct operands *words,
                       struct error *err)
{
    const struct run_options *options = target;
    json_t *spec = NULL;
    json_t *info = NULL;
    if (options->spec.writable_root && options->read_only)
        return error_set(err, ERROR_INVALID, "--writable and --read-only contradict each other");
    if (run_options_to_spec(options, &spec, err) < 0)
        return -1;
    json_object_set_new(spec, "session_id", json_string(words->words[0]));
    json_object_set_new(spec, "recreate", json_false());
    if (client_request(client, "POST", "/v1/sessions", spec, &info, err) < 0) {
        if (options->skills.count > 0 && err->code == ERROR_NOT_FOUND)
            error_hint(err, "box skill ls lists the skills there are");
        return -1;
    }
    if (options->client.json) {
        run_print_json(info, JSON_INDENT(2));
        return 0;
    }
    cleanup_free char *name = printable(client_text(info, "session_id"));
    puts(name);
    if (!options->quiet)
        print_notes(info);
    json_decref(info);
    return 0;
}

static int create_main(const struct verb *verb, int argc, char **argv)
{
    const struct verb_words want = {.min = 1, .max = 1};
    struct run_options options;
    run_options_init(&options);
    int status = client_main(verb, argc, argv, &options, want, create_body);
    run_options_release(&options);
    return status;
}

const struct verb verb_create = {
    .name = "create",
    .arguments = "SESSION [OPTION]...",
    .help = "Make a session; one of the same kind that is there already will do.",
    .options = create_option_table,
    .run = create_main,
};
