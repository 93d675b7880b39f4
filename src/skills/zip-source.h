/* SPDX-License-Identifier: Apache-2.0 */
/* Where libzip reads from and writes to, when it makes an archive. */
#pragma once

#include <sys/stat.h>
#include <sys/types.h>
#include <zip.h>

/* A file below a directory that stays open, of the size that it has in `st`. It is opened when
   libzip comes to it, so that no more than one is open at a time. */
zip_source_t *zip_source_beneath(zip_t *archive, int package, const char *path,
                                 const struct stat *st);

/* An open file that the archive is written to; whoever has it initialises `error`. */
struct zip_sink {
    int fd; /* borrowed */
    off_t at;
    off_t size;
    zip_error_t error;
};

zip_source_t *zip_source_sink(struct zip_sink *sink, zip_error_t *ret_error);
