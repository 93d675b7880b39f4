/* SPDX-License-Identifier: Apache-2.0 */
/* boxd's command line: most flags are keys of the configuration under another name. */
#include "daemon/options.h"

#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define DEFAULT_HOST "127.0.0.1"
#define DEFAULT_PORT "5410"

enum flag_kind {
    FLAG_KEY,  /* sets a key */
    FLAG_TEXT, /* sets a text of struct options */
    FLAG_STDIO,
    FLAG_ACTION, /* does something else than to run */
};

#define TEXT_AT(field) offsetof(struct options, field)

/* kind, flag, the key it sets, its value in the help (NULL: takes none), help, which text or action
 */
static const struct {
    enum flag_kind kind;
    const char *name;
    const char *key;
    const char *value;
    const char *help;
    size_t which;
} flags[] = {
    {FLAG_TEXT, "config", NULL, "FILE", "read this configuration", TEXT_AT(config_file)},
    {FLAG_KEY, "listen", "listen", "HOST:PORT", "listen there; may be given again", 0},
    {FLAG_KEY, "socket", "socket", "PATH", "the Unix socket", 0},
    {FLAG_KEY, "state-dir", "state_dir", "DIR", "audit log and kept output", 0},
    {FLAG_KEY, "run-dir", "run_dir", "DIR", "sockets, and records of live sessions", 0},
    {FLAG_KEY, "token-file", "token_file", "FILE", "token that TCP clients must send", 0},
    {FLAG_KEY, "log-format", "log.format", "text|json", "form of the log on standard error", 0},
    {FLAG_KEY, "log-level", "log.level", "LEVEL", "debug, info, warn or error", 0},
    {FLAG_KEY, "no-adopt", "adopt", NULL, "end the sessions of an earlier boxd", 0},
    {FLAG_STDIO, "stdio", NULL, NULL, "serve LangBot on standard input and output; also -s", 0},
    {FLAG_STDIO, "stdio-control", NULL, NULL, "the same", 0},
    {FLAG_TEXT, "host", NULL, "HOST", "listen there; " DEFAULT_HOST " if only the port is given",
     TEXT_AT(host)},
    {FLAG_TEXT, "ws-control-port", NULL, "PORT",
     "listen there; " DEFAULT_PORT " if only the host is given", TEXT_AT(port)},
    {FLAG_ACTION, "check-config", NULL, NULL, "say what is wrong with the configuration",
     OPTIONS_CHECK},
    {FLAG_ACTION, "print-config", NULL, NULL, "print the whole configuration in effect",
     OPTIONS_PRINT},
    {FLAG_ACTION, "version", NULL, NULL, "print the version", OPTIONS_VERSION},
    {FLAG_ACTION, "help", NULL, NULL, "print this", OPTIONS_HELP},
};

#define FLAG_BASE 256

static void use_flag(struct options *options, size_t i, const char *value)
{
    char **text = (char **)(void *)((char *)options + flags[i].which);
    switch (flags[i].kind) {
    case FLAG_KEY:
        strings_add(&options->keys, flags[i].key);
        strings_add(&options->values, value ? value : "false");
        break;
    case FLAG_TEXT:
        free(*text);
        *text = xstrdup(value);
        break;
    case FLAG_STDIO:
        options->stdio = true;
        break;
    case FLAG_ACTION:
        if (flags[i].which > options->action)
            options->action = (enum options_action)flags[i].which;
        break;
    }
}

/* Of a short option, which may stand with others in a word, getopt tells only the letter. */
static int complain(char **argv, int kind, struct error *err)
{
    if (kind == ':')
        error_set(err, ERROR_INVALID, "%s wants a value", argv[optind - 1]);
    else if (optopt >= FLAG_BASE)
        error_set(err, ERROR_INVALID, "--%s takes no value", flags[optopt - FLAG_BASE].name);
    else if (optopt > 0)
        error_set(err, ERROR_INVALID, "'-%c' is not an option", optopt);
    else
        error_set(err, ERROR_INVALID, "'%.100s' is not an option", argv[optind - 1]);
    return error_hint(err, "boxd --help");
}

/* HOST and PORT are one address to listen on. */
static void add_address(struct options *options)
{
    const char *host = options->host ? options->host : DEFAULT_HOST;
    const char *port = options->port ? options->port : DEFAULT_PORT;
    bool bare_v6 = strchr(host, ':') && host[0] != '[';
    if (!options->host && !options->port)
        return;
    strings_add(&options->keys, "listen");
    strings_take(&options->values,
                 bare_v6 ? xasprintf("[%s]:%s", host, port) : xasprintf("%s:%s", host, port));
}

int options_parse(struct options *options, int argc, char **argv, struct error *err)
{
    struct option table[ARRAY_SIZE(flags) + 1] = {0};
    for (size_t i = 0; i < ARRAY_SIZE(flags); i++)
        table[i] = (struct option){.name = flags[i].name,
                                   .has_arg = flags[i].value ? required_argument : no_argument,
                                   .val = FLAG_BASE + (int)i};
    /* LangBot's own is called `lbp box …`: a script named lbp can stand in for it that does no more
       than to start boxd with what it was given. */
    optind = argc > 1 && strcmp(argv[1], "box") == 0 ? 2 : 1;
    int found;
    while ((found = getopt_long(argc, argv, ":hs", table, NULL)) != -1) {
        if (found == 'h')
            options->action = OPTIONS_HELP;
        else if (found == 's')
            options->stdio = true;
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
    add_address(options);
    options->system = geteuid() == 0;
    return 0;
}

void options_release(struct options *options)
{
    free(options->config_file);
    free(options->host);
    free(options->port);
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
        if (config_set(config, config_key_find(path), &value, &err) < 0) {
            config_problem(problems, flag, 0, "%s", err.message);
            problems->usage = true;
        }
    }
    config->system = options->system;
    /* Whoever started it starts another one: nobody is there to take sessions over. */
    if (options->stdio) {
        config->stdio = true;
        config->adopt = false;
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

char *options_config_place(const struct options *options)
{
    const char *home = getenv("XDG_CONFIG_HOME");
    if (options->config_file)
        return xstrdup(options->config_file);
    if (options->system)
        return xstrdup("/etc/boxd/boxd.yaml");
    if (home && home[0] == '/')
        return xasprintf("%s/boxd/boxd.yaml", home);
    home = getenv("HOME");
    return home && home[0] == '/' ? xasprintf("%s/.config/boxd/boxd.yaml", home) : NULL;
}

char *options_config_file(const struct options *options)
{
    cleanup_free char *path = options_config_place(options);
    /* One that is there and cannot be read must be heard of; so must one that was named. */
    if (path && !options->config_file && faccessat(AT_FDCWD, path, F_OK, 0) < 0)
        return NULL;
    return steal_ptr(path);
}
