/* SPDX-License-Identifier: Apache-2.0 */
/* The skill store behind a pipe, for tests that compare it with another: a JSON object a line in,
   {"ok": result} or {"error": code, "message": sentence} a line out.

   usage: skill-verdict ROOT [BYTES ENTRIES]

     {"op": "create", "tenant": "ws-1", "name": …, "description": …}

   Archives are named by path. `tenant` may be left out. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/fd.h"
#include "core/json.h"
#include "core/json-out.h"
#include "skills/front.h"
#include "skills/skills.h"

struct call {
    const json_t *args;
    struct skill_scope *scope;
    struct json_out *out;
};

static struct skill_room limit = {UINT64_MAX, UINT64_MAX};

static void allowance(void *data, const char *tenant, struct skill_room *ret)
{
    (void)data;
    (void)tenant;
    *ret = limit;
}

static const char *text_arg(const struct call *call, const char *key)
{
    return json_string_value(json_object_get(call->args, key));
}

static const char *name_arg(const struct call *call)
{
    const char *name = text_arg(call, "name");
    return name ? name : "";
}

static void put_skill(struct json_out *out, const struct skill *skill)
{
    out_open(out, NULL, '{');
    out_text(out, "name", skill->name);
    out_text(out, "display_name", skill->display_name);
    out_text(out, "description", skill->description);
    out_bytes(out, "instructions", skill->instructions, skill->instructions_size);
    out_text(out, "package_root", skill->package_root);
    out_text(out, "entry_file", skill->entry_file);
    out_flag(out, "python_project", skill->python_project);
    out_text(out, "created_at", skill->created_at);
    out_text(out, "updated_at", skill->updated_at);
    if (skill->source_path)
        out_text(out, "source_path", skill->source_path);
    out_close(out, '}');
}

static int give_skill(struct call *call, int rc, const struct skill *skill)
{
    if (rc == 0) {
        put_skill(call->out, skill);
        skill_unref(skill);
    }
    return rc;
}

static int give_list(struct call *call, int rc, struct skill_list *list)
{
    if (rc < 0)
        return rc;
    out_open(call->out, NULL, '[');
    for (size_t i = 0; i < list->count; i++)
        put_skill(call->out, list->items[i]);
    out_close(call->out, ']');
    skill_list_release(list);
    return 0;
}

static struct skill_edit edit_of(const struct call *call)
{
    return (struct skill_edit){.name = text_arg(call, "name"),
                               .display_name = text_arg(call, "display_name"),
                               .description = text_arg(call, "description"),
                               .instructions = text_arg(call, "instructions"),
                               .package_root = text_arg(call, "package_root")};
}

static int do_list(struct call *call, struct error *err)
{
    struct skill_list list = {NULL, 0};
    int rc = skill_list(call->scope, &list, err);
    return give_list(call, rc, &list);
}

static int do_get(struct call *call, struct error *err)
{
    const struct skill *skill = NULL;
    int rc = skill_get(call->scope, name_arg(call), &skill, err);
    return give_skill(call, rc, skill);
}

static int do_create(struct call *call, struct error *err)
{
    const struct skill *skill = NULL;
    struct skill_edit edit = edit_of(call);
    int rc = skill_create(call->scope, &edit, &skill, err);
    return give_skill(call, rc, skill);
}

/* The new name, if there is one, is `rename`. */
static int do_update(struct call *call, struct error *err)
{
    const struct skill *skill = NULL;
    struct skill_edit edit = edit_of(call);
    edit.name = text_arg(call, "rename");
    int rc = skill_update(call->scope, name_arg(call), &edit, &skill, err);
    return give_skill(call, rc, skill);
}

static int do_delete(struct call *call, struct error *err)
{
    int rc = skill_delete(call->scope, name_arg(call), err);
    if (rc == 0)
        out_null(call->out, NULL);
    return rc;
}

static int do_scan(struct call *call, struct error *err)
{
    const struct skill *skill = NULL;
    const char *path = text_arg(call, "path");
    int rc = skill_scan(call->scope, path ? path : "", &skill, err);
    return give_skill(call, rc, skill);
}

