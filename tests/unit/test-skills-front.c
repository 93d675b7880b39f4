/* SPDX-License-Identifier: Apache-2.0 */
/* SKILL.md as text: what is front matter, how its values are typed, and what a change leaves alone.
   That PyYAML sees it the same way is for tests/conformance/langbot/test_skill_store.py. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "skills/front.h"
#include "skills/scalar.h"
#include "skills/skills.h"
#include "skills/text.h"

/* --- text --- */

static void names(void **state)
{
    (void)state;
    static const char *const good[] = {"a", "A-b_9", "技能", "Ünï", "½", "123", "-a"};
    static const char *const bad[] = {"",        "-",   "_-",        "a b",
                                      "../x",    "/x",  "a.b",       "a\xff",
                                      "．．／x", "a\n", "e\xcc\x81", "a\xe2\x80\x8b"};
    char longest[SKILL_NAME_MAX * 2 + 2];
    for (size_t i = 0; i < ARRAY_SIZE(good); i++)
        assert_int_equal(text_check_name(good[i], strlen(good[i]), NULL), 0);
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        assert_int_equal(text_check_name(bad[i], strlen(bad[i]), NULL), -1);
    assert_int_equal(text_check_name("a\0b", 3, NULL), -1);
    /* Characters count, not bytes. */
    for (size_t i = 0; i < SKILL_NAME_MAX; i++)
        memcpy(longest + i * 2, "ä", 2);
    assert_int_equal(text_check_name(longest, SKILL_NAME_MAX * 2, NULL), 0);
    longest[SKILL_NAME_MAX * 2] = 'x';
    longest[SKILL_NAME_MAX * 2 + 1] = '\0';
    assert_int_equal(text_check_name(longest, SKILL_NAME_MAX * 2 + 1, NULL), -1);
}

static void paths(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"", "."},
        {".", "."},
        {"a", "a"},
        {"a/./b", "a/b"},
        {"a//b/", "a/b"},
        {"a/../b", "b"},
        {"a/..", "."},
        {"..", ".."},
        {"a/../..", ".."},
        {"../a", "../a"},
        {"../../a", "../../a"},
        {"/", "/"},
        {"/..", "/"},
        {"/a/../..", "/"},
        {"//a", "//a"},
        {"///a", "/a"},
        {"a/b/../../c", "c"},
        {"..a/b", "..a/b"},
        {"a/...", "a/..."},
    };
    static const char *const archive[][2] = {
        {"  a/b ", "a/b"}, {"\\a\\b\\", "a/b"}, {"///", ""}, {"", ""}, {"/a", "a"}};
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        cleanup_free char *normal = text_normpath(cases[i][0]);
        assert_string_equal(normal, cases[i][1]);
    }
    for (size_t i = 0; i < ARRAY_SIZE(archive); i++) {
        cleanup_free char *clean = text_archive_path(archive[i][0]);
        assert_string_equal(clean, archive[i][1]);
    }
}

static void spaces_and_lines(void **state)
{
    (void)state;
    cleanup_free char *stripped = text_stripped(" \t\r\n\x1c\xc2\x85\xe3\x80\x80x y\xc2\xa0 ");
    assert_string_equal(stripped, "x y");
    static const char text[] = "a\r\nb\rc\x0b"
                               "d\xe2\x80\xa8"
                               "e";
    static const size_t ends[] = {1, 4, 6, 8, 12};
    size_t at = 0;
    for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
        size_t next;
        assert_int_equal(text_line_end(text, sizeof text - 1, at, &next), ends[i]);
        at = next;
    }
    assert_int_equal(at, sizeof text - 1);
}

static void messages_are_printable(void **state)
{
    (void)state;
    char shown[TEXT_SHOWN_SIZE];
    char list[TEXT_LIST_SIZE] = "";
    cleanup_free char *wide = xmalloc(1000);
    assert_string_equal(text_shown("a\x1b[31m\n\xff", shown), "a?[31m??");
    memset(wide, 'x', 999);
    wide[999] = '\0';
    assert_true(strlen(text_shown(wide, shown)) < TEXT_SHOWN_SIZE);
    for (size_t i = 0; i < 100; i++)
        text_list_add(list, wide);
    assert_true(strlen(list) < TEXT_LIST_SIZE);
    assert_non_null(strstr(list, ", …"));
}

/* --- scalars --- */

