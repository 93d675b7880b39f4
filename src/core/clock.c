/* SPDX-License-Identifier: Apache-2.0 */
/* What time it is, and how it is written. */
#include "core/clock.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

int64_t clock_now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

uint64_t clock_monotonic_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Four digits of year are what both formats have; times of files can be beyond. */
static struct tm broken_down(int64_t seconds)
{
    const int64_t year_0 = -62167219200;
    const int64_t year_9999 = 253402300799;
    time_t clamped = seconds < year_0 ? year_0 : seconds > year_9999 ? year_9999 : seconds;
    struct tm tm;
    gmtime_r(&clamped, &tm);
    return tm;
}

void clock_text(int64_t us, char ret[CLOCK_TEXT_SIZE])
{
    int64_t seconds = us / 1000000;
    int64_t rest = us % 1000000;
    if (rest < 0) {
        rest += 1000000;
        seconds--;
    }
    struct tm tm = broken_down(seconds);
    snprintf(ret, CLOCK_TEXT_SIZE, "%04u-%02u-%02uT%02u:%02u:%02u.%06u+00:00",
             (unsigned)(tm.tm_year + 1900) % 10000, (unsigned)(tm.tm_mon + 1) % 100,
             (unsigned)tm.tm_mday % 100, (unsigned)tm.tm_hour % 100, (unsigned)tm.tm_min % 100,
             (unsigned)tm.tm_sec % 100, (unsigned)rest % 1000000);
}

void clock_python_text(int64_t us, const char *zone, char ret[CLOCK_TEXT_SIZE])
{
    clock_text(us, ret);
    char *end = strchr(ret, us % 1000000 == 0 ? '.' : '+');
    snprintf(end, CLOCK_TEXT_SIZE - (size_t)(end - ret), "%s", zone);
}

void clock_http_text(int64_t seconds, char ret[CLOCK_TEXT_SIZE])
{
    static const char days[] = "SunMonTueWedThuFriSat";
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    struct tm tm = broken_down(seconds);
    snprintf(ret, CLOCK_TEXT_SIZE, "%.3s, %02u %.3s %04u %02u:%02u:%02u GMT",
             days + (size_t)tm.tm_wday * 3, (unsigned)tm.tm_mday % 100,
             months + (size_t)tm.tm_mon * 3, (unsigned)(tm.tm_year + 1900) % 10000,
             (unsigned)tm.tm_hour % 100, (unsigned)tm.tm_min % 100, (unsigned)tm.tm_sec % 100);
}
