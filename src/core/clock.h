/* SPDX-License-Identifier: Apache-2.0 */
/* What time it is, and how it is written. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Microseconds since 1970: for people. */
int64_t clock_now_us(void);
/* Nanoseconds since some moment: for durations. */
uint64_t clock_monotonic_ns(void);

static inline uint64_t clock_monotonic_us(void)
{
    return clock_monotonic_ns() / 1000;
}

static inline uint64_t clock_monotonic_ms(void)
{
    return clock_monotonic_ns() / 1000000;
}

/* "2026-11-15T23:25:57.000123+00:00". */
#define CLOCK_TEXT_SIZE 40
void clock_text(int64_t us, char ret[CLOCK_TEXT_SIZE]);
/* As Python writes it: "2026-11-15T23:25:57.000123Z", and no fraction where it is zero. `zone` is
   "Z" or "+00:00". */
void clock_python_text(int64_t us, const char *zone, char ret[CLOCK_TEXT_SIZE]);
/* "Sun, 15 Nov 2026 23:25:57 GMT", as HTTP headers have it, whatever the locale. */
void clock_http_text(int64_t seconds, char ret[CLOCK_TEXT_SIZE]);
