/* SPDX-License-Identifier: Apache-2.0 */
/* Archives of skills over REST: the body of a request, or a part of a form. */
#include <string.h>
#include <strings.h>

#include "api/decode.h"
#include "api/multipart.h"
#include "api/skill-call.h"
#include "core/utf8.h"

#define TEXT_MAX 4095                             /* of a part that is not the archive */
#define FORM_MAX (SKILL_ARCHIVE_MAX + (1u << 20)) /* an archive, and what is around it */

/* --- forms --- */

static int take_text(const struct multipart_part *part, char **place, struct error *err)
{
    if (part->size > TEXT_MAX || memchr(part->data, '\0', part->size) ||
        !utf8_valid(part->data, part->size))
        return error_set(err, ERROR_INVALID, "%s: must be a text of at most %d bytes without NUL",
                         part->name, TEXT_MAX);
    free(*place);
    *place = xstrndup(part->data, part->size);
    return 0;
}

static int take_file(struct skill_upload *upload, const struct multipart_part *part,
                     struct error *err)
{
    struct skill_ask *ask = &upload->ask;
    if (ask->content)
        return error_set(err, ERROR_INVALID, "file: there are two of it");
    skill_upload_take(upload, part->data, part->size);
    /* Who names it in so many words knows better. */
    if (part->filename[0] && !ask->filename)
        ask->filename = xstrdup(part->filename);
    return 0;
}

static int take_part(struct skill_upload *upload, const struct multipart_part *part,
                     struct error *err)
{
    struct skill_ask *ask = &upload->ask;
    const struct {
        const char *name;
        char **place;
    } texts[] = {
        {"filename", &ask->filename},
        {"source_subdir", &ask->source_subdir},
        {"target_suffix", &ask->target_suffix},
    };
    char *text = NULL;
    if (strcmp(part->name, "file") == 0)
        return take_file(upload, part, err);
    if (strcmp(part->name, "source_path") == 0) {
        if (take_text(part, &text, err) < 0)
            return -1;
        strings_take(&ask->source_paths, text);
        return 0;
    }
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
        if (strcmp(part->name, texts[i].name) == 0)
            return take_text(part, texts[i].place, err);
    return error_set(err, ERROR_INVALID,
                     "%s: there is no such part; there are file, filename, source_path, "
                     "source_subdir and target_suffix",
                     part->name);
}

static int take_form(struct skill_upload *upload, const char *body, size_t size, struct error *err)
{
    struct multipart form;
    struct multipart_part part;
    int more = multipart_begin(&form, upload->boundary, body, size, err);
    while (more >= 0 && (more = multipart_next(&form, &part, err)) > 0)
        if (take_part(upload, &part, err) < 0)
            return -1;
    if (more < 0)
        return -1;
    return upload->ask.content ? 0 : error_set(err, ERROR_INVALID, "file: this part is missing");
}

/* --- requests --- */

static void on_archive(struct http_request *req, const char *body, size_t size, void *data)
{
    struct skill_upload *upload = data;
    struct error err = ERROR_INIT;
    if (!upload->boundary)
        skill_upload_take(upload, body, size);
    else if (take_form(upload, body, size, &err) < 0) {
        skill_upload_refuse(req, upload, &err);
        return;
    }
    skill_upload_ask(req, upload, upload->ask.verb == SKILL_VERB_INSTALL ? 201 : 200);
}

static bool type_is(const char *type, const char *wanted)
{
    size_t size = type ? strcspn(type, "; \t") : 0;
    return size == strlen(wanted) && strncasecmp(type, wanted, size) == 0;
}

/* False: it was answered. */
static bool take_type(struct call *call, char **ret_boundary)
{
    struct error err = ERROR_INIT;
    const char *type = http_header(call->req, "content-type");
    if (type_is(type, "application/zip"))
        return true;
    if (type_is(type, "multipart/form-data")) {
        if (multipart_boundary(type, ret_boundary, &err) == 0)
            return true;
        reply_error(call->api, call->req, &err);
        return false;
    }
    error_set(&err, ERROR_INVALID, "the body must be a form, or application/zip");
    error_hint(&err, "with curl: -F file=@SKILLS.zip");
    reply_wire_error(call->req, (struct wire_error){WIRE_VALIDATION, 415}, &err);
    return false;
}

static void query_release(struct skill_zip_query *query)
{
    free(query->filename);
    free(query->source_path);
    free(query->source_subdir);
    free(query->target_suffix);
}

static void take_archive(struct call *call, enum skill_verb verb)
{
    __attribute__((cleanup(query_release))) struct skill_zip_query query = {0};
    cleanup_free char *boundary = NULL;
    if (!call_query(call, &query) || !take_type(call, &boundary))
        return;
    struct skill_upload *upload = skill_upload_new(call, verb);
    struct skill_ask *ask = &upload->ask;
    upload->boundary = steal_ptr(boundary);
    ask->filename = steal_ptr(query.filename);
    ask->source_subdir = steal_ptr(query.source_subdir);
    ask->target_suffix = steal_ptr(query.target_suffix);
    if (query.source_path)
        strings_take(&ask->source_paths, steal_ptr(query.source_path));
    http_collect(call->req, upload->boundary ? FORM_MAX : SKILL_ARCHIVE_MAX, on_archive, upload);
}

void rest_preview_skills(struct call *call)
{
    take_archive(call, SKILL_VERB_PREVIEW);
}

void rest_install_skills(struct call *call)
{
    take_archive(call, SKILL_VERB_INSTALL);
}
