/* SPDX-License-Identifier: Apache-2.0 */
/* Archives from strangers: what is in them is made here, byte by byte. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "skills-help.h"
#include "skills/zip.h"

#define ENTRY "---\nname: s\n---\nDo it.\n"
#define GOOD                                \
    {                                       \
        .name = "s/SKILL.md", .data = ENTRY \
    }

static int install(struct world *world, const struct buf *data, struct skill_list *ret,
                   struct error *err)
{
    const struct skill_archive archive = {
        .data = data->data, .size = data->size, .filename = "pack.zip"};
    return skill_zip_install(world->scope, &archive, ret, err);
}

/* Directories under the root, stages too. */
static size_t count_entries(const struct world *world)
{
    struct stat st;
    assert_int_equal(stat(world->root, &st), 0);
    return st.st_nlink - 2;
}

static void check_refused(struct world *world, const char *what, const char *why,
                          const struct buf *data)
{
    struct skill_list list = {NULL, 0};
    struct error err = ERROR_INIT;
    if (install(world, data, &list, &err) == 0)
        fail_msg("%s is accepted", what);
    if (!strstr(err.message, why))
        fail_msg("%s: %s", what, err.message);
    if (err.code == ERROR_SYSTEM)
        fail_msg("%s: %s", what, err.message);
    assert_int_equal(count_entries(world), 0);
    assert_false(exists(world, "../evil"));
}

#define TWO(...)                \
    (const struct made_entry[]) \
    {                           \
        GOOD,                   \
        {                       \
            __VA_ARGS__         \
        }                       \
    }

static void attacks(void **state)
{
    static const char lie64[] = "\1\0\x08\0\0\0\0\0\0\1\0\0";
    static const char no64[] = "\1\0\0\0";
    static const char cut[] = "\7\0\x63\0";
    struct world *world = *state;
    const struct {
        const char *what;
        const char *why;
        const struct made_entry *entries;
    } cases[] = {
        {"a path up", "leads out", TWO(.name = "../evil", .data = "x")},
        {"a path up, inside", "leads out", TWO(.name = "s/../../evil", .data = "x")},
        {"a path up with backslashes", "leads out", TWO(.name = "..\\evil", .data = "x")},
        {"an absolute path", "leads out", TWO(.name = "/tmp/evil", .data = "x")},
        {"an absolute path with a backslash", "leads out", TWO(.name = "\\evil", .data = "x")},
        {"a drive", "leads out", TWO(.name = "C:evil", .data = "x")},
        {"a drive with a wide letter", "leads out",
         TWO(.name = "Ä:evil", .flags = 0x800, .data = "x")},
        {"the directory itself", "leads out", TWO(.name = ".", .data = "x")},
        {"the directory above", "leads out", TWO(.name = "..", .data = "x")},
        {"an empty name", "empty", TWO(.name = "", .data = "x")},
        {"a NUL in a name", "NUL", TWO(.name = "s/a\0b", .name_size = 5, .data = "x")},
        {"a link", "is a link", TWO(.name = "s/l", .data = "/etc/passwd", .mode = 0120777)},
        {"a device", "neither", TWO(.name = "s/d", .mode = 0020666)},
        {"a block device", "neither", TWO(.name = "s/d", .mode = 0060666)},
        {"a FIFO", "neither", TWO(.name = "s/f", .mode = 0010666)},
        {"a socket", "neither", TWO(.name = "s/f", .mode = 0140666)},
        {"the same twice", "twice", TWO(.name = "s/SKILL.md", .data = "x")},
        {"the same twice by a detour", "twice", TWO(.name = "s//./SKILL.md", .data = "x")},
        {"the same twice by a backslash", "twice", TWO(.name = "s\\SKILL.md", .data = "x")},
        {"a file below a file", "below a file", TWO(.name = "s/SKILL.md/x", .data = "x")},
        {"a directory with content", "with content", TWO(.name = "s/d/", .data = "x")},
        {"an encrypted entry", "encrypted",
         TWO(.name = "s/e", .data = "xxxxxxxxxxxxxxxx", .flags = 1)},
        {"strong encryption", "encrypted",
         TWO(.name = "s/e", .data = "xxxxxxxxxxxxxxxx", .flags = 0x41)},
        {"a patch", "a patch", TWO(.name = "s/e", .data = "x", .flags = 0x20)},
        {"an unknown method", "in a way", TWO(.name = "s/e", .data = "x", .method = 99)},
        {"an unknown version", "version", TWO(.name = "s/e", .data = "x", .version = 99)},
        {"a checksum that is wrong", "damaged", TWO(.name = "s/e", .data = "x", .crc = 7)},
        {"a size too small", "larger than it says", TWO(.name = "s/e", .data = "xxxxx", .size = 2)},
        {"a size too large", "damaged", TWO(.name = "s/e", .data = "xxxxx", .size = 9)},
        {"a size beyond the limit", "too large",
         TWO(.name = "s/e", .data = "xxxxx", .size = ZIP_ENTRY_MAX + 1)},
        {"a ratio beyond the limit", "too well", TWO(.name = "s/e", .data = "x", .size = 101)},
        {"nothing that becomes something", "too well", TWO(.name = "s/e", .size = 1)},
        {"a packed size beyond the archive", "beyond it",
         TWO(.name = "s/e", .data = "x", .packed = 1u << 24)},
        {"damaged compression", "damaged",
         TWO(.name = "s/e", .data = "\xff\xff\xff\xff", .method = 8)},
        {"another name inside", "two names", TWO(.name = "s/e", .local_name = "s/f", .data = "x")},
        {"a name that is not UTF-8", "not UTF-8",
         TWO(.name = "s/\xff", .flags = 0x800, .data = "x")},
        {"a place outside", "outside", TWO(.name = "s/e", .data = "x", .offset_plus = 1u << 30)},
        {"a place that is another's", "not where it should be",
         TWO(.name = "s/e", .data = "x", .offset_plus = (uint32_t)-3)},
        {"a 64-bit size", "too large",
         TWO(.name = "s/e", .data = "x", .size = UINT32_MAX, .extra = lie64, .extra_size = 12)},
        {"a 64-bit size that is missing", "missing",
         TWO(.name = "s/e", .data = "x", .size = UINT32_MAX, .extra = no64, .extra_size = 4)},
        {"an extra field that is cut off", "cut off",
         TWO(.name = "s/e", .data = "x", .extra = cut, .extra_size = 4)},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        cleanup_buf struct buf data = BUF_INIT(1u << 20);
        make_archive(cases[i].entries, 2, &data);
        check_refused(world, cases[i].what, cases[i].why, &data);
    }
}

