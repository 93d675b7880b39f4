/* SPDX-License-Identifier: Apache-2.0 */
/* The skill store: what it finds, makes, changes and refuses; who may see what; and that nobody
   waits for anybody. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <time.h>

#include "core/sha256.h"
#include "skills-help.h"

static struct error err;

#define ok(call)                                    \
    do {                                            \
        err = (struct error)ERROR_INIT;             \
        if ((call) < 0)                             \
            fail_msg("%s: %s", #call, err.message); \
    } while (0)

#define refused(call, wanted)                                          \
    do {                                                               \
        err = (struct error)ERROR_INIT;                                \
        if ((call) == 0)                                               \
            fail_msg("%s is accepted", #call);                         \
        if (err.code != (wanted) || !err.message[0])                   \
            fail_msg("%s: code %d, %s", #call, err.code, err.message); \
    } while (0)

static int create(struct skill_scope *scope, const char *name, const char *package_root)
{
    const struct skill_edit edit = {.name = name, .package_root = package_root};
    const struct skill *skill = NULL;
    int rc = skill_create(scope, &edit, &skill, &err);
    skill_unref(skill);
    return rc;
}

static char *path_in(const struct world *world, const char *path)
{
    return xasprintf("%s/%s", world->root, path);
}

/* --- finding --- */

static void finding(void **state)
{
    struct world *world = *state;
    put_file(world, "a/SKILL.md", "---\nname: alpha\n---\n");
    put_file(world, "a/inner/SKILL.md", "---\nname: never\n---\n");
    put_file(world, "b/skill.md", "No front matter");
    put_file(world, "c/Skill.md", "---\nname: never\n---\n");
    put_file(world, "1/2/3/4/5/6/SKILL.md", "---\nname: six\n---\n");
    put_file(world, "1/2/3/4/5/x/7/SKILL.md", "---\nname: seven\n---\n");
    put_file(world, "broken/SKILL.md", "---\nname: [\n---\n");
    put_file(world, "bad name/SKILL.md", "");
    put_file(world, "utf8/SKILL.md", "\xff");
    put_file(world, ".hidden/SKILL.md", "---\nname: hid\n---\n");
    put_file(world, ".boxd-readiness/SKILL.md", "---\nname: staged\n---\n");
    put_link(world, "linked", "a");
    cleanup_free char *names = names_of(world->scope);
    static const char *const wanted[] = {"alpha", "b", "six", "hid"};
    size_t length = 0;
    for (size_t i = 0; i < ARRAY_SIZE(wanted); i++) {
        assert_non_null(strstr(names, wanted[i]));
        length += strlen(wanted[i]) + (i > 0);
    }
    assert_int_equal(strlen(names), length);
    /* What is boxd's, but no stage, stays. */
    assert_true(exists(world, ".boxd-readiness/SKILL.md"));
}

static void entry_behind_a_link(void **state)
{
    struct world *world = *state;
    put_file(world, "outside.md", "---\nname: out\n---\n");
    put_file(world, "in/docs/real.md", "---\nname: in\n---\n");
    put_link(world, "in/SKILL.md", "docs/real.md");
    put_file(world, "out/x", "");
    put_link(world, "out/SKILL.md", "../outside.md");
    put_file(world, "abs/x", "");
    put_link(world, "abs/SKILL.md", "/etc/hostname");
    check_names(world->scope, "in");
    /* What it leads to changes, and nothing of the link does. */
    put_file(world, "in/docs/real.md", "---\nname: other\n---\n");
    check_names(world->scope, "other");
}

static void special_files(void **state)
{
    struct world *world = *state;
    cleanup_free char *fifo = path_in(world, "fifo/SKILL.md");
    put_file(world, "fifo/x", "");
    assert_int_equal(mkfifo(fifo, 0644), 0);
    put_file(world, "dir/SKILL.md/x", "");
    check_names(world->scope, "");
}

static void fields(void **state)
{
    struct world *world = *state;
    const struct skill *skill;
    cleanup_free char *file = path_in(world, "s/SKILL.md");
    put_file(world, "s/SKILL.md", "---\nname: s\ndisplay_name: S!\ndescription: what\n---\n\nDo\n");
    put_file(world, "s/.venv/x", "");
    const struct timespec times[] = {{1700000000, 0}, {1700000000, 123456789}};
    assert_int_equal(utimensat(AT_FDCWD, file, times, 0), 0);
    ok(skill_get(world->scope, "s", &skill, &err));
    assert_string_equal(skill->display_name, "S!");
    assert_string_equal(skill->description, "what");
    assert_string_equal(skill->instructions, "Do\n");
    assert_string_equal(skill->entry_file, "SKILL.md");
    assert_true(skill->python_project);
    assert_string_equal(skill->updated_at, "2023-11-14T22:13:20.123457+00:00");
    assert_int_equal(skill->updated_us, 1700000000123457);
    skill_unref(skill);
    const struct timespec whole[] = {{1700000000, 0}, {1700000000, 0}};
    assert_int_equal(utimensat(AT_FDCWD, file, whole, 0), 0);
    ok(skill_get(world->scope, "s", &skill, &err));
    assert_string_equal(skill->updated_at, "2023-11-14T22:13:20+00:00");
    skill_unref(skill);
    refused(skill_get(world->scope, "t", &skill, &err), ERROR_NOT_FOUND);
}

static void newest_first(void **state)
{
    struct world *world = *state;
    static const char *const names[] = {"b", "a", "d", "c"};
    static const time_t ages[] = {2, 3, 1, 2};
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        cleanup_free char *path = xasprintf("%s/SKILL.md", names[i]);
        cleanup_free char *whole = path_in(world, path);
        const struct timespec times[] = {{0, 0}, {1700000000 + ages[i], 0}};
        put_file(world, path, "");
        assert_int_equal(utimensat(AT_FDCWD, whole, times, 0), 0);
    }
    /* Of the same age as found, which is by name. */
    check_names(world->scope, "a b c d");
}