static void scalars(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum scalar_kind kind;
        bool truthy;
        const char *str;
    } cases[] = {
        {"word", SCALAR_TEXT, true, "word"},
        {"", SCALAR_NULL, false, "None"},
        {"~", SCALAR_NULL, false, "None"},
        {"Null", SCALAR_NULL, false, "None"},
        {"nULL", SCALAR_TEXT, true, "nULL"},
        {"yes", SCALAR_BOOL, true, "True"},
        {"OFF", SCALAR_BOOL, false, "False"},
        {"y", SCALAR_TEXT, true, "y"},
        {"0", SCALAR_INT, false, "0"},
        {"-0", SCALAR_INT, false, "0"},
        {"+12", SCALAR_INT, true, "12"},
        {"1_000", SCALAR_INT, true, "1000"},
        {"017", SCALAR_INT, true, "15"},
        {"019", SCALAR_TEXT, true, "019"},
        {"0x1F", SCALAR_INT, true, "31"},
        {"-0b101", SCALAR_INT, true, "-5"},
        {"1:30", SCALAR_INT, true, "90"},
        {"1:60", SCALAR_TEXT, true, "1:60"},
        {"0xffffffffffffffffffff", SCALAR_INT, true, "1208925819614629174706175"},
        {"1.5", SCALAR_FLOAT, true, "1.5"},
        {"1.", SCALAR_FLOAT, true, "1.0"},
        {".5", SCALAR_FLOAT, true, "0.5"},
        {"-.5", SCALAR_TEXT, true, "-.5"},
        {"0.0", SCALAR_FLOAT, false, "0.0"},
        {"1e5", SCALAR_TEXT, true, "1e5"},
        {"1.0e+5", SCALAR_FLOAT, true, "100000.0"},
        {"1.0e+16", SCALAR_FLOAT, true, "1e+16"},
        {"0.1", SCALAR_FLOAT, true, "0.1"},
        {"0.00001", SCALAR_FLOAT, true, "1e-05"},
        {"1:30.5", SCALAR_FLOAT, true, "90.5"},
        {"-.inf", SCALAR_FLOAT, true, "-inf"},
        {".nan", SCALAR_FLOAT, true, "nan"},
        {"2024-02-29", SCALAR_DATE, true, "2024-02-29"},
        {"2024-2-9", SCALAR_TEXT, true, "2024-2-9"},
        {"2001-12-14t21:59:43.1-05:00", SCALAR_DATE, true, "2001-12-14 21:59:43.100000-05:00"},
        {"2001-12-14 21:59:43 Z", SCALAR_DATE, true, "2001-12-14 21:59:43+00:00"},
        {"<<", SCALAR_MERGE, true, "<<"},
        {"=", SCALAR_DEFAULT, true, "="},
    };
    static const char *const impossible[] = {"2023-02-29", "0000-01-01", "2024-01-01 24:00:00",
                                             "2024-01-01 1:00:00 +24", "0b_"};
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct scalar scalar;
        assert_int_equal(scalar_resolve(cases[i].text, strlen(cases[i].text), &scalar, NULL), 0);
        if (scalar.kind != cases[i].kind || scalar.truthy != cases[i].truthy ||
            strcmp(scalar.text, cases[i].str) != 0)
            fail_msg("'%s' became '%s', of kind %d", cases[i].text, scalar.text, scalar.kind);
        free(scalar.text);
        free(scalar.repr);
    }
    for (size_t i = 0; i < ARRAY_SIZE(impossible); i++) {
        struct scalar scalar;
        struct error err = ERROR_INIT;
        assert_int_equal(scalar_resolve(impossible[i], strlen(impossible[i]), &scalar, &err), -1);
        assert_true(err.message[0]);
    }
}

static void numbers_of_any_length(void **state)
{
    (void)state;
    struct scalar scalar;
    cleanup_free char *text = xmalloc(60001);
    memset(text, '9', 60000);
    text[4300] = '\0';
    assert_int_equal(scalar_resolve(text, 4300, &scalar, NULL), 0);
    assert_string_equal(scalar.text, text);
    free(scalar.text);
    text[4300] = '9';
    text[60000] = '\0';
    assert_int_equal(scalar_resolve(text, 60000, &scalar, NULL), -1);
    /* Python reads these, and cannot write them. */
    memcpy(text, "0x", 2);
    assert_int_equal(scalar_resolve(text, 60000, &scalar, NULL), 0);
    assert_null(scalar.text);
}

