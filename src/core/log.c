/* SPDX-License-Identifier: Apache-2.0 */
/* The log: one line an event, as text or JSON, to standard error.

   A line is made in one place and leaves by one write(2). It is never longer than PIPE_BUF, so that
   lines of several processes on one pipe do not mix. Values come from strangers: whatever could end
   a line, move a cursor or reorder what a person sees is escaped, and a value that is too long is
   cut, so that no value can look like another field or another event. */
#include "core/log.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/mem.h"
#include "core/utf8.h"

#define LINE_SIZE  PIPE_BUF
#define LINE_TAIL  32   /* kept free for what closes a value that was cut, and the line */
#define VALUE_SIZE 1024 /* of a value, escaped: one must not crowd out the others */
#define CUT        "\xE2\x80\xA6"

static const char *const level_names[LOG_LEVEL_MAX] = {
#define X(name, text) text,
    LOG_LEVELS(X)
#undef X
};

static enum log_format log_format = LOG_FORMAT_TEXT;
static enum log_level log_least = LOG_INFO;
static bool to_journal;

struct line {
    char data[LINE_SIZE];
    size_t size;
};

/* systemd names the stream that it reads, which is standard error or somebody else's. */
static bool is_journal(void)
{
    const char *text = getenv("JOURNAL_STREAM");
    uintmax_t device, inode;
    struct stat st;
    return text && sscanf(text, "%ju:%ju", &device, &inode) == 2 &&
           fstat(STDERR_FILENO, &st) == 0 && st.st_dev == device && st.st_ino == inode;
}

void log_configure(enum log_format format, enum log_level level)
{
    to_journal = is_journal();
    log_format = format;
    log_least = level;
}

enum log_level log_level_from_name(const char *name)
{
    for (int i = 0; i < LOG_LEVEL_MAX; i++)
        if (strcmp(level_names[i], name) == 0)
            return (enum log_level)i;
    /* Python's word for it, and so what those who come from there write. */
    return strcmp(name, "warning") == 0 ? LOG_WARN : LOG_LEVEL_INVALID;
}

/* Whole or not at all, up to LINE_TAIL before the end. */
static bool line_add(struct line *line, const char *data, size_t size)
{
    if (line->size + size > LINE_SIZE - LINE_TAIL)
        return false;
    memcpy(line->data + line->size, data, size);
    line->size += size;
    return true;
}

/* What closes: the tail is there for it. */
static void line_close(struct line *line, const char *text)
{
    size_t size = strlen(text);
    memcpy(line->data + line->size, text, size);
    line->size += size;
}

/* The code point of a well-formed sequence, and its length. */
static uint32_t code_point(const char *at, size_t *ret_size)
{
    const unsigned char *u = (const unsigned char *)at;
    size_t size = u[0] < 0x80 ? 1 : u[0] < 0xE0 ? 2 : u[0] < 0xF0 ? 3 : 4;
    uint32_t code = size == 1 ? u[0] : u[0] & (0x7Fu >> size);
    for (size_t i = 1; i < size; i++)
        code = code << 6 | (u[i] & 0x3Fu);
    *ret_size = size;
    return code;
}

/* Control characters of both sets, line and paragraph separators, and what changes direction. */
static bool is_treacherous(uint32_t code)
{
    return code < 0x20 || (code >= 0x7F && code <= 0x9F) || code == 0x061C ||
           (code >= 0x200E && code <= 0x200F) || (code >= 0x2028 && code <= 0x202E) ||
           (code >= 0x2066 && code <= 0x2069) || code == 0xFEFF;
}

/* As inside a JSON string. */
static size_t escape(uint32_t code, const char *at, size_t size, char ret[8])
{
    char letter = code == '"' || code == '\\' ? (char)code
                  : code == '\n'              ? 'n'
                  : code == '\t'              ? 't'
                  : code == '\r'              ? 'r'
                                              : '\0';
    if (letter != '\0')
        return (size_t)snprintf(ret, 8, "\\%c", letter);
    if (is_treacherous(code))
        return (size_t)snprintf(ret, 8, "\\u%04x", code);
    memcpy(ret, at, size);
    return size;
}

/* A JSON string; in the text form too, where a value needs quotes. One byte more than may come out
   is looked at, so a longer value is always found to be cut. */
