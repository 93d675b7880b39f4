/* SPDX-License-Identifier: Apache-2.0 */
/* Answers: JSON, errors, and those that come later. */
#include <stdio.h>

#include "api/internal.h"

void reply_json(struct http_request *req, int status, struct json_out *out)
{
    http_reply(req, status, "application/json", out->buf.data, out->buf.size);
}

void out_error(struct json_out *out, enum wire_class class, const struct error *err)
{
    out_open(out, NULL, '{');
    out_open(out, "error", '{');
    out_text(out, "code", wire_class_name(class));
    out_text(out, "message", err->message);
    if (err->hint[0])
        out_text(out, "hint", err->hint);
    out_close(out, '}');
    out_close(out, '}');
}

struct wire_error api_wire_error(struct api *api, const struct error *err)
{
    struct wire_error wire = wire_error(err);
    struct backend *backend = runtime_backend(api->runtime);
    if (wire.class == WIRE_RUNTIME && backend->ops->unavailable(backend))
        wire.class = WIRE_BACKEND;
    return wire;
}

void reply_wire_error(struct http_request *req, struct wire_error wire, const struct error *err)
{
    cleanup_json_out struct json_out out = JSON_OUT_INIT;
    out_error(&out, wire.class, err);
    if (wire.status == 429 || wire.status == 503)
        http_add_header(req, "Retry-After", "1");
    reply_json(req, wire.status, &out);
}

void reply_error(struct api *api, struct http_request *req, const struct error *err)
{
    reply_wire_error(req, api_wire_error(api, err), err);
}

static void add_number(struct http_request *req, const char *name, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    http_add_header(req, name, text);
}

void reply_log_headers(struct http_request *req, uint64_t next, uint64_t total, uint64_t kept,
                       bool running)
{
    add_number(req, "X-Log-Next", next);
    add_number(req, "X-Log-Total", total);
    add_number(req, "X-Log-Kept", kept);
    http_add_header(req, "X-Log-Running", running ? "true" : "false");
    http_add_header(req, "X-Content-Type-Options", "nosniff");
}

static void later_closed(void *data)
{
    struct later *later = data;
    later->req = NULL;
    if (!later->waiting)
        later->release(later);
}

void later_begin(struct later *later, struct api *api, struct http_request *req,
                 void (*release)(struct later *later))
{
    *later = (struct later){.api = api, .req = req, .waiting = true, .release = release};
    http_set_data(req, later, later_closed);
}

bool later_due(struct later *later)
{
    later->waiting = false;
    if (later->req)
        return true;
    later->release(later);
    return false;
}

bool later_good(struct later *later, const struct error *err)
{
    if (!later_due(later))
        return false;
    if (err)
        reply_error(later->api, later->req, err);
    return !err;
}

static void named_free(struct later *later)
{
    struct named_later *named = (struct named_later *)later;
    free(named->session);
    free(named->name);
    free(named);
}

struct named_later *named_later_new(struct call *call, const char *session, const char *name)
{
    struct named_later *named = xcalloc(1, sizeof *named);
    named->session = session ? xstrdup(session) : NULL;
    named->name = name ? xstrdup(name) : NULL;
    later_begin(&named->later, call->api, call->req, named_free);
    return named;
}

void reply_word(struct http_request *req, const char *key, const char *value)
{
    cleanup_json_out struct json_out out = JSON_OUT_INIT;
    out_open(&out, NULL, '{');
    out_text(&out, key, value);
    out_close(&out, '}');
    reply_json(req, 200, &out);
}
