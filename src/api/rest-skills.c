/* SPDX-License-Identifier: Apache-2.0 */
/* Skills over REST: each request is a verb of the store, outside all tenants. */
#include <errno.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "api/decode.h"
#include "api/internal.h"
#include "api/multipart.h"
#include "api/skills.h"
#include "core/fd.h"

#define FORM_MAX   (SKILL_ARCHIVE_MAX + (1u << 20)) /* an archive, and what is around it */
#define PIECE_SIZE (256u << 10)

/* A request on its way through the store, and perhaps its bytes on the way out. */
struct skill_call {
    struct later later;
    int status; /* of success */
    int fd;     /* what is sent; -1: nothing */
    uint64_t left;
    char *download; /* the name of it; NULL: it is shown */
};

static void skill_call_free(struct later *later)
{
    struct skill_call *call = (struct skill_call *)later;
    fd_clear(&call->fd);
    free(call->download);
    free(call);
}

/* --- bytes out --- */

static void send_pieces(void *data)
{
    struct skill_call *call = data;
    struct http_request *req = call->later.req;
    cleanup_free char *piece = xmalloc(PIECE_SIZE);
    bool room = true;
    while (room && call->left > 0) {
        size_t wanted = call->left < PIECE_SIZE ? (size_t)call->left : PIECE_SIZE;
        ssize_t n = read(call->fd, piece, wanted);
        if (n <= 0) { /* it became shorter: half of it must not pass for the whole */
            http_abort(req);
            return;
        }
        call->left -= (size_t)n;
        room = http_write(req, piece, (size_t)n);
    }
    if (call->left == 0)
        http_end(req);
}

static void send_file(struct skill_call *call, struct skill_answer *answer)
{
    struct http_request *req = call->later.req;
    const char *type = call->download ? "application/zip" : "application/octet-stream";
    call->fd = steal_fd(&answer->fd);
    call->left = answer->size;
    http_add_header(req, "X-Content-Type-Options", "nosniff");
    if (call->download) {
        cleanup_free char *value =
            xasprintf("attachment; filename=\"%s.zip\"", call->download);
        http_add_header(req, "Content-Disposition", value);
    }
    http_on_drain(req, send_pieces, call);
    http_begin(req, 200, type, answer->size);
    send_pieces(call);
}

/* --- answers --- */

static void on_answer(void *data, struct skill_answer *answer, const struct error *err)
{
    struct skill_call *call = data;
    if (!later_due(&call->later))
        return;
    if (err && err->code != ERROR_UNAVAILABLE && err->code != ERROR_CAPACITY)
        reply_wire_error(call->later.req, wire_file_error(err), err);
    else if (err)
        reply_error(call->later.api, call->later.req, err);
    else if (answer->fd >= 0)
        send_file(call, answer);
    else
        reply_json(call->later.req, call->status, &answer->out);
}

static void ask(struct api *api, struct http_request *req, struct skill_ask *ask, int status)
{
    struct skill_call *call = xcalloc(1, sizeof *call);
    later_begin(&call->later, api, req, skill_call_free);
    call->status = status;
    call->fd = -1;
    if (ask->verb == SKILL_VERB_EXPORT)
        call->download = xstrdup(ask->name);
    skills_ask(api, ask, on_answer, call);
}

/* A verb on the skill that the path names, and perhaps a file in it. */
static void ask_named(struct call *call, enum skill_verb verb)
{
    struct skill_ask request;
    skill_ask_init(&request, verb);
    request.name = xstrdup(call_param(call, 0));
    if (call_param(call, 1))
        request.path = xstrdup(call_param(call, 1));
    ask(call->api, call->req, &request, 200);
}

/* --- skills --- */

void rest_list_skills(struct call *call)
{
    struct skill_ask request;
    skill_ask_init(&request, SKILL_VERB_LIST);
    ask(call->api, call->req, &request, 200);
}

void rest_get_skill(struct call *call)
{
    ask_named(call, SKILL_VERB_GET);
}

void rest_delete_skill(struct call *call)
{
    ask_named(call, SKILL_VERB_DELETE);
}

void rest_skill_problems(struct call *call)
{
    ask_named(call, SKILL_VERB_VALIDATE);
}

void rest_skill_archive(struct call *call)
{
    ask_named(call, SKILL_VERB_EXPORT);
}

static bool decode_edit(struct call *call, const struct route_body *body, struct skill_ask *request)
{
    struct error err = ERROR_INIT;
    struct fields part = {body->parts[0].table, body->parts[0].count, request};
    if (fields_decode(call->body, &part, 1, FIELDS_STRICT, &err) == 0)
        return true;
    reply_error(call->api, call->req, &err);
    skill_ask_release(request);
    return false;
}

void rest_create_skill(struct call *call)
{
    struct skill_ask request;
    skill_ask_init(&request, SKILL_VERB_CREATE);
    if (decode_edit(call, &body_skill, &request))
        ask(call->api, call->req, &request, 201);
}

void rest_update_skill(struct call *call)
{
    struct skill_ask request;
    skill_ask_init(&request, SKILL_VERB_UPDATE);
    if (!decode_edit(call, &body_skill_edit, &request))
        return;
    request.name = xstrdup(call_param(call, 0));
    ask(call->api, call->req, &request, 200);
}

/* --- files --- */

void rest_list_skill_files(struct call *call)
{
    struct skill_ask request;
    skill_ask_init(&request, SKILL_VERB_FILES);
    struct skill_files_query query = {0};
    if (!call_query(call, &query)) {
        free(query.path);
        return;
    }
    request.name = xstrdup(call_param(call, 0));
    request.path = query.path;
    request.include_hidden = query.include_hidden;
    request.max_entries = query.max_entries;
    ask(call->api, call->req, &request, 200);
}