static void long_names(void **state)
{
    /* Of a part, and of all of them. */
    char name[300];
    char deep[200] = "s";
    memset(name, 'x', 299);
    memcpy(name, "s/", 2);
    name[299] = '\0';
    for (int i = 0; i < ZIP_DEPTH_MAX; i++)
        memcpy(deep + 1 + i * 2, "/d", 3);
    const struct made_entry *const cases[] = {TWO(.name = name, .data = "x"),
                                              TWO(.name = deep, .data = "x")};
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        cleanup_buf struct buf data = BUF_INIT(1u << 20);
        make_archive(cases[i], 2, &data);
        check_refused(*state, "a long path", "too long", &data);
    }
}

static void accepted(void **state)
{
    static const char good64[] = "\1\0\x08\0\1\0\0\0\0\0\0\0";
    struct world *world = *state;
    const struct {
        const char *path; /* what is there then */
        const struct made_entry *entries;
    } cases[] = {
        {"f", TWO(.name = "s/f", .data = "x")},
        {"a/b/f", TWO(.name = "s\\a\\b\\f", .data = "x")},
        {"b", TWO(.name = "s/a/../b", .data = "x")},
        {"üÜ", TWO(.name = "s/\x81\x9a", .data = "x")},
        {"\xe2\x94\x9c\xe2\x95\x9d", TWO(.name = "s/\xc3\xbc", .data = "x")},
        {"ü", TWO(.name = "s/ü", .flags = 0x800, .data = "x")},
        {"\x01", TWO(.name = "s/\x01", .data = "x")},
        {"skill.md", TWO(.name = "s/skill.md", .data = "x")},
        {"f",
         TWO(.name = "s/f", .data = "x", .size = UINT32_MAX, .extra = good64, .extra_size = 12)},
        {"d", TWO(.name = "s/d/")},
        {"empty", TWO(.name = "s/empty")},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        cleanup_buf struct buf data = BUF_INIT(1u << 20);
        cleanup_skills struct skill_list list = {NULL, 0};
        struct error err = ERROR_INIT;
        char path[PATH_MAX];
        make_archive(cases[i].entries, 2, &data);
        if (install(world, &data, &list, &err) < 0)
            fail_msg("%s: %s", cases[i].path, err.message);
        assert_int_equal(list.count, 1);
        snprintf(path, sizeof path, "pack-upload/%s", cases[i].path);
        if (!exists(world, path))
            fail_msg("there is no %s", path);
        assert_int_equal(skill_delete(world->scope, "s", &err), 0);
        assert_int_equal(count_entries(world), 0);
    }
}

