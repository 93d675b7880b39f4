/* SPDX-License-Identifier: Apache-2.0 */
/* `box skill export`: a skill as a zip archive. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/copy.h"
#include "cli/skill.h"
#include "cli/unfinished.h"
#include "core/fd.h"

struct export_options {
    struct client_options client;
    const char *output;
};

OPTION_TEXT(apply_output, struct export_options, output)

static const struct option export_options[] = {
    {"output", 'o', "FILE", "where to (default: NAME.zip); '-': standard output", apply_output},
    CLIENT_OPTIONS,
    {0},
};

/* Where it goes: a directory gets a file of the skill's name. */
static char *choose_output(const char *given, const char *name)
{
    struct stat st;
    cleanup_free char *own = xasprintf("%s.zip", name);
    if (!given)
        return steal_ptr(own);
    if (stat(given, &st) == 0 && S_ISDIR(st.st_mode))
        return copy_join(given, own);
    return xstrdup(given);
}

static unsigned usual_mode(void)
{
    mode_t mask = umask(022);
    umask(mask);
    return 0666 & ~(unsigned)mask;
}

/* Devices and pipes are written to, not replaced. */
static int write_into(struct client *client, const char *path, struct error *err)
{
    cleanup_close int fd = open(path, O_WRONLY | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return error_errno(err, errno, "'%.200s'", path);
    return copy_body(client, path, fd, err);
}

static int write_new(struct client *client, const char *path, struct error *err)
{
    /* A link that stands for a file stays one. */
    cleanup_free char *real = realpath(path, NULL);
    const char *whole = real ? real : path;
    const char *slash = strrchr(whole, '/');
    cleanup_free char *above = slash ? xstrndup(whole, (size_t)(slash - whole) + 1) : xstrdup(".");
    const char *entry = slash ? slash + 1 : whole;
    cleanup_close int dir = open(above, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0 || !*entry)
        return error_errno(err, dir < 0 ? errno : EISDIR, "'%.200s'", path);
    cleanup_close int fd = unfinished_open(dir);
    if (fd < 0)
        return error_errno(err, errno, "cannot make a file beside '%.200s'", path);
    int rc = copy_body(client, path, fd, err);
    if (rc == 0 && unfinished_place(fd, entry, usual_mode()) < 0)
        rc = error_errno(err, errno, "'%.200s'", path);
    unfinished_remove();
    return rc;
}

static int write_archive(struct client *client, const char *path, struct error *err)
{
    struct stat st;
    if (strcmp(path, "-") == 0)
        return copy_body(client, "standard output", STDOUT_FILENO, err);
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
        return write_into(client, path, err);
    return write_new(client, path, err);
}

static int export_body(struct client *client, void *target, const struct operands *words,
                       struct error *err)
{
    const struct export_options *options = target;
    const char *name = words->words[0];
    bool standard = options->output && strcmp(options->output, "-") == 0;
    cleanup_free char *path = standard ? xstrdup("-") : choose_output(options->output, name);
    cleanup_free char *where = client_target("/v1/skills/%s/archive", name);
    const struct http_call call = {.target = where};
    if (standard && isatty(STDOUT_FILENO)) {
        client->failure = EXIT_USAGE;
        error_set(err, ERROR_INVALID, "an archive says nothing on a terminal");
        return error_hint(err, "-o FILE, or send it into a pipe");
    }
    if (client_call(client, &call, err) < 0)
        return client_skill_missing(err);
    if (write_archive(client, path, err) < 0)
        return -1;
    if (!standard) {
        cleanup_free char *clean = printable(path);
        puts(clean);
    }
    return 0;
}

static int export_main(const struct verb *verb, int argc, char **argv)
{
    struct export_options options = {0};
    const struct verb_words want = {.min = 1, .max = 1};
    return client_main(verb, argc, argv, &options, want, export_body);
}

const struct verb verb_skill_export = {
    .name = "skill export",
    .arguments = "NAME [-o FILE]",
    .help = "Write a skill as a zip archive.",
    .options = export_options,
    .run = export_main,
    .misuse = EXIT_USAGE,
};
