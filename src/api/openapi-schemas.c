/* SPDX-License-Identifier: Apache-2.0 */
/* /openapi.json: schemas. Those of bodies come from the tables that decode them; those of answers
   are written here, and a test holds real answers against them. */
#include <string.h>

#include "api/decode.h"
#include "api/errors.h"
#include "api/openapi.h"
#include "core/mem.h"

/* --- bodies --- */

static void out_bounds(struct json_out *out, const struct field *field, const char *min,
                       const char *max)
{
    out_double(out, min, field->min);
    if (field->max > 0)
        out_double(out, max, field->max);
}

static void out_object(struct json_out *out, const struct field *const *tables,
                       const size_t *counts, size_t count)
{
    bool any = false;
    out_text(out, "type", "object");
    out_flag(out, "additionalProperties", false);
    out_open(out, "properties", '{');
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < counts[i]; j++) {
            openapi_field(out, tables[i][j].name, &tables[i][j]);
            any |= tables[i][j].flags & FIELD_REQUIRED;
        }
    out_close(out, '}');
    if (!any)
        return;
    out_open(out, "required", '[');
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < counts[i]; j++)
            if (tables[i][j].flags & FIELD_REQUIRED)
                out_text(out, NULL, tables[i][j].name);
    out_close(out, ']');
}

static void out_type(struct json_out *out, const char *key, const char *type)
{
    out_open(out, key, '{');
    out_text(out, "type", type);
    out_close(out, '}');
}

static void out_array(struct json_out *out, const struct field *field)
{
    out_text(out, "type", "array");
    out_bounds(out, field, "minItems", "maxItems");
    if (field->kind == FIELD_TEXTS) {
        out_type(out, "items", "string");
    } else {
        out_open(out, "items", '{');
        out_object(out, &field->items, &field->item_fields, 1);
        out_close(out, '}');
    }
}

static void out_words(struct json_out *out, const char *const *names)
{
    out_text(out, "type", "string");
    out_open(out, "enum", '[');
    for (; *names; names++)
        out_text(out, NULL, *names);
    out_close(out, ']');
}

void openapi_field(struct json_out *out, const char *key, const struct field *field)
{
    out_open(out, key, '{');
    switch (field->kind) {
    case FIELD_TEXT:
    case FIELD_VIEW:
        out_text(out, "type", "string");
        out_bounds(out, field, "minLength", "maxLength");
        if (field->pattern || (field->flags & FIELD_ABSOLUTE))
            out_text(out, "pattern", field->pattern ? field->pattern : "^/");
        break;
    case FIELD_FLAG:
        out_text(out, "type", "boolean");
        break;
    case FIELD_U16:
    case FIELD_U32:
    case FIELD_U64:
    case FIELD_NUMBER:
        out_text(out, "type", field->kind == FIELD_NUMBER ? "number" : "integer");
        out_bounds(out, field, "minimum", "maximum");
        break;
    case FIELD_CHOICE:
    case FIELD_EITHER:
        out_words(out, field->names);
        break;
    case FIELD_TEXTS:
    case FIELD_LIST:
        out_array(out, field);
        break;
    case FIELD_ENV:
        out_text(out, "type", "object");
        if (field->max > 0)
            out_double(out, "maxProperties", field->max);
        out_type(out, "additionalProperties", "string");
        break;
    case FIELD_OBJECT:
        out_open(out, "allOf", '[');
        out_open(out, NULL, '{');
        out_text(out, "$ref", "#/components/schemas/SessionDetails");
        out_close(out, '}');
        out_close(out, ']');
        break;
    case FIELD_VALUE:
        out_open(out, "oneOf", '[');
        out_type(out, NULL, "string");
        out_type(out, NULL, "integer");
        out_close(out, ']');
        break;
    }
    if (field->flags & FIELD_NULLABLE)
        out_flag(out, "nullable", true);
    if (field->about)
        out_text(out, "description", field->about);
    out_close(out, '}');
}

static void out_request(struct json_out *out, const struct route_body *body)
{
    const struct field *tables[ARRAY_SIZE(body->parts)];
    size_t counts[ARRAY_SIZE(body->parts)];
    size_t count = 0;
    for (; count < ARRAY_SIZE(body->parts) && body->parts[count].table; count++) {
        tables[count] = body->parts[count].table;
        counts[count] = body->parts[count].count;
    }
    out_open(out, body->name, '{');
    out_object(out, tables, counts, count);
    if (body->one_of[0]) {
        out_open(out, "oneOf", '[');
        for (size_t i = 0; i < ARRAY_SIZE(body->one_of); i++) {
            out_open(out, NULL, '{');
            out_open(out, "required", '[');
            out_text(out, NULL, body->one_of[i]);
            out_close(out, ']');
            out_close(out, '}');
        }
        out_close(out, ']');
    }
    out_close(out, '}');
}

/* --- answers --- */

