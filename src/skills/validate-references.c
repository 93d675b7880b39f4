/* SPDX-License-Identifier: Apache-2.0 */
/* Files that instructions refer to: targets of Markdown links, and names in backquotes that begin
   with one of the customary directories. */
#include <string.h>

#include "core/mem.h"
#include "skills/beneath.h"
#include "skills/text.h"
#include "skills/validate.h"

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* "%20" and the like, in place. */
static void decode_percent(char *text)
{
    char *to = text;
    for (const char *at = text; *at; at++) {
        int high = *at == '%' ? hex_value(at[1]) : -1;
        int low = high >= 0 ? hex_value(at[2]) : -1;
        if (low > 0 || (low == 0 && high > 0)) {
            *to++ = (char)(high * 16 + low);
            at += 2;
        } else {
            *to++ = *at;
        }
    }
    *to = '\0';
}

/* "https:", "mailto:". */
static bool has_scheme(const char *target)
{
    size_t length = strspn(target, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                   "0123456789+.-");
    return length > 1 && target[length] == ':';
}

static void check_target(struct validation *validation, char *target, unsigned line, bool link)
{
    struct stat st;
    char shown[TEXT_SHOWN_SIZE];
    if (link) {
        target[strcspn(target, "#?")] = '\0';
        decode_percent(target);
    }
    if (!*target || has_scheme(target))
        return;
    text_shown(target, shown);
    cleanup_free char *path = text_normpath(target);
    if (*target == '/' || strncmp(path, "..", 2) == 0)
        validation_add(validation, SKILL_ERROR, line, "refer to files of the skill itself",
                       "'%s' is not in the skill", shown);
    else if (beneath_stat(validation->dir, path, &st) < 0)
        validation_add(validation, link ? SKILL_ERROR : SKILL_WARNING, line,
                       "add the file, or correct the reference", "there is no file '%s'", shown);
}

/* [text](target "title"), also in angle brackets. */
static void check_links(struct validation *validation, const char *text, size_t size, unsigned line)
{
    for (size_t i = 0; i + 1 < size; i++) {
        if (text[i] != ']' || text[i + 1] != '(')
            continue;
        const char *start = text + i + 2;
        size_t left = size - i - 2;
        const char *stop = memchr(start, ')', left);
        if (!stop)
            return;
        bool angled = *start == '<' && memchr(start, '>', (size_t)(stop - start));
        if (angled)
            start++;
        size_t length = 0;
        while (start + length < stop && start[length] != (angled ? '>' : ' '))
            length++;
        cleanup_free char *target = xstrndup(start, length);
        check_target(validation, target, line, true);
        i = (size_t)(stop - text);
    }
}

static bool is_customary(const char *text, size_t size)
{
    static const char *const directories[] = {"scripts/", "references/", "assets/"};
    for (size_t i = 0; i < ARRAY_SIZE(directories); i++) {
        size_t length = strlen(directories[i]);
        if (size > length && memcmp(text, directories[i], length) == 0)
            return true;
    }
    return false;
}

/* `scripts/convert.py in.csv`: the first word is a file. */
static void check_code(struct validation *validation, const char *text, size_t size, unsigned line)
{
    for (const char *at = text; (at = memchr(at, '`', size - (size_t)(at - text)));) {
        const char *start = at + 1;
        const char *stop = memchr(start, '`', size - (size_t)(start - text));
        if (!stop)
            return;
        size_t length = 0;
        while (start + length < stop && !strchr(" \t", start[length]))
            length++;
        /* Patterns and placeholders are not files. */
        cleanup_free char *target = xstrndup(start, length);
        if (is_customary(start, length) && !strpbrk(target, "*<>{}$[]…"))
            check_target(validation, target, line, false);
        at = stop + 1;
    }
}

static bool is_fence(const char *text, size_t size)
{
    text_strip(&text, &size);
    return size >= 3 && (memcmp(text, "```", 3) == 0 || memcmp(text, "~~~", 3) == 0);
}

void validation_references(struct validation *validation)
{
    size_t body = validation->parts.present ? validation->parts.body : 0;
    unsigned line = 1;
    bool fenced = false;
    size_t next;
    for (size_t at = 0; at < validation->size; at = next, line++) {
        const char *text = validation->text + at;
        size_t size = text_line_end(validation->text, validation->size, at, &next) - at;
        if (at < body)
            continue;
        if (is_fence(text, size)) {
            fenced = !fenced;
        } else if (!fenced) {
            check_links(validation, text, size, line);
            check_code(validation, text, size, line);
        }
    }
}
