/* SPDX-License-Identifier: Apache-2.0 */
/* Zip archives by APPNOTE.TXT: before each entry's bytes a local header, and at the end the central
   directory, which repeats them and says where each is. */
#include "cli/zip-write.h"

#include <stdbool.h>
#include <string.h>

#include "core/mem.h"

#define LOCAL_MAGIC     0x04034b50u
#define DIRECTORY_MAGIC 0x02014b50u
#define END_MAGIC       0x06054b50u
#define LOCAL_SIZE      30
#define DIRECTORY_SIZE  46
#define ENTRIES_MAX     0xffffu
#define NAME_MAX_SIZE   0xffffu

#define VERSION_NEEDED 20            /* 2.0: directories */
#define MADE_BY        (3 << 8 | 20) /* Unix: the upper half of the attributes is a mode */
#define FLAG_UTF8      0x0800
#define DOS_DIRECTORY  0x10
/* 1 January 1980, the first day there is: the same files are always the same archive. */
#define DOS_DATE 0x0021

static uint32_t crc32_of(const unsigned char *data, size_t size)
{
    static uint32_t table[256];
    uint32_t crc = 0xffffffffu;
    for (uint32_t i = 0; table[255] == 0 && i < 256; i++) {
        table[i] = i;
        for (int bit = 0; bit < 8; bit++)
            table[i] = table[i] >> 1 ^ (table[i] & 1 ? 0xedb88320u : 0);
    }
    for (size_t i = 0; i < size; i++)
        crc = crc >> 8 ^ table[(crc ^ data[i]) & 0xff];
    return ~crc;
}

/* --- fields, little-endian ----------------------------------------------------------------------
 */

struct record {
    unsigned char bytes[DIRECTORY_SIZE];
    size_t size;
};

static void put16(struct record *record, unsigned value)
{
    record->bytes[record->size++] = value & 0xff;
    record->bytes[record->size++] = value >> 8 & 0xff;
}

static void put32(struct record *record, uint32_t value)
{
    put16(record, value & 0xffff);
    put16(record, value >> 16);
}

/* What local headers and the directory have in common. */
static void put_entry(struct record *record, uint32_t crc, size_t size, size_t name_size)
{
    put16(record, VERSION_NEEDED);
    put16(record, FLAG_UTF8);
    put16(record, 0); /* stored */
    put16(record, 0); /* midnight */
    put16(record, DOS_DATE);
    put32(record, crc);
    put32(record, (uint32_t)size);
    put32(record, (uint32_t)size);
    put16(record, (unsigned)name_size);
    put16(record, 0); /* no extra field */
}

static int append(struct buf *buf, const void *data, size_t size)
{
    return buf_append(buf, data, size) == size ? 0 : -1;
}

/* --- the archive --------------------------------------------------------------------------------
 */

void zip_writer_init(struct zip_writer *writer, size_t max)
{
    *writer = (struct zip_writer){.out = BUF_INIT(max), .directory = BUF_INIT(max)};
}

void zip_writer_release(struct zip_writer *writer)
{
    buf_release(&writer->out);
    buf_release(&writer->directory);
}

uint64_t zip_entry_size(const char *name, uint64_t size)
{
    return LOCAL_SIZE + DIRECTORY_SIZE + 2 * strlen(name) + size;
}

static int add_local(struct zip_writer *writer, const char *name, uint32_t crc, const void *data,
                     size_t size)
{
    struct record local = {.size = 0};
    put32(&local, LOCAL_MAGIC);
    put_entry(&local, crc, size, strlen(name));
    if (append(&writer->out, local.bytes, local.size) < 0 ||
        append(&writer->out, name, strlen(name)) < 0)
        return -1;
    return append(&writer->out, data, size);
}

int zip_writer_add(struct zip_writer *writer, const char *name, unsigned mode, const void *data,
                   size_t size)
{
    struct record entry = {.size = 0};
    size_t name_size = strlen(name);
    uint32_t offset = (uint32_t)writer->out.size;
    uint32_t crc = crc32_of(data, size);
    bool directory = name_size > 0 && name[name_size - 1] == '/';
    if (writer->count == ENTRIES_MAX || name_size > NAME_MAX_SIZE ||
        add_local(writer, name, crc, data, size) < 0)
        return -1;
    put32(&entry, DIRECTORY_MAGIC);
    put16(&entry, MADE_BY);
    put_entry(&entry, crc, size, name_size);
    put16(&entry, 0); /* no comment */
    put16(&entry, 0); /* on the first disk */
    put16(&entry, 0); /* internal attributes: not known to be text */
    put32(&entry, (uint32_t)mode << 16 | (directory ? DOS_DIRECTORY : 0));
    put32(&entry, offset);
    writer->count++;
    if (append(&writer->directory, entry.bytes, entry.size) < 0)
        return -1;
    return append(&writer->directory, name, name_size);
}

int zip_writer_end(struct zip_writer *writer)
{
    struct record end = {.size = 0};
    put32(&end, END_MAGIC);
    put16(&end, 0); /* this disk, and that of the directory */
    put16(&end, 0);
    put16(&end, writer->count);
    put16(&end, writer->count);
    put32(&end, (uint32_t)writer->directory.size);
    put32(&end, (uint32_t)writer->out.size);
    put16(&end, 0); /* no comment */
    if (append(&writer->out, writer->directory.data, writer->directory.size) < 0)
        return -1;
    return append(&writer->out, end.bytes, end.size);
}
