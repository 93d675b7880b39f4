/* SPDX-License-Identifier: Apache-2.0 */
/* What the verbs below `box skill` share. */
#pragma once

#include "cli/client.h"
#include "cli/table.h"

/* Each in a cmd-skill-*.c of its own. */
extern const struct verb verb_skill_ls;
extern const struct verb verb_skill_show;
extern const struct verb verb_skill_new;
extern const struct verb verb_skill_import;
extern const struct verb verb_skill_install;
extern const struct verb verb_skill_export;
extern const struct verb verb_skill_edit;
extern const struct verb verb_skill_rm;
extern const struct verb verb_skill_validate;

/* The skill itself, without what is around it in the answer. A new reference. */
int client_skill(struct client *client, const char *name, json_t **ret, struct error *err);
/* "/v1/skills/NAME/files/PATH". */
char *client_skill_target(const char *name, const char *path);
/* A file of the skill whole, at most SKILL_TEXT_MAX bytes and a NUL. The caller frees. */
int client_skill_text(struct client *client, const char *name, const char *path, char **ret,
                      size_t *ret_size, struct error *err);
/* What to do if there is no such skill, or one already (`hint`). Always -1. */
int client_skill_missing(struct error *err);
int client_skill_exists(const char *hint, struct error *err);

/* An archive on its way to boxd. */
struct skill_upload {
    const void *data;
    size_t size;
    const char *filename;        /* directories in the store are named after it */
    const char *subdir;          /* NULL: all of it */
    const struct strings *paths; /* which skills, if there are several; may be NULL */
};

/* Installs what is in it, or only asks what is. The answer's array of skills, a new reference. */
int client_skill_upload(struct client *client, const struct skill_upload *upload, bool install,
                        json_t **ret, struct error *err);

/* A file here, or "-", whole: at most `max` bytes, which a file that is larger is refused for
   before it is read. The caller frees. */
int skill_read_input(const char *path, size_t max, char **ret, size_t *ret_size, struct error *err);
/* A description as a cell: white space of any kind is one space. */
void skill_add_description(struct table *table, const json_t *skill);
/* Names, one a line. */
void skill_print_names(const json_t *skills);
