/* SPDX-License-Identifier: Apache-2.0 */
/* The audit log: a line of JSON for each session and each command, who asked for it and how it
   went. Lines gather in memory and go to the disk from the thread pool, after a moment or when
   there are many; a disk that hangs costs lines, which are counted, and nothing else. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/fd.h"
#include "core/log.h"
#include "core/utf8.h"
#include "runtime/internal.h"

#define AUDIT_NAME     "audit.jsonl"
#define AUDIT_FLUSH_MS 250
#define AUDIT_FLUSH_AT (64u * 1024)
#define AUDIT_MAX      (1024u * 1024) /* waiting to be written */
#define AUDIT_LINE_MAX 8192u
#define AUDIT_TEXT_MAX 400 /* characters of a command */

struct audit {
    struct runtime *runtime;
    struct alarm *alarm;
    struct buf waiting;
    struct buf writing;
    bool busy, alarmed, failed;
    uint64_t lost;
    uv_work_t work;
    int fd;
    int dir;
    uint64_t size; /* of the file */
    uint64_t rotate_at;
    unsigned files;
    int result;
    void (*finished)(void *data);
    void *finished_data;
};

/* --- lines ------------------------------------------------------------------------------------ */

struct line {
    char data[AUDIT_LINE_MAX];
    size_t size;
};

static void put(struct line *line, const char *data, size_t size)
{
    if (size > sizeof line->data - line->size)
        size = sizeof line->data - line->size;
    memcpy(line->data + line->size, data, size);
    line->size += size;
}

static void put_text(struct line *line, const char *text)
{
    put(line, text, strlen(text));
}

static void put_escaped(struct line *line, const char *text, size_t size)
{
    put_text(line, "\"");
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)text[i];
        char escape[8];
        if (c == '"' || c == '\\') {
            snprintf(escape, sizeof escape, "\\%c", c);
            put_text(line, escape);
        } else if (c < 0x20 || c == 0x7f) {
            snprintf(escape, sizeof escape, "\\u%04x", c);
            put_text(line, escape);
        } else {
            put(line, text + i, 1);
        }
    }
    put_text(line, "\"");
}

static void put_field(struct line *line, const char *key, const char *text)
{
    if (!text)
        return;
    put_text(line, ",\"");
    put_text(line, key);
    put_text(line, "\":");
    put_escaped(line, text, strlen(text));
}

static void put_number(struct line *line, const char *key, int64_t value)
{
    char text[64];
    snprintf(text, sizeof text, ",\"%s\":%lld", key, (long long)value);
    put_text(line, text);
}

size_t audit_cut(const char *text, size_t characters)
{
    size_t size = 0;
    while (text[size]) {
        if (((unsigned char)text[size] & 0xc0) != 0x80 && characters-- == 0)
            break;
        size++;
    }
    return size;
}

char *audit_join(const char *command, char *const *args)
{
    struct buf text = BUF_INIT(4 * AUDIT_TEXT_MAX); /* bytes of so many characters */
    buf_append(&text, command, strlen(command));
    for (; args && *args && text.size < text.ceiling; args++) {
        buf_append(&text, " ", 1);
        buf_append(&text, *args, strlen(*args));
    }
    char *joined = xstrndup(text.data ? text.data : "", text.size);
    buf_release(&text);
    return joined;
}

static void put_time(struct line *line)
{
    int64_t now = runtime_now_us();
    time_t seconds = (time_t)(now / 1000000);
    struct tm parts;
    char text[64];
    gmtime_r(&seconds, &parts);
    size_t used = strftime(text, sizeof text, "{\"time\":\"%Y-%m-%dT%H:%M:%S", &parts);
    snprintf(text + used, sizeof text - used, ".%06dZ\"", (int)(now % 1000000));
    put_text(line, text);
}

static void put_command(struct line *line, const char *text)
{
    size_t size = audit_cut(text, AUDIT_TEXT_MAX);
    cleanup_free char *clean = utf8_repair(text, size, &size);
    put_text(line, ",\"what\":");
    put_escaped(line, clean, size);
}

static void put_usage(struct line *line, const struct backend_outcome *usage)
{
    if (usage->exit_code >= 0)
        put_number(line, "exit_code", usage->exit_code);
    if (usage->signal > 0)
        put_number(line, "signal", usage->signal);
    put_field(line, "cause", usage->cause);
    if (usage->denied[0])
        put_field(line, "denied", usage->denied);
    put_number(line, "wall_us", (int64_t)usage->wall_us);
    put_number(line, "cpu_us", (int64_t)usage->cpu_us);
    put_number(line, "peak_bytes", (int64_t)usage->peak_bytes);
}

/* --- the file, in any thread ------------------------------------------------------------------ */

