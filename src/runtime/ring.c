/* SPDX-License-Identifier: Apache-2.0 */
/* Rings of output in a memory file.

   A read(2) into the ring would lose bytes if boxd were killed between the kernel's taking them out
   of the pipe and the store of the new count. So the kernel does both: splice(2) moves from the
   pipe into the memory file, and before it returns it stores the file's new position at an address
   that lies in the file's own first page. Whoever maps the file next finds a position that is ahead
   of the count, and adds the difference: it can be told as long as less than a whole ring is moved
   at once. */
#include "runtime/ring.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "core/fd.h"
#include "core/mem.h"

#define RING_MAGIC       0x626f78642d72696eull /* "boxd-rin" */
#define RING_VERSION     1
#define RING_HEADER_SIZE 4096
#define RING_TOTAL       (RING_HEADER_SIZE + RING_OUTPUT_SIZE + RING_ERROR_SIZE)

struct ring_header {
    uint64_t magic;
    uint32_t version;
    uint32_t sizes[RING_STREAMS];
    _Atomic uint64_t written[RING_STREAMS];
    _Atomic uint64_t delivered;
    /* In the file, of the next byte; stored by the kernel. Behind the last byte is as good as the
     * first. */
    int64_t position[RING_STREAMS];
};

static const size_t sizes[RING_STREAMS] = {RING_OUTPUT_SIZE, RING_ERROR_SIZE};
static const int64_t bases[RING_STREAMS] = {RING_HEADER_SIZE, RING_HEADER_SIZE + RING_OUTPUT_SIZE};

size_t ring_size(int stream)
{
    return sizes[stream];
}

static int map(struct ring *ring, int fd, struct error *err)
{
    void *memory = mmap(NULL, RING_TOTAL, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        return error_errno(err, errno, "map a ring of output");
    ring->fd = fd;
    ring->header = memory;
    return 0;
}

int ring_create(struct ring *ring, struct error *err)
{
    cleanup_close int fd = memfd_create("boxd-output", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || ftruncate(fd, RING_TOTAL) < 0)
        return error_errno(err, errno, "make a ring of output");
    /* Nobody may cut it short: reading behind its end would be a SIGBUS. */
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
        return error_errno(err, errno, "seal a ring of output");
    if (map(ring, fd, err) < 0)
        return -1;
    steal_fd(&fd);
    struct ring_header *header = ring->header;
    header->version = RING_VERSION;
    for (int i = 0; i < RING_STREAMS; i++) {
        header->sizes[i] = (uint32_t)sizes[i];
        header->position[i] = bases[i];
    }
    header->magic = RING_MAGIC;
    return 0;
}

/* What the kernel moved and nobody counted. */
static int settle(struct ring_header *header, int stream, struct error *err)
{
    int64_t place = header->position[stream] - bases[stream];
    if (place < 0 || place > (int64_t)sizes[stream])
        return error_set(err, ERROR_PROTOCOL, "a ring of output has a position outside itself");
    uint64_t written = atomic_load(&header->written[stream]);
    uint64_t moved = (uint64_t)place % sizes[stream] + sizes[stream] - written % sizes[stream];
    atomic_store(&header->written[stream], written + moved % sizes[stream]);
    header->position[stream] = bases[stream] + place % (int64_t)sizes[stream];
    return 0;
}

static int check(struct ring_header *header, struct error *err)
{
    if (header->magic != RING_MAGIC || header->version != RING_VERSION)
        return error_set(err, ERROR_PROTOCOL, "not a ring of output of this version");
    for (int i = 0; i < RING_STREAMS; i++) {
        if (header->sizes[i] != sizes[i])
            return error_set(err, ERROR_PROTOCOL, "a ring of output of another size");
        if (settle(header, i, err) < 0)
            return -1;
    }
    if (atomic_load(&header->delivered) > atomic_load(&header->written[0]))
        return error_set(err, ERROR_PROTOCOL, "a ring of output delivered more than it had");
    return 0;
}

int ring_adopt(struct ring *ring, int fd_taken, struct error *err)
{
    cleanup_close int fd = fd_taken;
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &st) < 0 || st.st_size != RING_TOTAL)
        return error_set(err, ERROR_PROTOCOL, "not a sealed ring of output");
    if (map(ring, fd, err) < 0)
        return -1;
    steal_fd(&fd);
    if (check(ring->header, err) < 0) {
        ring_release(ring);
        return -1;
    }
    return 0;
}

