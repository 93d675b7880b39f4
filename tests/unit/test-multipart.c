/* SPDX-License-Identifier: Apache-2.0 */
/* Forms: what is taken out of them, and every way in which one is none. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "api/multipart.h"
#include "core/mem.h"

#define HEAD(disposition) "--b\r\nContent-Disposition: " disposition "\r\n\r\n"
#define END               "\r\n--b--\r\n"
#define GOOD              HEAD("form-data; name=\"a\"") "data" END

/* The first part of a form whose boundary is "b": its data is the caller's to free. */
static int read_one(const char *body, size_t size, struct multipart_part *ret, struct error *err)
{
    /* Of its own size, so that a read past the end is seen. */
    cleanup_free char *copy = xmalloc(size ? size : 1);
    memcpy(copy, body, size);
    struct multipart form;
    if (multipart_begin(&form, "b", copy, size, err) < 0)
        return -1;
    int rc = multipart_next(&form, ret, err);
    if (rc > 0)
        ret->data = xstrndup(ret->data, ret->size);
    return rc;
}

static void assert_part(const char *body, const char *name, const char *filename, const char *data)
{
    struct error err = ERROR_INIT;
    struct multipart_part part;
    if (read_one(body, strlen(body), &part, &err) != 1)
        fail_msg("%s: %s", body, err.message);
    assert_string_equal(part.name, name);
    assert_string_equal(part.filename, filename);
    assert_string_equal(part.data, data);
    free((char *)part.data);
}

static void assert_malformed(const char *body, const char *words)
{
    struct error err = ERROR_INIT;
    struct multipart_part part;
    assert_int_equal(read_one(body, strlen(body), &part, &err), -1);
    assert_int_equal(err.code, ERROR_INVALID);
    if (!strstr(err.message, words))
        fail_msg("%s: not '%s': %s", body, words, err.message);
}

static void test_parts(void **state)
{
    (void)state;
    assert_part(GOOD, "a", "", "data");
    assert_part("a preamble\r\n" GOOD, "a", "", "data");
    assert_part("\r\n" GOOD, "a", "", "data");
    assert_part("--b \t\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nx" END, "a", "", "x");
    assert_part(HEAD("form-data; name=a; filename=f.zip") "x" END, "a", "f.zip", "x");
    assert_part(HEAD("Form-Data ; NAME=a ") "x" END, "a", "", "x");
    assert_part(HEAD("form-data; name=\"a\"") END, "a", "", "");
    assert_part(HEAD("form-data; name=\"a\"") "--b--\r\n", "a", "", "");
    assert_part(HEAD("form-data; name=\"a\"") "line\r\n--c\r\n-- b\r\n" END, "a", "",
                "line\r\n--c\r\n-- b\r\n");
    assert_part(
        "--b\r\nContent-Type: text/plain\r\nCONTENT-DISPOSITION:form-data;name=a\r\nX: y\r\n"
        "\r\nx" END,
        "a", "", "x");
    /* The last boundary need not be followed by anything. */
    assert_part(HEAD("form-data; name=a") "x\r\n--b--", "a", "", "x");
    assert_part(HEAD("form-data; name=a") "x\r\n--b", "a", "", "x");
}

static void test_names(void **state)
{
    (void)state;
    assert_part(HEAD("form-data; name=\"a\"; filename=\"x; name=b\"") "x" END, "a", "x; name=b",
                "x");
    assert_part(HEAD("form-data; filename=\"x; name=b\"; name=\"a\"") "x" END, "a", "x; name=b",
                "x");
    assert_part(HEAD("form-data; xname=b; name=a") "x" END, "a", "", "x");
    assert_part(HEAD("form-data; name=a; filename=\"q\\\"q\"") "x" END, "a", "q\"q", "x");
    assert_part(HEAD("form-data; name=a; filename=\"C:\\dir\\f\"") "x" END, "a", "C:\\dir\\f", "x");
    assert_part(HEAD("form-data; name=a; filename=\"\\\\\"") "x" END, "a", "\\", "x");
    assert_part(HEAD("form-data; name=a; filename=\"%22é技\"") "x" END, "a", "%22é技", "x");
    assert_part(HEAD("form-data; name=a; filename=\"\"") "x" END, "a", "", "x");
    assert_part(HEAD("form-data; name=\"\"") "x" END, "", "", "x");
}

