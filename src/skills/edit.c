/* SPDX-License-Identifier: Apache-2.0 */
/* Skills made, changed and deleted. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/fd.h"
#include "core/utf8.h"
#include "skills/beneath.h"
#include "skills/front.h"
#include "skills/store.h"
#include "skills/text.h"

static bool is_blank(const char *text)
{
    size_t size = text ? strlen(text) : 0;
    if (size > 0)
        text_strip(&text, &size);
    return size == 0;
}

static int check_edit(const struct skill_edit *edit, struct error *err)
{
    const char *texts[] = {edit->name, edit->display_name, edit->description, edit->instructions,
                           edit->package_root};
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        if (texts[i] && !utf8_valid(texts[i], strlen(texts[i])))
            return error_set(err, ERROR_INVALID, "a field of the skill is not UTF-8");
    }
    return 0;
}

/* SKILL.md of the package `dir` rewritten. What it says now is read from `entry_file`, which may be
   "skill.md"; NULL: nothing. */
static int write_entry(struct write_op *op, int dir, const char *entry_file,
                       const struct front_edit *edit, struct error *err)
{
    cleanup_free char *old = NULL;
    cleanup_free char *text = NULL;
    size_t old_size = 0;
    size_t size = 0;
    int rc = 0;
    if (entry_file)
        rc = beneath_read(dir, entry_file, SKILL_TEXT_MAX, NULL, &old, &old_size);
    if (rc < 0)
        return error_errno(err, -rc, "cannot read %s", entry_file);
    if (front_write(old, old_size, edit, &text, &size, err) < 0)
        return -1;
    if (size > old_size && budget_take(&op->budget, size - old_size, entry_file ? 0 : 1, err) < 0)
        return -1;
    return stage_write(&op->stage, dir, ENTRY_FILE, text, size, 0644, err);
}

/* --- create --- */

struct creation {
    struct write_op op;
    char *name;
    const struct skill_edit *edit;
};

/* What is asked for, where it says nothing what the package says, else nothing. */
static struct front_edit creation_fields(const struct creation *creation,
                                         const struct skill *package)
{
    const struct skill_edit *edit = creation->edit;
    struct front_edit fields = {.name = creation->name,
                                .display_name = edit->display_name,
                                .description = edit->description,
                                .instructions = edit->instructions ? edit->instructions : ""};
    if (!package)
        return fields;
    if (is_blank(edit->display_name))
        fields.display_name = package->display_name;
    if (is_blank(edit->description))
        fields.description = package->description;
    if (is_blank(edit->instructions))
        fields.instructions = NULL;
    return fields;
}

static int publish_one(struct write_op *op, const char *target, struct error *err)
{
    cleanup_strings struct strings targets = {0};
    strings_add(&targets, target);
    return write_publish(op, &targets, err);
}

