/* SPDX-License-Identifier: Apache-2.0 */
/* Tables for people: columns as wide as they need to be, and the forms of what stands in them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "core/mem.h"

#define TABLE_COLUMNS_MAX 12

struct table {
    size_t columns;
    bool right[TABLE_COLUMNS_MAX]; /* numbers end where the one above ends */
    size_t yielding;               /* 1 + the column that is cut first; 0: none is */
    struct strings cells;          /* row by row; the first one is the heading */
};

/* Headings, NULL at the end; one that begins with '>' is of a column that is set to the right, and
   one with '~' of the column that is cut first where lines are too long. */
void table_init(struct table *table, const char *const *headings);
void table_release(struct table *table);
#define cleanup_table __attribute__((cleanup(table_release)))

/* The next cell. What would disturb a terminal is shown as '?', and nothing as "-". */
void table_add(struct table *table, const char *text);
void table_add_number(struct table *table, uint64_t number);
/* "1.5G". */
void table_add_size(struct table *table, uint64_t bytes);

/* Lines are cut at `width` (0: not), rows below the heading at `rows` (0: not); `end` ends each
   line. */
void table_print(const struct table *table, size_t width, size_t rows, const char *end, FILE *out);

/* The width of the terminal that `fd` is, or 0. */
size_t table_width(int fd);

/* "0s", "59s", "3m", "5h", "2d": seconds, as one number. */
void format_age(uint64_t seconds, char *ret, size_t size);
/* "2026-01-31T12:00:00.000000+00:00" as microseconds since 1970, or -1. UTC only. */
int64_t parse_time(const char *text);
/* How long ago that was, as format_age() has it; "-" if it is no time. */
void format_since(const char *time, char *ret, size_t size);
/* A copy in which control characters are '?': names come from strangers. */
char *printable(const char *text);
/* A text as it is, unless `out` is a terminal: then with '?' for control characters other than the
   ends of lines and tabs. */
void print_text(const char *text, size_t size, FILE *out);