void rest_get_skill_file(struct call *call)
{
    ask_named(call, SKILL_VERB_OPEN);
}

void rest_delete_skill_file(struct call *call)
{
    ask_named(call, SKILL_VERB_REMOVE);
}

/* What is kept of a request until its body is there. */
struct upload {
    struct api *api;
    struct skill_ask ask;
    char *type;
};

static void upload_free(void *data)
{
    struct upload *upload = data;
    skill_ask_release(&upload->ask);
    free(upload->type);
    free(upload);
}

static struct upload *upload_new(struct call *call, enum skill_verb verb)
{
    struct upload *upload = xcalloc(1, sizeof *upload);
    upload->api = call->api;
    skill_ask_init(&upload->ask, verb);
    http_set_data(call->req, upload, upload_free);
    return upload;
}

static void take_content(struct skill_ask *ask, const char *data, size_t size)
{
    free(ask->content);
    ask->content = xmalloc(size + 1);
    memcpy(ask->content, data, size);
    ask->content[size] = '\0';
    ask->content_size = size;
}

static void upload_ask(struct http_request *req, struct upload *upload, int status)
{
    http_set_data(req, NULL, NULL);
    ask(upload->api, req, &upload->ask, status);
    upload_free(upload);
}

static void on_file(struct http_request *req, const char *body, size_t size, void *data)
{
    struct upload *upload = data;
    take_content(&upload->ask, body, size);
    upload_ask(req, upload, 200);
}

void rest_put_skill_file(struct call *call)
{
    struct upload *upload = upload_new(call, SKILL_VERB_WRITE);
    upload->ask.name = xstrdup(call_param(call, 0));
    upload->ask.path = xstrdup(call_param(call, 1));
    http_collect(call->req, SKILL_TEXT_MAX, on_file, upload);
}

/* --- archives --- */

static void set_text(char **place, const struct multipart_part *part)
{
    free(*place);
    *place = xstrndup(part->data, strnlen(part->data, part->size));
}

static int take_part(struct skill_ask *ask, const struct multipart_part *part, struct error *err)
{
    char *text = NULL;
    if (strcmp(part->name, "file") == 0) {
        take_content(ask, part->data, part->size);
        if (part->filename[0] && !ask->filename)
            ask->filename = xstrdup(part->filename);
    } else if (strcmp(part->name, "filename") == 0) {
        set_text(&ask->filename, part);
    } else if (strcmp(part->name, "source_subdir") == 0) {
        set_text(&ask->source_subdir, part);
    } else if (strcmp(part->name, "target_suffix") == 0) {
        set_text(&ask->target_suffix, part);
    } else if (strcmp(part->name, "source_path") == 0) {
        set_text(&text, part);
        strings_take(&ask->source_paths, text);
    } else {
        return error_set(err, ERROR_INVALID,
                         "%s: there is no such part; there are file, filename, source_path, "
                         "source_subdir and target_suffix",
                         part->name);
    }
    return 0;
}

static int take_form(struct skill_ask *ask, const char *type, const char *body, size_t size,
                     struct error *err)
{
    struct multipart form;
    struct multipart_part part;
    int more = multipart_begin(&form, type, body, size, err);
    while (more >= 0 && (more = multipart_next(&form, &part, err)) > 0)
        if (take_part(ask, &part, err) < 0)
            return -1;
    if (more < 0)
        return -1;
    return ask->content ? 0 : error_set(err, ERROR_INVALID, "file: this part is missing");
}

static void on_archive(struct http_request *req, const char *body, size_t size, void *data)
{
    struct upload *upload = data;
    struct error err = ERROR_INIT;
    if (strncasecmp(upload->type, "multipart/form-data", 19) != 0) {
        take_content(&upload->ask, body, size);
    } else if (take_form(&upload->ask, upload->type, body, size, &err) < 0) {
        http_set_data(req, NULL, NULL);
        reply_error(upload->api, req, &err);
        upload_free(upload);
        return;
    }
    upload_ask(req, upload, upload->ask.verb == SKILL_VERB_INSTALL ? 201 : 200);
}

static void take_archive(struct call *call, enum skill_verb verb)
{
    struct error err = ERROR_INIT;
    struct skill_zip_query query = {0};
    const char *type = http_header(call->req, "content-type");
    bool form = type && strncasecmp(type, "multipart/form-data", 19) == 0;
    bool zip = type && strncasecmp(type, "application/zip", 15) == 0;
    bool answered = !call_query(call, &query);
    if (!answered && !form && !zip) {
        error_set(&err, ERROR_INVALID, "the body must be a form, or application/zip");
        error_hint(&err, "with curl: -F file=@SKILLS.zip");
        reply_wire_error(call->req, (struct wire_error){WIRE_VALIDATION, 415}, &err);
        answered = true;
    }
    if (!answered) {
        struct upload *upload = upload_new(call, verb);
        upload->type = xstrdup(type);
        upload->ask.filename = steal_ptr(query.filename);
        upload->ask.source_subdir = steal_ptr(query.source_subdir);
        upload->ask.target_suffix = steal_ptr(query.target_suffix);
        if (query.source_path)
            strings_take(&upload->ask.source_paths, steal_ptr(query.source_path));
        http_collect(call->req, form ? FORM_MAX : SKILL_ARCHIVE_MAX, on_archive, upload);
    }
    free(query.filename);
    free(query.source_path);
    free(query.source_subdir);
    free(query.target_suffix);
}

void rest_preview_skills(struct call *call)
{
    take_archive(call, SKILL_VERB_PREVIEW);
}

void rest_install_skills(struct call *call)
{
    take_archive(call, SKILL_VERB_INSTALL);
}
