/* SPDX-License-Identifier: Apache-2.0 */
/* LangBot's messages on a stream of lines: a JSON object a line, or a large one in chunks.

     {"type":"chunk_start","total_size":20000}
     {"type":"chunk_data","data":"…","offset":0}
     {"type":"chunk_data","data":"…","offset":16384}
     {"type":"chunk_end"}

   Sizes and offsets count bytes of UTF-8. Lines that are no object, which is what a program prints
   that does not know where it prints to, are skipped, and so are chunks that belong to nothing;
   chunks that contradict each other end the stream. No I/O. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "core/buf.h"
#include "core/error.h"
#include "core/json-out.h"

struct rpc_frames {
    struct buf input;   /* lines that were not looked at yet */
    size_t taken;       /* bytes of it that were */
    size_t searched;    /* bytes behind those in which there is no end of a line */
    struct buf message; /* a chunked one, as far as it has come */
    bool chunked;       /* one is under way … */
    size_t total;       /* … that will have so many bytes … */
    unsigned lines;     /* … and has had so many lines */
};

void rpc_frames_init(struct rpc_frames *frames);
void rpc_frames_release(struct rpc_frames *frames);
/* More of the stream. */
void rpc_frames_feed(struct rpc_frames *frames, const char *data, size_t size);
/* 1: a message, valid until the next call of any of these; 0: it takes more bytes; -1: the stream
   cannot be trusted any more (ERROR_PROTOCOL). */
int rpc_frames_next(struct rpc_frames *frames, const char **ret, size_t *ret_size,
                    struct error *err);

/* Appends a message (JSON on one line, well-formed UTF-8) as it goes over the stream. */
void rpc_frames_write(struct json_out *out, const char *text, size_t size);
