/* SPDX-License-Identifier: Apache-2.0 */
/* Zip archives written into memory, nothing in them compressed: what goes to boxd goes a short way,
   and a library that compresses would cost every `box` the time to load it. No I/O. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "core/buf.h"

struct zip_writer {
    struct buf out;       /* the archive, once it was ended */
    struct buf directory; /* what comes at its end */
    unsigned count;
};

/* At most `max` bytes, which is less than 4 GiB. */
void zip_writer_init(struct zip_writer *writer, size_t max);
void zip_writer_release(struct zip_writer *writer);
#define cleanup_zip_writer __attribute__((cleanup(zip_writer_release)))

/* One entry: `name` is UTF-8 with '/' between its parts, and ends in one if it is a directory;
   `mode` is type and permissions as stat(2) has them. Returns 0, or -1 if that is more than fits.
 */
int zip_writer_add(struct zip_writer *writer, const char *name, unsigned mode, const void *data,
                   size_t size);
int zip_writer_end(struct zip_writer *writer);

/* How many bytes of an archive an entry takes, and what is left when there are none. */
uint64_t zip_entry_size(const char *name, uint64_t size);
#define ZIP_END_SIZE 22
