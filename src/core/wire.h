/* SPDX-License-Identifier: Apache-2.0 */
/* The encoding of messages between boxd's own processes: little pieces, each length-checked. No
   I/O. A reader that meets anything malformed sets `bad` and from then on returns zeroes, so a
   decoder reads all its fields and asks once at the end. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct wire_writer {
    unsigned char *data;
    size_t size;
    size_t capacity;
    bool overflow;
};

struct wire_reader {
    const unsigned char *data;
    size_t left;
    bool bad;
};

void wire_put_u32(struct wire_writer *w, uint32_t value);
void wire_put_u64(struct wire_writer *w, uint64_t value);
/* Length, bytes, NUL; NULL is written as the empty string. */
void wire_put_string(struct wire_writer *w, const char *text);

uint32_t wire_get_u32(struct wire_reader *r);
uint64_t wire_get_u64(struct wire_reader *r);
/* Points into the message; "" when bad. A string with a NUL inside it is malformed. */
const char *wire_get_string(struct wire_reader *r, size_t max);
/* A count of things to follow, at most `max`; 0 when bad. */
uint32_t wire_get_count(struct wire_reader *r, uint32_t max);
/* Whether all was well and nothing is left over. */
bool wire_done(const struct wire_reader *r);
