/* SPDX-License-Identifier: Apache-2.0 */
/* Requests to boxd and its answers. */
#include "cli/client.h"

#include <stdarg.h>
#include <string.h>

#include "cli/cli.h"

#define ANSWER_MAX (64u * 1024 * 1024)
#define ERROR_MAX  (64u * 1024)
#define PAGE       "1000"

/* --- targets ------------------------------------------------------------------------------------
 */

char *client_target(const char *format, ...)
{
    char *target = xstrdup("");
    va_list args;
    va_start(args, format);
    for (;;) {
        const char *hole = strstr(format, "%s");
        int length = hole ? (int)(hole - format) : (int)strlen(format);
        cleanup_free char *encoded = hole ? http_client_encode(va_arg(args, const char *)) : NULL;
        cleanup_free char *old = target;
        target = xasprintf("%s%.*s%s", old, length, format, hole ? encoded : "");
        if (!hole)
            break;
        format = hole + 2;
    }
    va_end(args);
    return target;
}

char *client_path_target(const char *base, const char *path)
{
    char *target = xstrdup(base);
    while (*path) {
        size_t length = strcspn(path, "/");
        if (length > 0) {
            cleanup_free char *component = xstrndup(path, length);
            cleanup_free char *encoded = http_client_encode(component);
            cleanup_free char *old = target;
            target = xasprintf("%s/%s", old, encoded);
        }
        path += length + (path[length] == '/');
    }
    return target;
}

char *client_file_target(const char *session, const char *path, const char *query)
{
    cleanup_free char *base = client_target("/v1/sessions/%s/files", session);
    cleanup_free char *old = client_path_target(base, path);
    /* The root itself is the empty path behind "/files/". */
    return xasprintf("%s%s%s", old, strstr(old, "/files/") ? "" : "/", query);
}

/* --- errors -------------------------------------------------------------------------------------
 */

/* boxd's classes as codes of ours, and what helps if boxd itself does not say. */
static const struct {
    const char *name;
    enum error_code code;
    const char *hint;
} classes[] = {
    {"BoxValidationError", ERROR_INVALID, NULL},
    {"BoxAuthenticationError", ERROR_DENIED,
     "put boxd's token into BOX_TOKEN, or use --token-file"},
    {"BoxSessionNotFoundError", ERROR_NO_SESSION, "box ps lists the sessions there are"},
    {"BoxManagedProcessNotFoundError", ERROR_NO_PROCESS, "box ps -a lists the processes there are"},
    {"BoxSessionConflictError", ERROR_SESSION_CONFLICT,
     "ask for what it has, take another name, or end it with box rm, and all that is in it"},
    {"BoxManagedProcessConflictError", ERROR_PROCESS_CONFLICT, NULL},
    {"BoxCapacityExceededError", ERROR_CAPACITY, NULL},
    {"BoxBackendUnavailableError", ERROR_UNAVAILABLE, NULL},
    {"BoxRuntimeUnavailableError", ERROR_UNAVAILABLE, NULL},
};

static int take_known(int status, const json_t *inner, struct error *err)
{
    const char *name = client_text(inner, "code");
    const char *hint = client_text(inner, "hint");
    enum error_code code = ERROR_SYSTEM;
    for (size_t i = 0; i < ARRAY_SIZE(classes); i++) {
        if (strcmp(classes[i].name, name) != 0)
            continue;
        code = classes[i].code;
        /* Of tokens, and of what is not there or in the way, boxd speaks to programs of HTTP. */
        if (classes[i].hint && (!hint[0] || status == 401 || status == 404 || status == 409))
            hint = classes[i].hint;
    }
    /* One class for whatever is wrong with a request; the status tells what is merely not there,
       there already, or not what it was. */
    if (code == ERROR_INVALID && status == 404)
        code = ERROR_NOT_FOUND;
    if (code == ERROR_INVALID && status == 409)
        code = ERROR_EXISTS;
    if (code == ERROR_INVALID && status == 412)
        code = ERROR_CHANGED;
    error_set(err, code, "%s", client_text(inner, "message"));
    return hint[0] ? error_hint(err, "%s", hint) : -1;
}

