/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions: make, list, look at, end; and what they use. */
#include <string.h>

#include "api/decode.h"
#include "api/internal.h"

#define LIST_LIMIT 100

static void later_free(struct later *later)
{
    free(later);
}

/* --- make --- */

static void on_opened(void *data, struct session *session, bool created, const struct error *err)
{
    struct later *later = data;
    if (!later_due(later))
        return;
    if (err) {
        struct wire_error wire = api_wire_error(later->api, err);
        /* It came to its end while it was made: that is no "not found" to one who wanted it made.
         */
        if (err->code == ERROR_GONE)
            wire = (struct wire_error){WIRE_BACKEND, 503};
        reply_wire_error(later->req, wire, err);
        return;
    }
    cleanup_json_out struct json_out out = JSON_OUT_INIT;
    out_session(&out, later->api, session, false);
    reply_json(later->req, created ? 201 : 200, &out);
}

void rest_create_session(struct call *call)
{
    struct error err = ERROR_INIT;
    cleanup_session_spec struct session_spec spec = {0};
    if (decode_session(call->body, &call->api->config.defaults, &spec, &err) < 0) {
        reply_error(call->api, call->req, &err);
        return;
    }
    if (!call_may_make(call, spec.name) || !call_mount_skills(call, &spec))
        return;
    struct later *later = xmalloc(sizeof *later);
    later_begin(later, call->api, call->req, later_free);
    runtime_open_session(call->api->runtime, &spec, on_opened, later);
}

/* --- list --- */

struct listing {
    struct api *api;
    struct list_query query;
    struct json_out out;
    bool begun; /* behind `after` */
    uint32_t count;
    struct session *last;
    bool more;
};

static void list_one(struct session *session, void *data)
{
    struct listing *listing = data;
    const struct list_query *query = &listing->query;
    const char *name = session_name(session);
    if (!listing->begun) {
        listing->begun = strcmp(name, query->after) == 0;
        return;
    }
    if ((query->state >= 0 && session_state(session) != (enum session_state)query->state) ||
        (query->prefix && strncmp(name, query->prefix, strlen(query->prefix)) != 0))
        return;
    if (listing->count == query->limit) {
        listing->more = true;
        return;
    }
    listing->count++;
    listing->last = session;
    out_session(&listing->out, listing->api, session, false);
}

void rest_list_sessions(struct call *call)
{
    struct listing listing = {
        .api = call->api, .query = {.state = -1, .limit = LIST_LIMIT}, .out = JSON_OUT_INIT};
    if (call_query(call, &listing.query)) {
        listing.begun = !listing.query.after;
        out_open(&listing.out, NULL, '{');
        out_open(&listing.out, "sessions", '[');
        runtime_each_session(call->api->runtime, list_one, &listing);
        out_close(&listing.out, ']');
        if (listing.more)
            out_text(&listing.out, "next", session_name(listing.last));
        out_close(&listing.out, '}');
        if (listing.begun) {
            reply_json(call->req, 200, &listing.out);
        } else {
            /* An empty page would look like the last one. */
            struct error err = ERROR_INIT;
            error_set(&err, ERROR_NO_SESSION,
                      "after: session '%.128s' is gone; list from the start", listing.query.after);
            reply_error(call->api, call->req, &err);
        }
    }
    json_out_release(&listing.out);
    free(listing.query.prefix);
    free(listing.query.after);
}

/* --- look at, end --- */

void rest_get_session(struct call *call)
{
    struct session *session = call_session(call);
    if (!session)
        return;
    cleanup_json_out struct json_out out = JSON_OUT_INIT;
    out_session(&out, call->api, session, true);
    reply_json(call->req, 200, &out);
}

static void on_deleted(void *data, const struct error *err)
{
    struct named_later *named = data;
    if (later_good(&named->later, err))
        reply_word(named->later.req, "deleted", named->session);
}

void rest_delete_session(struct call *call)
{
    struct named_later *named = named_later_new(call, call_param(call, 0), NULL);
    runtime_delete_session(call->api->runtime, call_param(call, 0), on_deleted, named);
}

