/* SPDX-License-Identifier: Apache-2.0 */
/* What both directions of a copy share. */
#include "cli/copy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/table.h"

#define SKIPS_SHOWN 10 /* a tree of links would hide everything else */

bool copy_is_remote(const char *word, char **ret_session, char **ret_path)
{
    const char *colon = strstr(word, ":/");
    /* "./a:/b" is a file here, so that every file can be named. */
    if (!colon || colon == word || memchr(word, '/', (size_t)(colon - word)))
        return false;
    *ret_session = xstrndup(word, (size_t)(colon - word));
    *ret_path = xstrdup(colon + 1);
    return true;
}

char *copy_basename(const char *path)
{
    size_t end = strlen(path);
    while (end > 0 && path[end - 1] == '/')
        end--;
    size_t begin = end;
    while (begin > 0 && path[begin - 1] != '/')
        begin--;
    char *name = xstrndup(path + begin, end - begin);
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        name[0] = '\0';
    return name;
}

char *copy_join(const char *directory, const char *name)
{
    size_t length = strlen(directory);
    while (length > 1 && directory[length - 1] == '/')
        length--;
    if (length == 1 && directory[0] == '/')
        length = 0;
    return name[0] ? xasprintf("%.*s/%s", (int)length, directory, name)
                   : xstrndup(directory, length ? length : 1);
}

/* Permissions travel as octal text; a number is taken as it is. */
unsigned copy_mode(const json_t *object)
{
    const json_t *value = json_object_get(object, "mode");
    if (json_is_integer(value))
        return (unsigned)json_integer_value(value) & 0777;
    const char *text = json_string_value(value);
    return text ? (unsigned)strtoul(text, NULL, 8) & 0777 : 0;
}

int copy_stat(struct copy *copy, const char *path, struct copy_info *ret, struct error *err)
{
    cleanup_json json_t *answer = NULL;
    cleanup_free char *target = client_file_target(copy->session, path, "?stat");
    struct error why = ERROR_INIT;
    *ret = (struct copy_info){0};
    if (client_get(copy->client, target, &answer, &why) < 0) {
        if (why.code == ERROR_NOT_FOUND)
            return 0;
        if (err)
            *err = why;
        return -1;
    }
    ret->exists = true;
    ret->directory = strcmp(client_text(answer, "type"), "directory") == 0;
    ret->size = client_number(answer, "size");
    ret->mode = copy_mode(answer);
    return 0;
}

void copy_skip(struct copy *copy, const char *path, const char *why)
{
    cleanup_free char *clean = printable(path);
    if (copy->skipped++ < SKIPS_SHOWN)
        fprintf(stderr, "box cp: left out '%s': %s\n", clean, why);
}

void copy_finish(const struct copy *copy)
{
    if (copy->skipped > SKIPS_SHOWN)
        fprintf(stderr, "box cp: left out %u more of their kind\n", copy->skipped - SKIPS_SHOWN);
}

int copy_wrap(const char *path, struct error *err)
{
    if (err && strstr(err->message, path))
        return -1;
    return error_wrap(err, "%.200s", path);
}

int copy_enter(struct copy *copy, const char *path, struct error *err)
{
    if (++copy->depth > COPY_DEPTH_MAX)
        return error_set(err, ERROR_LIMIT, "'%.200s' is more than %d directories deep", path,
                         COPY_DEPTH_MAX);
    return 0;
}

int copy_is_directory(const char *path, struct error *err)
{
    error_set(err, ERROR_INVALID, "'%.200s' is a directory", path);
    return error_hint(err, "box cp -r copies directories");
}