static void limits(void **state)
{
    struct world *world = *state;
    struct skill_list list;
    cleanup_free char *large = xmalloc(SKILL_TEXT_MAX + 2);
    memset(large, 'x', SKILL_TEXT_MAX + 1);
    large[SKILL_TEXT_MAX + 1] = '\0';
    put_file(world, "large/SKILL.md", large);
    check_names(world->scope, "");
    large[SKILL_TEXT_MAX] = '\0';
    put_file(world, "large/SKILL.md", large);
    check_names(world->scope, "large");
    for (int i = 0; i < 16; i++) {
        cleanup_free char *path = xasprintf("l%d/SKILL.md", i);
        put_file(world, path, large);
    }
    refused(skill_list(world->scope, &list, &err), ERROR_LIMIT);
    /* But one can still do something about it. */
    for (int i = 0; i < 16; i++) {
        cleanup_free char *name = xasprintf("l%d", i);
        ok(skill_delete(world->scope, name, &err));
    }
    check_names(world->scope, "large");
}

static void many(void **state)
{
    struct world *world = *state;
    struct skill_list list;
    char path[64];
    for (int i = 0; i < SKILL_COUNT_MAX; i++) {
        snprintf(path, sizeof path, "s%04d/SKILL.md", i);
        put_file(world, path, "---\ndescription: x\n---\n");
    }
    ok(skill_list(world->scope, &list, &err));
    assert_int_equal(list.count, SKILL_COUNT_MAX);
    skill_list_release(&list);
    refused(create(world->scope, "more", NULL), ERROR_LIMIT);
    assert_false(exists(world, "more"));
    put_file(world, "more/SKILL.md", "");
    refused(skill_list(world->scope, &list, &err), ERROR_LIMIT);
}

static void many_entries(void **state)
{
    struct world *world = *state;
    struct skill_list list;
    char path[64];
    put_file(world, "s/SKILL.md", "");
    for (int i = 0; i < SKILL_SCAN_MAX - 1; i++) {
        snprintf(path, sizeof path, "%d", i);
        put_file(world, path, "");
    }
    check_names(world->scope, "s");
    refused(create(world->scope, "more", NULL), ERROR_LIMIT);
    put_file(world, "one-more", "");
    refused(skill_list(world->scope, &list, &err), ERROR_LIMIT);
}

/* What others have takes no harm from one who fills his package, and it can be deleted. */
static void check_way_out(struct world *world)
{
    const struct skill *skill;
    struct skill_list list;
    struct skill_text text;
    put_file(world, "b/SKILL.md", "---\nname: beta\n---\n");
    put_file(world, "c/SKILL.md", "");
    put_file(world, "tenants/t/s/SKILL.md", "");
    refused(skill_list(world->scope, &list, &err), ERROR_LIMIT);
    assert_non_null(strstr(err.hint, "delete"));
    refused(create(world->scope, "more", NULL), ERROR_LIMIT);
    cleanup_free char *inside = path_in(world, "b");
    refused(create(world->scope, "more", inside), ERROR_LIMIT);
    assert_false(exists(world, "more"));
    ok(skill_get(world->scope, "beta", &skill, &err));
    skill_unref(skill);
    ok(skill_file_read(world->scope, "beta", "SKILL.md", &text, &err));
    skill_text_release(&text);
    ok(skill_delete(world->scope, "c", &err));
    assert_false(exists(world, "c"));
    /* A directory by its name, if it is nobody's: */
    static const char *const others[] = {"b", "tenants", "nobody", ".", "..", "a/d"};
    for (size_t i = 0; i < ARRAY_SIZE(others); i++)
        refused(skill_delete(world->scope, others[i], &err), ERROR_NOT_FOUND);
    ok(skill_delete(world->scope, "a", &err));
    assert_false(exists(world, "a"));
    check_names(world->scope, "beta");
    /* and only while there is no other way. */
    put_file(world, "a/file", "");
    refused(skill_delete(world->scope, "a", &err), ERROR_NOT_FOUND);
    ok(skill_delete(world->scope, "beta", &err));
    assert_true(exists(world, "tenants/t/s/SKILL.md"));
}

static void filled_with_files(void **state)
{
    char path[64];
    for (int i = 0; i <= SKILL_SCAN_MAX; i++) {
        snprintf(path, sizeof path, "a/d/%d", i);
        put_file(*state, path, "");
    }
    check_way_out(*state);
}

static void filled_with_packages(void **state)
{
    char path[64];
    for (int i = 0; i <= SKILL_COUNT_MAX; i++) {
        snprintf(path, sizeof path, "a/s%d/SKILL.md", i);
        put_file(*state, path, "");
    }
    check_way_out(*state);
}

/* --- what is known --- */

/* What was read once is not read again, and every change is seen. */
static void remembering(void **state)
{
    struct world *world = *state;
    const struct skill *first;
    const struct skill *again = NULL;
    const struct timespec moment = {0, 10000000};
    put_file(world, "s/SKILL.md", "---\nname: s\n---\n1");
    put_file(world, "broken/SKILL.md", "---\nname: [\n---\n");
    ok(skill_get(world->scope, "s", &first, &err));
    /* Once its stamps are old enough to be trusted. */
    for (int i = 0; i < 1000 && again != first; i++) {
        skill_unref(first);
        nanosleep(&moment, NULL);
        ok(skill_get(world->scope, "s", &first, &err));
        ok(skill_get(world->scope, "s", &again, &err));
        skill_unref(again);
    }
    assert_ptr_equal(first, again);
    /* The other one is a little younger. */
    uint64_t generation = 0;
    for (int i = 0; i < 1000 && generation != skill_scope_generation(world->scope); i++) {
        generation = skill_scope_generation(world->scope);
        nanosleep(&moment, NULL);
        check_names(world->scope, "s");
    }
    check_names(world->scope, "s");
    assert_int_equal(skill_scope_generation(world->scope), generation);
    put_file(world, "s/SKILL.md", "---\nname: s\n---\n2");
    ok(skill_get(world->scope, "s", &again, &err));
    assert_string_equal(again->instructions, "2");
    assert_string_equal(first->instructions, "1");
    assert_true(skill_scope_generation(world->scope) > generation);
    skill_unref(first);
    skill_unref(again);
    put_file(world, "broken/SKILL.md", "---\nname: mended\n---\n");
    skill_scope_changed(world->scope);
    cleanup_free char *names = names_of(world->scope);
    assert_non_null(strstr(names, "mended"));
}