static int do_files(struct call *call, struct error *err)
{
    struct skill_files files;
    const json_t *max = json_object_get(call->args, "max_entries");
    bool hidden = json_is_true(json_object_get(call->args, "include_hidden"));
    size_t count = max ? (size_t)json_integer_value(max) : 200;
    if (skill_files_list(call->scope, name_arg(call), text_arg(call, "path"), hidden, count, &files,
                         err) < 0)
        return -1;
    out_open(call->out, NULL, '{');
    out_text(call->out, "base_path", files.base_path);
    out_open(call->out, "entries", '[');
    for (size_t i = 0; i < files.count; i++) {
        out_open(call->out, NULL, '{');
        out_text(call->out, "path", files.items[i].path);
        out_text(call->out, "name", files.items[i].name);
        out_flag(call->out, "is_dir", files.items[i].is_dir);
        if (files.items[i].is_dir)
            out_null(call->out, "size");
        else
            out_unsigned(call->out, "size", files.items[i].size);
        out_close(call->out, '}');
    }
    out_close(call->out, ']');
    out_flag(call->out, "truncated", files.truncated);
    out_close(call->out, '}');
    skill_files_release(&files);
    return 0;
}

static int do_read(struct call *call, struct error *err)
{
    struct skill_text text;
    if (skill_file_read(call->scope, name_arg(call), text_arg(call, "path"), &text, err) < 0)
        return -1;
    out_open(call->out, NULL, '{');
    out_text(call->out, "path", text.path);
    out_bytes(call->out, "content", text.data, text.size);
    out_close(call->out, '}');
    skill_text_release(&text);
    return 0;
}

static int do_write(struct call *call, struct error *err)
{
    cleanup_free char *path = NULL;
    const char *content = text_arg(call, "content");
    size_t size = content ? strlen(content) : 0;
    if (skill_file_write(call->scope, name_arg(call), text_arg(call, "path"), content, size, NULL,
                         &path, err) < 0)
        return -1;
    out_open(call->out, NULL, '{');
    out_text(call->out, "path", path);
    out_unsigned(call->out, "bytes_written", size);
    out_close(call->out, '}');
    return 0;
}

static int do_remove(struct call *call, struct error *err)
{
    int rc = skill_file_remove(call->scope, name_arg(call), text_arg(call, "path"), NULL, err);
    if (rc == 0)
        out_null(call->out, NULL);
    return rc;
}

typedef int archive_call(struct skill_scope *scope, const struct skill_archive *archive,
                         struct skill_list *ret, struct error *err);