/* --- reading --- */

static void check_read(const char *text, const char *name, const char *display,
                       const char *description, const char *instructions)
{
    cleanup_front struct front front = {.meta = NULL};
    struct error err = ERROR_INIT;
    if (front_read(text, strlen(text), "dir", &front, &err) < 0)
        fail_msg("%s: %s", text, err.message);
    assert_string_equal(front.name, name);
    assert_string_equal(front.display_name, display);
    assert_string_equal(front.description, description);
    assert_string_equal(text + (front.parts.present ? front.parts.instructions : 0), instructions);
}

static void reading(void **state)
{
    (void)state;
    check_read("---\nname: a\ndescription: b\n---\n\n\nDo", "a", "a", "b", "Do");
    check_read("Just text", "dir", "dir", "", "Just text");
    check_read("", "dir", "dir", "", "");
    check_read("---\nname: a\n", "dir", "dir", "", "---\nname: a\n");
    check_read("----\nname: a\n---\n", "dir", "dir", "", "----\nname: a\n---\n");
    check_read("\xef\xbb\xbf---\nname: a\n---\n", "dir", "dir", "",
               "\xef\xbb\xbf---\nname: a\n---\n");
    check_read("---\r\nname: a\r\n---\r\n\r\nDo\r\n", "a", "a", "", "\r\nDo\r\n");
    check_read("--- \nname: 123\ndisplay_name: 0\ndescription: true\n  ---\nx", "123", "123",
               "True", "x");
    check_read("---\n---\nx", "dir", "dir", "", "x");
    check_read("---\n- a\n---\nx", "dir", "dir", "", "x");
    check_read("---\nname:\ndescription: ~\n---\n", "dir", "dir", "", "");
    check_read("---\nname: a\nname: b\n---\n", "b", "b", "", "");
    check_read("---\n<<: {name: a, description: c}\nname: b\n---\n", "b", "b", "c", "");
    check_read("---\nname: a\ndescription: [x, 'y z', 2, {k: ~}]\n---\n", "a", "a",
               "['x', 'y z', 2, {'k': None}]", "");
    check_read("---\nname: a\ndescription: |\n  two\n  lines\n---\n", "a", "a", "two\nlines", "");
    check_read("---\nname: 2024-01-01\ndisplay_name: '  '\n---\n", "2024-01-01", "", "", "");
}

static void refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "---\nname: a b\n---\n",
        "---\nname: ../x\n---\n",
        "---\nname: '   '\n---\n",
        "---\nname: [a]\n---\n",
        "---\nname: \"a\\0\"\n---\n",
        "---\nname: a\ndescription: \"a\\0\"\n---\n",
        "---\nname: &x a\n---\n",
        "---\nname: *x\n---\n",
        "---\na: &a [x]\nb: [*a, *a]\n---\n",
        "---\nname: !!str a\n---\n",
        "---\nname: ! a\n---\n",
        "---\nname: !!python/object:os.system a\n---\n",
        "---\na: [[[[[[[[x]]]]]]]]\n---\n",
        "---\n? [a]\n: b\n---\n",
        "---\nname: =\n---\n",
        "---\nname: <<\n---\n",
        "---\n<<: 5\n---\n",
        "---\nname: 2024-13-01\n---\n",
        "---\nname: [a\n---\n",
        "---\nname: a\n--- b\n---\n",
        "---\nname: \x07\n---\n",
    };
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        struct front front;
        struct error err = ERROR_INIT;
        if (front_read(texts[i], strlen(texts[i]), "dir", &front, &err) == 0)
            fail_msg("'%s' is accepted", texts[i]);
        assert_true(err.message[0]);
    }
}

static void bounded(void **state)
{
    (void)state;
    struct front front;
    struct error err = ERROR_INIT;
    size_t size = SKILL_FRONT_MAX + 100;
    cleanup_free char *text = xmalloc(size + 1);
    memset(text, '#', size);
    memcpy(text, "---\n", 4);
    memcpy(text + size - 5, "\n---\n", 5);
    text[size] = '\0';
    assert_int_equal(front_read(text, size, "dir", &front, &err), -1);
    assert_int_equal(err.code, ERROR_LIMIT);
    /* Seven levels and the mapping itself are allowed, and no more. */
    check_read("---\na: [[[[[[[x]]]]]]]\n---\n", "dir", "dir", "", "");
}