static int open_file(struct audit *audit)
{
    struct stat st;
    audit->fd = openat(audit->dir, AUDIT_NAME,
                       O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (audit->fd < 0 || fstat(audit->fd, &st) < 0)
        return -errno;
    audit->size = (uint64_t)st.st_size;
    return 0;
}

static int rotate(struct audit *audit)
{
    char from[48], to[48];
    for (unsigned i = audit->files; i > 0; i--) {
        snprintf(to, sizeof to, AUDIT_NAME ".%u", i);
        snprintf(from, sizeof from, i > 1 ? AUDIT_NAME ".%u" : AUDIT_NAME, i - 1);
        renameat(audit->dir, from, audit->dir, to);
    }
    if (audit->files == 0)
        unlinkat(audit->dir, AUDIT_NAME, 0);
    fd_clear(&audit->fd);
    return open_file(audit);
}

static void work(uv_work_t *request)
{
    struct audit *audit = request->data;
    audit->result = audit->fd < 0 ? open_file(audit) : 0;
    if (audit->result == 0 && audit->size > 0 &&
        audit->size + audit->writing.size > audit->rotate_at)
        audit->result = rotate(audit);
    if (audit->result == 0)
        audit->result = fd_write_all(audit->fd, audit->writing.data, audit->writing.size);
    if (audit->result == 0)
        audit->size += audit->writing.size;
}

/* --- on the loop ------------------------------------------------------------------------------ */

static void flush(struct audit *audit);

static void after_work(uv_work_t *request, int status)
{
    (void)status;
    struct audit *audit = request->data;
    audit->busy = false;
    if (audit->result < 0 && !audit->failed) {
        struct error err;
        error_errno(&err, -audit->result, "write the audit log");
        log_error(LOG_ERROR, "audit_failed", &err, LOG_TEXT("file", AUDIT_NAME));
    }
    audit->failed = audit->result < 0;
    buf_release(&audit->writing);
    if (audit->waiting.size > 0 && (audit->finished || audit->waiting.size >= AUDIT_FLUSH_AT))
        flush(audit);
    else if (audit->finished)
        audit->finished(audit->finished_data);
}

static void flush(struct audit *audit)
{
    if (audit->busy || audit->waiting.size == 0)
        return;
    struct buf empty = audit->writing;
    audit->writing = audit->waiting;
    audit->waiting = empty;
    audit->busy = true;
    audit->work.data = audit;
    if (uv_queue_work(audit->runtime->loop, &audit->work, work, after_work) < 0) {
        work(&audit->work);
        after_work(&audit->work, 0);
    }
}

static void on_alarm(void *owner)
{
    struct audit *audit = owner;
    audit->alarmed = false;
    flush(audit);
}

static void add(struct audit *audit, const struct line *line)
{
    if (audit->waiting.size + line->size > AUDIT_MAX) {
        audit->lost++;
        return;
    }
    buf_append(&audit->waiting, line->data, line->size);
}

void audit_write(struct audit *audit, const struct audit_line *from)
{
    struct line line;
    if (!audit)
        return;
    line.size = 0;
    put_time(&line);
    put_field(&line, "event", from->what);
    put_field(&line, "actor", from->actor);
    put_field(&line, "session", from->session);
    put_field(&line, "process", from->process);
    if (from->text)
        put_command(&line, from->text);
    put_field(&line, "outcome", from->outcome);
    if (from->usage)
        put_usage(&line, from->usage);
    if (audit->lost > 0 && audit->waiting.size + AUDIT_LINE_MAX < AUDIT_MAX) {
        put_number(&line, "lines_lost_before", (int64_t)audit->lost);
        audit->lost = 0;
    }
    put_text(&line, "}\n");
    add(audit, &line);
    if (audit->waiting.size >= AUDIT_FLUSH_AT) {
        flush(audit);
    } else if (!audit->alarmed) {
        audit->alarmed = true;
        alarm_set(audit->alarm, AUDIT_FLUSH_MS);
    }
}

struct audit *audit_new(struct runtime *runtime, struct error *err)
{
    struct audit *audit = xcalloc(1, sizeof *audit);
    audit->runtime = runtime;
    audit->dir = runtime->state_fd;
    audit->rotate_at = runtime->config.audit_bytes;
    audit->files = runtime->config.audit_files;
    audit->waiting.ceiling = audit->writing.ceiling = AUDIT_MAX;
    int result = open_file(audit);
    if (result < 0) {
        error_errno(err, -result, "open the audit log in '%.200s'", runtime->config.state_dir);
        fd_clear(&audit->fd);
        free(audit);
        return NULL;
    }
    audit->alarm = alarm_new(runtime, on_alarm, audit);
    return audit;
}

void audit_finish(struct audit *audit, void (*done)(void *data), void *data)
{
    if (!audit) {
        done(data);
        return;
    }
    audit->finished = done;
    audit->finished_data = data;
    audit->alarmed = true; /* never again */
    if (audit->waiting.size > 0)
        flush(audit);
    else if (!audit->busy)
        done(data);
}

void audit_close(struct audit *audit)
{
    alarm_free(&audit->alarm);
}

void audit_free(struct audit *audit)
{
    if (!audit)
        return;
    buf_release(&audit->waiting);
    buf_release(&audit->writing);
    fd_clear(&audit->fd);
    free(audit);
}