void ring_release(struct ring *ring)
{
    if (ring->header)
        munmap(ring->header, RING_TOTAL);
    ring->header = NULL;
    fd_clear(&ring->fd);
}

static ssize_t move(struct ring *ring, int stream, int pipe, size_t most)
{
    struct ring_header *header = ring->header;
    size_t place = (size_t)(atomic_load(&header->written[stream]) % sizes[stream]);
    header->position[stream] = bases[stream] + (int64_t)place;
    size_t room = sizes[stream] - place;
    /* Half a ring at most, so that a count that was not stored can be told from one that was. */
    if (room > sizes[stream] / 2)
        room = sizes[stream] / 2;
    if (most > room)
        most = room;
    ssize_t moved;
    do {
        moved = splice(pipe, NULL, ring->fd, &header->position[stream], most,
                       SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
    } while (moved < 0 && errno == EINTR);
    return moved < 0 ? -errno : moved;
}

ssize_t ring_fill(struct ring *ring, int stream, int pipe, size_t most)
{
    if (most == 0)
        return -EAGAIN;
    ssize_t moved = move(ring, stream, pipe, most);
    if (moved > 0)
        atomic_fetch_add_explicit(&ring->header->written[stream], (uint64_t)moved,
                                  memory_order_release);
    return moved;
}

void ring_fill_interrupted(struct ring *ring, int stream, int pipe, size_t most)
{
    move(ring, stream, pipe, most);
}

uint64_t ring_written(const struct ring *ring, int stream)
{
    return atomic_load_explicit(&ring->header->written[stream], memory_order_acquire);
}

uint64_t ring_oldest(const struct ring *ring, int stream)
{
    uint64_t written = ring_written(ring, stream);
    return written > sizes[stream] ? written - sizes[stream] : 0;
}

const char *ring_at(const struct ring *ring, int stream, uint64_t offset, size_t *ret_size)
{
    size_t place = (size_t)(offset % sizes[stream]);
    uint64_t left = ring_written(ring, stream) - offset;
    size_t straight = sizes[stream] - place;
    *ret_size = left < straight ? (size_t)left : straight;
    return (const char *)ring->header + bases[stream] + place;
}

size_t ring_read(const struct ring *ring, int stream, uint64_t *offset, void *buffer, size_t size)
{
    uint64_t oldest = ring_oldest(ring, stream);
    uint64_t written = ring_written(ring, stream);
    if (*offset < oldest)
        *offset = oldest;
    if (*offset > written)
        *offset = written;
    size_t used = 0;
    while (used < size && *offset + used < written) {
        size_t part;
        const char *at = ring_at(ring, stream, *offset + used, &part);
        if (part > size - used)
            part = size - used;
        memcpy((char *)buffer + used, at, part);
        used += part;
    }
    return used;
}

uint64_t ring_delivered(const struct ring *ring)
{
    return atomic_load(&ring->header->delivered);
}

void ring_set_delivered(struct ring *ring, uint64_t offset)
{
    if (offset > atomic_load_explicit(&ring->header->delivered, memory_order_relaxed))
        atomic_store_explicit(&ring->header->delivered, offset, memory_order_release);
}

uint64_t ring_unread(const struct ring *ring)
{
    uint64_t delivered = ring_delivered(ring);
    return delivered >= ring_oldest(ring, 0) ? delivered : ring_oldest_line(ring);
}

uint64_t ring_oldest_line(const struct ring *ring)
{
    uint64_t oldest = ring_oldest(ring, 0);
    if (oldest == 0)
        return 0;
    uint64_t written = ring_written(ring, 0);
    for (uint64_t at = oldest; at < written;) {
        size_t part;
        const char *data = ring_at(ring, 0, at, &part);
        const char *newline = memchr(data, '\n', part);
        if (newline)
            return at + (uint64_t)(newline - data) + 1;
        at += part;
    }
    return oldest; /* one line longer than the ring: better torn than lost */
}