static void modes(void **state)
{
    struct world *world = *state;
    cleanup_buf struct buf data = BUF_INIT(1u << 20);
    cleanup_skills struct skill_list list = {NULL, 0};
    struct error err = ERROR_INIT;
    struct stat st;
    char path[PATH_MAX * 2];
    static const struct made_entry entries[] = {GOOD,
                                                {.name = "s/a", .mode = 0104777},
                                                {.name = "s/b", .mode = 0100600},
                                                {.name = "s/c", .mode = 0100010}};
    static const mode_t wanted[] = {0755, 0644, 0755};
    make_archive(entries, ARRAY_SIZE(entries), &data);
    assert_int_equal(install(world, &data, &list, &err), 0);
    for (size_t i = 0; i < ARRAY_SIZE(wanted); i++) {
        snprintf(path, sizeof path, "%s/pack-upload/%c", world->root, (char)('a' + (int)i));
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_mode & 07777, wanted[i]);
    }
}

static void many_entries(void **state)
{
    static const size_t counts[] = {ZIP_ENTRIES_MAX, ZIP_ENTRIES_MAX + 1, 100000};
    for (size_t i = 0; i < ARRAY_SIZE(counts); i++) {
        struct made_entry *entries = xcalloc(counts[i], sizeof *entries);
        char(*names)[32] = xcalloc(counts[i], sizeof *names);
        cleanup_buf struct buf data = BUF_INIT(64u << 20);
        entries[0] = (struct made_entry)GOOD;
        for (size_t j = 1; j < counts[i]; j++) {
            snprintf(names[j], sizeof names[j], "s/%zu", j);
            entries[j].name = names[j];
        }
        make_archive(entries, counts[i], &data);
        if (counts[i] <= ZIP_ENTRIES_MAX) {
            cleanup_skills struct skill_list list = {NULL, 0};
            struct error err = ERROR_INIT;
            assert_int_equal(install(*state, &data, &list, &err), 0);
            assert_int_equal(skill_delete(((struct world *)*state)->scope, "s", &err), 0);
        } else {
            check_refused(*state, "too many entries", "more than 512", &data);
        }
        free(entries);
        free(names);
    }
}

/* Sizes together, without any that is too large by itself; and bytes used twice. */
static void together(void **state)
{
    enum { FILES = 6 };
    static const char *const names[FILES] = {"s/0", "s/1", "s/2", "s/3", "s/4", "s/5"};
    struct made_entry entries[FILES + 1] = {GOOD};
    char *noise = xmalloc(4u << 20);
    cleanup_buf struct buf data = BUF_INIT(64u << 20);
    for (size_t i = 0; i < 4u << 20; i++)
        noise[i] = (char)(i * 2654435761u >> 13);
    for (size_t i = 0; i < FILES; i++)
        entries[i + 1] = (struct made_entry){
            .name = names[i], .data = noise, .data_size = 3u << 20, .size = 12u << 20, .method = 8};
    make_archive(entries, FILES + 1, &data);
    check_refused(*state, "more than 64 MiB together", "more than 67108864", &data);
    free(noise);

    /* The second's header lies in the first one's bytes, so that its own are there twice. */
    cleanup_buf struct buf inner = BUF_INIT(4096);
    cleanup_buf struct buf unused = BUF_INIT(4096);
    const struct made_entry small = {.name = "s/b", .data = "b"};
    make_entry(&small, &inner, &unused);
    struct made_entry twice[] = {
        GOOD,
        {.name = "s/a", .data = inner.data, .data_size = inner.size},
        {.name = "s/b", .data = "b", .offset_plus = -(uint32_t)inner.size}};
    cleanup_buf struct buf overlapping = BUF_INIT(1u << 20);
    make_archive(twice, 3, &overlapping);
    check_refused(*state, "bytes of two entries", "overlaps", &overlapping);
}