/* --- writing --- */

static char *edited(const char *text, const char *name, const char *display,
                    const char *description, const char *instructions)
{
    const struct front_edit edit = {.name = name,
                                    .display_name = display,
                                    .description = description,
                                    .instructions = instructions};
    struct error err = ERROR_INIT;
    char *out = NULL;
    size_t size;
    if (front_write(text, text ? strlen(text) : 0, &edit, &out, &size, &err) < 0)
        fail_msg("%s: %s", text ? text : "nothing", err.message);
    assert_int_equal(strlen(out), size);
    return out;
}

static void check_edit(const char *text, const char *description, const char *wanted)
{
    cleanup_free char *out = edited(text, "a", "a", description, NULL);
    assert_string_equal(out, wanted);
}

static void written_anew(void **state)
{
    (void)state;
    cleanup_free char *plain = edited(NULL, "a", "", "What: it does", "Do.\n");
    assert_string_equal(plain, "---\nname: a\ndescription: \"What: it does\"\n---\n\nDo.\n");
    cleanup_free char *typed = edited(NULL, "123", "true", "", "");
    assert_string_equal(typed, "---\nname: \"123\"\ndisplay_name: \"true\"\n---\n\n");
    cleanup_free char *kept = edited("Old text\n", "a", "A", NULL, NULL);
    assert_string_equal(kept, "---\nname: a\ndisplay_name: A\n---\n\nOld text\n");
}

static void only_what_changes(void **state)
{
    (void)state;
    /* Keys, order, comments, quotes and line ends of everything else. */
    check_edit("---\n# top\nlicense: MIT\nname: 'a'\nx: {b: 1}\ndescription: old # why\n---\nDo\n",
               "new",
               "---\n# top\nlicense: MIT\nname: 'a'\nx: {b: 1}\ndescription: new # why\n---\nDo\n");
    check_edit("---\r\nname: a\r\ndescription: old\r\nv: 2\r\n---\r\nDo\r\n", "new",
               "---\r\nname: a\r\ndescription: new\r\nv: 2\r\n---\r\nDo\r\n");
    check_edit("---\nname: a\nv: 2\n---\nDo", "new",
               "---\nname: a\ndescription: new\nv: 2\n---\nDo");
    check_edit("---\nv: 2\n---\nDo", "new", "---\nname: a\ndescription: new\nv: 2\n---\nDo");
    check_edit("---\nname: a\ndescription: old\nv: 2\n---\nDo", "", "---\nname: a\nv: 2\n---\nDo");
    check_edit("---\nname: a\ndescription:\nv: 2\n---\n", "new",
               "---\nname: a\ndescription: new\nv: 2\n---\n");
    check_edit("---\n{name: a, v: [1]}\n---\n", "x",
               "---\n{description: \"x\", name: a, v: [1]}\n---\n");
    check_edit("---\n  name: a\n  v: 2\n---\n", "x",
               "---\n  name: a\n  description: x\n  v: 2\n---\n");
    check_edit("---\nname: a\ndescription: |\n  two\n  lines\n\n# c\nv: 2\n---\n", "x",
               "---\nname: a\ndescription: x\n# c\nv: 2\n---\n");
    check_edit("---\nname: a\ndescription: >-\n  two\n  lines\nv: 2\n---\n", "",
               "---\nname: a\nv: 2\n---\n");
    check_edit("---\nname: a\ndescription:\n- x\n- y\nv: 2\n---\n", "z",
               "---\nname: a\ndescription: z\nv: 2\n---\n");
    /* Nothing to change: not a byte does. */
    check_edit("---\nname:   a\ndescription: \"\\x41\"\n---\n\n\n\nx", "A",
               "---\nname:   a\ndescription: \"\\x41\"\n---\n\n\n\nx");
}

static void anew_if_it_must(void **state)
{
    (void)state;
    /* Removing one of two would bring the other back. */
    cleanup_free char *out =
        edited("---\n# lost\ndescription: 1\nname: a\ndescription: 2\nv: [x, 2]\n---\nDo", "a", "a",
               "", NULL);
    cleanup_front struct front front = {.meta = NULL};
    assert_int_equal(front_read(out, strlen(out), "dir", &front, NULL), 0);
    assert_string_equal(front.description, "");
    assert_non_null(value_get(front.meta, "v"));
}

