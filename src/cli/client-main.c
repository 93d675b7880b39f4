/* SPDX-License-Identifier: Apache-2.0 */
/* What all verbs that need boxd do alike, from the words of the line to the exit status. */
#include <string.h>

#include "cli/cli.h"
#include "cli/client.h"
#include "cli/run-report.h"

/* The usage line's own word for the operand of that number, such as SESSION: of those that are not
   in brackets, and of the first of two lines. */
static int word_name(const struct verb *verb, int number, const char **ret)
{
    const char *at = verb->arguments;
    for (int depth = 0; *at && *at != '|'; at += strspn(at, " ")) {
        size_t length = strcspn(at, " ");
        bool optional = depth > 0 || at[0] == '[';
        for (size_t i = 0; i < length; i++)
            depth += (at[i] == '[') - (at[i] == ']');
        if (!optional && number-- == 0) {
            *ret = at;
            return (int)strcspn(at, " .");
        }
        at += length;
    }
    *ret = "name";
    return (int)strlen(*ret);
}

static int check_words(const struct verb *verb, struct verb_words want,
                       const struct operands *words, struct error *err)
{
    bool command = words->rest[0] != NULL;
    const char *name;
    for (int i = 0; i < words->count; i++) {
        int length = word_name(verb, i, &name);
        if (words->words[i][0] == '\0')
            return error_set(err, ERROR_INVALID, "the %.*s is empty", length, name);
    }
    int length = word_name(verb, words->count, &name);
    if (words->count < want.min)
        error_set(err, ERROR_INVALID, "no %.*s given", length, name);
    else if (command && want.command == COMMAND_NONE)
        error_set(err, ERROR_INVALID, "'%.64s' is one word too many", words->rest[0]);
    else if (!command && want.command == COMMAND_NEEDED)
        error_set(err, ERROR_INVALID, "no command given");
    else
        return 0;
    return error_hint(err, "box %s %s", verb->name, verb->arguments);
}

int client_main(const struct verb *verb, int argc, char **argv, void *options,
                struct verb_words want, client_verb body)
{
    const struct client_options *common = options;
    struct operands words = {0};
    struct error err = ERROR_INIT;
    struct client client = {.failure = verb->misuse ? verb->misuse : EXIT_BOXD};
    bool json = cli_asks_for_json(argc, argv);
    int status = -1;
    int rc = options_parse_mixed(verb, argc, argv, options, want.max, &words, &err);
    if (rc == OPTIONS_HELP) {
        options_help(verb, stdout);
        return 0;
    }
    if (rc == OPTIONS_DONE && check_words(verb, want, &words, &err) == 0) {
        json = common->json;
        client.failure = EXIT_BOXD;
        if (want.unconnected || client_connect(common, &client, &err) == 0)
            status = body(&client, options, &words, &err);
    }
    int failure = client.failure;
    client_disconnect(&client);
    return status >= 0 ? status : run_fail(json, verb->name, &err, failure ? failure : EXIT_BOXD);
}
