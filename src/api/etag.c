/* SPDX-License-Identifier: Apache-2.0 */
/* Entity tags: a file's version by its digest. */
#include "api/etag.h"

#include <stdio.h>
#include <string.h>

void etag_make(const void *data, size_t size, char ret[ETAG_SIZE])
{
    char digest[SHA256_HEX_SIZE];
    sha256_hex(data, size, digest);
    snprintf(ret, ETAG_SIZE, "\"%s\"", digest);
}

/* The RFC's obs-text has been in no tag of ours. */
static bool is_tag_character(char c)
{
    return c == '!' || (c >= '#' && c <= '~');
}

/* One tag at `at`, which is added unless it is weak and those do not count. Returns what is behind
   it, or NULL. */
static const char *parse_tag(const char *at, bool weak, struct skill_versions *ret)
{
    bool is_weak = strncmp(at, "W/", 2) == 0;
    if (is_weak)
        at += 2;
    if (*at++ != '"')
        return NULL;
    const char *end = at;
    while (is_tag_character(*end))
        end++;
    if (*end != '"')
        return NULL;
    if (weak || !is_weak)
        strings_take(&ret->digests, xstrndup(at, (size_t)(end - at)));
    return end + 1;
}

static bool parse_list(const char *at, bool weak, struct skill_versions *ret)
{
    bool any = false;
    for (;;) {
        at += strspn(at, " \t,");
        if (!*at)
            return any;
        at = parse_tag(at, weak, ret);
        if (!at)
            return false;
        any = true;
        at += strspn(at, " \t");
        if (*at && *at != ',')
            return false;
    }
}

int etag_parse(const char *header, bool weak, struct skill_versions *ret, struct error *err)
{
    struct skill_versions versions = {.given = header != NULL};
    if (header && strcmp(header, "*") == 0) {
        versions.any = true;
    } else if (header && !parse_list(header, weak, &versions)) {
        strings_release(&versions.digests);
        return error_set(err, ERROR_INVALID, "must be * or a list of entity tags, each in quotes");
    }
    *ret = versions;
    return 0;
}
