/* SPDX-License-Identifier: Apache-2.0 */
/* Actions about skills: each is a verb of the store on the peer's own scope. What is wrong with a
   request is a BoxValidationError here, whatever it is: clients know no other of these actions. */
#include <math.h>
#include <string.h>

#include "api/rpc-internal.h"
#include "api/skills.h"
#include "core/lax.h"

/* --- values, as Python would take them --- */

/* str() of a value; NULL for null, and for what is not there. False: it is no text at all. */
static bool take_text(const json_t *value, char **ret)
{
    *ret = NULL;
    if (!value || json_is_null(value))
        return true;
    if (json_is_string(value))
        *ret = strlen(json_string_value(value)) == json_string_length(value)
                   ? xstrdup(json_string_value(value))
                   : NULL;
    else if (json_is_boolean(value))
        *ret = xstrdup(json_is_true(value) ? "True" : "False");
    else if (json_is_integer(value))
        *ret = xasprintf("%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        *ret = xasprintf("%.17g", json_real_value(value));
    return *ret != NULL;
}

static bool is_true(const json_t *value)
{
    if (json_is_string(value))
        return json_string_length(value) > 0;
    if (json_is_number(value))
        return json_number_value(value) < 0 || json_number_value(value) > 0;
    return json_is_true(value) || json_array_size(value) > 0 || json_object_size(value) > 0;
}

/* --- requests --- */

static void fail(struct rpc_call *call, const char *key, const char *what)
{
    struct error err = ERROR_INIT;
    error_set(&err, ERROR_INVALID, "%s: %s", key, what);
    rpc_fail_as(call, wire_class_name(WIRE_VALIDATION), &err);
}

/* A text of the data into `ret`; one that is `needed` is "" if it is null. False: it is none, or
   missing, and that has been answered. */
static bool text_field(struct rpc_call *call, const char *key, bool needed, char **ret)
{
    const json_t *value = json_object_get(call->data, key);
    if (needed && !value) {
        fail(call, key, "is missing");
        return false;
    }
    if (!take_text(value, ret)) {
        fail(call, key, "must be a string without NUL");
        return false;
    }
    if (needed && !*ret)
        *ret = xstrdup("");
    return true;
}

/* The skill that is asked for. What is no string is no skill's name, and none is "". */
static bool name_field(struct rpc_call *call, char **ret)
{
    const json_t *value = json_object_get(call->data, "name");
    if (!value || json_is_string(value))
        return text_field(call, "name", true, ret);
    *ret = xstrdup("");
    return true;
}

static void on_answer(void *data, struct skill_answer *answer, const struct error *err)
{
    struct rpc_call *call = data;
    if (!rpc_due(call))
        return;
    if (err) {
        bool mine = err->code == ERROR_UNAVAILABLE || err->code == ERROR_CAPACITY;
        if (mine)
            rpc_fail(call, err);
        else
            rpc_fail_as(call, wire_class_name(WIRE_VALIDATION), err);
        return;
    }
    out_json(rpc_answer(call), NULL, answer->out.buf.data, answer->out.buf.size);
    rpc_send(call);
}

static void ask(struct rpc_call *call, struct skill_ask *ask)
{
    char space[TENANT_NAMESPACE_SIZE];
    if (call->who.workspace) {
        tenant_namespace(call->who.instance, call->who.workspace, space);
        ask->tenant = xstrdup(space);
    }
    skills_ask(call->api, ask, on_answer, rpc_wait(call));
}

/* A verb that needs the name of a skill and perhaps a path in it. */
static void ask_about(struct rpc_call *call, enum skill_verb verb, bool needs_path)
{
    struct skill_ask request;
    skill_ask_init(&request, verb);
    if (name_field(call, &request.name) &&
        (!needs_path || text_field(call, "path", true, &request.path)))
        ask(call, &request);
    else
        skill_ask_release(&request);
}

/* --- skills --- */

void rpc_list_skills(struct rpc_call *call)
{
    struct skill_ask request;
    skill_ask_init(&request, SKILL_VERB_LIST);
    ask(call, &request);
}

void rpc_get_skill(struct rpc_call *call)
{
    struct skill_ask request;
    skill_ask_init(&request, SKILL_VERB_GET);
    request.absent_is_null = true;
    if (!json_object_get(call->data, "name"))
        rpc_fail_missing(call, "name"); /* the one action that tells it so */
    else if (name_field(call, &request.name))
        ask(call, &request);
}

void rpc_delete_skill(struct rpc_call *call)
{
    ask_about(call, SKILL_VERB_DELETE, false);
}

void rpc_scan_skill(struct rpc_call *call)
{
    struct skill_ask request;
    skill_ask_init(&request, SKILL_VERB_SCAN);
    if (text_field(call, "path", true, &request.path))
        ask(call, &request);
    else
        skill_ask_release(&request);
}

/* The fields of `skill`; `name` is where its name goes. */
static bool edit_fields(struct rpc_call *call, struct skill_ask *request, char **name)
{
    const json_t *skill = json_object_get(call->data, "skill");
    const struct {
        const char *key;
        char **place;
    } fields[] = {
        {"name", name},
        {"display_name", &request->display_name},
        {"description", &request->description},
        {"instructions", &request->instructions},
        {"package_root", &request->package_root},
    };
    if (!json_is_object(skill)) {
        fail(call, "skill", skill ? "must be an object" : "is missing");
        return false;
    }
    for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
        const json_t *value = json_object_get(skill, fields[i].key);
        if (value && !json_is_null(value) && !is_true(value)) { /* as good as "" */
            *fields[i].place = xstrdup("");
        } else if (!take_text(value, fields[i].place)) {
            fail(call, fields[i].key, "must be a string without NUL");
            return false;
        }
    }
    return true;
}

