/* SPDX-License-Identifier: Apache-2.0 */
/* The output of a managed process: the last bytes of its two streams, in a memory file that
   outlives boxd (the session keeps a descriptor of it). Offsets are bytes since the process began.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/error.h"

#define RING_OUTPUT_SIZE (1024u * 1024)
#define RING_ERROR_SIZE  (64u * 1024)
#define RING_STREAMS     2

struct ring_header;

struct ring {
    int fd;
    struct ring_header *header; /* the whole mapping begins here */
};

#define RING_INIT \
    {             \
        .fd = -1  \
    }

int ring_create(struct ring *ring, struct error *err);
/* Takes over `fd` and believes nothing it says. On failure it is closed. */
int ring_adopt(struct ring *ring, int fd, struct error *err);
void ring_release(struct ring *ring);

/* Moves at most `most` bytes from a pipe into the ring, over the oldest. As read(2): 0 at the end
   of the stream, -errno. However the process ends meanwhile, each byte is either still in the pipe
   or in the ring and counted. */
ssize_t ring_fill(struct ring *ring, int stream, int pipe, size_t most);

size_t ring_size(int stream);
uint64_t ring_written(const struct ring *ring, int stream);
uint64_t ring_oldest(const struct ring *ring, int stream);
/* What lies at `offset`, in one piece: its address and how many bytes follow there (up to the end,
   or to where the ring wraps). `offset` is from oldest to written. */
const char *ring_at(const struct ring *ring, int stream, uint64_t offset, size_t *ret_size);
/* Copies from *offset on, which is moved up to what is still kept; returns how many. */
size_t ring_read(const struct ring *ring, int stream, uint64_t *offset, void *buffer, size_t size);

/* How far stdout has been told to somebody. */
uint64_t ring_delivered(const struct ring *ring);
void ring_set_delivered(struct ring *ring, uint64_t offset);
/* Where somebody who wants what nobody had begins: there, or, if that is overwritten, at the first
   line that is whole. */
uint64_t ring_unread(const struct ring *ring);
/* The first line of stdout that is whole. */
uint64_t ring_oldest_line(const struct ring *ring);

/* For the tests: as if the process had died inside ring_fill(), after the bytes were moved. */
void ring_fill_interrupted(struct ring *ring, int stream, int pipe, size_t most);