/* A line "name: type" for each key. Types: string, integer, number, boolean, time, object; #Name
   for another schema; [type] for an array of them; {type} for an object of them; a|b for one of
   those words. With "?" behind the name it is not always there, behind the type it may be null. */
struct schema {
    const char *name;
    const char *fields;
};

#define SESSION_FIELDS                                                                  \
    "session_id: string\nstate: starting|live|broken|ending\nbackend_name: string\n"    \
    "backend_session_id: string?\nimage: string\nnetwork: off|on\nhost_path: string?\n" \
    "host_path_mode: none|ro|rw\nmount_path: string\nextra_mounts: [#Mount]\n"          \
    "persistent: boolean\ncpus: number\nmemory_mb: integer\npids_limit: integer\n"      \
    "read_only_rootfs: boolean\nworkspace_quota_mb: integer\ncreated_at: time\n"        \
    "last_used_at: time\nrunning: integer\nnotes: [string]\n"
#define USAGE_FIELDS \
    "session_id: string\ncpu_us: integer?\nmemory_bytes: integer?\nprocesses: integer?\n"

#define SKILL_FIELDS                                                                        \
    "name: string\ndisplay_name: string\ndescription: string\ninstructions: string\n"       \
    "package_root: string\nentry_file: string\npython_project: boolean\ncreated_at: time\n" \
    "updated_at: time\n"

static const struct schema schemas[] = {
    {"Mount", "host_path: string\nmount_path: string\nmode: none|ro|rw\n"},
    {"Session", SESSION_FIELDS},
    {"SessionDetail", SESSION_FIELDS "processes: [#Process]\n"},
    {"SessionList", "sessions: [#Session]\nnext?: string\n"},
    {"Usage", USAGE_FIELDS},
    {"UsageOne", USAGE_FIELDS "memory_limit_bytes: integer\nstate: starting|live|broken|ending\n"},
    {"UsageList", "sessions: [#UsageOne]\n"},
    {"ExecResult",
     "session_id: string\nbackend_name: string\nexec_id: integer\nstatus: completed|timed_out\n"
     "exit_code: integer?\nstdout: string\nstderr: string\nduration_ms: number\ncause: string?\n"
     "signal: string?\ndenied_syscalls: [string]\nstdout_bytes: integer\nstderr_bytes: integer\n"
     "stdout_truncated: boolean\nstderr_truncated: boolean\ncpu_ms: number\n"
     "peak_memory_bytes: integer\nencoding: utf-8|base64\n"},
    {"Process",
     "session_id: string\nprocess_id: string\nstatus: running|exited\ncommand: string\n"
     "args: [string]\ncwd: string\nenv_keys: [string]\nattached: boolean\nstarted_at: time\n"
     "exited_at: time?\nexit_code: integer?\ncause: string?\nstderr_preview: string\n"
     "stdout_bytes: integer\nstderr_bytes: integer\n"},
    {"ProcessList", "processes: [#Process]\n"},
    {"Deleted", "deleted: string\n"},
    {"Stopped", "stopped: string\n"},
    {"Signalled", "signalled: string\n"},
    {"FileEntry", "name: string\ntype: file|directory|symlink|other\nsize: integer\nmode: "
                  "string\nmtime: time\n"},
    /* Of ?list and of ?stat. */
    {"FileAnswer", "path: string\nentries?: [#FileEntry]\ntruncated?: boolean\n"
                   "type?: file|directory|symlink|other\nsize?: integer\nmode?: string\n"
                   "mtime?: time\n"},
    {"FileWritten", "path: string\nsize: integer\n"},
    {"FileMade", "path: string\n"},
    {"FileMoved", "path: string\nto: string\n"},
    {"Skill", SKILL_FIELDS},
    {"SkillAnswer", "skill: #Skill\n"},
    {"SkillFound", SKILL_FIELDS "source_path?: string\n"},
    {"SkillList", "skills: [#SkillFound]\n"},
    {"SkillName", "name: string\n"},
    {"SkillFile", "path: string\nname: string\nis_dir: boolean\nsize: integer?\n"},
    {"SkillFiles", "skill: #SkillName\nbase_path: string\nentries: [#SkillFile]\n"
                   "truncated: boolean\n"},
    {"SkillFileWritten", "skill: #SkillName\npath: string\nbytes_written: integer\n"},
    {"SkillFileDeleted", "skill: #SkillName\ndeleted: string\n"},
    {"SkillProblem", "severity: error|warning\nline: integer?\nproblem: string\nfix: string?\n"},
    {"SkillForm", "file: string\nfilename?: string\nsource_path?: [string]\n"
                  "source_subdir?: string\ntarget_suffix?: string\n"},
    {"SkillProblems", "skill: #SkillName\nproblems: [#SkillProblem]\n"},
    {"Backend", "name: string\navailable: boolean\nreason?: string\n"},
    {"Limits", "max_sessions: integer\nmax_managed_processes: integer\n"
               "max_completed_processes: integer\ncompleted_process_retention_sec: integer\n"
               "output_bytes: integer\nsession_log_bytes: integer\nbody_bytes: integer\n"
               "default_timeout_sec: number\nmax_timeout_sec: number?\n"
               "skills_quota_bytes: integer\nskills_quota: string?\n"},
    {"Status", "version: string\nbackend: #Backend\nactive_sessions: integer\n"
               "managed_processes: integer\nrunning_commands: integer\nsession_ttl_sec: number\n"
               "uptime_sec: integer\nlimits: #Limits\npid: integer\n"},
    {"Capabilities", "version: string\nbackend: string\nbackends: object\n"},
    {"Resources", "sessions: integer\nmanaged_processes: integer\nrpc_connections: integer\n"
                  "rpc_requests: integer\nopen_fds: integer\nrss_bytes: integer\n"},
    {"Health", "live: boolean\nresources: #Resources\n"},
    {"Check", "ok: boolean\nreason?: string\n"},
    {"Readiness", "ready: boolean\nmode: string\nchecks: {#Check}\nresources: #Resources\n"},
    {"Document", "openapi: string\ninfo: object\nsecurity: [object]\npaths: object\n"
                 "components: object\n"},
    {"ErrorDetail", "code: #ErrorCode\nmessage: string\nhint?: string\n"},
    {"Error", "error: #ErrorDetail\n"},
};