/* The same length within the same tick, again and again. */
static void quick_changes(void **state)
{
    struct world *world = *state;
    for (int i = 0; i < 200; i++) {
        const struct skill *skill;
        char text[64];
        snprintf(text, sizeof text, "---\nname: s\n---\n%03d", i);
        put_file(world, "s/SKILL.md", text);
        ok(skill_get(world->scope, "s", &skill, &err));
        assert_string_equal(skill->instructions, text + 16);
        skill_unref(skill);
    }
}

/* --- making --- */

static void creating(void **state)
{
    struct world *world = *state;
    const struct skill *skill;
    const struct skill_edit edit = {.name = "  new-one ",
                                    .display_name = "New: one",
                                    .description = "true",
                                    .instructions = "Do it.\n"};
    ok(skill_create(world->scope, &edit, &skill, &err));
    assert_string_equal(skill->name, "new-one");
    assert_string_equal(skill->display_name, "New: one");
    assert_string_equal(skill->description, "true");
    assert_string_equal(skill->instructions, "Do it.\n");
    skill_unref(skill);
    refused(create(world->scope, "new-one", NULL), ERROR_EXISTS);
    static const char *const bad[] = {"", "../x", "/x", "a b", "a/b", "tenants", "a\xff"};
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        refused(create(world->scope, bad[i], NULL), ERROR_INVALID);
    /* A directory may be there, but not with somebody's skill in it. */
    put_file(world, "used/file", "x");
    ok(create(world->scope, "used", NULL));
    assert_true(exists(world, "used/file"));
    put_file(world, "taken/SKILL.md", "---\nname: else\n---\n");
    put_file(world, "above/below/SKILL.md", "---\nname: below\n---\n");
    refused(create(world->scope, "taken", NULL), ERROR_EXISTS);
    refused(create(world->scope, "above", NULL), ERROR_EXISTS);
    put_file(world, "file", "x");
    refused(create(world->scope, "file", NULL), ERROR_EXISTS);
}

static void adopting(void **state)
{
    struct world *world = *state;
    cleanup_free char *inside = path_in(world, "d/e");
    cleanup_free char *below = path_in(world, "d/e/f");
    cleanup_free char *root = path_in(world, "");
    cleanup_free char *missing = path_in(world, "nothing");
    put_file(world, "d/e/skill.md", "---\nname: old\nlicense: MIT\ndescription: kept\n---\nDo");
    put_file(world, "d/e/f/SKILL.md", "");
    ok(create(world->scope, "mine", inside));
    cleanup_free char *text = slurp(world, "d/e/SKILL.md");
    assert_string_equal(text, "---\nname: mine\ndisplay_name: old\nlicense: MIT\n"
                              "description: kept\n---\nDo");
    check_names(world->scope, "mine");
    refused(create(world->scope, "other", below), ERROR_INVALID);
    refused(create(world->scope, "other", root), ERROR_INVALID);
    refused(create(world->scope, "other", missing), ERROR_NOT_FOUND);
    refused(create(world->scope, "other", "relative"), ERROR_INVALID);
}

static void importing(void **state)
{
    struct world *world = *state;
    struct world source;
    snprintf(source.root, sizeof source.root, "%.200s-source", world->root);
    assert_int_equal(mkdir(source.root, 0755), 0);
    put_file(&source, "SKILL.md", "---\nname: theirs\nversion: 3\n---\nDo");
    put_file(&source, "scripts/run.sh", "#!/bin/sh\n");
    put_file(&source, "a/b/c/d", "deep");
    put_link(&source, "link", "scripts/run.sh");
    put_link(&source, "dir", "a");
    cleanup_free char *script = path_in(&source, "scripts/run.sh");
    assert_int_equal(chmod(script, 06755), 0);
    ok(create(world->scope, "ours", source.root));
    static const char *const copied[] = {"ours/scripts/run.sh", "ours/link", "ours/dir/b/c/d"};
    for (size_t i = 0; i < ARRAY_SIZE(copied); i++) {
        cleanup_free char *whole = path_in(world, copied[i]);
        struct stat st;
        assert_int_equal(lstat(whole, &st), 0);
        assert_true(S_ISREG(st.st_mode));
        assert_int_equal(st.st_mode & 07777, i < 2 ? 0755 : 0644);
    }
    /* Nothing from outside, nothing that is no file, nothing half done. */
    put_link(&source, "out", "/etc/hostname");
    refused(create(world->scope, "second", source.root), ERROR_INVALID);
    assert_non_null(strstr(err.message, "'out'"));
    cleanup_free char *out = path_in(&source, "out");
    unlink(out);
    assert_int_equal(mkfifo(out, 0644), 0);
    refused(create(world->scope, "second", source.root), ERROR_INVALID);
    unlink(out);
    put_link(&source, "a/loop", "..");
    refused(create(world->scope, "second", source.root), ERROR_LIMIT);
    cleanup_free char *scripts = path_in(&source, "scripts");
    refused(create(world->scope, "second", scripts), ERROR_NOT_FOUND);
    check_names(world->scope, "ours");
    assert_false(exists(world, "second"));
    remove_tree(source.root);
}

static void updating(void **state)
{
    struct world *world = *state;
    const struct skill *skill;
    cleanup_free char *package = path_in(world, "dir");
    put_file(world, "dir/SKILL.md", "---\n# mine\nname: s\nx: 1\n---\nOld\n");
    struct skill_edit edit = {.description = "now"};
    ok(skill_update(world->scope, "s", &edit, &skill, &err));
    assert_string_equal(skill->description, "now");
    assert_string_equal(skill->instructions, "Old\n");
    skill_unref(skill);
    edit = (struct skill_edit){.name = " s ", .package_root = package, .instructions = "New\n"};
    ok(skill_update(world->scope, "s", &edit, &skill, &err));
    skill_unref(skill);
    cleanup_free char *text = slurp(world, "dir/SKILL.md");
    assert_string_equal(text, "---\n# mine\nname: s\ndescription: now\nx: 1\n---\n\nNew\n");
    edit = (struct skill_edit){.name = "t"};
    refused(skill_update(world->scope, "s", &edit, &skill, &err), ERROR_INVALID);
    edit = (struct skill_edit){.package_root = "/etc"};
    refused(skill_update(world->scope, "s", &edit, &skill, &err), ERROR_INVALID);
    edit = (struct skill_edit){.description = "\xff"};
    refused(skill_update(world->scope, "s", &edit, &skill, &err), ERROR_INVALID);
    refused(skill_update(world->scope, "u", &edit, &skill, &err), ERROR_INVALID);
}

