/* SPDX-License-Identifier: Apache-2.0 */
/* Text as Python's str has it. */
#include "skills/text.h"

#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "core/utf8.h"
#include "skills/skills.h"

static const uint32_t alnum_ranges[][2] = {
#include "skills/alnum.inc"
};

uint32_t text_next(const char **at, const char *end)
{
    static const unsigned char masks[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    const unsigned char *bytes = (const unsigned char *)*at;
    if (bytes[0] < 0x80) {
        (*at)++;
        return bytes[0];
    }
    int length = utf8_sequence(*at, (size_t)(end - *at));
    if (length < 0) {
        *at += -length;
        return 0xFFFD;
    }
    uint32_t character = bytes[0] & masks[length];
    for (int i = 1; i < length; i++)
        character = character << 6 | (bytes[i] & 0x3F);
    *at += length;
    return character;
}

void text_put(struct buf *buf, uint32_t c)
{
    char out[4];
    size_t size = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const unsigned char leads[] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (size_t i = size; i-- > 1; c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3F));
    out[0] = (char)(leads[size] | c);
    buf_append(buf, out, size);
}

size_t text_length(const char *text, size_t size)
{
    size_t length = 0;
    for (const char *at = text; at < text + size; length++)
        text_next(&at, text + size);
    return length;
}

bool text_is_space(uint32_t c)
{
    return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
           c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
           c == 0x202F || c == 0x205F || c == 0x3000;
}

bool text_is_alnum(uint32_t c)
{
    if (c < 0x80)
        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    size_t low = 0;
    size_t high = ARRAY_SIZE(alnum_ranges);
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (c > alnum_ranges[middle][1])
            low = middle + 1;
        else
            high = middle;
    }
    return low < ARRAY_SIZE(alnum_ranges) && c >= alnum_ranges[low][0];
}

void text_strip(const char **text, size_t *size)
{
    utf8_strip(text, size);
}

char *text_stripped(const char *text)
{
    size_t size = strlen(text);
    text_strip(&text, &size);
    return xstrndup(text, size);
}

static bool ends_line(uint32_t c)
{
    return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
           c == 0x2029;
}

size_t text_line_end(const char *text, size_t size, size_t at, size_t *ret_next)
{
    const char *end = text + size;
    for (const char *here = text + at; here < end;) {
        size_t line_end = (size_t)(here - text);
        uint32_t c = text_next(&here, end);
        if (!ends_line(c))
            continue;
        if (c == '\r' && here < end && *here == '\n')
            here++;
        *ret_next = (size_t)(here - text);
        return line_end;
    }
    *ret_next = size;
    return size;
}

char *text_normpath(const char *path)
{
    size_t length = strlen(path);
    char *out = xmalloc(length + 3);
    size_t root = strspn(path, "/");
    root = root == 2 ? 2 : root > 0; /* two are special to POSIX, three are not */
    size_t used = root;
    memset(out, '/', root);
    for (const char *at = path; *at;) {
        at += strspn(at, "/");
        size_t part = strcspn(at, "/");
        const char *next = at + part;
        size_t above = used;
        while (above > root && out[above - 1] != '/')
            above--;
        bool up = part == 2 && memcmp(at, "..", 2) == 0;
        bool climbed = used - above == 2 && memcmp(out + above, "..", 2) == 0;
        if (up && used > root && !climbed) {
            used = above > root ? above - 1 : root;
        } else if (part > 0 && !(part == 1 && *at == '.') && !(up && root > 0)) {
            if (used > root)
                out[used++] = '/';
            memcpy(out + used, at, part);
            used += part;
        }
        at = next;
    }
    if (used == 0)
        out[used++] = '.';
    out[used] = '\0';
    return out;
}

char *text_archive_path(const char *path)
{
    size_t size = strlen(path);
    text_strip(&path, &size);
    char *copy = xstrndup(path, size);
    for (char *at = copy; *at; at++) {
        if (*at == '\\')
            *at = '/';
    }
    size_t start = strspn(copy, "/");
    while (size > start && copy[size - 1] == '/')
        size--;
    memmove(copy, copy + start, size - start);
    copy[size - start] = '\0';
    return copy;
}

const char *text_shown(const char *text, char ret[TEXT_SHOWN_SIZE])
{
    size_t used = 0;
    const char *end = text + strlen(text);
    for (const char *at = text; at < end;) {
        const char *here = at;
        uint32_t c = text_next(&at, end);
        if (used + 8 > TEXT_SHOWN_SIZE) {
            memcpy(ret + used, "…", sizeof "…" - 1);
            used += sizeof "…" - 1;
            break;
        }
        if (c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0xFFFD || (text_is_space(c) && c != ' ')) {
            ret[used++] = '?';
        } else {
            memcpy(ret + used, here, (size_t)(at - here));
            used += (size_t)(at - here);
        }
    }
    ret[used] = '\0';
    return ret;
}

void text_list_add(char list[TEXT_LIST_SIZE], const char *text)
{
    static const char dots[] = ", …";
    char shown[TEXT_SHOWN_SIZE];
    size_t used = strlen(list);
    size_t room = TEXT_LIST_SIZE - used - sizeof dots;
    if (used >= sizeof dots - 1 && strcmp(list + used - (sizeof dots - 1), dots) == 0)
        return;
    if (strlen(text_shown(text, shown)) + 3 > room)
        memcpy(list + used, dots, sizeof dots);
    else
        snprintf(list + used, room, "%s%s", used > 0 ? ", " : "", shown);
}

int text_check_name(const char *name, size_t size, struct error *err)
{
    char shown[TEXT_SHOWN_SIZE];
    const char *end = name + size;
    size_t length = 0;
    bool any = false;
    if (size == 0)
        return error_set(err, ERROR_INVALID, "a skill needs a name");
    for (const char *at = name; at < end; length++) {
        uint32_t c = text_next(&at, end);
        if (text_is_alnum(c)) {
            any = true;
        } else if (c != '-' && c != '_') {
            error_set(err, ERROR_INVALID, "'%s' is no name for a skill", text_shown(name, shown));
            return error_hint(err, "use letters, digits, '-' and '_' only");
        }
    }
    if (!any)
        return error_set(err, ERROR_INVALID, "a skill's name needs a letter or a digit");
    if (length > SKILL_NAME_MAX)
        return error_set(err, ERROR_INVALID, "a skill's name has at most %d characters",
                         SKILL_NAME_MAX);
    return 0;
}
