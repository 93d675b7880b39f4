/* SPDX-License-Identifier: Apache-2.0 */
/* The output of a session's recent commands, to be read by cursor.

   Of each stream the beginning is kept, in pieces: in memory up to a quarter of a mebibyte for a
   session, then in a file without a name, so that nothing of it survives boxd. When all together
   are more than the session may have, the oldest command that is over is forgotten. If the file
   cannot be written the log ends there; the command never notices. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "core/fd.h"
#include "runtime/internal.h"

#define LOG_MEMORY_MAX  (256u * 1024)
#define LOG_ENTRIES_MAX 256
#define LOG_PIECE_FIRST 256u

struct log_piece {
    char *memory; /* NULL: in the file, at `place` */
    uint64_t place;
    size_t size;
    size_t capacity; /* of the memory */
};

struct log_stream {
    struct log_piece *pieces;
    size_t count;
    uint64_t total;
    uint64_t kept; /* the first so many */
};

struct log_entry {
    struct list link;
    unsigned number;
    bool running;
    struct log_stream streams[STREAM_MAX];
};

void exec_log_init(struct exec_log *log)
{
    *log = (struct exec_log){.fd = -1};
    list_init(&log->entries);
}

/* --- forgetting ------------------------------------------------------------------------------- */

static void drop_piece(struct exec_log *log, struct log_piece *piece)
{
    log->bytes -= piece->size;
    if (piece->memory) {
        log->memory -= piece->size;
        free(piece->memory);
        return;
    }
    log->file_bytes -= piece->size;
    if (log->file_bytes == 0) {
        /* All of it: the next begins with a new file. */
        fd_clear(&log->fd);
        log->file_end = 0;
    } else {
        log->solid |= fallocate(log->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                (off_t)piece->place, (off_t)piece->size) < 0;
    }
}

static void forget(struct exec_log *log, struct log_entry *entry)
{
    for (int i = 0; i < STREAM_MAX; i++) {
        for (size_t j = 0; j < entry->streams[i].count; j++)
            drop_piece(log, &entry->streams[i].pieces[j]);
        free(entry->streams[i].pieces);
    }
    list_remove(&entry->link);
    log->count--;
    free(entry);
}

static bool forget_oldest(struct exec_log *log)
{
    list_each(at, &log->entries)
    {
        struct log_entry *entry = list_entry(at, struct log_entry, link);
        if (!entry->running) {
            forget(log, entry);
            return true;
        }
    }
    return false;
}

void exec_log_release(struct exec_log *log)
{
    while (!list_empty(&log->entries))
        forget(log, list_entry(log->entries.next, struct log_entry, link));
    fd_clear(&log->fd);
}

/* --- adding ----------------------------------------------------------------------------------- */

struct log_entry *exec_log_begin(struct runtime *runtime, struct exec_log *log, unsigned number)
{
    (void)runtime;
    while (log->count >= LOG_ENTRIES_MAX && forget_oldest(log))
        ;
    struct log_entry *entry = xcalloc(1, sizeof *entry);
    entry->number = number;
    entry->running = true;
    list_append(&log->entries, &entry->link);
    log->count++;
    return entry;
}

void exec_log_finish(struct log_entry *entry)
{
    entry->running = false;
    for (int i = 0; i < STREAM_MAX; i++) {
        struct log_stream *stream = &entry->streams[i];
        struct log_piece *last = stream->count > 0 ? &stream->pieces[stream->count - 1] : NULL;
        if (!last || !last->memory || last->capacity == last->size)
            continue;
        last->memory = xreallocarray(last->memory, last->size, 1);
        last->capacity = last->size;
    }
}

static struct log_piece *add_piece(struct log_stream *stream)
{
    stream->pieces = xreallocarray(stream->pieces, stream->count + 1, sizeof *stream->pieces);
    struct log_piece *piece = &stream->pieces[stream->count++];
    *piece = (struct log_piece){0};
    return piece;
}

static void add_memory(struct exec_log *log, struct log_stream *stream, const char *data,
                       size_t size)
{
    struct log_piece *last = stream->count > 0 ? &stream->pieces[stream->count - 1] : NULL;
    if (!last || !last->memory)
        last = add_piece(stream);
    if (last->capacity - last->size < size) {
        size_t capacity = last->capacity ? last->capacity : LOG_PIECE_FIRST;
        while (capacity < last->size + size)
            capacity *= 2;
        last->memory = xreallocarray(last->memory, capacity, 1);
        last->capacity = capacity;
    }
    memcpy(last->memory + last->size, data, size);
    last->size += size;
    log->memory += size;
}