void rpc_create_skill(struct rpc_call *call)
{
    struct skill_ask request;
    skill_ask_init(&request, SKILL_VERB_CREATE);
    if (edit_fields(call, &request, &request.name))
        ask(call, &request);
    else
        skill_ask_release(&request);
}

void rpc_update_skill(struct rpc_call *call)
{
    struct skill_ask request;
    skill_ask_init(&request, SKILL_VERB_UPDATE);
    if (name_field(call, &request.name) && edit_fields(call, &request, &request.path))
        ask(call, &request);
    else
        skill_ask_release(&request);
}

/* --- files --- */

/* How many at most; false: it has been answered. */
static bool entries_field(struct rpc_call *call, size_t *ret)
{
    const json_t *value = json_object_get(call->data, "max_entries");
    int64_t number = 0;
    if (!value)
        return true;
    int rc = json_is_real(value) ? 0 : lax_integer(value, &number);
    if (json_is_real(value)) /* int() cuts */
        number = (int64_t)fmin(fmax(json_real_value(value), 0), SKILL_FILES_MAX);
    if (rc < 0 || number < 1) {
        fail(call, "max_entries", "must be a whole number above 0");
        return false;
    }
    *ret = number > SKILL_FILES_MAX ? SKILL_FILES_MAX : (size_t)number;
    return true;
}

void rpc_list_skill_files(struct rpc_call *call)
{
    struct skill_ask request;
    skill_ask_init(&request, SKILL_VERB_FILES);
    request.include_hidden = is_true(json_object_get(call->data, "include_hidden"));
    if (name_field(call, &request.name) && text_field(call, "path", false, &request.path) &&
        entries_field(call, &request.max_entries))
        ask(call, &request);
    else
        skill_ask_release(&request);
}

void rpc_read_skill_file(struct rpc_call *call)
{
    ask_about(call, SKILL_VERB_READ, true);
}

void rpc_write_skill_file(struct rpc_call *call)
{
    const json_t *content = json_object_get(call->data, "content");
    struct skill_ask request;
    skill_ask_init(&request, SKILL_VERB_WRITE);
    if (content && !json_is_string(content)) {
        fail(call, "content", "must be a string");
        return;
    }
    if (!name_field(call, &request.name) || !text_field(call, "path", true, &request.path)) {
        skill_ask_release(&request);
        return;
    }
    if (content) {
        /* With its NULs, if it has any. */
        request.content_size = json_string_length(content);
        request.content = xmalloc(request.content_size + 1);
        memcpy(request.content, json_string_value(content), request.content_size + 1);
    }
    ask(call, &request);
}

/* --- archives --- */

static bool source_paths(struct rpc_call *call, struct skill_ask *request)
{
    const json_t *paths = json_object_get(call->data, "source_paths");
    size_t i;
    json_t *path;
    char *text;
    if (is_true(paths) && !json_is_array(paths)) {
        fail(call, "source_paths", "must be an array of strings");
        return false;
    }
    json_array_foreach(paths, i, path)
    {
        if (!take_text(path, &text)) {
            fail(call, "source_paths", "must be an array of strings");
            return false;
        }
        strings_take(&request->source_paths, text ? text : xstrdup(""));
    }
    if (!text_field(call, "source_path", false, &text))
        return false;
    if (text && *text)
        strings_add(&request->source_paths, text);
    free(text);
    return true;
}

/* null is another thing than nothing here: a directory without a suffix. */
static bool suffix_field(struct rpc_call *call, char **ret)
{
    const json_t *value = json_object_get(call->data, "target_suffix");
    return text_field(call, "target_suffix", value != NULL, ret);
}

static void ask_archive(struct rpc_call *call, enum skill_verb verb)
{
    struct error err = ERROR_INIT;
    struct skill_ask request;
    uint64_t size;
    cleanup_free char *key = NULL;
    skill_ask_init(&request, verb);
    if (text_field(call, "file_key", true, &key) &&
        text_field(call, "filename", false, &request.filename) &&
        text_field(call, "source_subdir", false, &request.source_subdir) &&
        suffix_field(call, &request.target_suffix) &&
        (verb == SKILL_VERB_PREVIEW || source_paths(call, &request))) {
        /* The file is used up by a request that is taken: who is told to come again still has it.
         */
        if (skills_may_ask(call->api, &request, &err) < 0)
            rpc_fail(call, &err);
        else if (rpc_upload_take(call, key, &request.archive, &size, &err) == 0)
            ask(call, &request);
        else
            rpc_fail_as(call, wire_class_name(WIRE_VALIDATION), &err);
    }
    skill_ask_release(&request);
}

void rpc_preview_skill_zip(struct rpc_call *call)
{
    ask_archive(call, SKILL_VERB_PREVIEW);
}

void rpc_install_skill_zip(struct rpc_call *call)
{
    ask_archive(call, SKILL_VERB_INSTALL);
}
