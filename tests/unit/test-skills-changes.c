/* SPDX-License-Identifier: Apache-2.0 */
/* Changes of a skill store behind boxd's back, by another process: each is in the next list, which
   without it would have looked at nothing. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <sys/mman.h>
#include <time.h>

#include "skills-watch-help.h"

static void write_in_place(const struct world *world)
{
    put_file(world, "s03/SKILL.md", "---\nname: s03\n---\nsecond");
}

static void append(const struct world *world)
{
    cleanup_free char *path = path_in(world, "s03/SKILL.md");
    int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    DO(fd);
    DO(fd_write_all(fd, " second", 7));
}

static void write_by_mapping(const struct world *world)
{
    cleanup_free char *path = path_in(world, "s03/SKILL.md");
    int fd = open(path, O_RDWR | O_CLOEXEC);
    DO(fd);
    char *data = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (data == MAP_FAILED)
        _exit(1);
    memcpy(strstr(data, "first"), "other", 5);
}

static void rename_over(const struct world *world)
{
    put_file(world, "s03/new", "---\nname: s03\n---\nsecond");
    move(world, "s03/new", "s03/SKILL.md");
}

static void remove_file(const struct world *world)
{
    cleanup_free char *path = path_in(world, "s03/SKILL.md");
    DO(unlink(path));
}

/* To where nobody looks. */
static void hide_file(const struct world *world)
{
    move(world, "s04/SKILL.md", "s04/docs/moved.md");
}

static void remove_package(const struct world *world)
{
    cleanup_free char *path = path_in(world, "s03");
    remove_tree(path);
}

static void remove_and_make_again(const struct world *world)
{
    remove_package(world);
    put_file(world, "s03/SKILL.md", "---\nname: s03\n---\nsecond");
}

/* Outside of the store, but on the same file system. */
static char *outside(const struct world *world)
{
    return xasprintf("%s-moved", world->root);
}

static void move_away(const struct world *world)
{
    cleanup_free char *from = path_in(world, "s03");
    cleanup_free char *to = outside(world);
    DO(rename(from, to));
}

static void move_back(const struct world *world)
{
    cleanup_free char *from = outside(world);
    cleanup_free char *to = path_in(world, "s03");
    DO(rename(from, to));
}

static void fill_directory(const struct world *world)
{
    put_file(world, "empty/directory/SKILL.md", "---\nname: new\n---\n");
}

static void add_category(const struct world *world)
{
    make_directory(world, "empty/new");
    make_directory(world, "empty/new/deep");
}

static void fill_category(const struct world *world)
{
    put_file(world, "empty/new/deep/SKILL.md", "---\nname: new\n---\n");
}

static void move_category(const struct world *world)
{
    move(world, "category", "other");
    put_file(world, "category/two/SKILL.md", "---\nname: two\n---\n");
}

static void change_moved(const struct world *world)
{
    put_file(world, "other/one/SKILL.md", "---\nname: one\n---\nsecond");
}

static void hide_in_package(const struct world *world)
{
    put_file(world, "category/SKILL.md", "---\nname: category\n---\n");
}

static void add_requirements(const struct world *world)
{
    put_file(world, "s03/requirements.txt", "");
}

static void make_venv(const struct world *world)
{
    make_directory(world, "s03/.venv");
}

static void replace_root(const struct world *world)
{
    cleanup_free char *to = outside(world);
    DO(rename(world->root, to));
    DO(mkdir(world->root, 0755));
    fill(world);
    add_package(world);
}

static void change_replaced(const struct world *world)
{
    cleanup_free char *whole = xasprintf("%s-moved/s03/SKILL.md", world->root);
    int fd = open(whole, O_WRONLY | O_APPEND | O_CLOEXEC);
    DO(fd);
    DO(fd_write_all(fd, " second", 7));
}

static void restore_root(const struct world *world)
{
    cleanup_free char *from = outside(world);
    remove_tree(world->root);
    DO(rename(from, world->root));
}

/* There and back, with a change on the way. */
static void swap_root(const struct world *world)
{
    replace_root(world);
    change_replaced(world);
    restore_root(world);
}

static void remove_root(const struct world *world)
{
    remove_tree(world->root);
}

struct step {
    void (*change)(const struct world *);
    const char *there; /* in the description afterwards */
    const char *not_there;
};

/* After each step the next list has it, and then all is quiet again. */
static void run_steps(struct world *world, const struct step *steps, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        quiet_down(world->scope);
        elsewhere(world, steps[i].change);
        cleanup_free char *now = describe(world->scope);
        if (steps[i].there && !strstr(now, steps[i].there))
            fail_msg("step %zu: no '%s' in %s", i, steps[i].there, now);
        if (steps[i].not_there && strstr(now, steps[i].not_there))
            fail_msg("step %zu: '%s' in %s", i, steps[i].not_there, now);
    }
}

#define STEPS(name, ...)                                  \
    static void name(void **state)                        \
    {                                                     \
        static const struct step steps[] = {__VA_ARGS__}; \
        run_steps(*state, steps, ARRAY_SIZE(steps));      \
    }

STEPS(files_change, {write_in_place, "s03=second", "s03=first"},
      {append, "s03=second second", NULL})
