/* SPDX-License-Identifier: Apache-2.0 */
/* What can be asked of the skill store, and the answers as JSON. Runs in the thread pool. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/skills.h"
#include "core/fd.h"

#define ENTRIES_DEFAULT 200

/* What a verb works with. */
struct turn {
    struct skill_scope *scope;
    const struct skill_ask *ask;
    const char *scratch_dir;
    struct skill_answer *ret;
};

/* --- answers --- */

static void out_skill(struct json_out *out, const char *key, const struct skill *skill)
{
    out_open(out, key, '{');
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

static void answer_skill(struct turn *turn, const struct skill *skill)
{
    struct json_out *out = &turn->ret->out;
    out_open(out, NULL, '{');
    out_skill(out, "skill", skill);
    out_close(out, '}');
    skill_unref(skill);
}

static void answer_skills(struct turn *turn, const struct skill_list *list)
{
    struct json_out *out = &turn->ret->out;
    out_open(out, NULL, '{');
    out_open(out, "skills", '[');
    for (size_t i = 0; i < list->count; i++)
        out_skill(out, NULL, list->items[i]);
    out_close(out, ']');
    out_close(out, '}');
}

/* {"skill":{"name":…}, …, to be gone on with and closed. */
static struct json_out *open_about(struct turn *turn)
{
    struct json_out *out = &turn->ret->out;
    out_open(out, NULL, '{');
    out_open(out, "skill", '{');
    out_text(out, "name", turn->ask->name);
    out_close(out, '}');
    return out;
}

/* --- skills --- */

static int list(struct turn *turn, struct error *err)
{
    cleanup_skills struct skill_list found = {0};
    if (skill_list(turn->scope, &found, err) < 0)
        return -1;
    answer_skills(turn, &found);
    return 0;
}

static int get(struct turn *turn, struct error *err)
{
    const struct skill *skill;
    if (skill_get(turn->scope, turn->ask->name, &skill, err) == 0) {
        answer_skill(turn, skill);
        return 0;
    }
    if (!err || err->code != ERROR_NOT_FOUND || !turn->ask->absent_is_null)
        return -1;
    out_open(&turn->ret->out, NULL, '{');
    out_null(&turn->ret->out, "skill");
    out_close(&turn->ret->out, '}');
    return 0;
}

static struct skill_edit edit_of(const struct skill_ask *ask)
{
    return (struct skill_edit){.name = ask->name,
                               .display_name = ask->display_name,
                               .description = ask->description,
                               .instructions = ask->instructions,
                               .package_root = ask->package_root};
}

static int create(struct turn *turn, struct error *err)
{
    const struct skill *skill;
    cleanup_free char *source = NULL;
    struct skill_edit edit = edit_of(turn->ask);
    if (edit.package_root && skill_source_find(turn->ask, edit.package_root, &source, err) < 0)
        return -1;
    edit.package_root = source;
    if (skill_create(turn->scope, &edit, &skill, err) < 0)
        return -1;
    answer_skill(turn, skill);
    return 0;
}

/* The name that the fields may repeat is in `path`, for `name` is the one that is asked for. */
static int update(struct turn *turn, struct error *err)
{
    const struct skill *skill;
    struct skill_edit edit = edit_of(turn->ask);
    edit.name = turn->ask->path;
    if (skill_update(turn->scope, turn->ask->name, &edit, &skill, err) < 0)
        return -1;
    answer_skill(turn, skill);
    return 0;
}

static int delete (struct turn *turn, struct error *err)
{
    if (skill_delete(turn->scope, turn->ask->name, err) < 0)
        return -1;
    out_open(&turn->ret->out, NULL, '{');
    out_text(&turn->ret->out, "deleted", turn->ask->name);
    out_close(&turn->ret->out, '}');
    return 0;
}

static int scan(struct turn *turn, struct error *err)
{
    const struct skill *skill;
    cleanup_free char *source = NULL;
    if (skill_source_find(turn->ask, turn->ask->path, &source, err) < 0 ||
        skill_scan(turn->scope, source, &skill, err) < 0)
        return -1;
    out_skill(&turn->ret->out, NULL, skill);
    skill_unref(skill);
    return 0;
}

/* --- files --- */

static int files(struct turn *turn, struct error *err)
{
    const struct skill_ask *ask = turn->ask;
    struct skill_files found;
    if (skill_files_list(turn->scope, ask->name, ask->path ? ask->path : ".", ask->include_hidden,
                         ask->max_entries ? ask->max_entries : ENTRIES_DEFAULT, &found, err) < 0)
        return -1;
    struct json_out *out = open_about(turn);
    out_text(out, "base_path", found.base_path);
    out_open(out, "entries", '[');
    for (size_t i = 0; i < found.count; i++) {
        const struct skill_file *file = &found.items[i];
        out_open(out, NULL, '{');
        out_text(out, "path", file->path);
        out_text(out, "name", file->name);
        out_flag(out, "is_dir", file->is_dir);
        if (file->is_dir)
            out_null(out, "size");
        else
            out_unsigned(out, "size", file->size);
        out_close(out, '}');
    }
    out_close(out, ']');
    out_flag(out, "truncated", found.truncated);
    out_close(out, '}');
    skill_files_release(&found);
    return 0;
}

static int read_text(struct turn *turn, struct error *err)
{
    struct skill_text text;
    if (skill_file_read(turn->scope, turn->ask->name, turn->ask->path, &text, err) < 0)
        return -1;
    struct json_out *out = open_about(turn);
    out_text(out, "path", text.path);
    out_bytes(out, "content", text.data, text.size);
    out_close(out, '}');
    skill_text_release(&text);
    return 0;
}

/* A file that PUT takes is held, so that its tag is that of the bytes that are sent, whatever a
   session does to it meanwhile. */
static int open_file(struct turn *turn, struct error *err)
{
    struct error why = ERROR_INIT;
    struct skill_text text;
    if (skill_file_load(turn->scope, turn->ask->name, turn->ask->path, &text, &why) == 0) {
        etag_make(text.data, text.size, turn->ret->etag);
        turn->ret->size = text.size;
        turn->ret->bytes = steal_ptr(text.data);
        skill_text_release(&text);
        return 0;
    }
    if (why.code != ERROR_LIMIT) {
        if (err)
            *err = why;
        return -1;
    }
    return skill_file_open(turn->scope, turn->ask->name, turn->ask->path, &turn->ret->fd,
                           &turn->ret->size, err);
}

static int write_text(struct turn *turn, struct error *err)
{
    const struct skill_ask *ask = turn->ask;
    cleanup_free char *path = NULL;
    const char *content = ask->content ? ask->content : "";
    if (skill_file_write(turn->scope, ask->name, ask->path, content, ask->content_size,
                         &ask->condition, &path, err) < 0)
        return -1;
    etag_make(content, ask->content_size, turn->ret->etag);
    struct json_out *out = open_about(turn);
    out_text(out, "path", path);
    out_unsigned(out, "bytes_written", ask->content_size);
    out_close(out, '}');
    return 0;
}

static int remove_file(struct turn *turn, struct error *err)
{
    if (skill_file_remove(turn->scope, turn->ask->name, turn->ask->path, &turn->ask->condition,
                          err) < 0)
        return -1;
    struct json_out *out = open_about(turn);
    out_text(out, "deleted", turn->ask->path);
    out_close(out, '}');
    return 0;
}

/* --- archives --- */

static int with_archive(struct turn *turn,
                        int (*work)(struct skill_scope *scope, const struct skill_archive *archive,
                                    struct skill_list *ret, struct error *err),
                        struct error *err)
{
    const struct skill_ask *ask = turn->ask;
    cleanup_skills struct skill_list found = {0};
    struct skill_archive archive = {
        .data = ask->archive < 0 ? ask->content : NULL,
        .size = ask->content_size,
        .fd = ask->archive,
        .filename = ask->filename ? ask->filename : "skill.zip",
        .source_subdir = ask->source_subdir,
        .target_suffix = ask->target_suffix,
        .source_paths = (const char *const *)ask->source_paths.items,
        .source_path_count = ask->source_paths.count,
    };
    if (work(turn->scope, &archive, &found, err) < 0)
        return -1;
    answer_skills(turn, &found);
    return 0;
}

static int preview(struct turn *turn, struct error *err)
{
    return with_archive(turn, skill_zip_preview, err);
}

static int install(struct turn *turn, struct error *err)
{
    return with_archive(turn, skill_zip_install, err);
}

static int export(struct turn *turn, struct error *err)
{
    struct stat st;
    cleanup_close int fd = open(turn->scratch_dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0)
        return error_errno(err, errno, "cannot make a file for the archive");
    if (skill_zip_export(turn->scope, turn->ask->name, fd, err) < 0)
        return -1;
    if (fstat(fd, &st) < 0 || lseek(fd, 0, SEEK_SET) < 0)
        return error_errno(err, errno, "cannot read the archive");
    turn->ret->size = (uint64_t)st.st_size;
    turn->ret->fd = steal_fd(&fd);
    return 0;
}

/* --- more --- */

static int validate(struct turn *turn, struct error *err)
{
    struct skill_problems found = {0};
    if (skill_validate(turn->scope, turn->ask->name, &found, err) < 0)
        return -1;
    struct json_out *out = open_about(turn);
    out_open(out, "problems", '[');
    for (size_t i = 0; i < found.count; i++) {
        const struct skill_problem *problem = &found.items[i];
        out_open(out, NULL, '{');
        out_text(out, "severity", problem->severity == SKILL_ERROR ? "error" : "warning");
        if (problem->line)
            out_unsigned(out, "line", problem->line);
        else
            out_null(out, "line");
        out_text(out, "problem", problem->what);
        out_text(out, "fix", problem->fix);
        out_close(out, '}');
    }
    out_close(out, ']');
    out_close(out, '}');
    skill_problems_release(&found);
    return 0;
}

static int resolve(struct turn *turn, struct error *err)
{
    const struct strings *names = &turn->ask->names;
    for (size_t i = 0; i < names->count; i++) {
        char *path;
        struct error gone = ERROR_INIT;
        if (skill_resolve(turn->scope, names->items[i], &path, &gone) == 0) {
            strings_add(&turn->ret->names, names->items[i]);
            strings_take(&turn->ret->paths, path);
        } else if (gone.code == ERROR_NOT_FOUND && turn->ask->skip_missing) {
            strings_take(
                &turn->ret->warnings,
                xasprintf("skill '%s' is not mounted: it is not there any more", names->items[i]));
        } else {
            if (err)
                *err = gone;
            return error_wrap(err, "skills");
        }
    }
    return 0;
}

static int (*const verbs[SKILL_VERB_MAX])(struct turn *turn, struct error *err) = {
    [SKILL_VERB_LIST] = list,          [SKILL_VERB_GET] = get,
    [SKILL_VERB_CREATE] = create,      [SKILL_VERB_UPDATE] = update,
    [SKILL_VERB_DELETE] = delete,      [SKILL_VERB_SCAN] = scan,
    [SKILL_VERB_FILES] = files,        [SKILL_VERB_READ] = read_text,
    [SKILL_VERB_OPEN] = open_file,     [SKILL_VERB_WRITE] = write_text,
    [SKILL_VERB_REMOVE] = remove_file, [SKILL_VERB_PREVIEW] = preview,
    [SKILL_VERB_INSTALL] = install,    [SKILL_VERB_EXPORT] = export,
    [SKILL_VERB_VALIDATE] = validate,  [SKILL_VERB_RESOLVE] = resolve,
};

int skill_run(struct skill_store *store, const struct skill_ask *ask, const char *scratch_dir,
              struct skill_answer *ret, struct error *err)
{
    cleanup_scope struct skill_scope *scope = skill_scope_get(store, ask->tenant, err);
    if (!scope)
        return -1;
    struct turn turn = {.scope = scope, .ask = ask, .scratch_dir = scratch_dir, .ret = ret};
    return verbs[ask->verb](&turn, err);
}