static void instructions(void **state)
{
    (void)state;
    cleanup_free char *lf = edited("---\nname: a\n---\nOld", "a", "a", "", "New");
    assert_string_equal(lf, "---\nname: a\n---\n\nNew");
    /* A reader skips no empty line of the other kind, so there is none. */
    cleanup_free char *crlf = edited("---\r\nname: a\r\n---\r\nOld", "a", "a", "", "New");
    assert_string_equal(crlf, "---\r\nname: a\r\n---\r\nNew");
    cleanup_free char *unended = edited("---\nname: a\n---", "a", "a", "", "New");
    assert_string_equal(unended, "---\nname: a\n---\n\nNew");
}

/* Whatever is written reads back as what was meant. */
static void round_trips(void **state)
{
    (void)state;
    static const char *const texts[] = {"plain",
                                        "two words",
                                        "a: b",
                                        "a #b",
                                        "- a",
                                        "? a",
                                        "'q'",
                                        "\"d\"",
                                        "x:",
                                        "#x",
                                        "[a",
                                        "{a",
                                        "&a",
                                        "*a",
                                        "!a",
                                        "|",
                                        ">",
                                        "%a",
                                        "@a",
                                        "`a",
                                        "true",
                                        "null",
                                        "1",
                                        "1.5",
                                        "2024-01-01",
                                        "0x1",
                                        "~",
                                        "=",
                                        "<<",
                                        "---",
                                        "...",
                                        "line\nline",
                                        "tab\tx",
                                        "é 技能 😀",
                                        "x\xe2\x80\xa8y",
                                        "\xef\xbb\xbf x",
                                        "\x01\x7f",
                                        "back\\slash",
                                        "a,b",
                                        "a]b",
                                        "ends: ",
                                        "C:\\x",
                                        "x\xc2\x85y",
                                        "\xc2\xa0x",
                                        "-",
                                        "?"};
    static const char *const bases[] = {NULL, "---\nname: a\nk: v\n---\n",
                                        "---\n{name: a, k: v}\n---\n",
                                        "---\r\nk: v\r\ndescription: 'x'\r\n---\r\n"};
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        for (size_t j = 0; j < ARRAY_SIZE(bases); j++) {
            cleanup_free char *out = edited(bases[j], "a", texts[i], texts[i], NULL);
            cleanup_front struct front front = {.meta = NULL};
            cleanup_free char *wanted = text_stripped(texts[i]);
            assert_int_equal(front_read(out, strlen(out), "dir", &front, NULL), 0);
            if (strcmp(front.description, wanted) != 0 || strcmp(front.display_name, wanted) != 0)
                fail_msg("'%s' became '%s' in %s", wanted, front.description, out);
            assert_true(!bases[j] || value_get(front.meta, "k"));
        }
    }
}

static void too_large(void **state)
{
    (void)state;
    struct error err = ERROR_INIT;
    char *out = NULL;
    size_t size;
    cleanup_free char *huge = xmalloc(SKILL_TEXT_MAX + 1);
    memset(huge, 'x', SKILL_TEXT_MAX);
    huge[SKILL_TEXT_MAX] = '\0';
    struct front_edit edit = {.name = "a", .instructions = huge};
    assert_int_equal(front_write(NULL, 0, &edit, &out, &size, &err), -1);
    assert_int_equal(err.code, ERROR_LIMIT);
    huge[SKILL_FRONT_MAX] = '\0';
    edit = (struct front_edit){.name = "a", .description = huge};
    assert_int_equal(front_write(NULL, 0, &edit, &out, &size, &err), -1);
    assert_int_equal(err.code, ERROR_LIMIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),
        cmocka_unit_test(paths),
        cmocka_unit_test(spaces_and_lines),
        cmocka_unit_test(messages_are_printable),
        cmocka_unit_test(scalars),
        cmocka_unit_test(numbers_of_any_length),
        cmocka_unit_test(reading),
        cmocka_unit_test(refused),
        cmocka_unit_test(bounded),
        cmocka_unit_test(written_anew),
        cmocka_unit_test(only_what_changes),
        cmocka_unit_test(anew_if_it_must),
        cmocka_unit_test(instructions),
        cmocka_unit_test(round_trips),
        cmocka_unit_test(too_large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
