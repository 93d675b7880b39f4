/* SPDX-License-Identifier: Apache-2.0 */
/* Values of JSON as pydantic's lax mode takes them: numbers and flags that are texts, numbers that
   are flags, times in more than one form. What is not theirs to say is left to the caller: ranges,
   and whether there may be a null. No I/O.

   Each returns 0, -EINVAL or -ERANGE (it is one, but we cannot hold it), with *ret untouched. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* 30, 30.0, "30", " +30 ", "0_030.00", true. */
int lax_integer(const json_t *value, int64_t *ret);
/* 0.5, 1, ".5", " 5e-1", "1_0.5", true. Always finite: what is not is -EINVAL. */
int lax_number(const json_t *value, double *ret);
/* true, 1, 1.0, "1", "on", "T", "Yes" … */
int lax_flag(const json_t *value, bool *ret);
/* A moment, as microseconds since 1970: "2026-11-15T23:25:57.000123+00:00" and what ISO 8601 lets
   be left out of that, but not the zone; or a number or its text: seconds since 1970, or
   milliseconds if they are many. The years are 1 to 9999. */
int lax_time(const json_t *value, int64_t *ret_us);

/* A plain decimal number, the whole of `text`: "+1", "1.", ".5e-3". For what is made of such. */
int lax_decimal(const char *text, size_t size, double *ret);