static int with_archive(struct call *call, archive_call *function, struct error *err)
{
    struct skill_list list = {NULL, 0};
    const char *paths[64];
    const json_t *given = json_object_get(call->args, "source_paths");
    const char *archive_path = text_arg(call, "archive");
    cleanup_close int fd = open(archive_path ? archive_path : "", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return error_errno(err, errno, "cannot open the archive");
    struct skill_archive archive = {.fd = fd,
                                    .filename = text_arg(call, "filename"),
                                    .source_subdir = text_arg(call, "source_subdir"),
                                    .target_suffix = text_arg(call, "target_suffix"),
                                    .source_paths = paths};
    for (size_t i = 0; i < json_array_size(given) && i < ARRAY_SIZE(paths); i++)
        paths[archive.source_path_count++] = json_string_value(json_array_get(given, i));
    int rc = function(call->scope, &archive, &list, err);
    return give_list(call, rc, &list);
}

static int do_preview(struct call *call, struct error *err)
{
    return with_archive(call, skill_zip_preview, err);
}

static int do_install(struct call *call, struct error *err)
{
    return with_archive(call, skill_zip_install, err);
}

static int do_export(struct call *call, struct error *err)
{
    const char *path = text_arg(call, "archive");
    cleanup_close int fd = open(path ? path : "", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0)
        return error_errno(err, errno, "cannot create the archive");
    if (skill_zip_export(call->scope, name_arg(call), fd, err) < 0)
        return -1;
    out_null(call->out, NULL);
    return 0;
}

static int do_resolve(struct call *call, struct error *err)
{
    cleanup_free char *path = NULL;
    if (skill_resolve(call->scope, name_arg(call), &path, err) < 0)
        return -1;
    out_text(call->out, NULL, path);
    return 0;
}

static int do_validate(struct call *call, struct error *err)
{
    struct skill_problems problems;
    if (skill_validate(call->scope, name_arg(call), &problems, err) < 0)
        return -1;
    out_open(call->out, NULL, '[');
    for (size_t i = 0; i < problems.count; i++) {
        out_open(call->out, NULL, '{');
        out_flag(call->out, "error", problems.items[i].severity == SKILL_ERROR);
        out_unsigned(call->out, "line", problems.items[i].line);
        out_text(call->out, "what", problems.items[i].what);
        out_text(call->out, "fix", problems.items[i].fix);
        out_close(call->out, '}');
    }
    out_close(call->out, ']');
    skill_problems_release(&problems);
    return 0;
}

/* What a SKILL.md says, without a store. */
static int do_front(struct call *call, struct error *err)
{
    cleanup_front struct front front = {.meta = NULL};
    const char *text = text_arg(call, "text");
    size_t size = text ? strlen(text) : 0;
    if (front_read(text, size, "directory", &front, err) < 0)
        return -1;
    size_t from = front.parts.present ? front.parts.instructions : 0;
    out_open(call->out, NULL, '{');
    out_text(call->out, "name", front.name);
    out_text(call->out, "display_name", front.display_name);
    out_text(call->out, "description", front.description);
    out_bytes(call->out, "instructions", text + from, size - from);
    out_close(call->out, '}');
    return 0;
}

static const struct {
    const char *name;
    int (*run)(struct call *call, struct error *err);
} ops[] = {
    {"list", do_list},     {"get", do_get},         {"create", do_create},
    {"update", do_update}, {"delete", do_delete},   {"scan", do_scan},
    {"files", do_files},   {"read", do_read},       {"write", do_write},
    {"remove", do_remove}, {"preview", do_preview}, {"install", do_install},
    {"export", do_export}, {"resolve", do_resolve}, {"validate", do_validate},
    {"front", do_front},
};

static int run(struct skill_store *store, const json_t *args, struct json_out *out,
               struct error *err)
{
    struct call call = {.args = args, .out = out};
    const char *op = text_arg(&call, "op");
    cleanup_scope struct skill_scope *scope =
        skill_scope_get(store, text_arg(&call, "tenant"), err);
    if (!scope)
        return -1;
    call.scope = scope;
    for (size_t i = 0; op && i < ARRAY_SIZE(ops); i++) {
        if (strcmp(op, ops[i].name) == 0)
            return ops[i].run(&call, err);
    }
    return error_set(err, ERROR_INVALID, "there is no such op");
}

static void answer(struct skill_store *store, const char *line, size_t size)
{
    cleanup_json json_t *args = json_loadb(line, size, 0, NULL);
    cleanup_json_out struct json_out result = JSON_OUT_INIT;
    cleanup_json_out struct json_out out = JSON_OUT_INIT;
    struct error err = ERROR_INIT;
    if (args && run(store, args, &result, &err) == 0) {
        printf("{\"ok\":%.*s}\n", (int)result.buf.size, result.buf.data);
    } else {
        out_open(&out, NULL, '{');
        out_text(&out, "error", args ? error_code_name(err.code) : "json");
        out_text(&out, "message", err.message);
        out_close(&out, '}');
        printf("%.*s\n", (int)out.buf.size, out.buf.data);
    }
    fflush(stdout);
}

int main(int argc, char **argv)
{
    struct error err = ERROR_INIT;
    struct skill_store_options options = {.root = argc > 1 ? argv[1] : "", .allowance = allowance};
    if (argc > 3) {
        limit.bytes = strtoull(argv[2], NULL, 10);
        limit.entries = strtoull(argv[3], NULL, 10);
    }
    struct skill_store *store = skill_store_open(&options, &err);
    if (!store) {
        fprintf(stderr, "skill-verdict: %s\n", err.message);
        return 1;
    }
    char *line = NULL;
    size_t room = 0;
    for (ssize_t n; (n = getline(&line, &room, stdin)) > 0;)
        answer(store, line, (size_t)n);
    free(line);
    skill_store_close(store);
    return 0;
}
