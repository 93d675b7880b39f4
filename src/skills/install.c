/* SPDX-License-Identifier: Apache-2.0 */
/* Skills from archives: looked at, and installed. What is chosen is moved from the stage into the
   store by renames, so that nothing is copied twice and nothing is seen before all of it is there.
 */
#include "skills/install.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/fd.h"
#include "skills/beneath.h"
#include "skills/text.h"

static void installation_release(struct installation *installation)
{
    for (size_t i = 0; i < installation->count; i++)
        package_unref(installation->candidates[i]);
    free(installation->candidates);
    free(installation->chosen);
    free(installation->stem);
    free(installation->path);
    fd_clear(&installation->dir);
    write_end(&installation->op);
}
#define cleanup_installation __attribute__((cleanup(installation_release)))

int skill_zip_preview(struct skill_scope *scope, const struct skill_archive *archive,
                      struct skill_list *ret, struct error *err)
{
    cleanup_installation struct installation installation = {
        .op = WRITE_OP_INIT, .archive = archive, .dir = -1};
    if (write_begin(scope, &installation.op, err) < 0 || install_prepare(&installation, err) < 0)
        return -1;
    ret->items = xcalloc(installation.count, sizeof *ret->items);
    ret->count = installation.count;
    for (size_t i = 0; i < installation.count; i++)
        ret->items[i] = &package_ref(installation.candidates[i])->skill;
    return 0;
}

/* --- choosing --- */

static int choose_error(const struct installation *installation, const char *what,
                        struct error *err)
{
    char names[TEXT_LIST_SIZE] = "";
    for (size_t i = 0; i < installation->count; i++) {
        const char *path = installation->candidates[i]->skill.source_path;
        text_list_add(names, *path ? path : ".");
    }
    return error_set(err, ERROR_INVALID, "%s: there are %s", what, names);
}

static bool is_chosen(const struct installation *installation, const struct package *package)
{
    for (size_t i = 0; i < installation->chosen_count; i++) {
        if (installation->chosen[i] == package)
            return true;
    }
    return false;
}

static int choose_one(struct installation *installation, const char *path, struct error *err)
{
    cleanup_free char *clean = text_archive_path(path ? path : "");
    for (size_t i = 0; i < installation->count; i++) {
        const struct package *package = installation->candidates[i];
        if (strcmp(package->skill.source_path, clean) != 0)
            continue;
        if (!is_chosen(installation, package))
            installation->chosen[installation->chosen_count++] = package;
        return 0;
    }
    char shown[TEXT_SHOWN_SIZE];
    cleanup_free char *what =
        xasprintf("the archive has no skill at '%s'", text_shown(clean, shown));
    return choose_error(installation, what, err);
}

static int choose(struct installation *installation, struct error *err)
{
    const struct skill_archive *archive = installation->archive;
    installation->chosen = xcalloc(installation->count, sizeof *installation->chosen);
    for (size_t i = 0; i < archive->source_path_count; i++) {
        if (choose_one(installation, archive->source_paths[i], err) < 0)
            return -1;
    }
    if (installation->chosen_count > 0)
        return 0;
    if (installation->count > 1)
        return choose_error(installation, "the archive has several skills, choose some", err);
    installation->chosen[installation->chosen_count++] = installation->candidates[0];
    return 0;
}

/* --- installing --- */

static const char *target_of(const struct package *package)
{
    return strrchr(package->skill.package_root, '/') + 1;
}

/* Whether it is still a skill under its new name, which is its own if it brought none. */
static int check_staged(struct installation *installation, const struct package *package,
                        const char *staged, struct error *err)
{
    struct package *installed;
    cleanup_close int dir =
        beneath_open_plain(installation->op.stage.dir, staged, O_RDONLY | O_DIRECTORY);
    if (dir < 0)
        return error_errno(err, -dir, "cannot install what was unpacked");
    if (package_load(dir, package->skill.package_root, "", package->skill.entry_file, &installed,
                     err) < 0)
        return -1;
    package_unref(installed);
    return 0;
}

/* Sources do not lie inside each other, because a search does not go into a skill: each can be
   moved by itself. */
