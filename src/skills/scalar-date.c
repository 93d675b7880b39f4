/* SPDX-License-Identifier: Apache-2.0 */
/* Dates and times among plain scalars, as datetime's str() and repr() have them. */
#include "skills/scalar-date.h"

#include <stdio.h>
#include <string.h>

#include "core/buf.h"
#include "core/mem.h"

struct moment {
    int year, month, day;
    bool has_time;
    int hour, minute, second, microsecond;
    bool has_zone;
    int zone; /* minutes east */
};

/* `least` to `most` digits; -1: not so. */
static int number_at(const char **at, size_t least, size_t most)
{
    int value = 0;
    size_t count = 0;
    for (; count < most && **at >= '0' && **at <= '9'; count++)
        value = value * 10 + *(*at)++ - '0';
    return count < least ? -1 : value;
}

static bool literal(const char **at, char wanted)
{
    if (**at != wanted)
        return false;
    ++*at;
    return true;
}

static bool parse_zone(const char **at, struct moment *ret)
{
    *at += strspn(*at, " \t");
    if (literal(at, 'Z')) {
        ret->has_zone = true;
        return !**at;
    }
    int sign = **at == '-' ? -1 : 1;
    if (!literal(at, '+') && !literal(at, '-'))
        return false;
    int hours = number_at(at, 1, 2);
    int minutes = 0;
    if (literal(at, ':'))
        minutes = number_at(at, 2, 2);
    ret->has_zone = true;
    ret->zone = sign * (hours * 60 + minutes);
    return hours >= 0 && minutes >= 0 && !**at;
}

static void parse_fraction(const char **at, struct moment *ret)
{
    int scale = 100000;
    for (; **at >= '0' && **at <= '9'; ++*at, scale /= 10)
        ret->microsecond += (**at - '0') * scale;
}

static bool parse_time(const char **at, struct moment *ret)
{
    size_t gap = strspn(*at, " \t");
    if (gap == 0 && **at != 'T' && **at != 't')
        return false;
    *at += gap ? gap : 1;
    ret->has_time = true;
    ret->hour = number_at(at, 1, 2);
    if (ret->hour < 0 || !literal(at, ':'))
        return false;
    ret->minute = number_at(at, 2, 2);
    if (ret->minute < 0 || !literal(at, ':'))
        return false;
    ret->second = number_at(at, 2, 2);
    if (ret->second < 0)
        return false;
    if (literal(at, '.'))
        parse_fraction(at, ret);
    return !**at || parse_zone(at, ret);
}

static bool parse(const char *text, struct moment *ret)
{
    const char *at = text;
    *ret = (struct moment){0};
    ret->year = number_at(&at, 4, 4);
    if (ret->year < 0 || !literal(&at, '-'))
        return false;
    const char *month = at;
    ret->month = number_at(&at, 1, 2);
    bool short_form = at - month < 2;
    if (ret->month < 0 || !literal(&at, '-'))
        return false;
    const char *day = at;
    ret->day = number_at(&at, 1, 2);
    short_form = short_form || at - day < 2;
    if (ret->day < 0)
        return false;
    /* A date by itself has two digits of each. */
    return *at ? parse_time(&at, ret) : !short_form;
}

bool scalar_is_date(const char *text)
{
    struct moment moment;
    return parse(text, &moment);
}

static bool is_possible(const struct moment *moment)
{
    static const int lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    if (moment->year < 1 || moment->month < 1 || moment->month > 12)
        return false;
    bool leap = moment->year % 4 == 0 && (moment->year % 100 != 0 || moment->year % 400 == 0);
    int length = lengths[moment->month - 1] + (leap && moment->month == 2);
    return moment->day >= 1 && moment->day <= length && moment->hour < 24 && moment->minute < 60 &&
           moment->second < 60 && moment->zone > -24 * 60 && moment->zone < 24 * 60;
}

static char *zone_repr(const struct moment *moment)
{
    if (!moment->has_zone)
        return xstrdup("");
    if (moment->zone == 0)
        return xstrdup(", tzinfo=datetime.timezone.utc");
    if (moment->zone > 0)
        return xasprintf(", tzinfo=datetime.timezone(datetime.timedelta(seconds=%d))",
                         moment->zone * 60);
    return xasprintf(", tzinfo=datetime.timezone(datetime.timedelta(days=-1, seconds=%d))",
                     86400 + moment->zone * 60);
}

static char *repr(const struct moment *moment)
{
    cleanup_free char *date = xasprintf("%d, %d, %d", moment->year, moment->month, moment->day);
    if (!moment->has_time)
        return xasprintf("datetime.date(%s)", date);
    cleanup_free char *zone = zone_repr(moment);
    char seconds[48] = "";
    if (moment->microsecond)
        snprintf(seconds, sizeof seconds, ", %d, %d", moment->second, moment->microsecond);
    else if (moment->second)
        snprintf(seconds, sizeof seconds, ", %d", moment->second);
    return xasprintf("datetime.datetime(%s, %d, %d%s%s)", date, moment->hour, moment->minute,
                     seconds, zone);
}

int scalar_build_date(const char *text, struct scalar *ret, struct error *err)
{
    struct moment moment;
    if (!parse(text, &moment) || !is_possible(&moment))
        return error_set(err, ERROR_INVALID, "there is no such date as %.40s", text);
    char fraction[16] = "";
    char zone[16] = "";
    if (moment.microsecond)
        snprintf(fraction, sizeof fraction, ".%06d", moment.microsecond);
    if (moment.has_zone)
        snprintf(zone, sizeof zone, "%c%02d:%02d", moment.zone < 0 ? '-' : '+',
                 abs(moment.zone) / 60, abs(moment.zone) % 60);
    ret->kind = SCALAR_DATE;
    ret->truthy = true;
    ret->repr = repr(&moment);
    if (moment.has_time)
        ret->text =
            xasprintf("%04d-%02d-%02d %02d:%02d:%02d%s%s", moment.year, moment.month, moment.day,
                      moment.hour, moment.minute, moment.second, fraction, zone);
    else
        ret->text = xasprintf("%04d-%02d-%02d", moment.year, moment.month, moment.day);
    return 0;
}