/* In front of it, behind it, in its comment, and instead of it. */
static void surroundings(void **state)
{
    struct world *world = *state;
    const struct made_entry entry = GOOD;
    cleanup_buf struct buf data = BUF_INIT(1u << 20);
    cleanup_buf struct buf prefixed = BUF_INIT(1u << 20);
    struct error err = ERROR_INIT;
    make_archive(&entry, 1, &data);
    buf_append(&prefixed, "#!/bin/sh\nexit\n", 15);
    buf_append(&prefixed, data.data, data.size);
    cleanup_skills struct skill_list list = {NULL, 0};
    assert_int_equal(install(world, &prefixed, &list, &err), 0);
    assert_int_equal(skill_delete(world->scope, "s", &err), 0);
    for (size_t size = 0; size < data.size; size++)
        check_refused(world, "an archive cut off", "",
                      &(struct buf){.data = data.data, .size = size});
    check_refused(world, "no archive", "end record",
                  &(struct buf){.data = (char[]){"hello"}, .size = 5});
    cleanup_free char *large = xcalloc(SKILL_ARCHIVE_MAX + 1, 1);
    check_refused(world, "a large one", "larger than",
                  &(struct buf){.data = large, .size = SKILL_ARCHIVE_MAX + 1});
}

/* A second end record in the comment that asks for 2^32 entries: libzip would believe it. */
static void false_ends(void **state)
{
    const struct made_entry entry = GOOD;
    cleanup_buf struct buf data = BUF_INIT(1u << 20);
    make_archive(&entry, 1, &data);
    size_t end = data.size;
    put_numbers(&data, "48224488884484", N(0x06064B50), N(44), N(45), N(45), N(0), N(0),
                N(UINT32_MAX), N(UINT32_MAX), N(0), N(0), N(0x07064B50), N(0), N(end), N(1));
    put_numbers(&data, "42222442", N(0x06054B50), N(0), N(0), N(0xFFFF), N(0xFFFF), N(UINT32_MAX),
                N(UINT32_MAX), N(0));
    check_refused(*state, "2^32 entries", "no SKILL.md", &data);

    /* The same as the content of a file: just a file. */
    const struct made_entry nested[] = {
        GOOD, {.name = "s/n.zip", .data = data.data, .data_size = data.size}};
    cleanup_buf struct buf outer = BUF_INIT(1u << 20);
    cleanup_skills struct skill_list list = {NULL, 0};
    struct error err = ERROR_INIT;
    make_archive(nested, 2, &outer);
    if (install(*state, &outer, &list, &err) < 0)
        fail_msg("%s", err.message);
}

/* --- what becomes of it --- */

static const struct made_entry several[] = {
    {.name = "pack/one/SKILL.md", .data = "---\nname: one\n---\n"},
    {.name = "pack/two/SKILL.md", .data = "---\nname: two\n---\n"},
    {.name = "pack/two/sub/SKILL.md", .data = "---\nname: hidden\n---\n"},
    {.name = "pack/deep/er/skill.md", .data = "No front matter."},
    {.name = "pack/too/deep/by/SKILL.md", .data = "---\nname: never\n---\n"},
    {.name = "pack/one/requirements.txt", .data = "x"},
};

static void preview(void **state)
{
    struct world *world = *state;
    cleanup_buf struct buf data = BUF_INIT(1u << 20);
    struct error err = ERROR_INIT;
    make_archive(several, ARRAY_SIZE(several), &data);
    struct skill_archive archive = {
        .data = data.data, .size = data.size, .filename = "My Päck.v1.zip"};
    static const char *const wanted[][3] = {{"deep/er", "er", "My-Päck-v1-er-upload"},
                                            {"one", "one", "My-Päck-v1-one-upload"},
                                            {"two", "two", "My-Päck-v1-two-upload"}};
    cleanup_skills struct skill_list list = {NULL, 0};
    assert_int_equal(skill_zip_preview(world->scope, &archive, &list, &err), 0);
    assert_int_equal(list.count, 3);
    for (size_t i = 0; i < 3; i++) {
        char root[PATH_MAX * 2];
        snprintf(root, sizeof root, "%s/%s", world->root, wanted[i][2]);
        assert_string_equal(list.items[i]->source_path, wanted[i][0]);
        assert_string_equal(list.items[i]->name, wanted[i][1]);
        assert_string_equal(list.items[i]->package_root, root);
    }
    assert_true(list.items[1]->python_project);
    assert_int_equal(count_entries(world), 0);

    archive.source_subdir = "deep";
    cleanup_skills struct skill_list below = {NULL, 0};
    assert_int_equal(skill_zip_preview(world->scope, &archive, &below, &err), 0);
    assert_int_equal(below.count, 1);
    assert_string_equal(below.items[0]->source_path, "er");
    static const char *const wrong[] = {"missing", "../x", "one/SKILL.md"};
    for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
        struct skill_list none = {NULL, 0};
        archive.source_subdir = wrong[i];
        assert_int_equal(skill_zip_preview(world->scope, &archive, &none, &err), -1);
    }
}

