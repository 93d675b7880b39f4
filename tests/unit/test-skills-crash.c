/* SPDX-License-Identifier: Apache-2.0 */
/* The skill store across kill -9, at every moment there is: each call is made by a child that is
   traced, and killed before its first system call, before its second, and so on until it comes
   through. Afterwards the store must be as it was before the call or as it is after it, every skill
   in it whole, and nothing left over. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "skills-help.h"

#define CALLS_MAX 5000

struct trial {
    const char *before; /* the names, one of these two */
    const char *after;
    void (*prepare)(struct world *world);
    int (*call)(struct skill_scope *scope, struct error *err);
};

/* Runs the call up to its `count`th system call, and ends it there. True: it came to its end. */
static bool run_until(const struct world *world, const struct trial *trial, unsigned count)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct world own = *world;
        struct error err = ERROR_INIT;
        world_open(&own);
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        raise(SIGSTOP);
        _exit(trial->call(own.scope, &err) == 0 ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    /* Each call stops twice, on its way in and out: both are moments. */
    for (unsigned i = 0; i < count && WIFSTOPPED(status); i++) {
        if (ptrace(PTRACE_SYSCALL, child, NULL, NULL) < 0)
            fail_msg("cannot trace: %s", strerror(errno));
        assert_int_equal(waitpid(child, &status, 0), child);
    }
    if (WIFEXITED(status)) {
        assert_int_equal(WEXITSTATUS(status), 0);
        return true;
    }
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    return false;
}

static void check_whole(const struct world *world, const char *name)
{
    struct skill_text text;
    struct error err = ERROR_INIT;
    if (skill_file_read(world->scope, name, "files/b", &text, &err) < 0)
        fail_msg("%s: %s", name, err.message);
    assert_string_equal(text.data, "second");
    skill_text_release(&text);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp((*(const struct skill *const *)a)->name, (*(const struct skill *const *)b)->name);
}

/* The names, sorted, each skill looked at. */
static char *look(struct world *world)
{
    struct skill_list list = {NULL, 0};
    struct error err = ERROR_INIT;
    cleanup_buf struct buf out = BUF_INIT(4096);
    if (skill_list(world->scope, &list, &err) < 0)
        fail_msg("%s", err.message);
    qsort(list.items, list.count, sizeof *list.items, compare_names);
    for (size_t i = 0; i < list.count; i++) {
        buf_append(&out, " ", i > 0);
        buf_append(&out, list.items[i]->name, strlen(list.items[i]->name));
        check_whole(world, list.items[i]->name);
    }
    struct stat st;
    assert_int_equal(stat(world->root, &st), 0);
    if (st.st_nlink != list.count + 2)
        fail_msg("%zu skills, but %lu directories", list.count, (unsigned long)st.st_nlink - 2);
    skill_list_release(&list);
    buf_append(&out, "", 1);
    return steal_ptr(out.data);
}

static void try_all(struct world *world, const struct trial *trial)
{
    unsigned before = 0;
    unsigned after = 0;
    for (unsigned count = 0; count < CALLS_MAX; count++) {
        remove_tree(world->root);
        world_close(world);
        world_open(world);
        if (trial->prepare)
            trial->prepare(world);
        bool whole = run_until(world, trial, count);
        cleanup_free char *names = look(world);
        before += strcmp(names, trial->before) == 0;
        after += strcmp(names, trial->after) == 0;
        if (strcmp(names, trial->before) != 0 && strcmp(names, trial->after) != 0)
            fail_msg("after %u stops there is '%s'", count, names);
        if (whole) {
            assert_string_equal(names, trial->after);
            print_message("%u moments before, %u after\n", before, after);
            assert_true(before > 10 && after > 2);
            return;
        }
    }
    fail_msg("it does not come to an end");
}

static void need_tracing(void)
{
    pid_t child = fork();
    int status = 0;
    if (child == 0)
        _exit(ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0);
    waitpid(child, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        print_message("skipped: tracing is not allowed here\n");
        skip();
    }
}

/* --- the calls --- */

/* clang-format off */
#define PACKAGE(title)                                                   \
    {.name = title "/SKILL.md", .data = "---\nname: " title "\n---\n"}, \
    {.name = title "/files/a", .data = "first"},                         \
    {.name = title "/files/b", .data = "second"}
/* clang-format on */

static const struct made_entry entries[] = {PACKAGE("one"), PACKAGE("three"), PACKAGE("two")};

static int install(struct skill_scope *scope, const char *const *paths, size_t count,
                   struct error *err)
{
    cleanup_buf struct buf data = BUF_INIT(1u << 20);
    cleanup_skills struct skill_list list = {NULL, 0};
    make_archive(entries, ARRAY_SIZE(entries), &data);
    const struct skill_archive archive = {.data = data.data,
                                          .size = data.size,
                                          .filename = "p.zip",
                                          .source_paths = paths,
                                          .source_path_count = count};
    return skill_zip_install(scope, &archive, &list, err);
}

static int install_all(struct skill_scope *scope, struct error *err)
{
    static const char *const paths[] = {"one", "two", "three"};
    return install(scope, paths, ARRAY_SIZE(paths), err);
}

static int install_one(struct skill_scope *scope, struct error *err)
{
    static const char *const path = "two";
    return install(scope, &path, 1, err);
}

static int delete_one(struct skill_scope *scope, struct error *err)
{
    return skill_delete(scope, "one", err);
}

static void put_one(struct world *world)
{
    put_file(world, "one/SKILL.md", "---\nname: one\n---\n");
    put_file(world, "one/files/b", "second");
}

static int update_one(struct skill_scope *scope, struct error *err)
{
    const struct skill_edit edit = {.description = "changed", .instructions = "also"};
    const struct skill *skill = NULL;
    int rc = skill_update(scope, "one", &edit, &skill, err);
    skill_unref(skill);
    return rc;
}

/* --- the tests --- */

static void installing_several(void **state)
{
    const struct trial trial = {.before = "", .after = "one three two", .call = install_all};
    need_tracing();
    try_all(*state, &trial);
}

static void installing_one(void **state)
{
    const struct trial trial = {.before = "", .after = "two", .call = install_one};
    need_tracing();
    try_all(*state, &trial);
}

static void deleting(void **state)
{
    const struct trial trial = {
        .before = "one", .after = "", .prepare = put_one, .call = delete_one};
    need_tracing();
    try_all(*state, &trial);
}

/* The names do not show it, so the text must. */
static void updating(void **state)
{
    struct world *world = *state;
    const struct trial trial = {.prepare = put_one, .call = update_one};
    const char *old = "---\nname: one\n---\n";
    const char *new = "---\nname: one\ndescription: changed\n---\n\nalso";
    bool whole = false;
    unsigned changed = 0;
    need_tracing();
    for (unsigned count = 0; count < CALLS_MAX && !whole; count++) {
        remove_tree(world->root);
        world_close(world);
        world_open(world);
        put_one(world);
        whole = run_until(world, &trial, count);
        cleanup_free char *text = slurp(world, "one/SKILL.md");
        cleanup_free char *names = look(world);
        assert_string_equal(names, "one");
        assert_string_equal(text, changed > 0 || strcmp(text, old) != 0 ? new : old);
        changed += strcmp(text, new) == 0;
    }
    assert_true(whole && changed > 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(installing_several, world_setup, world_teardown),
        cmocka_unit_test_setup_teardown(installing_one, world_setup, world_teardown),
        cmocka_unit_test_setup_teardown(deleting, world_setup, world_teardown),
        cmocka_unit_test_setup_teardown(updating, world_setup, world_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
