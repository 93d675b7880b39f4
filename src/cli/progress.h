/* SPDX-License-Identifier: Apache-2.0 */
/* A bar for copies that take their time, on a terminal and nowhere else. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROGRESS_MIN (8u * 1024 * 1024) /* what is smaller is done before one has looked */

struct progress {
    bool shown;
    const char *name;
    uint64_t total; /* 0: not known */
    uint64_t done;
    uint64_t started_us;
    uint64_t drawn_us;
};

/* On standard error if that is a terminal; `name` must stay. */
void progress_start(struct progress *progress, const char *name, uint64_t total);
void progress_add(struct progress *progress, size_t bytes);
/* Takes the line away again. */
void progress_end(struct progress *progress);

/* "name  [=====>    ]  52%  1.2G  210M/s  0:05 left", at most `width` characters. */
void progress_line(const struct progress *progress, uint64_t now_us, size_t width, char *ret,
                   size_t size);