STEPS(files_change_by_mapping, {write_by_mapping, "s03=other", "s03=first"})
STEPS(files_are_replaced, {rename_over, "s03=second", "s03=first"}, {remove_file, "s04", "s03"},
      {write_in_place, "s03=second", NULL})
STEPS(files_move_away, {hide_file, "s03", "s04"})
STEPS(packages_go, {remove_package, "s04", "s03"}, {write_in_place, "s03=second", NULL})
STEPS(packages_are_made_again, {remove_and_make_again, "s03=second", "s03=first"},
      {append, "s03=second second", NULL})
STEPS(packages_move, {move_away, "s04", "s03"}, {move_back, "s03=first", NULL},
      {append, "s03=first second", NULL}, {move_away, "s04", "s03"})
STEPS(packages_come, {add_package, "new=", NULL}, {fill_directory, "new=\nnew=", NULL})
STEPS(categories_come, {add_category, NULL, "new="}, {fill_category, "new=", NULL})
STEPS(categories_move, {move_category, "two=", NULL}, {change_moved, "one=second", "one=first"})
STEPS(categories_become_packages, {hide_in_package, "category=", "one="})
STEPS(projects, {add_requirements, "s03=first python", NULL})
STEPS(environments, {make_venv, "s03=first python", NULL})

STEPS(roots_change, {replace_root, "new=", NULL}, {change_replaced, "s03=first\n", NULL},
      {restore_root, "s03=first second\n", "new="}, {append, "s03=first second second\n", NULL},
      {swap_root, "s03=first second second second\n", "new="}, {remove_root, NULL, "s"})

static void replace_parent(const struct world *world)
{
    cleanup_free char *parent =
        xstrndup(world->root, (size_t)(strrchr(world->root, '/') - world->root));
    cleanup_free char *aside = xasprintf("%s-aside", parent);
    DO(rename(parent, aside));
    DO(mkdir(parent, 0755));
    DO(mkdir(world->root, 0755));
    fill(world);
    add_package(world);
}

/* Of which nothing in the store can tell. */
static void parents_change(void **state)
{
    static const struct step step = {replace_parent, "new=", NULL};
    struct world *world = *state;
    struct world inner;
    snprintf(inner.root, sizeof inner.root, "%.200s/parent/store", world->root);
    world_open(&inner);
    fill(&inner);
    run_steps(&inner, &step, 1);
    world_close(&inner);
}

/* Modes and times change stamps, and with them what is told of a skill. */
static void stamps_change(void **state)
{
    struct world *world = *state;
    cleanup_free char *file = path_in(world, "s03/SKILL.md");
    cleanup_free char *dir = path_in(world, "s03");
    const struct timespec times[] = {{0, UTIME_OMIT}, {1700000000, 0}};
    const struct skill *skill;
    struct error err = ERROR_INIT;
    quiet_down(world->scope);
    assert_int_equal(utimensat(AT_FDCWD, file, times, 0), 0);
    assert_int_equal(skill_get(world->scope, "s03", &skill, &err), 0);
    assert_int_equal(skill->updated_us, INT64_C(1700000000000000));
    skill_unref(skill);
    quiet_down(world->scope);
    assert_int_equal(chmod(file, 0600), 0);
    assert_true(searches(world->scope));
    quiet_down(world->scope);
    assert_int_equal(chmod(dir, 0700), 0);
    assert_true(searches(world->scope));
}

/* --- what is told by the names in a package --- */

static void projects_by_link(void **state)
{
    struct world *world = *state;
    put_file(world, "s01/docs/real", "");
    put_link(world, "s01/requirements.txt", "docs/real");
    put_link(world, "s02/requirements.txt", "/etc/hostname");
    put_link(world, "s03/setup.py", "missing");
    put_file(world, "s05/setup.py/x", "");
    put_file(world, "s06/.venv", "");
    cleanup_free char *now = describe(world->scope);
    assert_non_null(strstr(now, "s01=first python\n"));
    assert_ptr_equal(strstr(strstr(now, "python") + 1, "python"), NULL);
}

/* Too many to be read for that. */
static void large_packages(void **state)
{
    struct world *world = *state;
    char path[64];
    for (int i = 0; i < 2000; i++) {
        snprintf(path, sizeof path, "s03/file-with-a-long-name-%04d", i);
        put_file(world, path, "");
    }
    cleanup_free char *before = describe(world->scope);
    assert_non_null(strstr(before, "s03=first\n"));
    make_venv(world);
    cleanup_free char *after = describe(world->scope);
    assert_non_null(strstr(after, "s03=first python\n"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, watched_setup, watched_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(files_change),
        TEST(files_change_by_mapping),
        TEST(files_are_replaced),
        TEST(files_move_away),
        TEST(packages_go),
        TEST(packages_are_made_again),
        TEST(packages_move),
        TEST(packages_come),
        TEST(categories_come),
        TEST(categories_move),
        TEST(categories_become_packages),
        TEST(projects),
        TEST(environments),
        TEST(roots_change),
        TEST(parents_change),
        TEST(stamps_change),
        TEST(projects_by_link),
        TEST(large_packages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