static void line_add_quoted(struct line *line, const char *text)
{
    size_t size;
    cleanup_free char *clean = utf8_repair(text, strnlen(text, VALUE_SIZE + 1), &size);
    size_t end = line->size + VALUE_SIZE;
    bool whole = line_add(line, "\"", 1);
    for (size_t i = 0, n; whole && i < size; i += n) {
        char out[8];
        uint32_t code = code_point(clean + i, &n);
        size_t length = escape(code, clean + i, n, out);
        whole = line->size + length <= end && line_add(line, out, length);
    }
    line_close(line, whole ? "\"" : CUT "\"");
}

static bool is_bare(const char *text)
{
    size_t size = strnlen(text, VALUE_SIZE);
    if (size == 0 || size == VALUE_SIZE)
        return false;
    for (size_t i = 0; i < size; i++)
        if (text[i] <= ' ' || text[i] >= 0x7F || strchr("\"\\=", text[i]))
            return false;
    return true;
}

/* Keys are ours. A field for which there is no room any more is left out. */
static void line_add_field(struct line *line, const struct log_field *field)
{
    bool json = log_format == LOG_FORMAT_JSON;
    char head[96];
    int size = snprintf(head, sizeof head, json ? ",\"%.60s\":" : " %.60s=", field->key);
    char number[24];
    int digits = snprintf(number, sizeof number, "%" PRId64, field->number);
    if (line->size + (size_t)size + sizeof number > LINE_SIZE - LINE_TAIL)
        return;
    line_add(line, head, (size_t)size);
    if (!field->text)
        line_add(line, number, (size_t)digits);
    else if (json || !is_bare(field->text) || !line_add(line, field->text, strlen(field->text)))
        line_add_quoted(line, field->text);
}

static void line_begin(struct line *line, enum log_level level, const char *event)
{
    struct timespec now;
    struct tm utc;
    char when[32];
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%S", &utc);
    /* Of syslog: the journal takes it off again, and can then be asked by priority. */
    static const char priorities[LOG_LEVEL_MAX] = {
        [LOG_DEBUG] = '7', [LOG_INFO] = '6', [LOG_WARN] = '4', [LOG_ERROR] = '3'};
    line->size = to_journal ? (size_t)sprintf(line->data, "<%c>", priorities[level]) : 0;
    line->size +=
        (size_t)snprintf(line->data + line->size, LINE_SIZE - LINE_TAIL - line->size,
                         log_format == LOG_FORMAT_JSON
                             ? "{\"time\":\"%s.%06ldZ\",\"level\":\"%s\",\"event\":\"%.100s\""
                             : "%s.%06ldZ %s %.100s",
                         when, now.tv_nsec / 1000, level_names[level], event);
}

/* Nobody can be told that the log cannot be written; what happens must not depend on it. */
static void line_write(const struct line *line)
{
    int saved = errno;
    ssize_t n;
    do {
        n = write(STDERR_FILENO, line->data, line->size);
    } while (n < 0 && errno == EINTR);
    errno = saved;
}

static void write_fields(enum log_level level, const char *event, const struct log_field *fields,
                         size_t count, const struct log_field *more, size_t more_count)
{
    if (level < log_least || level >= LOG_LEVEL_MAX)
        return;
    struct line line;
    line_begin(&line, level, event);
    for (size_t i = 0; i < count; i++)
        line_add_field(&line, &fields[i]);
    for (size_t i = 0; i < more_count; i++)
        line_add_field(&line, &more[i]);
    line_close(&line, log_format == LOG_FORMAT_JSON ? "}\n" : "\n");
    line_write(&line);
}

void log_write(enum log_level level, const char *event, const struct log_field *fields,
               size_t count)
{
    write_fields(level, event, fields, count, NULL, 0);
}

void log_write_error(enum log_level level, const char *event, const struct error *err,
                     const struct log_field *fields, size_t count)
{
    const struct log_field more[] = {
        LOG_TEXT("code", error_code_name(err->code)),
        LOG_TEXT("message", err->message),
        LOG_TEXT("hint", err->hint),
    };
    write_fields(level, event, fields, count, more, err->hint[0] ? 3 : 2);
}