static int open_file(int dir)
{
    int fd = openat(dir, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR))
        return fd;
    static const char name[] = "output.tmp"; /* one loop: nobody else makes it now */
    fd = openat(dir, name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd >= 0)
        unlinkat(dir, name, 0);
    return fd;
}

static size_t add_file(struct runtime *runtime, struct exec_log *log, struct log_stream *stream,
                       const char *data, size_t size)
{
    /* Where holes cannot be made the file only grows; it is not to grow for ever. */
    if (log->broken || (log->solid && log->file_end > 4 * runtime->config.session_log_bytes))
        return 0;
    if (log->fd < 0)
        log->fd = open_file(runtime->state_fd);
    ssize_t n = log->fd < 0 ? -1 : pwrite(log->fd, data, size, (off_t)log->file_end);
    if (n <= 0) {
        log->broken = true;
        return 0;
    }
    struct log_piece *last = stream->count > 0 ? &stream->pieces[stream->count - 1] : NULL;
    if (!last || last->memory || last->place + last->size != log->file_end) {
        last = add_piece(stream);
        last->place = log->file_end;
    }
    last->size += (size_t)n;
    log->file_end += (uint64_t)n;
    log->file_bytes += (uint64_t)n;
    return (size_t)n;
}

void exec_log_add(struct runtime *runtime, struct exec_log *log, struct log_entry *entry,
                  enum stream which, const char *data, size_t size)
{
    struct log_stream *stream = &entry->streams[which];
    uint64_t limit = runtime->config.session_log_bytes;
    bool whole = stream->kept == stream->total;
    stream->total += size;
    if (!whole) /* there is a gap already: only a beginning is of use */
        return;
    while (log->bytes + size > limit && forget_oldest(log))
        ;
    if (log->bytes >= limit)
        return;
    if (size > limit - log->bytes)
        size = (size_t)(limit - log->bytes);
    size_t taken = size;
    if (log->memory + size <= LOG_MEMORY_MAX)
        add_memory(log, stream, data, size);
    else
        taken = add_file(runtime, log, stream, data, size);
    stream->kept += taken;
    log->bytes += taken;
}

/* --- reading ---------------------------------------------------------------------------------- */

static ssize_t read_piece(const struct exec_log *log, const struct log_piece *piece, size_t skip,
                          void *buffer, size_t size)
{
    if (size > piece->size - skip)
        size = piece->size - skip;
    if (!piece->memory)
        return pread(log->fd, buffer, size, (off_t)(piece->place + skip));
    memcpy(buffer, piece->memory + skip, size);
    return (ssize_t)size;
}

static size_t read_stream(const struct exec_log *log, const struct log_stream *stream,
                          uint64_t offset, char *buffer, size_t size)
{
    size_t used = 0;
    uint64_t at = 0;
    for (size_t i = 0; i < stream->count && used < size; i++) {
        const struct log_piece *piece = &stream->pieces[i];
        if (offset < at + piece->size) {
            ssize_t n = read_piece(log, piece, (size_t)(offset - at), buffer + used, size - used);
            if (n <= 0)
                break;
            used += (size_t)n;
            offset += (uint64_t)n;
            if (offset < at + piece->size)
                break;
        }
        at += piece->size;
    }
    return used;
}

ssize_t session_exec_log(struct session *session, unsigned number, enum stream stream,
                         uint64_t offset, void *buffer, size_t size, uint64_t *ret_total,
                         uint64_t *ret_kept, bool *ret_running, struct error *err)
{
    struct exec_log *log = &session->log;
    for (struct list *at = log->entries.prev; at != &log->entries; at = at->prev) {
        struct log_entry *entry = list_entry(at, struct log_entry, link);
        if (entry->number != number)
            continue;
        *ret_total = entry->streams[stream].total;
        *ret_kept = entry->streams[stream].kept;
        *ret_running = entry->running;
        return (ssize_t)read_stream(log, &entry->streams[stream], offset, buffer, size);
    }
    return error_set(err, ERROR_NOT_FOUND,
                     "session '%s' has no command %u, or its output is no longer kept",
                     session->spec.name, number);
}