static void out_value(struct json_out *out, const char *key, const char *type, size_t size);

static void out_choice(struct json_out *out, const char *type, size_t size)
{
    out_text(out, "type", "string");
    out_open(out, "enum", '[');
    while (size > 0) {
        const char *bar = memchr(type, '|', size);
        size_t length = bar ? (size_t)(bar - type) : size;
        out_bytes(out, NULL, type, length);
        type += length + (bar != NULL);
        size -= length + (bar != NULL);
    }
    out_close(out, ']');
}

/* What stands inside the schema of a type. */
static void out_inside(struct json_out *out, const char *type, size_t size)
{
    if (type[0] == '[') {
        out_text(out, "type", "array");
        out_value(out, "items", type + 1, size - 2);
    } else if (type[0] == '{') {
        out_text(out, "type", "object");
        out_value(out, "additionalProperties", type + 1, size - 2);
    } else if (type[0] == '#') {
        cleanup_free char *ref = xasprintf("#/components/schemas/%.*s", (int)size - 1, type + 1);
        out_text(out, "$ref", ref);
    } else if (memchr(type, '|', size)) {
        out_choice(out, type, size);
    } else if (size == 4 && memcmp(type, "time", 4) == 0) {
        out_text(out, "type", "string");
        out_text(out, "format", "date-time");
    } else {
        out_bytes(out, "type", type, size);
    }
}

static void out_value(struct json_out *out, const char *key, const char *type, size_t size)
{
    bool nullable = size > 0 && type[size - 1] == '?';
    out_open(out, key, '{');
    out_inside(out, type, size - nullable);
    if (nullable)
        out_flag(out, "nullable", true);
    out_close(out, '}');
}

static void out_schema(struct json_out *out, const struct schema *schema)
{
    out_open(out, schema->name, '{');
    out_text(out, "type", "object");
    out_open(out, "properties", '{');
    for (const char *line = schema->fields; *line; line = strchr(line, '\n') + 1) {
        const char *colon = strchr(line, ':');
        cleanup_free char *name = xstrndup(line, (size_t)(colon - line) - (colon[-1] == '?'));
        out_value(out, name, colon + 2, strcspn(colon + 2, "\n"));
    }
    out_close(out, '}');
    out_open(out, "required", '[');
    for (const char *line = schema->fields; *line; line = strchr(line, '\n') + 1) {
        size_t size = strcspn(line, ":");
        if (line[size - 1] != '?')
            out_bytes(out, NULL, line, size);
    }
    out_close(out, ']');
    out_close(out, '}');
}

static void out_error_codes(struct json_out *out)
{
    out_open(out, "ErrorCode", '{');
    out_text(out, "type", "string");
    out_open(out, "enum", '[');
    for (int i = 0; i < WIRE_CLASS_MAX; i++)
        out_text(out, NULL, wire_class_name((enum wire_class)i));
    out_close(out, ']');
    out_close(out, '}');
}

void openapi_schemas(struct json_out *out, const struct route *routes, size_t count)
{
    out_open(out, "schemas", '{');
    for (size_t i = 0; i < count; i++)
        if (routes[i].body)
            out_request(out, routes[i].body);
    out_request(out, &body_session_nested);
    for (size_t i = 0; i < ARRAY_SIZE(schemas); i++)
        out_schema(out, &schemas[i]);
    out_error_codes(out);
    out_close(out, '}');
}
