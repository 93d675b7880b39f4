/* SPDX-License-Identifier: Apache-2.0 */
/* Skills over REST: each request is a verb of the store, outside all tenants. */
#include "api/decode.h"
#include "api/skill-call.h"

/* About the skill that the path names, and perhaps a file in it. */
static void ask_named(struct call *call, struct skill_ask *request)
{
    request->name = xstrdup(call_param(call, 0));
    if (call_param(call, 1))
        request->path = xstrdup(call_param(call, 1));
    skill_call_ask(call->api, call->req, request, 200);
}

static void ask_verb(struct call *call, enum skill_verb verb)
{
    struct skill_ask request;
    skill_ask_init(&request, verb);
    ask_named(call, &request);
}

/* --- skills --- */

void rest_list_skills(struct call *call)
{
    struct skill_ask request;
    skill_ask_init(&request, SKILL_VERB_LIST);
    skill_call_ask(call->api, call->req, &request, 200);
}

void rest_get_skill(struct call *call)
{
    ask_verb(call, SKILL_VERB_GET);
}

/* Only files have versions: who asks for one of something else must not think that he got it. */
static bool has_condition(struct call *call)
{
    static const char *const headers[] = {"If-Match", "If-None-Match"};
    struct error err = ERROR_INIT;
    for (size_t i = 0; i < ARRAY_SIZE(headers); i++) {
        if (!http_header(call->req, headers[i]))
            continue;
        error_set(&err, ERROR_INVALID, "%s: only the files of a skill have versions", headers[i]);
        reply_error(call->api, call->req, &err);
        return true;
    }
    return false;
}

void rest_delete_skill(struct call *call)
{
    if (has_condition(call))
        return;
    ask_verb(call, SKILL_VERB_DELETE);
}

void rest_skill_problems(struct call *call)
{
    ask_verb(call, SKILL_VERB_VALIDATE);
}

void rest_skill_archive(struct call *call)
{
    ask_verb(call, SKILL_VERB_EXPORT);
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
        skill_call_ask(call->api, call->req, &request, 201);
}

void rest_update_skill(struct call *call)
{
    struct skill_ask request;
    if (has_condition(call))
        return;
    skill_ask_init(&request, SKILL_VERB_UPDATE);
    if (!decode_edit(call, &body_skill_edit, &request))
        return;
    request.name = xstrdup(call_param(call, 0));
    skill_call_ask(call->api, call->req, &request, 200);
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
    skill_call_ask(call->api, call->req, &request, 200);
}

void rest_get_skill_file(struct call *call)
{
    ask_verb(call, SKILL_VERB_OPEN);
}

/* What the headers ask to be so. Both are read: one that is wrong must not be overlooked. */
static int decode_condition(const struct http_request *req, struct skill_condition *ret,
                            struct error *err)
{
    if (etag_parse(http_header(req, "If-Match"), false, &ret->match, err) < 0)
        return error_wrap(err, "If-Match");
    if (etag_parse(http_header(req, "If-None-Match"), true, &ret->none_match, err) < 0)
        return error_wrap(err, "If-None-Match");
    return 0;
}

void rest_delete_skill_file(struct call *call)
{
    struct error err = ERROR_INIT;
    struct skill_ask request;
    skill_ask_init(&request, SKILL_VERB_REMOVE);
    if (decode_condition(call->req, &request.condition, &err) < 0) {
        reply_error(call->api, call->req, &err);
        skill_ask_release(&request);
        return;
    }
    ask_named(call, &request);
}

static void on_file(struct http_request *req, const char *body, size_t size, void *data)
{
    struct skill_upload *upload = data;
    skill_upload_take(upload, body, size);
    skill_upload_ask(req, upload, 200);
}

void rest_put_skill_file(struct call *call)
{
    struct error err = ERROR_INIT;
    struct skill_upload *upload = skill_upload_new(call, SKILL_VERB_WRITE);
    if (decode_condition(call->req, &upload->ask.condition, &err) < 0) {
        skill_upload_refuse(call->req, upload, &err);
        return;
    }
    upload->ask.name = xstrdup(call_param(call, 0));
    upload->ask.path = xstrdup(call_param(call, 1));
    http_collect(call->req, SKILL_TEXT_MAX, on_file, upload);
}
