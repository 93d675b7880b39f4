/* SPDX-License-Identifier: Apache-2.0 */
/* Tables for people. */
#include "cli/table.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "cli/run-report.h"

#define GAP 2

void table_init(struct table *table, const char *const *headings)
{
    *table = (struct table){0};
    for (; headings[table->columns] && table->columns < TABLE_COLUMNS_MAX; table->columns++) {
        const char *heading = headings[table->columns];
        table->right[table->columns] = heading[0] == '>';
        if (heading[0] == '~')
            table->yielding = table->columns + 1;
        strings_add(&table->cells, heading + (heading[0] == '>' || heading[0] == '~'));
    }
}

void table_release(struct table *table)
{
    strings_release(&table->cells);
}

/* Control characters but those in `kept` become '?'. There is a NUL behind the text. */
static void disarm(char *text, size_t size, const char *kept)
{
    for (char *at = text; at < text + size; at++) {
        if (((unsigned char)*at < ' ' || *at == 0x7f) && !(*at && strchr(kept, *at)))
            *at = '?';
        /* U+0080 to U+009F, which some terminals obey too. */
        if ((unsigned char)at[0] == 0xc2 && (unsigned char)at[1] >= 0x80 &&
            (unsigned char)at[1] < 0xa0)
            at[0] = at[1] = '?';
    }
}

char *printable(const char *text)
{
    char *clean = xstrdup(text);
    disarm(clean, strlen(clean), "");
    return clean;
}

void print_text(const char *text, size_t size, FILE *out)
{
    if (!isatty(fileno(out))) {
        fwrite(text, 1, size, out);
        return;
    }
    cleanup_free char *clean = xmalloc(size + 1);
    memcpy(clean, text, size);
    clean[size] = '\0';
    disarm(clean, size, "\n\t");
    fwrite(clean, 1, size, out);
}

void table_add(struct table *table, const char *text)
{
    strings_take(&table->cells, printable(text[0] ? text : "-"));
}

void table_add_number(struct table *table, uint64_t number)
{
    strings_take(&table->cells, xasprintf("%" PRIu64, number));
}

void table_add_size(struct table *table, uint64_t bytes)
{
    char text[32];
    format_size(bytes, text, sizeof text);
    strings_add(&table->cells, text);
}

/* --- printing -----------------------------------------------------------------------------------
 */

static bool is_continuation(char byte)
{
    return ((unsigned char)byte & 0xc0) == 0x80;
}

/* Characters, each taken to be one column wide. */
static size_t width_of(const char *text)
{
    size_t width = 0;
    for (; *text; text++)
        width += !is_continuation(*text);
    return width;
}

/* The bytes of the first `width` characters. */
static size_t bytes_of(const char *text, size_t width)
{
    size_t at = 0;
    for (; text[at]; at++) {
        if (!is_continuation(text[at]) && width-- == 0)
            break;
    }
    return at;
}

static char *shortened(const char *text, size_t width)
{
    if (width_of(text) <= width)
        return xstrdup(text);
    return xasprintf("%.*s…", (int)bytes_of(text, width - 1), text);
}

/* Takes from the column that yields what lines have too much, but leaves it its heading. */
static void yield(const struct table *table, size_t width, size_t *widths)
{
    size_t at = table->yielding - 1;
    size_t least = width_of(table->cells.items[at]);
    size_t whole = (table->columns - 1) * GAP;
    for (size_t i = 0; i < table->columns; i++)
        whole += widths[i];
    if (whole <= width)
        return;
    size_t over = whole - width;
    widths[at] = widths[at] > over + least ? widths[at] - over : least;
}

static char *make_row(const struct table *table, size_t row, const size_t *widths)
{
    char *text = NULL;
    size_t size = 0;
    FILE *line = open_memstream(&text, &size);
    if (!line)
        return xstrdup("");
    for (size_t i = 0; i < table->columns; i++) {
        const char *cell = table->cells.items[row * table->columns + i];
        cleanup_free char *cut = shortened(cell, widths[i]);
        int rest = (int)(widths[i] - width_of(cut));
        bool last = i + 1 == table->columns;
        fprintf(line, "%*s%s%*s", table->right[i] ? rest : 0, "", cut,
                last ? 0 : GAP + (table->right[i] ? 0 : rest), "");
    }
    fclose(line);
    return text;
}

void table_print(const struct table *table, size_t width, size_t rows, const char *end, FILE *out)
{
    size_t widths[TABLE_COLUMNS_MAX] = {0};
    size_t count = table->columns ? table->cells.count / table->columns : 0;
    if (rows > 0 && count > rows + 1)
        count = rows + 1;
    for (size_t i = 0; i < count * table->columns; i++) {
        size_t wide = width_of(table->cells.items[i]);
        if (wide > widths[i % table->columns])
            widths[i % table->columns] = wide;
    }
    if (table->yielding && width > 0)
        yield(table, width, widths);
    for (size_t row = 0; row < count; row++) {
        cleanup_free char *line = make_row(table, row, widths);
        cleanup_free char *cut = width > 0 ? shortened(line, width) : NULL;
        fprintf(out, "%s%s", cut ? cut : line, end);
    }
}

size_t table_width(int fd)
{
    struct winsize size;
    return ioctl(fd, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

/* --- times --------------------------------------------------------------------------------------
 */

void format_age(uint64_t seconds, char *ret, size_t size)
{
    static const struct {
        uint64_t seconds;
        char unit;
    } units[] = {{24 * 3600, 'd'}, {3600, 'h'}, {60, 'm'}, {1, 's'}};
    size_t i = 0;
    while (i + 1 < ARRAY_SIZE(units) && seconds < units[i].seconds)
        i++;
    snprintf(ret, size, "%" PRIu64 "%c", seconds / units[i].seconds, units[i].unit);
}

int64_t parse_time(const char *text)
{
    struct tm parts = {0};
    int64_t micro = 0;
    const char *at = strptime(text, "%Y-%m-%dT%H:%M:%S", &parts);
    if (!at)
        return -1;
    if (*at == '.') {
        int64_t unit = 1000000;
        for (at++; *at >= '0' && *at <= '9'; at++) {
            unit /= 10;
            micro += (*at - '0') * unit;
        }
    }
    if (strcmp(at, "Z") != 0 && strcmp(at, "+00:00") != 0)
        return -1;
    return (int64_t)timegm(&parts) * 1000000 + micro;
}

void format_since(const char *time, char *ret, size_t size)
{
    struct timespec now;
    int64_t then = parse_time(time);
    if (then < 0) {
        snprintf(ret, size, "-");
        return;
    }
    clock_gettime(CLOCK_REALTIME, &now);
    int64_t seconds = now.tv_sec - then / 1000000;
    format_age(seconds > 0 ? (uint64_t)seconds : 0, ret, size);
}