static int make_staged(struct write_op *op, struct error *err)
{
    if (budget_take(&op->budget, 0, 1, err) < 0)
        return -1;
    if (mkdirat(op->stage.dir, "0", 0755) < 0)
        return error_errno(err, errno, "cannot make a skill's directory");
    int dir = openat(op->stage.dir, "0", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return dir < 0 ? error_errno(err, errno, "cannot open a skill's directory") : dir;
}

/* A directory of that name may be there, but nobody's skill may be in it: it would be overwritten,
   or hidden. */
static int create_new(struct creation *creation, struct error *err)
{
    struct write_op *op = &creation->op;
    struct front_edit fields = creation_fields(creation, NULL);
    cleanup_close int there = beneath_open_plain(op->root, creation->name, O_RDONLY | O_DIRECTORY);
    if (there >= 0) {
        cleanup_found struct found_list found = {.items = NULL};
        if (packages_discover(there, DISCOVERY_DEPTH - 1, 0, &found, err) < 0)
            return -1;
        if (found.count > 0)
            return error_set(err, ERROR_EXISTS, "the directory '%s' holds another skill already",
                             creation->name);
        return write_entry(op, there, NULL, &fields, err);
    }
    cleanup_close int dir = make_staged(op, err);
    if (dir < 0 || write_entry(op, dir, NULL, &fields, err) < 0)
        return -1;
    return publish_one(op, creation->name, err);
}

static int create_copy(struct creation *creation, const struct host_path *from, struct error *err)
{
    struct write_op *op = &creation->op;
    struct package *package = NULL;
    cleanup_close int dir = make_staged(op, err);
    if (dir < 0 || tree_copy(from->dir, dir, &op->budget, err) < 0)
        return error_wrap(err, "cannot copy the package");
    const char *entry_file = package_entry(dir);
    if (!entry_file)
        return error_set(err, ERROR_NOT_FOUND, "there is no SKILL.md in %.200s", from->path);
    /* Without a name of its own it is called like the directory it comes to be in. */
    cleanup_free char *target = xasprintf("%s/%s", op->scope->path, creation->name);
    if (package_load(dir, target, "", entry_file, &package, err) < 0)
        return -1;
    struct front_edit fields = creation_fields(creation, &package->skill);
    int rc = write_entry(op, dir, entry_file, &fields, err);
    package_unref(package);
    if (rc < 0)
        return -1;
    if (syncfs(dir) < 0)
        return error_errno(err, errno, "cannot write the package to the disk");
    return publish_one(op, creation->name, err);
}

/* Whether searches get there: not too deep, and not inside another package. */
static int check_reachable(struct write_op *op, const char *below, struct error *err)
{
    unsigned depth = 1;
    for (const char *slash = strchr(below, '/'); slash; slash = strchr(slash + 1, '/'), depth++) {
        cleanup_free char *above = xstrndup(below, (size_t)(slash - below));
        cleanup_close int dir = beneath_open_plain(op->root, above, O_RDONLY | O_DIRECTORY);
        if (dir >= 0 && package_entry(dir))
            return error_set(err, ERROR_INVALID, "the package lies inside another, '%.200s'",
                             above);
    }
    if (depth > DISCOVERY_DEPTH)
        return error_set(err, ERROR_INVALID, "the package lies more than %d levels deep",
                         DISCOVERY_DEPTH);
    return 0;
}

static int adopt(struct creation *creation, const struct host_path *from, struct error *err)
{
    struct write_op *op = &creation->op;
    struct package *package = NULL;
    const char *entry_file = package_entry(from->dir);
    if (!entry_file)
        return error_set(err, ERROR_NOT_FOUND, "there is no SKILL.md in %.200s", from->path);
    if (check_reachable(op, from->below, err) < 0 ||
        package_load(from->dir, from->path, "", entry_file, &package, err) < 0)
        return -1;
    struct front_edit fields = creation_fields(creation, &package->skill);
    int rc = write_entry(op, from->dir, entry_file, &fields, err);
    package_unref(package);
    return rc;
}

static int create_from(struct creation *creation, struct error *err)
{
    cleanup_host_path struct host_path from = HOST_PATH_INIT;
    if (scope_host_path(creation->op.scope, creation->op.root, creation->edit->package_root, &from,
                        err) < 0)
        return -1;
    if (from.below && !*from.below)
        return error_set(err, ERROR_INVALID, "the skill store's own directory is no package");
    if (from.below)
        return adopt(creation, &from, err);
    if (write_check_count(&creation->op, 1, err) < 0)
        return -1;
    return create_copy(creation, &from, err);
}

static int create(struct creation *creation, const struct skill **ret, struct error *err)
{
    struct write_op *op = &creation->op;
    if (index_check_whole(op->index, err) < 0)
        return -1;
    if (index_find(op->index, creation->name))
        return error_set(err, ERROR_EXISTS, "there is a skill '%s' already", creation->name);
    if (!is_blank(creation->edit->package_root)) {
        if (create_from(creation, err) < 0)
            return -1;
    } else if (write_check_count(op, 1, err) < 0 || create_new(creation, err) < 0) {
        return -1;
    }
    return write_result(op, creation->name, ret, err);
}

int skill_create(struct skill_scope *scope, const struct skill_edit *edit, const struct skill **ret,
                 struct error *err)
{
    cleanup_free char *name = text_stripped(edit->name ? edit->name : "");
    if (check_edit(edit, err) < 0 || text_check_name(name, strlen(name), err) < 0 ||
        scope_check_target(scope, name, err) < 0)
        return -1;
    struct creation creation = {.op = WRITE_OP_INIT, .name = name, .edit = edit};
    if (write_begin(scope, &creation.op, err) < 0)
        return -1;
    int rc = write_stage(&creation.op, err);
    if (rc == 0)
        rc = create(&creation, ret, err);
    write_end(&creation.op);
    return rc;
}

/* --- update --- */

static int check_same(struct write_op *op, const struct package *package,
                      const struct skill_edit *edit, struct error *err)
{
    cleanup_host_path struct host_path host = HOST_PATH_INIT;
    if (!is_blank(edit->name)) {
        cleanup_free char *name = text_stripped(edit->name);
        if (strcmp(name, package->skill.name) != 0)
            return error_set(err, ERROR_INVALID, "a skill cannot be renamed");
    }
    if (is_blank(edit->package_root))
        return 0;
    if (scope_host_path(op->scope, op->root, edit->package_root, &host, NULL) < 0 ||
        strcmp(host.path, package->skill.package_root) != 0) {
        error_set(err, ERROR_INVALID, "a skill cannot be moved to another package");
        return error_hint(err, "delete it, and create it from the other package");
    }
    return 0;
}

static int update(struct write_op *op, const struct package *package, const struct skill_edit *edit,
                  struct error *err)
{
    const struct skill *skill = &package->skill;
    const struct front_edit fields = {
        .name = skill->name,
        .display_name = edit->display_name ? edit->display_name : skill->display_name,
        .description = edit->description ? edit->description : skill->description,
        .instructions = edit->instructions,
    };
    if (check_same(op, package, edit, err) < 0)
        return -1;
    cleanup_close int dir = package_open(op->root, package, err);
    if (dir < 0)
        return -1;
    return write_entry(op, dir, skill->entry_file, &fields, err);
}

int skill_update(struct skill_scope *scope, const char *name, const struct skill_edit *edit,
                 const struct skill **ret, struct error *err)
{
    cleanup_write struct write_op op = WRITE_OP_INIT;
    if (check_edit(edit, err) < 0 || write_begin(scope, &op, err) < 0)
        return -1;
    const struct package *package = index_require(op.index, name, err);
    if (!package)
        return -1;
    if (write_stage(&op, err) < 0 || update(&op, package, edit, err) < 0)
        return -1;
    return write_result(&op, name, ret, err);
}

/* --- delete --- */

/* With more in the store than is searched, the directory that has too much may hold no skill that
   one could name: then it goes by its own name, unless it is known to be another skill. */
static bool may_delete_directory(const struct write_op *op, const char *name)
{
    struct stat st;
    if (op->index->end == SEARCH_WHOLE || scope_check_target(op->scope, name, NULL) < 0)
        return false;
    for (size_t i = 0; i < op->index->count; i++) {
        if (strcmp(op->index->skills[i]->path, name) == 0)
            return false;
    }
    return fstatat(op->root, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

int skill_delete(struct skill_scope *scope, const char *name, struct error *err)
{
    cleanup_write struct write_op op = WRITE_OP_INIT;
    if (write_begin(scope, &op, err) < 0)
        return -1;
    if (!index_find(op.index, name) && may_delete_directory(&op, name))
        return stage_remove(op.root, op.root, name, err);
    const struct package *package = index_require(op.index, name, err);
    if (!package)
        return -1;
    if (!*package->path)
        return error_set(err, ERROR_INVALID, "the skill store's own directory cannot be deleted");
    cleanup_free char *top = xstrndup(package->path, strcspn(package->path, "/"));
    return stage_remove(op.root, op.root, top, err);
}
