/* SPDX-License-Identifier: Apache-2.0 */
/* boxd's command line: most flags are keys of the configuration under another name. */
#include "daemon/options.h"

#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* flag, the key it sets (NULL: none), its value in the help (NULL: takes none), help */
static const struct {
    const char *name;
    const char *key;
    const char *value;
    const char *help;
    enum options_action action;
} flags[] = {
    {"config", NULL, "FILE", "read this configuration", OPTIONS_RUN},
    {"listen", "listen", "HOST:PORT", "listen there; may be given again", OPTIONS_RUN},
    {"socket", "socket", "PATH", "the Unix socket", OPTIONS_RUN},
    {"state-dir", "state_dir", "DIR", "audit log and kept output", OPTIONS_RUN},
    {"run-dir", "run_dir", "DIR", "sockets, and records of live sessions", OPTIONS_RUN},
    {"token-file", "token_file", "FILE", "token that TCP clients must send", OPTIONS_RUN},
    {"log-format", "log.format", "text|json", "form of the log on standard error", OPTIONS_RUN},
    {"log-level", "log.level", "LEVEL", "debug, info, warn or error", OPTIONS_RUN},
    {"no-adopt", "adopt", NULL, "end the sessions of an earlier boxd", OPTIONS_RUN},
    {"check-config", NULL, NULL, "say what is wrong with the configuration", OPTIONS_CHECK},
    {"print-config", NULL, NULL, "print the whole configuration in effect", OPTIONS_PRINT},
    {"version", NULL, NULL, "print the version", OPTIONS_VERSION},
    {"help", NULL, NULL, "print this", OPTIONS_HELP},
};

#define FLAG_BASE 256

static int use_flag(struct options *options, size_t which, const char *value)
{
    if (flags[which].key) {
        strings_add(&options->keys, flags[which].key);
        strings_add(&options->values, value ? value : "false");
    } else if (flags[which].value) {
        free(options->config_file);
        options->config_file = xstrdup(value);
    } else if (flags[which].action > options->action) {
        options->action = flags[which].action;
    }
    return 0;
}

static int complain(char **argv, int kind, struct error *err)
{
    const char *word = argv[optind - 1];
    error_set(err, ERROR_INVALID,
              kind == ':' ? "%s wants a value" : "'%s' is not an option, or not one with a value",
              word);
    return error_hint(err, "boxd --help");
}

int options_parse(struct options *options, int argc, char **argv, struct error *err)
{
    struct option table[ARRAY_SIZE(flags) + 1] = {0};
    for (size_t i = 0; i < ARRAY_SIZE(flags); i++)
        table[i] = (struct option){.name = flags[i].name,
                                   .has_arg = flags[i].value ? required_argument : no_argument,
                                   .val = FLAG_BASE + (int)i};
    optind = 1;
    int found;
    while ((found = getopt_long(argc, argv, ":h", table, NULL)) != -1) {
        if (found == 'h')
            options->action = OPTIONS_HELP;
        else if (found < FLAG_BASE)
            return complain(argv, found, err);
        else
            use_flag(options, (size_t)(found - FLAG_BASE), optarg);
    }
    if (optind < argc) {
        error_set(err, ERROR_INVALID, "boxd takes no arguments besides options, but there is '%s'",
                  argv[optind]);
        return error_hint(err, "boxd --help");
    }
    return 0;
}

void options_release(struct options *options)
{
    free(options->config_file);
    strings_release(&options->keys);
    strings_release(&options->values);
    *options = (struct options){0};
}

static char *flag_of(const char *key)
{
    for (size_t i = 0; i < ARRAY_SIZE(flags); i++)
        if (flags[i].key && strcmp(flags[i].key, key) == 0)
            return xasprintf("--%s", flags[i].name);
    return xstrdup(key);
}

void options_apply(const struct options *options, struct config *config,
                   struct config_problems *problems)
{
    cleanup_strings struct strings listen = {0};
    for (size_t i = 0; i < options->keys.count; i++) {
        const char *path = options->keys.items[i];
        struct error err = ERROR_INIT;
        struct config_value value = {.items = (const char *const *)&options->values.items[i],
                                     .count = 1};
        if (strcmp(path, "listen") == 0) { /* each adds to those before it */
            strings_add(&listen, options->values.items[i]);
            value = (struct config_value){
                .items = (const char *const *)listen.items, .count = listen.count, .is_list = true};
        }
        cleanup_free char *flag = flag_of(path);
        if (config_set(config, config_key_find(path), &value, &err) < 0)
            config_problem(problems, flag, 0, "%s", err.message);
    }
}

void options_print_help(void)
{
    printf("usage: boxd [OPTION]…\n\n"
           "Runs sandboxes for programs that ask over HTTP: see boxd(8) and boxd.yaml(5).\n\n");
    for (size_t i = 0; i < ARRAY_SIZE(flags); i++) {
        char left[40];
        snprintf(left, sizeof left, "--%s%s%s", flags[i].name, flags[i].value ? " " : "",
                 flags[i].value ? flags[i].value : "");
        printf("  %-24s  %s\n", left, flags[i].help);
    }
}

char *options_config_file(const struct options *options)
{
    const char *home = getenv("XDG_CONFIG_HOME");
    char *path;
    if (options->config_file)
        return xstrdup(options->config_file);
    if (geteuid() == 0)
        path = xstrdup("/etc/boxd/boxd.yaml");
    else if (home && home[0] == '/')
        path = xasprintf("%s/boxd/boxd.yaml", home);
    else if ((home = getenv("HOME")) && home[0] == '/')
        path = xasprintf("%s/.config/boxd/boxd.yaml", home);
    else
        return NULL;
    /* One that is there and cannot be read must be heard of. */
    if (faccessat(AT_FDCWD, path, F_OK, 0) == 0)
        return path;
    free(path);
    return NULL;
}
