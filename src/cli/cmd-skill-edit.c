/* SPDX-License-Identifier: Apache-2.0 */
/* `box skill edit`: a file of a skill in the user's editor.

   The file goes back as it was left, byte for byte, and boxd takes it only if its copy is still the
   one that was edited. A SKILL.md that cannot be read would make the skill vanish from the store,
   so it is read here before it goes there. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/copy.h"
#include "cli/editor.h"
#include "cli/skill.h"
#include "core/utf8.h"
#include "skills/front.h"
#include "skills/skills.h"

struct edit {
    struct client *client;
    const char *name;
    const char *path;
    bool entry;     /* it is the skill's SKILL.md */
    char *dir_name; /* of the skill, which is its name if it has none */
    char *etag;     /* of the file; NULL: there was none */
    char *before;
    size_t before_size;
};

static const struct option edit_options[] = {CLIENT_OPTIONS, {0}};

/* The file as boxd has it; that there is none is no error. */
static int fetch(struct edit *edit, struct error *err)
{
    struct error why = ERROR_INIT;
    if (client_skill_text(edit->client, edit->name, edit->path, &edit->before, &edit->before_size,
                          &why) == 0) {
        const char *etag = http_client_header(edit->client->http, "ETag");
        if (!etag)
            return error_set(err, ERROR_PROTOCOL, "boxd does not say which version of it this is");
        edit->etag = xstrdup(etag);
        return 0;
    }
    if (why.code != ERROR_NOT_FOUND) {
        *err = why;
        return -1;
    }
    edit->before = xstrdup("");
    return 0;
}

/* --- back again ---------------------------------------------------------------------------------
 */

static int check_entry(const struct edit *edit, const char *text, size_t size, char **ret_name,
                       struct error *err)
{
    cleanup_front struct front front = {.meta = NULL};
    if (!utf8_valid(text, size))
        return error_set(err, ERROR_INVALID, "it is not UTF-8");
    if (front_read(text, size, edit->dir_name, &front, err) < 0)
        return -1;
    *ret_name = steal_ptr(front.name);
    return 0;
}

/* It is still a skill, but nobody may have meant it. */
static void note_lost_front(const struct edit *edit, const char *text, size_t size)
{
    struct front_parts before;
    struct front_parts after;
    front_split(edit->before, edit->before_size, &before);
    front_split(text, size, &after);
    if (edit->entry && before.present && !after.present)
        fprintf(stderr,
                "box skill edit: note: %s has no front matter any more, so no name and no "
                "description\n  fix: begin it with '---', the fields, and '---'\n",
                edit->path);
}

static int put_back(const struct edit *edit, const char *text, size_t size, struct error *err)
{
    cleanup_free char *target = client_skill_target(edit->name, edit->path);
    cleanup_free char *condition =
        edit->etag ? xasprintf("If-Match: %s", edit->etag) : xstrdup("If-None-Match: *");
    const char *const headers[] = {condition, NULL};
    const struct http_call call = {.method = "PUT",
                                   .target = target,
                                   .headers = headers,
                                   .type = "application/octet-stream",
                                   .body = text,
                                   .body_size = size};
    cleanup_free char *name = NULL;
    if (edit->entry && check_entry(edit, text, size, &name, err) < 0)
        return error_wrap(err, "%.200s", edit->path);
    if (client_call(edit->client, &call, err) < 0)
        return err->code == ERROR_CHANGED ? error_wrap(err, "somebody else was faster") : -1;
    if (client_answer(edit->client, NULL, err) < 0)
        return -1;
    if (name && strcmp(name, edit->name) != 0)
        fprintf(stderr, "box skill edit: '%s' is called '%s' from now on\n", edit->name, name);
    note_lost_front(edit, text, size);
    return 0;
}

static int take_over(const struct edit *edit, struct editing *editing, struct error *err)
{
    cleanup_free char *after = NULL;
    size_t size;
    if (editing_read(editing, SKILL_TEXT_MAX, &after, &size, err) < 0)
        return -1;
    if (size == edit->before_size && memcmp(after, edit->before, size) == 0) {
        fprintf(stderr, "box skill edit: nothing is changed\n");
        return 0;
    }
    return put_back(edit, after, size, err);
}

/* --- the verb -----------------------------------------------------------------------------------
 */

static int edit_file(const struct edit *edit, struct error *err)
{
    struct editing editing;
    cleanup_free char *file = copy_basename(edit->path);
    if (!file[0])
        return error_set(err, ERROR_INVALID, "'%.200s' is no name of a file", edit->path);
    if (editing_begin(&editing, file, edit->before, edit->before_size, err) < 0)
        return -1;
    if (editing_run(&editing, err) < 0) {
        editing_end(&editing);
        return -1;
    }
    if (take_over(edit, &editing, err) < 0)
        return editing_keep(&editing, err);
    editing_end(&editing);
    return 0;
}

static int edit_body(struct client *client, void *options, const struct operands *words,
                     struct error *err)
{
    cleanup_json json_t *skill = NULL;
    (void)options;
    if (client_skill(client, words->words[0], &skill, err) < 0)
        return -1;
    const char *entry_file = client_text(skill, "entry_file");
    struct edit edit = {.client = client,
                        .name = words->words[0],
                        .path = words->count > 1 ? words->words[1] : entry_file,
                        .dir_name = copy_basename(client_text(skill, "package_root"))};
    edit.entry = strcmp(edit.path, entry_file) == 0;
    int rc = fetch(&edit, err);
    if (rc == 0)
        rc = edit_file(&edit, err);
    free(edit.dir_name);
    free(edit.etag);
    free(edit.before);
    return rc;
}

static int edit_main(const struct verb *verb, int argc, char **argv)
{
    struct client_options options = {0};
    const struct verb_words want = {.min = 1, .max = 2};
    return client_main(verb, argc, argv, &options, want, edit_body);
}

const struct verb verb_skill_edit = {
    .name = "skill edit",
    .arguments = "NAME [FILE]",
    .help = "Edit a skill's SKILL.md, or another file of it, with $EDITOR.",
    .options = edit_options,
    .run = edit_main,
    .misuse = EXIT_USAGE,
};
