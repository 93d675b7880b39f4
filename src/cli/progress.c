/* SPDX-License-Identifier: Apache-2.0 */
/* A bar for copies that take their time. */
#include "cli/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/table.h"
#include "core/clock.h"

#define REDRAW_US 100000
#define BAR_MAX   40

/* With one decimal, so that the line does not change its width all the time. */
static void size_text(uint64_t bytes, char *ret, size_t size)
{
    static const char units[] = "KMGTPE";
    double value = (double)bytes / 1024;
    size_t unit = 0;
    for (; value >= 1000 && units[unit + 1]; unit++)
        value /= 1024;
    snprintf(ret, size, "%.1f%c", value, units[unit]);
}

static void bar_text(uint64_t done, uint64_t total, size_t length, char *ret)
{
    size_t filled = total ? (size_t)((double)length * (double)done / (double)total) : 0;
    if (filled > length)
        filled = length;
    memset(ret, '=', filled);
    memset(ret + filled, ' ', length - filled);
    if (filled < length)
        ret[filled] = '>';
    ret[length] = '\0';
}

void progress_line(const struct progress *progress, uint64_t now, size_t width, char *ret,
                   size_t size)
{
    char done[32];
    char rate_text[32];
    char left[32] = "";
    char bar[BAR_MAX + 1] = "";
    uint64_t passed = now > progress->started_us ? now - progress->started_us : 1;
    uint64_t rate = (uint64_t)((double)progress->done * 1e6 / (double)passed);
    bool known = progress->total > 0 && progress->done <= progress->total;
    size_text(progress->done, done, sizeof done);
    size_text(rate, rate_text, sizeof rate_text);
    if (known && rate > 0) {
        uint64_t seconds = (progress->total - progress->done) / rate;
        snprintf(left, sizeof left, "  %" PRIu64 ":%02u left", seconds / 60,
                 (unsigned)(seconds % 60));
    }
    if (!known) {
        snprintf(ret, size, "%.30s  %s  %s/s", progress->name, done, rate_text);
        return;
    }
    unsigned percent = (unsigned)(100.0 * (double)progress->done / (double)progress->total);
    int fixed = snprintf(ret, size, "%.30s  [] %3u%%  %s  %s/s%s", progress->name, percent, done,
                         rate_text, left);
    if (fixed > 0 && width > (size_t)fixed + 4) {
        size_t length = width - (size_t)fixed;
        bar_text(progress->done, progress->total, length < BAR_MAX ? length : BAR_MAX, bar);
    }
    snprintf(ret, size, "%.30s  [%s] %3u%%  %s  %s/s%s", progress->name, bar, percent, done,
             rate_text, left);
}

static void draw(struct progress *progress, uint64_t now)
{
    char line[512];
    size_t width = table_width(STDERR_FILENO);
    progress_line(progress, now, width ? width - 1 : 79, line, sizeof line);
    cleanup_free char *clean = printable(line);
    fprintf(stderr, "\r%.*s\033[K", (int)(width ? width - 1 : 79), clean);
    fflush(stderr);
    progress->drawn_us = now;
}

void progress_start(struct progress *progress, const char *name, uint64_t total)
{
    const char *slash = strrchr(name, '/');
    *progress = (struct progress){
        .shown = isatty(STDERR_FILENO) && total >= PROGRESS_MIN,
        .name = slash && slash[1] ? slash + 1 : name,
        .total = total,
    };
    /* The first line comes a while later: before that, the rate means nothing. */
    if (progress->shown)
        progress->started_us = progress->drawn_us = clock_monotonic_us();
}

void progress_add(struct progress *progress, size_t bytes)
{
    progress->done += bytes;
    if (!progress->shown)
        return;
    uint64_t now = clock_monotonic_us();
    if (now - progress->drawn_us >= REDRAW_US)
        draw(progress, now);
}

void progress_end(struct progress *progress)
{
    if (progress->shown && progress->drawn_us > progress->started_us)
        fputs("\r\033[K", stderr);
    progress->shown = false;
}