static int choose(struct world *world, const struct buf *data, const char *const *paths,
                  size_t count, const char *suffix, struct error *err)
{
    const struct skill_archive archive = {.data = data->data,
                                          .size = data->size,
                                          .filename = "p.zip",
                                          .target_suffix = suffix,
                                          .source_paths = paths,
                                          .source_path_count = count};
    cleanup_skills struct skill_list list = {NULL, 0};
    return skill_zip_install(world->scope, &archive, &list, err);
}

static void choosing(void **state)
{
    struct world *world = *state;
    cleanup_buf struct buf data = BUF_INIT(1u << 20);
    struct error err = ERROR_INIT;
    make_archive(several, ARRAY_SIZE(several), &data);
    const char *const both[] = {" /one/ ", "deep\\er", "one"};
    const char *const wrong[] = {"two", "three"};
    assert_int_equal(choose(world, &data, NULL, 0, NULL, &err), -1);
    assert_non_null(strstr(err.message, "deep/er, one, two"));
    assert_int_equal(choose(world, &data, wrong, 2, NULL, &err), -1);
    assert_int_equal(count_entries(world), 0);
    assert_int_equal(choose(world, &data, both, 3, NULL, &err), 0);
    assert_true(exists(world, "p-one-upload/requirements.txt"));
    assert_true(exists(world, "p-er-upload/skill.md"));
    assert_int_equal(count_entries(world), 2);
    /* All or nothing: the second is there already. */
    const char *const again[] = {"two", "one"};
    assert_int_equal(choose(world, &data, again, 2, NULL, &err), -1);
    assert_int_equal(count_entries(world), 2);
    static const char *const suffixes[] = {"a/b", "/../../evil", "../x"};
    for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++)
        assert_int_equal(choose(world, &data, both, 1, suffixes[i], &err), -1);
    /* Without a name of its own it is called like its directory, which must do as a name. */
    assert_int_equal(choose(world, &data, both + 1, 1, "no name", &err), -1);
    assert_int_equal(count_entries(world), 2);
}

static void export_and_import(void **state)
{
    struct world *world = *state;
    struct error err = ERROR_INIT;
    cleanup_free char *zeros = xmalloc(1 << 20);
    memset(zeros, 'z', 1 << 20);
    zeros[(1 << 20) - 1] = '\0';
    put_file(world, "a b/SKILL.md", "---\nname: s\n---\nDo it.\n");
    put_file(world, "a b/scripts/x.sh", "#!/bin/sh\n");
    put_file(world, "a b/compresses", zeros);
    put_file(world, "a b/empty", "");
    put_file(world, "secret", "x");
    put_link(world, "a b/inside", "scripts");
    put_link(world, "a b/outside", "../secret");
    cleanup_close int fd = open(world->root, O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    if (skill_zip_export(world->scope, "s", fd, &err) < 0)
        fail_msg("%s", err.message);
    const struct skill_archive archive = {.fd = fd, .filename = "back.zip"};
    cleanup_skills struct skill_list list = {NULL, 0};
    if (skill_zip_install(world->scope, &archive, &list, &err) < 0)
        fail_msg("%s", err.message);
    cleanup_free char *script = slurp(world, "back-upload/inside/x.sh");
    assert_string_equal(script, "#!/bin/sh\n");
    assert_true(exists(world, "back-upload/empty"));
    assert_false(exists(world, "back-upload/outside"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(attacks, world_setup, world_teardown),
        cmocka_unit_test_setup_teardown(long_names, world_setup, world_teardown),
        cmocka_unit_test_setup_teardown(accepted, world_setup, world_teardown),
        cmocka_unit_test_setup_teardown(modes, world_setup, world_teardown),
        cmocka_unit_test_setup_teardown(many_entries, world_setup, world_teardown),
        cmocka_unit_test_setup_teardown(together, world_setup, world_teardown),
        cmocka_unit_test_setup_teardown(surroundings, world_setup, world_teardown),
        cmocka_unit_test_setup_teardown(false_ends, world_setup, world_teardown),
        cmocka_unit_test_setup_teardown(preview, world_setup, world_teardown),
        cmocka_unit_test_setup_teardown(choosing, world_setup, world_teardown),
        cmocka_unit_test_setup_teardown(export_and_import, world_setup, world_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