static void test_malformed(void **state)
{
    static const struct {
        const char *body;
        const char *words;
    } cases[] = {
        {"", "boundary"},
        {"b", "boundary"},
        {"--", "boundary"},
        {"--c\r\n", "boundary"},
        {"x--b\r\n", "boundary"},
        {"\n--b\r\n", "boundary"},
        {"--b", "end its line"},
        {"--b\r", "end its line"},
        {"--b\n", "end its line"},
        {"--b-", "end its line"},
        {"--bb\r\n", "end its line"},
        {"--b \t", "end its line"},
        {"--b\r\n", "headers do not end"},
        {"--b\r\nContent-Disposition: form-data; name=a\r\n", "headers do not end"},
        {"--b\r\nContent-Disposition: form-data; name=a\n\nx" END, "headers do not end"},
        {"--b\r\n\r\nx" END, "without Content-Disposition"},
        {"--b\r\nContent-Type: x\r\n\r\nx" END, "without Content-Disposition"},
        {"--b\r\n Content-Disposition: form-data; name=a\r\n\r\nx" END,
         "without Content-Disposition"},
        {"--b\r\nContent-Disposition\r\n\r\nx" END, "without Content-Disposition"},
        {"--b\r\nContent-Disposition:\r\n\r\nx" END, "not form-data"},
        {HEAD("attachment; name=a") "x" END, "not form-data"},
        {HEAD("form-datas; name=a") "x" END, "not form-data"},
        {HEAD("form-data") "x" END, "without a name"},
        {HEAD("form-data; filename=a") "x" END, "without a name"},
        {HEAD("form-data; name") "x" END, "that is none"},
        {HEAD("form-data; name=\"a") "x" END, "that is none"},
        {HEAD("form-data; name=\"a\\\"") "x" END, "that is none"},
        {HEAD("form-data; name=\"a\" b") "x" END, "that is none"},
        {HEAD("form-data; =a") "x" END, "that is none"},
        {HEAD("form-data;; name=a") "x" END, "that is none"},
        {HEAD("form-data name=a") "x" END, "that is none"},
        {HEAD("form-data; name=a; name=b") "x" END, "two names"},
        {HEAD("form-data; name=a; filename=x; filename=y") "x" END, "two names"},
        {HEAD("form-data; name=\"a\xff\"") "x" END, "UTF-8"},
        {HEAD("form-data; name=\"a\x01\"") "x" END, "UTF-8"},
        {HEAD("form-data; name=\"a\x7f\"") "x" END, "UTF-8"},
        {HEAD("form-data; name=a") "x", "does not end"},
        {HEAD("form-data; name=a") "x\r\n--", "does not end"},
        {HEAD("form-data; name=a") "x\n--b--", "does not end"},
        {HEAD("form-data; name=a") "", "does not end"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        assert_malformed(cases[i].body, cases[i].words);
}

static void test_lengths(void **state)
{
    char text[400];
    char body[6000];
    (void)state;
    memset(text, 'x', sizeof text);
    text[63] = '\0';
    snprintf(body, sizeof body, HEAD("form-data; name=\"%s\"") "x" END, text);
    assert_part(body, text, "", "x");
    text[63] = 'x';
    text[64] = '\0';
    snprintf(body, sizeof body, HEAD("form-data; name=\"%s\"") "x" END, text);
    assert_malformed(body, "too long");
    text[64] = 'x';
    text[255] = '\0';
    snprintf(body, sizeof body, HEAD("form-data; name=a; filename=\"%s\"") "x" END, text);
    assert_part(body, "a", text, "x");
    text[255] = 'x';
    text[256] = '\0';
    snprintf(body, sizeof body, HEAD("form-data; name=a; filename=%s") "x" END, text);
    assert_malformed(body, "too long");
    snprintf(body, sizeof body,
             "--b\r\nX: %5000s\r\nContent-Disposition: form-data; name=a\r\n\r\nx", "");
    assert_malformed(body, "headers do not end");
}

/* The names have no NUL in them, whatever is in the body. */
static void test_nul(void **state)
{
    static const char in_name[] = HEAD("form-data; name=\"a\0b\"") "x" END;
    static const char in_data[] = HEAD("form-data; name=a") "x\0y" END;
    struct error err = ERROR_INIT;
    struct multipart_part part;
    (void)state;
    assert_int_equal(read_one(in_name, sizeof in_name - 1, &part, &err), -1);
    assert_int_equal(read_one(in_data, sizeof in_data - 1, &part, &err), 1);
    assert_int_equal(part.size, 3);
    free((char *)part.data);
}

static void test_many(void **state)
{
    static const char part_text[] = HEAD("form-data; name=a") "x\r\n";
    cleanup_free char *body = xcalloc(1, sizeof part_text * (MULTIPART_PARTS_MAX + 2) + 8);
    struct error err = ERROR_INIT;
    struct multipart form;
    struct multipart_part part;
    (void)state;
    for (int i = 0; i <= MULTIPART_PARTS_MAX; i++)
        strcat(body, part_text);
    strcat(body, "--b--");
    assert_int_equal(multipart_begin(&form, "b", body, strlen(body), &err), 0);
    for (int i = 0; i < MULTIPART_PARTS_MAX; i++)
        assert_int_equal(multipart_next(&form, &part, &err), 1);
    assert_int_equal(multipart_next(&form, &part, &err), -1);
    assert_non_null(strstr(err.message, "too many"));
    /* One less, and the end stays the end. */
    const char *fewer = body + sizeof part_text - 1;
    assert_int_equal(multipart_begin(&form, "b", fewer, strlen(fewer), &err), 0);
    for (int i = 0; i < MULTIPART_PARTS_MAX; i++)
        assert_int_equal(multipart_next(&form, &part, &err), 1);
    assert_int_equal(multipart_next(&form, &part, &err), 0);
    assert_int_equal(multipart_next(&form, &part, &err), 0);
}

static void test_boundaries(void **state)
{
    static const char seventy[] =
        "multipart/form-data; boundary=0123456789012345678901234567890123456789012345678901234567"
        "890123456789";
    static const struct {
        const char *type;
        const char *boundary; /* NULL: none */
    } cases[] = {
        {"multipart/form-data; boundary=b", "b"},
        {"multipart/form-data;boundary=\"b c\"", "b c"},
        {"multipart/form-data; charset=utf-8; Boundary=b ; x=y", "b"},
        {"multipart/form-data; x=\"; boundary=a\"; boundary=b", "b"},
        {seventy, seventy + 30},
        {"multipart/form-data", NULL},
        {"multipart/form-data;", NULL},
        {"multipart/form-data; boundary", NULL},
        {"multipart/form-data; boundary=", NULL},
        {"multipart/form-data; boundary=\"\"", NULL},
        {"multipart/form-data; boundary=\"b", NULL},
        {"multipart/form-data boundary=b", NULL},
        {"multipart/form-data; xboundary=b", NULL},
        {"", NULL},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct error err = ERROR_INIT;
        char *boundary = NULL;
        int rc = multipart_boundary(cases[i].type, &boundary, &err);
        assert_int_equal(rc, cases[i].boundary ? 0 : -1);
        if (cases[i].boundary)
            assert_string_equal(boundary, cases[i].boundary);
        free(boundary);
    }
    cleanup_free char *longer = xasprintf("%sx", seventy);
    char *boundary = NULL;
    assert_int_equal(multipart_boundary(longer, &boundary, NULL), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts),      cmocka_unit_test(test_names),
        cmocka_unit_test(test_malformed),  cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_nul),        cmocka_unit_test(test_many),
        cmocka_unit_test(test_boundaries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