/* --- usage --- */

/* NULL: nobody can tell. */
static void out_usage(struct json_out *out, const char *name, const struct backend_usage *usage)
{
    out_text(out, "session_id", name);
    if (!usage) {
        out_null(out, "cpu_us");
        out_null(out, "memory_bytes");
        out_null(out, "processes");
        return;
    }
    if (usage->cpu_us == UINT64_MAX)
        out_null(out, "cpu_us");
    else
        out_unsigned(out, "cpu_us", usage->cpu_us);
    out_unsigned(out, "memory_bytes", usage->memory_bytes);
    out_unsigned(out, "processes", usage->processes);
}

static void on_usage(void *data, const struct backend_usage *usage, const struct error *err)
{
    struct named_later *named = data;
    if (!later_good(&named->later, err))
        return;
    cleanup_json_out struct json_out out = JSON_OUT_INIT;
    out_open(&out, NULL, '{');
    out_usage(&out, named->session, usage);
    out_close(&out, '}');
    reply_json(named->later.req, 200, &out);
}

void rest_session_usage(struct call *call)
{
    struct session *session = call_session(call);
    if (!session)
        return;
    struct named_later *named = named_later_new(call, call_param(call, 0), NULL);
    session_usage(session, on_usage, named);
}

/* All sessions are asked at once; the answer is made when the last has told, in their order. */
struct usage_entry {
    struct usage_survey *survey;
    struct session *session; /* held */
    bool ended;              /* meanwhile: it uses nothing */
    bool known;
    struct backend_usage usage;
};

struct usage_survey {
    struct later later;
    struct usage_entry *entries;
    size_t count;
    size_t open; /* not told yet, and one more while they are being asked */
};

static void survey_free(struct later *later)
{
    struct usage_survey *survey = (struct usage_survey *)later;
    free(survey->entries);
    free(survey);
}

static void survey_told(struct usage_survey *survey)
{
    if (--survey->open > 0)
        return;
    cleanup_json_out struct json_out out = JSON_OUT_INIT;
    out_open(&out, NULL, '{');
    out_open(&out, "sessions", '[');
    for (size_t i = 0; i < survey->count; i++) {
        struct usage_entry *entry = &survey->entries[i];
        if (!entry->ended) {
            out_open(&out, NULL, '{');
            out_usage(&out, session_name(entry->session), entry->known ? &entry->usage : NULL);
            out_unsigned(&out, "memory_limit_bytes", session_spec(entry->session)->memory_mb << 20);
            out_text(&out, "state", session_state_name(session_state(entry->session)));
            out_close(&out, '}');
        }
        session_release(entry->session);
    }
    out_close(&out, ']');
    out_close(&out, '}');
    if (later_due(&survey->later))
        reply_json(survey->later.req, 200, &out);
}

static void on_survey_usage(void *data, const struct backend_usage *usage, const struct error *err)
{
    struct usage_entry *entry = data;
    entry->known = !err;
    entry->ended = err && err->code != ERROR_UNSUPPORTED;
    if (!err)
        entry->usage = *usage;
    survey_told(entry->survey);
}

static void count_session(struct session *session, void *data)
{
    (void)session;
    (*(size_t *)data)++;
}

static void add_session(struct session *session, void *data)
{
    struct usage_survey *survey = data;
    session_hold(session);
    survey->entries[survey->count++] = (struct usage_entry){.survey = survey, .session = session};
}

void rest_usage(struct call *call)
{
    struct usage_survey *survey = xcalloc(1, sizeof *survey);
    size_t count = 0;
    runtime_each_session(call->api->runtime, count_session, &count);
    survey->entries = xcalloc(count, sizeof *survey->entries);
    runtime_each_session(call->api->runtime, add_session, survey);
    later_begin(&survey->later, call->api, call->req, survey_free);
    survey->open = survey->count + 1;
    for (size_t i = 0; i < survey->count; i++)
        session_usage(survey->entries[i].session, on_survey_usage, &survey->entries[i]);
    survey_told(survey);
}