static int stage_chosen(struct installation *installation, struct strings *targets,
                        struct error *err)
{
    struct write_op *op = &installation->op;
    for (size_t i = 0; i < installation->chosen_count; i++) {
        const struct package *package = installation->chosen[i];
        const char *source = package->skill.source_path;
        const char *target = target_of(package);
        cleanup_free char *whole = xasprintf("%s/%s", op->scope->path, target);
        /* A suffix with a "/" in it would have moved the end. */
        if (strcmp(whole, package->skill.package_root) != 0 ||
            scope_check_target(op->scope, target, err) < 0)
            return error_set(err, ERROR_INVALID, "the skill's directory cannot be named so");
        for (size_t j = 0; j < targets->count; j++) {
            if (strcmp(targets->items[j], target) == 0)
                return error_set(err, ERROR_INVALID, "two skills would get the directory '%.200s'",
                                 target);
        }
        strings_add(targets, target);
        cleanup_free char *from =
            xasprintf("%s%s%s", installation->path, *source ? "/" : "", source);
        char to[24];
        snprintf(to, sizeof to, "%zu", i);
        if (renameat(op->stage.dir, from, op->stage.dir, to) < 0)
            return error_errno(err, errno, "cannot install what was unpacked");
        if (check_staged(installation, package, to, err) < 0)
            return -1;
    }
    return 0;
}

/* A directory that is there is found when it is to be made; but people know the skill in it by its
   name, which may be another. */
static int check_taken(const struct installation *installation, struct error *err)
{
    const struct index *index = installation->op.index;
    for (size_t i = 0; i < installation->chosen_count; i++) {
        const struct package *package = installation->chosen[i];
        for (size_t j = 0; j < index->count; j++) {
            const struct skill *other = &index->skills[j]->skill;
            if (strcmp(other->package_root, package->skill.package_root) == 0)
                return error_set(err, ERROR_EXISTS,
                                 "there is a skill '%.200s' already, in the directory '%.200s'",
                                 other->name, target_of(package));
        }
    }
    return 0;
}

/* As everybody sees it now: by name, and so it may be an older one of that name. */
static int collect(struct installation *installation, struct skill_list *ret, struct error *err)
{
    struct write_op *op = &installation->op;
    cleanup_index struct index *index = NULL;
    if (scope_index(op->scope, op->root, true, &index, err) < 0)
        return -1;
    ret->items = xcalloc(installation->chosen_count, sizeof *ret->items);
    for (size_t i = 0; i < installation->chosen_count; i++) {
        const struct skill *chosen = &installation->chosen[i]->skill;
        struct package *found = NULL;
        for (size_t j = 0; j < index->count && !found; j++) {
            if (strcmp(index->skills[j]->skill.package_root, chosen->package_root) == 0)
                found = index_find(index, index->skills[j]->skill.name);
        }
        ret->items[ret->count++] = found ? &package_ref(found)->skill : skill_ref(chosen);
    }
    return 0;
}

static int install(struct installation *installation, struct skill_list *ret, struct error *err)
{
    struct write_op *op = &installation->op;
    cleanup_strings struct strings targets = {0};
    if (index_check_whole(op->index, err) < 0 || install_prepare(installation, err) < 0 ||
        choose(installation, err) < 0 || check_taken(installation, err) < 0 ||
        write_check_count(op, installation->chosen_count, err) < 0 ||
        stage_chosen(installation, &targets, err) < 0)
        return -1;
    /* Once for all of it: a hundred times fsync() is a hundred times the disk's cache flushed. */
    if (syncfs(op->stage.dir) < 0)
        return error_errno(err, errno, "cannot write the skills to the disk");
    if (write_publish(op, &targets, err) < 0)
        return -1;
    return collect(installation, ret, err);
}

int skill_zip_install(struct skill_scope *scope, const struct skill_archive *archive,
                      struct skill_list *ret, struct error *err)
{
    cleanup_installation struct installation installation = {
        .op = WRITE_OP_INIT, .archive = archive, .dir = -1};
    if (write_begin(scope, &installation.op, err) < 0)
        return -1;
    return install(&installation, ret, err);
}
