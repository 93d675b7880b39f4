/* SPDX-License-Identifier: Apache-2.0 */
/* What the verbs below `box skill` share: names, files, and input. */
#include "cli/skill.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/run-report.h"
#include "core/buf.h"
#include "core/fd.h"
#include "skills/skills.h"

static int hint_if(struct error *err, enum error_code code, const char *hint)
{
    return err->code == code && !err->hint[0] ? error_hint(err, "%s", hint) : -1;
}

int client_skill_missing(struct error *err)
{
    return hint_if(err, ERROR_NOT_FOUND, "box skill ls lists those there are");
}

int client_skill_exists(const char *hint, struct error *err)
{
    return hint_if(err, ERROR_EXISTS, hint);
}

int client_skill(struct client *client, const char *name, json_t **ret, struct error *err)
{
    cleanup_json json_t *answer = NULL;
    cleanup_free char *target = client_target("/v1/skills/%s", name);
    if (client_get(client, target, &answer, err) < 0)
        return client_skill_missing(err);
    *ret = json_incref(json_object_get(answer, "skill"));
    return 0;
}

char *client_skill_target(const char *name, const char *path)
{
    cleanup_free char *base = client_target("/v1/skills/%s/files", name);
    cleanup_free char *target = client_path_target(base, path);
    /* Without a name behind it, it would be the list of files. */
    return xasprintf("%s%s", target, path[strspn(path, "/")] ? "" : "/");
}

int client_skill_text(struct client *client, const char *name, const char *path, char **ret,
                      size_t *ret_size, struct error *err)
{
    cleanup_free char *target = client_skill_target(name, path);
    const struct http_call call = {.target = target};
    if (client_call(client, &call, err) < 0)
        return -1;
    if (http_client_read_all(client->http, SKILL_TEXT_MAX, ret, ret_size, err) < 0)
        return error_wrap(err, "'%.200s'", path);
    return 0;
}

/* --- input --------------------------------------------------------------------------------------
 */

static int too_large(const char *name, size_t max, struct error *err)
{
    char text[32];
    format_size(max, text, sizeof text);
    return error_set(err, ERROR_LIMIT, "'%.200s' is larger than %s, which is the most boxd takes",
                     name, text);
}

static int read_all(int fd, const char *name, size_t max, struct buf *input, struct error *err)
{
    for (;;) {
        size_t room;
        char *at = buf_reserve(input, 1u << 16, &room);
        if (!at)
            return too_large(name, max, err);
        ssize_t n = read(fd, at, room);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_errno(err, errno, "cannot read '%.200s'", name);
        if (n == 0)
            break;
        input->size += (size_t)n;
    }
    return input->size > max ? too_large(name, max, err) : 0;
}

int skill_read_input(const char *path, size_t max, char **ret, size_t *ret_size, struct error *err)
{
    /* One byte more than is allowed shows that there is too much, and one is for the NUL. */
    cleanup_buf struct buf input = BUF_INIT(max + 2);
    bool standard = strcmp(path, "-") == 0;
    const char *name = standard ? "standard input" : path;
    struct stat st;
    cleanup_close int opened = standard ? -1 : open(path, O_RDONLY | O_NOCTTY | O_CLOEXEC);
    int fd = standard ? STDIN_FILENO : opened;
    if (fd < 0 || fstat(fd, &st) < 0)
        return error_errno(err, errno, "cannot read '%.200s'", name);
    if (S_ISDIR(st.st_mode))
        return error_set(err, ERROR_INVALID, "'%.200s' is a directory", name);
    if (S_ISREG(st.st_mode) && (uint64_t)st.st_size > max)
        return too_large(name, max, err);
    if (read_all(fd, name, max, &input, err) < 0)
        return -1;
    *ret_size = input.size;
    buf_append(&input, "", 1);
    *ret = steal_ptr(input.data);
    return 0;
}

/* --- for people ---------------------------------------------------------------------------------
 */

void skill_add_description(struct table *table, const json_t *skill)
{
    cleanup_free char *line = xstrdup(client_text(skill, "description"));
    char *to = line;
    for (const char *at = line; *at; at++) {
        bool space = isspace((unsigned char)*at);
        if (!space)
            *to++ = *at;
        else if (to > line && to[-1] != ' ')
            *to++ = ' ';
    }
    *to = '\0';
    table_add(table, line);
}

void skill_print_names(const json_t *skills)
{
    for (size_t i = 0; i < json_array_size(skills); i++) {
        cleanup_free char *name = printable(client_text(json_array_get(skills, i), "name"));
        puts(name);
    }
}
