/* SPDX-License-Identifier: Apache-2.0 */
/* Archives that `box` writes, as the store's own reader finds them. That others read them too is
   tested with those: tests/integration/test_cli_skill.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "cli/zip-write.h"
#include "skills/zip.h"

#define ROOM (1u << 20)

static uint32_t u32_at(const char *data, size_t at)
{
    const unsigned char *bytes = (const unsigned char *)data + at;
    return bytes[0] | bytes[1] << 8 | bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

static void test_checksum(void **state)
{
    /* The value that every description of CRC-32 gives for these digits. */
    static const struct {
        const char *text;
        uint32_t crc;
    } cases[] = {{"123456789", 0xcbf43926u}, {"", 0}, {"a", 0xe8b7be43u}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        cleanup_zip_writer struct zip_writer writer;
        zip_writer_init(&writer, ROOM);
        assert_int_equal(
            zip_writer_add(&writer, "f", S_IFREG | 0644, cases[i].text, strlen(cases[i].text)), 0);
        assert_int_equal(u32_at(writer.out.data, 14), cases[i].crc);
    }
}

static void test_reads_back(void **state)
{
    static const struct {
        const char *name;
        unsigned mode;
        const char *data;
    } entries[] = {
        {"SKILL.md", S_IFREG | 0644, "---\nname: x\n---\n"}, {"scripts/", S_IFDIR | 0755, ""},
        {"scripts/run.sh", S_IFREG | 0755, "#!/bin/sh\n"},   {"leer/", S_IFDIR | 0700, ""},
        {"日本/Übersicht.md", S_IFREG | 0600, "ü"},          {"nothing", S_IFREG | 0644, ""},
    };
    const size_t count = sizeof entries / sizeof entries[0];
    cleanup_zip_writer struct zip_writer writer;
    cleanup_zip_directory struct zip_directory read = {.items = NULL};
    struct error err = ERROR_INIT;
    uint64_t expected = ZIP_END_SIZE;
    (void)state;
    zip_writer_init(&writer, ROOM);
    for (size_t i = 0; i < count; i++) {
        size_t size = strlen(entries[i].data);
        assert_int_equal(
            zip_writer_add(&writer, entries[i].name, entries[i].mode, entries[i].data, size), 0);
        expected += zip_entry_size(entries[i].name, size);
    }
    assert_int_equal(zip_writer_end(&writer), 0);
    assert_int_equal(writer.out.size, expected);

    assert_int_equal(zip_directory_read(writer.out.data, writer.out.size, &read, &err), 0);
    assert_int_equal(read.count, count);
    for (size_t i = 0; i < count; i++) {
        const struct zip_item *item = &read.items[i];
        assert_string_equal(item->name, entries[i].name);
        assert_int_equal(item->attributes >> 16, entries[i].mode);
        assert_int_equal(item->size, strlen(entries[i].data));
        assert_int_equal(item->is_dir, S_ISDIR(entries[i].mode));
        assert_int_equal(item->executable, (entries[i].mode & 0111) != 0);
        /* 30 bytes of local header, and the name once more. */
        assert_memory_equal(writer.out.data + item->offset + 30 + strlen(item->name),
                            entries[i].data, item->size);
    }
}

/* The same files are the same archive: nothing of the time or the machine goes in. */
static void test_is_reproducible(void **state)
{
    cleanup_zip_writer struct zip_writer one;
    cleanup_zip_writer struct zip_writer two;
    struct zip_writer *both[] = {&one, &two};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        zip_writer_init(both[i], ROOM);
        assert_int_equal(zip_writer_add(both[i], "a/b", S_IFREG | 0644, "text", 4), 0);
        assert_int_equal(zip_writer_end(both[i]), 0);
    }
    assert_int_equal(one.out.size, two.out.size);
    assert_memory_equal(one.out.data, two.out.data, one.out.size);
}

static void test_ceiling(void **state)
{
    char data[100] = {0};
    size_t exact = (size_t)zip_entry_size("f", sizeof data) + ZIP_END_SIZE;
    (void)state;
    for (size_t less = 0; less <= exact; less++) {
        cleanup_zip_writer struct zip_writer writer;
        zip_writer_init(&writer, exact - less);
        int rc = zip_writer_add(&writer, "f", S_IFREG | 0644, data, sizeof data);
        if (rc == 0)
            rc = zip_writer_end(&writer);
        assert_int_equal(rc, less == 0 ? 0 : -1);
    }
}

static void test_empty(void **state)
{
    cleanup_zip_writer struct zip_writer writer;
    (void)state;
    zip_writer_init(&writer, ROOM);
    assert_int_equal(zip_writer_end(&writer), 0);
    assert_int_equal(writer.out.size, ZIP_END_SIZE);
    assert_memory_equal(writer.out.data, "PK\5\6", 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_checksum),        cmocka_unit_test(test_reads_back),
        cmocka_unit_test(test_is_reproducible), cmocka_unit_test(test_ceiling),
        cmocka_unit_test(test_empty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
