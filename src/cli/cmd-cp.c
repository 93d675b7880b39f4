/* SPDX-License-Identifier: Apache-2.0 */
/* `box cp`: files into and out of a session. */
#include <string.h>
#include <sys/stat.h>

#include "cli/cli.h"
#include "cli/copy.h"
#include "core/path.h"

struct cp_options {
    struct client_options client;
    bool recursive;
};

OPTION_SWITCH(apply_recursive, struct cp_options, recursive)

static const struct option cp_options[] = {
    {"recursive", 'r', NULL, "directories, with all in them", apply_recursive},
    CLIENT_OPTIONS,
    {0},
};

static bool ends_in_slash(const char *path)
{
    size_t length = strlen(path);
    return length > 1 && path[length - 1] == '/';
}

/* Into a directory goes a thing under its own name; "." and the like have none, and what is in them
   goes there. */
static char *place_in(const char *directory, const char *source)
{
    cleanup_free char *name = copy_basename(source);
    return copy_join(directory, name);
}

static int upload(struct copy *copy, const char *source, const char *given, struct error *err)
{
    struct copy_info info;
    cleanup_free char *path = path_normalise(given, err);
    if (!path || copy_stat(copy, path, &info, err) < 0)
        return -1;
    if (!info.directory && !ends_in_slash(given))
        return copy_up(copy, source, path, err);
    if (strcmp(source, "-") == 0)
        return error_set(err, ERROR_INVALID, "'%.200s' is a directory; name the file", given);
    cleanup_free char *target = place_in(path, source);
    return copy_up(copy, source, target, err);
}

static int download(struct copy *copy, const char *given, const char *target, struct error *err)
{
    struct stat st;
    cleanup_free char *path = path_normalise(given, err);
    if (!path)
        return -1;
    bool there = strcmp(target, "-") != 0 && stat(target, &st) == 0;
    if (!there || !S_ISDIR(st.st_mode)) {
        if (ends_in_slash(target) && !copy->recursive)
            return error_set(err, ERROR_NOT_FOUND, "'%.200s' is no directory", target);
        return copy_down(copy, path, target, err);
    }
    cleanup_free char *below = place_in(target, given);
    return copy_down(copy, path, below, err);
}

/* "demo:workspace/f" looks like a place in a session, and is a file here. */
static int sides_alike(const struct operands *words, bool remote, struct error *err)
{
    if (remote) {
        error_set(err, ERROR_INVALID, "both sides are in sessions");
        return error_hint(err, "box cp A:/path - | box cp - B:/path");
    }
    for (int i = 0; i < words->count; i++) {
        const char *word = words->words[i];
        size_t length = strcspn(word, ":/");
        if (length == 0 || word[length] != ':')
            continue;
        error_set(err, ERROR_INVALID, "'%.200s': a path in a session begins with '/'", word);
        return error_hint(err, "%.*s:/workspace/%s", (int)length, word, word + length + 1);
    }
    error_set(err, ERROR_INVALID, "neither side is in a session: SESSION:/path");
    return error_hint(err, "box cp FILE SESSION:/path, or box cp SESSION:/path FILE");
}

static int cp_body(struct client *client, void *data, const struct operands *words,
                   struct error *err)
{
    const struct cp_options *options = data;
    cleanup_free char *from = NULL;
    cleanup_free char *to = NULL;
    cleanup_free char *from_path = NULL;
    cleanup_free char *to_path = NULL;
    bool down = copy_is_remote(words->words[0], &from, &from_path);
    bool up = copy_is_remote(words->words[1], &to, &to_path);
    struct copy copy = {
        .client = client, .session = down ? from : to, .recursive = options->recursive};
    if (up == down)
        return sides_alike(words, up, err);
    int rc = up ? upload(&copy, words->words[0], to_path, err)
                : download(&copy, from_path, words->words[1], err);
    copy_finish(&copy);
    /* Everything else was copied: less than a failure, and no success. */
    return rc == 0 && copy.skipped > 0 ? 1 : rc;
}

static int cp_main(const struct verb *verb, int argc, char **argv)
{
    struct cp_options options = {0};
    const struct verb_words want = {.min = 2, .max = 2};
    return client_main(verb, argc, argv, &options, want, cp_body);
}

const struct verb verb_cp = {
    .name = "cp",
    .arguments = "[-r] [--] FILE SESSION:/PATH | SESSION:/PATH FILE",
    .help = "Copy files into a session or out of it; '-' is standard input or output.",
    .options = cp_options,
    .run = cp_main,
};