static void deleting(void **state)
{
    struct world *world = *state;
    char path[4096] = "deep/SKILL.md";
    put_file(world, path, "");
    put_file(world, "top/a/SKILL.md", "");
    put_file(world, "top/b/SKILL.md", "");
    put_file(world, "kept", "x");
    put_link(world, "deep/link", "../kept");
    ok(skill_delete(world->scope, "a", &err));
    assert_false(exists(world, "top"));
    refused(skill_delete(world->scope, "b", &err), ERROR_NOT_FOUND);
    /* Deeper than there are descriptors, or than a path can be long. */
    cleanup_free char *start = path_in(world, "deep");
    int dir = open(start, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < 3000; i++) {
        assert_int_equal(mkdirat(dir, "d", 0755), 0);
        int next = openat(dir, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        close(dir);
        dir = next;
    }
    close(dir);
    ok(skill_delete(world->scope, "deep", &err));
    assert_false(exists(world, "deep"));
    assert_true(exists(world, "kept"));
    struct stat st;
    assert_int_equal(stat(world->root, &st), 0);
    assert_int_equal(st.st_nlink, 2);
}

static void scanning(void **state)
{
    struct world *world = *state;
    const struct skill *skill;
    cleanup_free char *one = path_in(world, "one");
    cleanup_free char *two = path_in(world, "two");
    cleanup_free char *deep = path_in(world, "deep");
    put_file(world, "one/a/b/SKILL.md", "---\nname: x\n---\n");
    put_file(world, "two/a/SKILL.md", "");
    put_file(world, "two/b/SKILL.md", "");
    put_file(world, "deep/1/2/3/SKILL.md", "");
    ok(skill_scan(world->scope, one, &skill, &err));
    assert_string_equal(skill->name, "x");
    skill_unref(skill);
    refused(skill_scan(world->scope, two, &skill, &err), ERROR_INVALID);
    assert_non_null(strstr(err.message, "a, b"));
    refused(skill_scan(world->scope, deep, &skill, &err), ERROR_NOT_FOUND);
    refused(skill_scan(world->scope, "/etc/hostname", &skill, &err), ERROR_NOT_FOUND);
}

/* --- files --- */

static void listing_files(void **state)
{
    struct world *world = *state;
    struct skill_files files;
    put_file(world, "s/SKILL.md", "");
    put_file(world, "s/b", "12345");
    put_file(world, "s/.h", "");
    put_file(world, "s/a/f", "1");
    put_link(world, "s/in", "a");
    put_link(world, "s/nowhere", "x");
    put_link(world, "s/out", "/etc");
    ok(skill_files_list(world->scope, "s", NULL, false, 200, &files, &err));
    static const char *const names[] = {"SKILL.md", "a", "b", "in", "nowhere", "out"};
    static const bool dirs[] = {false, true, false, true, false, false};
    assert_int_equal(files.count, ARRAY_SIZE(names));
    for (size_t i = 0; i < files.count; i++) {
        assert_string_equal(files.items[i].name, names[i]);
        assert_int_equal(files.items[i].is_dir, dirs[i]);
    }
    assert_int_equal(files.items[2].size, 5);
    assert_string_equal(files.base_path, ".");
    assert_false(files.truncated);
    skill_files_release(&files);
    ok(skill_files_list(world->scope, "s", " ./a/../a/ ", true, 1, &files, &err));
    assert_string_equal(files.base_path, "a");
    assert_string_equal(files.items[0].path, "a/f");
    assert_false(files.truncated);
    skill_files_release(&files);
    ok(skill_files_list(world->scope, "s", ".", true, 3, &files, &err));
    assert_string_equal(files.items[0].name, ".h");
    assert_true(files.truncated);
    skill_files_release(&files);
    refused(skill_files_list(world->scope, "s", ".", true, 0, &files, &err), ERROR_INVALID);
    refused(skill_files_list(world->scope, "s", "b", true, 1, &files, &err), ERROR_NOT_FOUND);
    refused(skill_files_list(world->scope, "s", "..", true, 1, &files, &err), ERROR_INVALID);
    refused(skill_files_list(world->scope, "s", "out", true, 1, &files, &err), ERROR_INVALID);
    refused(skill_files_list(world->scope, "t", ".", true, 1, &files, &err), ERROR_NOT_FOUND);
}

static void reading_files(void **state)
{
    struct world *world = *state;
    struct skill_text text;
    put_file(world, "secret", "x");
    put_file(world, "s/SKILL.md", "");
    put_file(world, "s/a/f", "é\r\n");
    put_file(world, "s/bin", "\xff");
    put_link(world, "s/in", "a/../a/f");
    put_link(world, "s/up", "../secret");
    put_link(world, "s/magic", "/proc/self/root/etc/hostname");
    ok(skill_file_read(world->scope, "s", "a/./f", &text, &err));
    assert_string_equal(text.path, "a/f");
    assert_string_equal(text.data, "é\r\n");
    skill_text_release(&text);
    ok(skill_file_read(world->scope, "s", "in", &text, &err));
    skill_text_release(&text);
    static const struct {
        const char *path;
        enum error_code code;
    } bad[] = {{"../secret", ERROR_INVALID},
               {"a/../../secret", ERROR_INVALID},
               {"/etc/hostname", ERROR_INVALID},
               {"..x", ERROR_INVALID},
               {"up", ERROR_INVALID},
               {"magic", ERROR_INVALID},
               {"bin", ERROR_INVALID},
               {"missing", ERROR_NOT_FOUND},
               {"a", ERROR_NOT_FOUND},
               {"", ERROR_NOT_FOUND},
               {"a/f/g", ERROR_NOT_FOUND}};
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        refused(skill_file_read(world->scope, "s", bad[i].path, &text, &err), bad[i].code);
    int fd;
    uint64_t size;
    ok(skill_file_open(world->scope, "s", "bin", &fd, &size, &err));
    assert_int_equal(size, 1);
    close(fd);
    refused(skill_file_open(world->scope, "s", "up", &fd, &size, &err), ERROR_INVALID);
}

static void writing_files(void **state)
{
    struct world *world = *state;
    char *path = NULL;
    put_file(world, "secret", "x");
    put_file(world, "s/SKILL.md", "");
    put_file(world, "s/run", "old");
    put_link(world, "s/link", "sub/target");
    put_link(world, "s/out", "../secret");
    put_link(world, "s/outdir", "..");
    put_link(world, "s/absolute", "/tmp/x");
    put_link(world, "s/round", "round");
    cleanup_free char *run = path_in(world, "s/run");
    assert_int_equal(chmod(run, 0755), 0);
    ok(skill_file_write(world->scope, "s", "run", "new", 3, NULL, &path, &err));
    free(path);
    struct stat st;
    assert_int_equal(stat(run, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0755);
    ok(skill_file_write(world->scope, "s", "./a/b/../c/f", "x", 1, NULL, &path, &err));
    assert_string_equal(path, "a/c/f");
    free(path);
    /* To where the link leads, which does not exist yet. */
    ok(skill_file_write(world->scope, "s", "link", "x", 1, NULL, &path, &err));
    free(path);
    assert_true(exists(world, "s/sub/target"));
    static const char *const bad[] = {"../x", "/tmp/x", "out", "outdir/x", "absolute"};
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        refused(skill_file_write(world->scope, "s", bad[i], "y", 1, NULL, &path, &err),
                ERROR_INVALID);
    refused(skill_file_write(world->scope, "s", "round", "y", 1, NULL, &path, &err), ERROR_SYSTEM);
    refused(skill_file_write(world->scope, "s", "a", "y", 1, NULL, &path, &err), ERROR_NOT_FOUND);
    refused(skill_file_write(world->scope, "s", ".", "y", 1, NULL, &path, &err), ERROR_NOT_FOUND);
    refused(skill_file_write(world->scope, "s", "run/x", "y", 1, NULL, &path, &err),
            ERROR_NOT_FOUND);
    cleanup_free char *huge = xcalloc(SKILL_TEXT_MAX + 1, 1);
    refused(skill_file_write(world->scope, "s", "h", huge, SKILL_TEXT_MAX + 1, NULL, &path, &err),
            ERROR_LIMIT);
    cleanup_free char *secret = slurp(world, "secret");
    assert_string_equal(secret, "x");
    /* Its name is what SKILL.md says. */
    ok(skill_file_write(world->scope, "s", "SKILL.md", "---\nname: t\n---\n", 16, NULL, &path,
                        &err));
    free(path);
    check_names(world->scope, "t");
}

static void removing_files(void **state)
{
    struct world *world = *state;
    put_file(world, "s/SKILL.md", "");
    put_file(world, "s/f", "");
    put_file(world, "s/d/e/f", "");
    put_file(world, "kept/f", "");
    put_link(world, "s/out", "../kept");
    ok(skill_file_remove(world->scope, "s", "f", NULL, &err));
    ok(skill_file_remove(world->scope, "s", "d", NULL, &err));
    ok(skill_file_remove(world->scope, "s", "out", NULL, &err));
    assert_false(exists(world, "s/f") || exists(world, "s/d") || exists(world, "s/out"));
    assert_true(exists(world, "kept/f"));
    refused(skill_file_remove(world->scope, "s", "SKILL.md", NULL, &err), ERROR_INVALID);
    refused(skill_file_remove(world->scope, "s", ".", NULL, &err), ERROR_INVALID);
    refused(skill_file_remove(world->scope, "s", "f", NULL, &err), ERROR_NOT_FOUND);
    refused(skill_file_remove(world->scope, "s", "../kept", NULL, &err), ERROR_INVALID);
}

/* Writes `text` to s/f, or with NULL removes it, if a condition holds; ERROR_NONE if it did. */
static enum error_code change_if(struct world *world, const char *match, const char *none_match,
                                 const char *text)
{
    struct skill_condition want = {
        .match = {.given = match, .any = match && *match == '*'},
        .none_match = {.given = none_match, .any = none_match && *none_match == '*'}};
    char digest[SHA256_HEX_SIZE];
    struct error why = ERROR_INIT;
    char *path = NULL;
    if (match) {
        strings_add(&want.match.digests, "of something else");
        sha256_hex(match, strlen(match), digest);
        strings_add(&want.match.digests, digest);
    }
    if (none_match) {
        sha256_hex(none_match, strlen(none_match), digest);
        strings_add(&want.none_match.digests, digest);
    }
    int rc = text ? skill_file_write(world->scope, "s", "f", text, strlen(text), &want, &path, &why)
                  : skill_file_remove(world->scope, "s", "f", &want, &why);
    free(path);
    strings_release(&want.match.digests);
    strings_release(&want.none_match.digests);
    assert_true((rc == 0) == (why.code == ERROR_NONE));
    return why.code;
}

static void check_content(struct world *world, const char *wanted)
{
    struct skill_text text;
    ok(skill_file_read(world->scope, "s", "f", &text, &err));
    assert_string_equal(text.data, wanted);
    skill_text_release(&text);
}

static void changing_what_was_seen(void **state)
{
    struct world *world = *state;
    put_file(world, "s/SKILL.md", "");
    /* Not there yet. */
    assert_int_equal(change_if(world, "*", NULL, "x"), ERROR_CHANGED);
    assert_int_equal(change_if(world, "x", NULL, "x"), ERROR_CHANGED);
    assert_false(exists(world, "s/f"));
    assert_int_equal(change_if(world, "x", NULL, NULL), ERROR_NOT_FOUND);
    assert_int_equal(change_if(world, NULL, "*", "one"), ERROR_NONE);
    assert_int_equal(change_if(world, NULL, "*", "two"), ERROR_CHANGED);
    check_content(world, "one");
    assert_int_equal(change_if(world, "one", NULL, "two"), ERROR_NONE);
    assert_int_equal(change_if(world, "one", NULL, "three"), ERROR_CHANGED);
    assert_int_equal(change_if(world, "*", "two", "three"), ERROR_CHANGED);
    check_content(world, "two");
    assert_int_equal(change_if(world, "*", "one", "three"), ERROR_NONE);
    check_content(world, "three");
    assert_int_equal(change_if(world, "two", NULL, NULL), ERROR_CHANGED);
    assert_int_equal(change_if(world, "three", NULL, NULL), ERROR_NONE);
    assert_false(exists(world, "s/f"));
    /* Through a link it is what the link leads to; of what is too large nobody knows a version. */
    put_link(world, "s/f", "g");
    assert_int_equal(change_if(world, NULL, "*", "behind"), ERROR_NONE);
    assert_true(exists(world, "s/g"));
    assert_int_equal(change_if(world, "behind", NULL, "new"), ERROR_NONE);
    cleanup_free char *large = path_in(world, "s/g");
    assert_int_equal(truncate(large, SKILL_TEXT_MAX + 1), 0);
    assert_int_equal(change_if(world, "new", NULL, "x"), ERROR_CHANGED);
    assert_int_equal(change_if(world, NULL, "*", "x"), ERROR_CHANGED);
    assert_int_equal(change_if(world, "*", NULL, "x"), ERROR_NONE);
    check_content(world, "x");
}

/* --- tenants --- */

static void tenants(void **state)
{
    struct world *world = *state;
    cleanup_scope struct skill_scope *a = open_scope(world->store, "ws-a");
    cleanup_scope struct skill_scope *b = open_scope(world->store, "ws-b");
    const struct skill *skill;
    struct skill_list list;
    ok(create(a, "mine", NULL));
    ok(create(b, "theirs", NULL));
    ok(create(world->scope, "shared", NULL));
    check_names(a, "mine");
    check_names(b, "theirs");
    check_names(world->scope, "shared");
    static const char *const outside[] = {"tenants/ws-b/theirs", "shared", "tenants", "",
                                          "missing"};
    for (size_t i = 0; i < ARRAY_SIZE(outside); i++) {
        cleanup_free char *path = path_in(world, outside[i]);
        refused(skill_scan(a, path, &skill, &err), ERROR_INVALID);
        refused(create(a, "new", path), ERROR_INVALID);
    }
    refused(create(a, "new", "/etc"), ERROR_INVALID);
    /* Nor the other way round. */
    cleanup_free char *theirs = path_in(world, "tenants/ws-b/theirs");
    refused(skill_scan(world->scope, theirs, &skill, &err), ERROR_INVALID);
    refused(create(world->scope, "new", theirs), ERROR_INVALID);
    /* A link in a tenant's directory is no way out. */
    put_link(world, "tenants/ws-a/link", "../ws-b/theirs");
    cleanup_free char *link = path_in(world, "tenants/ws-a/link");
    refused(skill_scan(a, link, &skill, &err), ERROR_INVALID);
    check_names(a, "mine");
    ok(create(a, "tenants", NULL));
    /* Nor is one in place of a tenant's directory. */
    put_link(world, "tenants/ws-c", "ws-b");
    cleanup_scope struct skill_scope *c = open_scope(world->store, "ws-c");
    refused(skill_list(c, &list, &err), ERROR_SYSTEM);
    static const char *const bad[] = {"", ".", "..", "a/b", "a\\b"};
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        assert_null(skill_scope_get(world->store, bad[i], &err));
}

static void many_tenants(void **state)
{
    struct world *world = *state;
    for (int i = 0; i < 300; i++) {
        char name[16];
        snprintf(name, sizeof name, "ws-%d", i);
        struct skill_scope *scope = open_scope(world->store, name);
        check_names(scope, "");
        skill_scope_put(scope);
    }
}

static void mounting(void **state)
{
    struct world *world = *state;
    char *path = NULL;
    cleanup_free char *wanted = path_in(world, "d/s");
    put_file(world, "d/s/SKILL.md", "");
    ok(skill_resolve(world->scope, "s", &path, &err));
    assert_string_equal(path, wanted);
    free(path);
    refused(skill_resolve(world->scope, "t", &path, &err), ERROR_NOT_FOUND);
}

static void root_comes_and_goes(void **state)
{
    struct world *world = *state;
    put_file(world, "SKILL.md", "---\nname: root\n---\n");
    check_names(world->scope, "root");
    refused(create(world->scope, "new", NULL), ERROR_INVALID);
    refused(skill_delete(world->scope, "root", &err), ERROR_INVALID);
    remove_tree(world->root);
    check_names(world->scope, "");
    ok(create(world->scope, "new", NULL));
}

/* --- quota --- */

static struct skill_room allowed;

static void allowance(void *data, const char *tenant, struct skill_room *ret)
{
    (void)data;
    *ret = tenant ? allowed : (struct skill_room){UINT64_MAX, UINT64_MAX};
}

static void quota(void **state)
{
    struct world *world = *state;
    const struct skill_store_options options = {.root = world->root, .allowance = allowance};
    struct skill_store *store = skill_store_open(&options, &err);
    struct skill_scope *scope = open_scope(store, "ws-q");
    char *path = NULL;
    cleanup_free char *data = xcalloc(5000, 1);
    memset(data, 'x', 4999);
    allowed = (struct skill_room){10000, 6};
    ok(create(scope, "s", NULL)); /* two entries */
    ok(skill_file_write(scope, "s", "f", data, 4999, NULL, &path, &err));
    free(path);
    refused(skill_file_write(scope, "s", "g", data, 4999 + 1, NULL, &path, &err), ERROR_LIMIT);
    /* Replacing needs only what it adds. */
    ok(skill_file_write(scope, "s", "f", data, 4998, NULL, &path, &err));
    free(path);
    /* Directories that were made on the way are gone again, at whatever it failed. */
    refused(skill_file_write(scope, "s", "1/2/3/4", "x", 1, NULL, &path, &err), ERROR_LIMIT);
    refused(skill_file_write(scope, "s", "1/2", data, 4999, NULL, &path, &err), ERROR_LIMIT);
    refused(skill_files_list(scope, "s", "1", false, 10, &(struct skill_files){0}, &err),
            ERROR_NOT_FOUND);
    allowed.entries = 5;
    static const struct made_entry entries[] = {
        {.name = "t/SKILL.md", .data = "---\nname: t\n---\n"}, {.name = "t/f", .data = "x"}};
    cleanup_buf struct buf zip = BUF_INIT(1u << 20);
    make_archive(entries, 2, &zip);
    const struct skill_archive archive = {.data = zip.data, .size = zip.size, .filename = "t.zip"};
    cleanup_skills struct skill_list list = {NULL, 0};
    refused(skill_zip_install(scope, &archive, &list, &err), ERROR_LIMIT);
    cleanup_free char *names = names_of(scope);
    assert_string_equal(names, "s");
    /* One can always delete. */
    allowed = (struct skill_room){0, 0};
    refused(create(scope, "u", NULL), ERROR_LIMIT);
    ok(skill_delete(scope, "s", &err));
    allowed = (struct skill_room){10000, 20};
    ok(skill_zip_install(scope, &archive, &list, &err));
    skill_scope_put(scope);
    skill_store_close(store);
}

/* --- at once --- */

struct worker {
    pthread_t thread;
    struct world *world;
    int number;
    unsigned failures;
};

/* Everything about a skill of its own, while others do the same. */
static void *work(void *data)
{
    struct worker *worker = data;
    struct skill_scope *scope = worker->world->scope;
    char name[16];
    snprintf(name, sizeof name, "w%d", worker->number);
    for (int i = 0; i < 20; i++) {
        const struct skill_edit edit = {.name = name, .instructions = "x"};
        const struct skill *skill = NULL;
        struct skill_list list = {NULL, 0};
        worker->failures += skill_create(scope, &edit, &skill, NULL) < 0;
        skill_unref(skill);
        worker->failures += skill_list(scope, &list, NULL) < 0;
        bool found = false;
        for (size_t j = 0; j < list.count; j++)
            found = found || strcmp(list.items[j]->name, name) == 0;
        worker->failures += !found;
        skill_list_release(&list);
        worker->failures += skill_delete(scope, name, NULL) < 0;
    }
    return NULL;
}

static void threads(void **state)
{
    struct worker workers[6];
    for (int i = 0; i < 6; i++) {
        workers[i] = (struct worker){.world = *state, .number = i};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < 6; i++) {
        pthread_join(workers[i].thread, NULL);
        assert_int_equal(workers[i].failures, 0);
    }
    check_names(((struct world *)*state)->scope, "");
}

/* While somebody publishes, what was there before is given at once. */
static void readers_do_not_wait(void **state)
{
    struct world *world = *state;
    put_file(world, "s/SKILL.md", "");
    check_names(world->scope, "s");
    cleanup_close int root = open(world->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(flock(root, LOCK_EX), 0);
    put_file(world, "t/SKILL.md", "");
    check_names(world->scope, "s");
    flock(root, LOCK_UN);
    cleanup_free char *names = names_of(world->scope);
    assert_int_equal(strlen(names), 3);
}

/* --- left over --- */

static void left_over(void **state)
{
    struct world *world = *state;
    /* Not committed; committed and half done; a package on its way out that looks committed. */
    put_file(world, ".boxd-stage-1/0/SKILL.md", "---\nname: never\n---\n");
    put_file(world, ".boxd-stage-2/1/SKILL.md", "---\nname: two\n---\n");
    put_file(world, "one/SKILL.md", "---\nname: one\n---\n");
    put_file(world, ".boxd-gone-3/0/SKILL.md", "---\nname: gone\n---\n");
    static const char *const journals[] = {".boxd-stage-2/commit", ".boxd-gone-3/commit"};
    for (size_t i = 0; i < ARRAY_SIZE(journals); i++) {
        cleanup_free char *path = path_in(world, journals[i]);
        cleanup_close int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        assert_int_equal(fd_write_all(fd, "one\0two", 8), 0);
    }
    /* In use: by whom does not matter. */
    put_file(world, ".boxd-stage-4/x", "");
    cleanup_free char *used = path_in(world, ".boxd-stage-4");
    cleanup_close int held = open(used, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(flock(held, LOCK_EX), 0);
    cleanup_free char *names = names_of(world->scope);
    assert_true(strcmp(names, "one two") == 0 || strcmp(names, "two one") == 0);
    assert_true(exists(world, "two/SKILL.md"));
    assert_true(exists(world, ".boxd-stage-4/x"));
    flock(held, LOCK_UN);
    struct stat st;
    free(names_of(world->scope));
    assert_int_equal(stat(world->root, &st), 0);
    assert_int_equal(st.st_nlink, 2 + 2);
}

/* Instead of the C library's, for this program: the name of a target that cannot be moved to. */
static const char *immovable;

int renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags)
{
    if (immovable && strcmp(to, immovable) == 0) {
        errno = EDQUOT;
        return -1;
    }
    return (int)syscall(SYS_renameat2, from_dir, from, to_dir, to, flags);
}

/* What was committed is not lost if it cannot be finished at once. */
static void left_over_for_later(void **state)
{
    struct world *world = *state;
    put_file(world, ".boxd-stage-1/0/SKILL.md", "---\nname: one\n---\n");
    put_file(world, ".boxd-stage-1/1/SKILL.md", "---\nname: two\n---\n");
    put_file(world, ".boxd-stage-1/commit", "one");
    cleanup_free char *journal = path_in(world, ".boxd-stage-1/commit");
    cleanup_close int fd = open(journal, O_WRONLY | O_APPEND | O_CLOEXEC);
    assert_int_equal(fd_write_all(fd, "\0two", 5), 0);
    immovable = "one";
    for (int i = 0; i < 3; i++) {
        check_names(world->scope, "two");
        assert_true(exists(world, ".boxd-stage-1/0/SKILL.md"));
    }
    immovable = NULL;
    cleanup_free char *names = names_of(world->scope);
    assert_true(strcmp(names, "one two") == 0 || strcmp(names, "two one") == 0);
    assert_false(exists(world, ".boxd-stage-1"));
}

/* A session may put something in the place of what is about to be moved aside. */
static void left_over_that_is_no_directory(void **state)
{
    struct world *world = *state;
    put_file(world, "s/SKILL.md", "");
    put_file(world, ".boxd-gone-1", "");
    put_link(world, ".boxd-gone-2", "s");
    put_link(world, ".boxd-gone-3", "nowhere");
    check_names(world->scope, "s");
    for (char name[] = ".boxd-gone-1"; name[11] <= '3'; name[11]++)
        assert_false(exists(world, name));
    assert_true(exists(world, "s/SKILL.md"));
}

/* --- validation --- */

static void check_problem(struct world *world, const char *text, unsigned line, const char *what)
{
    struct skill_problems problems = {NULL, 0};
    bool found = false;
    put_file(world, "good-name/SKILL.md", text);
    cleanup_free char *path = path_in(world, "good-name");
    cleanup_close int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ok(skill_validate_directory(dir, "good-name", &problems, &err));
    for (size_t i = 0; i < problems.count; i++) {
        assert_true(problems.items[i].fix[0]);
        found = found || (problems.items[i].line == line && strstr(problems.items[i].what, what));
    }
    if (!found && *what)
        fail_msg("'%s' is not found on line %u of %s", what, line, text);
    if (!*what && problems.count > 0)
        fail_msg("%s: %s", text, problems.items[0].what);
    skill_problems_release(&problems);
}

#define HEAD "---\nname: good-name\ndescription: What it does.\n"

static void validation(void **state)
{
    struct world *world = *state;
    put_file(world, "good-name/scripts/run.py", "");
    put_file(world, "good-name/a b.md", "");
    check_problem(world,
                  HEAD "license: MIT\nmetadata:\n  x: 1\n---\nDo `scripts/run.py`, see "
                       "[it](a%20b.md#x) [web](https://x) [here](#y).\n",
                  0, "");
    check_problem(world, "Text", 1, "no front matter");
    check_problem(world, "---\nname: x\n", 1, "does not end");
    check_problem(world, "\xef\xbb\xbf---\n---\n", 1, "byte order mark");
    check_problem(world, "---\nname: [\n---\nx", 3, "YAML");
    check_problem(world, "---\n- a\n---\nx", 2, "no mapping");
    check_problem(world, "---\n---\nx", 1, "no 'name'");
    check_problem(world, "---\nname: good-name\n---\nx", 1, "no 'description'");
    check_problem(world, "---\nname: Good\ndescription: x\n---\nx", 2, "other characters");
    check_problem(world, "---\nname: a--b\ndescription: x\n---\nx", 2, "hyphens");
    check_problem(world, "---\nname: other\ndescription: x\n---\nx", 2, "its directory");
    check_problem(world, "---\nname: a b\ndescription: x\n---\nx", 2, "no name for a skill");
    check_problem(world, "---\nname: 12\ndescription: x\n---\nx", 2, "not text");
    check_problem(world, "---\nname: good-name\n\ndescription: ''\n---\nx", 4, "empty");
    check_problem(world, HEAD "color: red\n---\nx", 4, "'color' is no field");
    check_problem(world, HEAD "name: good-name\n---\nx", 4, "twice");
    check_problem(world, HEAD "metadata: 5\n---\nx", 4, "no mapping");
    check_problem(world, HEAD "x: *a\n---\nx", 4, "aliases");
    check_problem(world, HEAD "---\n", 0, "no instructions");
    check_problem(world, HEAD "---\n\nSee [x](missing.md).\n", 6, "'missing.md'");
    check_problem(world, HEAD "---\nSee ![x](../up.png \"t\").\n", 5, "not in the skill");
    check_problem(world, HEAD "---\nRun `scripts/none.sh -x`.\n", 5, "scripts/none.sh");
    check_problem(world, HEAD "---\n```\n[x](none)\n```\n[y](a<b)\n", 8, "'a<b'");
    check_problem(world, HEAD "---\na\n\xff\n", 6, "not UTF-8");
    cleanup_free char *lengthy = xmalloc(2000);
    memset(lengthy, 'x', 1999);
    memcpy(lengthy, "---\nname: good-name\ndescription: ", 33);
    memcpy(lengthy + 1990, "\n---\nx\n", 8);
    check_problem(world, lengthy, 3, "at most 1024");
    struct skill_problems problems = {NULL, 0};
    ok(skill_validate(world->scope, "good-name", &problems, &err));
    skill_problems_release(&problems);
    cleanup_close int empty = open(world->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ok(skill_validate_directory(empty, "x", &problems, &err));
    assert_non_null(strstr(problems.items[0].what, "no SKILL.md"));
    skill_problems_release(&problems);
}

/* The skills that come with the tests: real ones, which the store must take as they are. */
static void real_skills(void **state)
{
    struct world *world = *state;
    const char *source = getenv("BOX_SOURCE");
    static const char *const skills[][2] = {
        {"csv-report", "references/examples/small.csv"},
        {"数据清洗", "scripts/清理.sh"},
        {"meeting-notes", "template.txt"},
        {"haiku", "SKILL.md"},
        {"py-tool", "tool/__main__.py"},
    };
    if (!source) {
        print_message("skipped: BOX_SOURCE is not set\n");
        skip();
    }
    for (size_t i = 0; i < ARRAY_SIZE(skills); i++) {
        cleanup_free char *path = xasprintf("%s/tests/data/skills/%s", source, skills[i][0]);
        struct skill_text text;
        const struct skill *skill;
        ok(create(world->scope, skills[i][0], path));
        ok(skill_get(world->scope, skills[i][0], &skill, &err));
        assert_true(skill->instructions_size > 0);
        skill_unref(skill);
        ok(skill_file_read(world->scope, skills[i][0], skills[i][1], &text, &err));
        skill_text_release(&text);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(finding),
        TEST(entry_behind_a_link),
        TEST(special_files),
        TEST(fields),
        TEST(newest_first),
        TEST(limits),
        TEST(many),
        TEST(many_entries),
        TEST(filled_with_files),
        TEST(filled_with_packages),
        TEST(remembering),
        TEST(quick_changes),
        TEST(creating),
        TEST(adopting),
        TEST(importing),
        TEST(updating),
        TEST(deleting),
        TEST(scanning),
        TEST(listing_files),
        TEST(reading_files),
        TEST(writing_files),
        TEST(removing_files),
        TEST(changing_what_was_seen),
        TEST(tenants),
        TEST(many_tenants),
        TEST(mounting),
        TEST(root_comes_and_goes),
        TEST(quota),
        TEST(threads),
        TEST(readers_do_not_wait),
        TEST(left_over),
        TEST(left_over_for_later),
        TEST(left_over_that_is_no_directory),
        TEST(validation),
        TEST(real_skills),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
