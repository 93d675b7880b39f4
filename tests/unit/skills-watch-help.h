/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of a skill store's watch share: a store that is worth watching, what lists of it
   have, and whether they had to search. Included after cmocka. */
#pragma once

#include <errno.h>
#include <sys/inotify.h>
#include <sys/wait.h>

#include "skills-help.h"
#include "skills/store.h"

#define PACKAGES 20
#define TRIES    50

static inline void fill(const struct world *world)
{
    char path[64];
    char text[64];
    for (int i = 0; i < PACKAGES; i++) {
        snprintf(path, sizeof path, "s%02d/SKILL.md", i);
        snprintf(text, sizeof text, "---\nname: s%02d\n---\nfirst", i);
        put_file(world, path, text);
    }
    put_file(world, "category/one/SKILL.md", "---\nname: one\n---\nfirst");
    put_file(world, "empty/directory/file", "");
    put_file(world, "s04/docs/file", "");
    put_file(world, ".boxd-readiness/file", "");
}

static inline int watched_setup(void **state)
{
    int rc = world_setup(state);
    if (rc == 0)
        fill(*state);
    return rc;
}

static inline int watched_teardown(void **state)
{
    const struct world *world = *state;
    cleanup_free char *moved = xasprintf("%s-moved", world->root);
    remove_tree(moved);
    return world_teardown(state);
}

/* "name=instructions", each in a line, by what a list has. */
static inline char *describe(struct skill_scope *scope)
{
    struct skill_list list = {NULL, 0};
    struct error err = ERROR_INIT;
    cleanup_buf struct buf out = BUF_INIT(1 << 20);
    if (skill_list(scope, &list, &err) < 0)
        fail_msg("%s", err.message);
    for (size_t i = 0; i < list.count; i++) {
        const struct skill *skill = list.items[i];
        cleanup_free char *line = xasprintf("%s=%s%s\n", skill->name, skill->instructions,
                                            skill->python_project ? " python" : "");
        buf_append(&out, line, strlen(line));
    }
    buf_append(&out, "", 1);
    skill_list_release(&list);
    return steal_ptr(out.data);
}

/* Whether a list had to search. */
static inline bool searches(struct skill_scope *scope)
{
    uint64_t before = scope->tickets;
    free(names_of(scope));
    return scope->tickets != before;
}

/* Until lists need no search. It is not believed for ever, so one of them may. */
static inline void quiet_down(struct skill_scope *scope)
{
    for (int i = 0; i < TRIES; i++) {
        if (!searches(scope))
            return;
    }
    cleanup_close int one = inotify_init1(IN_CLOEXEC);
    if (one < 0 && errno == EMFILE)
        skip(); /* others of this user have them all */
    fail_msg("each of %d lists searches", TRIES);
}

static inline char *path_in(const struct world *world, const char *path)
{
    return xasprintf("%s/%s", world->root, path);
}

/* In another process. */
static inline void elsewhere(const struct world *world, void (*change)(const struct world *))
{
    int status;
    pid_t pid = fork();
    assert_return_code(pid, errno);
    if (pid == 0) {
        change(world);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

#define DO(call)                            \
    do {                                    \
        if ((call) < 0) {                   \
            fprintf(stderr, "%s: ", #call); \
            perror(NULL);                   \
            _exit(1);                       \
        }                                   \
    } while (0)

static inline void move(const struct world *world, const char *from, const char *to)
{
    cleanup_free char *old = path_in(world, from);
    cleanup_free char *new = path_in(world, to);
    DO(rename(old, new));
}

static inline void make_directory(const struct world *world, const char *path)
{
    cleanup_free char *whole = path_in(world, path);
    DO(mkdir(whole, 0755));
}

static inline void add_package(const struct world *world)
{
    put_file(world, "new/SKILL.md", "---\nname: new\n---\n");
}