int client_take_error(int status, const char *body, size_t size, struct error *err)
{
    cleanup_json json_t *answer = json_loadb(body, size, 0, NULL);
    const json_t *inner = json_object_get(answer, "error");
    if (json_is_object(inner) && client_text(inner, "message")[0])
        return take_known(status, inner, err);
    int length = (int)strcspn(body, "\r\n");
    error_set(err, ERROR_PROTOCOL, "the answer was %d%s%.*s", status, length ? ": " : "",
              length < 200 ? length : 200, body);
    return error_hint(err, "is it boxd that listens there?");
}

static int take_refusal(struct client *client, struct error *err)
{
    cleanup_free char *body = NULL;
    size_t size = 0;
    int status = http_client_status(client->http);
    if (http_client_read_all(client->http, ERROR_MAX, &body, &size, err) < 0)
        return error_wrap(err, "the answer was %d", status);
    return client_take_error(status, body, size, err);
}

/* --- calls --------------------------------------------------------------------------------------
 */

int client_call(struct client *client, const struct http_call *call, struct error *err)
{
    if (http_client_call(client->http, call, err) < 0)
        return -1;
    return http_client_status(client->http) >= 400 ? take_refusal(client, err) : 0;
}

int client_answer(struct client *client, json_t **ret, struct error *err)
{
    cleanup_free char *body = NULL;
    size_t size = 0;
    json_error_t why;
    if (http_client_read_all(client->http, ANSWER_MAX, &body, &size, err) < 0)
        return -1;
    if (!ret)
        return 0;
    json_t *answer = json_loadb(body, size, JSON_ALLOW_NUL, &why);
    if (!answer)
        return error_set(err, ERROR_PROTOCOL, "boxd's answer is not JSON: %s", why.text);
    *ret = answer;
    return 0;
}

int client_request(struct client *client, const char *method, const char *target, json_t *body,
                   json_t **ret, struct error *err)
{
    cleanup_free char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    const struct http_call call = {
        .method = method,
        .target = target,
        .type = body ? "application/json" : NULL,
        .body = text,
        .body_size = text ? strlen(text) : 0,
    };
    json_decref(body);
    return client_call(client, &call, err) < 0 ? -1 : client_answer(client, ret, err);
}

int client_get(struct client *client, const char *target, json_t **ret, struct error *err)
{
    return client_request(client, "GET", target, NULL, ret, err);
}

int client_ensure_session(struct client *client, const char *session, json_t *spec,
                          struct error *err)
{
    /* Asked first, because defaults may differ from what an existing session was made with. */
    cleanup_free char *target = client_target("/v1/sessions/%s", session);
    cleanup_json json_t *body = spec ? spec : json_object();
    if (client_get(client, target, NULL, err) == 0)
        return 0;
    if (err->code != ERROR_NO_SESSION)
        return -1;
    *err = (struct error)ERROR_INIT;
    json_object_set_new(body, "session_id", json_string(session));
    return client_request(client, "POST", "/v1/sessions", json_incref(body), NULL, err);
}

static char *page_target(const char *prefix, const char *after)
{
    cleanup_free char *below = prefix ? client_target("&prefix=%s", prefix) : xstrdup("");
    cleanup_free char *behind = after ? client_target("&after=%s", after) : xstrdup("");
    return xasprintf("/v1/sessions?limit=" PAGE "%s%s", below, behind);
}

int client_sessions(struct client *client, const char *prefix, json_t **ret, struct error *err)
{
    cleanup_json json_t *all = json_array();
    cleanup_free char *after = NULL;
    do {
        cleanup_json json_t *page = NULL;
        cleanup_free char *target = page_target(prefix, after);
        if (client_get(client, target, &page, err) < 0)
            return -1;
        json_array_extend(all, json_object_get(page, "sessions"));
        const char *next = client_text(page, "next");
        free(after);
        after = next[0] ? xstrdup(next) : NULL;
    } while (after);
    *ret = json_incref(all);
    return 0;
}

const char *client_text(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

uint64_t client_number(const json_t *object, const char *key)
{
    double value = json_number_value(json_object_get(object, key));
    return value > 0 ? (uint64_t)value : 0;
}
