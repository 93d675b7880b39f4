/* SPDX-License-Identifier: Apache-2.0 */
/* `box`, the command line: finds the verb and hands over. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/verbs.h"
#include "core/mem.h"

#ifndef BOX_VERSION
#define BOX_VERSION "unreleased"
#endif

static int run_help(const struct verb *verb, int argc, char **argv);
static int run_version(const struct verb *verb, int argc, char **argv);

static const struct verb verb_help = {
    .name = "help",
    .arguments = "[VERB]",
    .help = "Say what box can do, or how one verb is used.",
    .run = run_help,
};

static const struct verb verb_version = {
    .name = "version",
    .arguments = "",
    .help = "Print the version.",
    .run = run_version,
};

/* As box help lists them: each group under its line. */
static const struct {
    const struct verb *verb;
    const char *group; /* NULL: that of the one before */
} verbs[] = {
    {&verb_run, "One command, with or without boxd:"},
    {&verb_create, "Sessions of boxd:"},
    {&verb_exec, NULL},
    {&verb_shell, NULL},
    {&verb_cp, NULL},
    {&verb_rm, NULL},
    {&verb_start, "Processes that go on in a session:"},
    {&verb_stop, NULL},
    {&verb_kill, NULL},
    {&verb_logs, NULL},
    {&verb_ps, "What is going on:"},
    {&verb_top, NULL},
    {&verb_inspect, NULL},
    {&verb_events, NULL},
    {&verb_status, NULL},
    {&verb_skill, "Procedures that agents learn from:"},
    {&verb_doctor, "This machine and box itself:"},
    {&verb_help, NULL},
    {&verb_version, NULL},
};

/* What people type out of habit, and the verb it means. */
static const struct {
    const char *word;
    const struct verb *verb;
} spellings[] = {
    {"--help", &verb_help},
    {"-h", &verb_help},
    {"--version", &verb_version},
    {"-V", &verb_version},
};

static const struct verb *find_verb(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(verbs); i++) {
        if (strcmp(verbs[i].verb->name, name) == 0)
            return verbs[i].verb;
    }
    for (size_t i = 0; i < ARRAY_SIZE(spellings); i++) {
        if (strcmp(spellings[i].word, name) == 0)
            return spellings[i].verb;
    }
    return NULL;
}

static int unknown_verb(const char *name)
{
    const char *names[ARRAY_SIZE(verbs)];
    struct error err = ERROR_INIT;
    if (name[0] == '-') {
        error_set(&err, ERROR_INVALID, "'%.64s' stands before the verb", name);
        error_hint(&err, "options belong behind it: box ps --url URL");
        return cli_fail(NULL, &err);
    }
    for (size_t i = 0; i < ARRAY_SIZE(verbs); i++)
        names[i] = verbs[i].verb->name;
    return verbs_unknown(NULL, name, names, ARRAY_SIZE(names));
}

static void list_verbs(void)
{
    puts("usage: box VERB [OPTION]... [ARG]...\n\n"
         "Runs commands in sandboxes: in one of their own, or in sessions that boxd keeps.");
    for (size_t i = 0; i < ARRAY_SIZE(verbs); i++) {
        if (verbs[i].group)
            printf("\n%s\n", verbs[i].group);
        printf("  %-10s%s\n", verbs[i].verb->name, verbs[i].verb->help);
    }
    puts("\nbox help VERB says more; box(1) says all.");
}

static int run_help(const struct verb *verb, int argc, char **argv)
{
    (void)verb;
    if (argc < 2) {
        list_verbs();
        return 0;
    }
    const struct verb *about = find_verb(argv[1]);
    if (!about)
        return unknown_verb(argv[1]);
    return verbs_help(about, argc - 1, argv + 1);
}

static int run_version(const struct verb *verb, int argc, char **argv)
{
    struct error err = ERROR_INIT;
    int rest = argc;
    int rc = options_parse(verb, argc, argv, NULL, &rest, &err);
    if (rc < 0)
        return cli_fail(verb->name, &err);
    if (rc == OPTIONS_HELP)
        options_help(verb, stdout);
    else
        puts("box " BOX_VERSION);
    return 0;
}

/* A descriptor below 3 that is not open would be given to the next file opened, and then be written
   to as if it were standard output. */
static void fill_standard_fds(void)
{
    for (int fd = 0; fd < 3; fd++) {
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY) < 0)
            _exit(EXIT_BOXD);
    }
}

/* Output that did not arrive is a failure, whatever came before. A reader that left is no news. */
static int see_out(int status)
{
    bool lost = ferror(stdout);
    int errnum = fflush(stdout) != 0 ? errno : 0;
    if (!lost && errnum == 0)
        return status;
    if (errnum != EPIPE)
        fprintf(stderr, "box: cannot write to standard output%s%s\n", errnum ? ": " : "",
                errnum ? strerror(errnum) : "");
    return status == 0 ? EXIT_BOXD : status;
}

int main(int argc, char **argv)
{
    fill_standard_fds();
    if (argc < 2) {
        list_verbs();
        return see_out(0);
    }
    const struct verb *verb = find_verb(argv[1]);
    if (!verb)
        return unknown_verb(argv[1]);
    int status = verb->run(verb, argc - 1, argv + 1);
    return see_out(status);
}
