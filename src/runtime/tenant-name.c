/* SPDX-License-Identifier: Apache-2.0 */
/* Names of tenants and of their sessions. No I/O. */
#include <inttypes.h>
#include <string.h>

#include "core/mem.h"
#include "core/sha256.h"
#include "runtime/tenant.h"

#define DIGITS       24
#define SPACE_LENGTH (TENANT_NAMESPACE_SIZE - 1)

void tenant_namespace(const char *instance, const char *workspace, char ret[TENANT_NAMESPACE_SIZE])
{
    static const char hex[] = "0123456789abcdef";
    unsigned char digest[SHA256_SIZE];
    struct sha256 sha;
    sha256_init(&sha);
    sha256_add(&sha, instance, strlen(instance) + 1); /* with its NUL: what stands between them */
    sha256_add(&sha, workspace, strlen(workspace));
    sha256_end(&sha, digest);
    memcpy(ret, "ws-", 3);
    for (size_t i = 0; i < DIGITS; i++)
        ret[3 + i] = hex[i % 2 == 0 ? digest[i / 2] >> 4 : digest[i / 2] & 15];
    ret[SPACE_LENGTH] = '\0';
}

static bool is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == '-';
}

/* White space at the ends needs no look of its own: it becomes '-', which goes. */
static char *make_plain(const char *text)
{
    char *plain = xmalloc(strlen(text) + 1);
    size_t used = 0;
    for (const char *at = text; *at; at++) {
        if (is_plain(*at))
            plain[used++] = *at;
        else if (at == text || is_plain(at[-1]))
            plain[used++] = '-';
    }
    while (used > 0 && plain[used - 1] == '-')
        used--;
    plain[used] = '\0';
    size_t first = strspn(plain, "-");
    memmove(plain, plain + first, used - first + 1);
    return plain;
}

char *tenant_session_name(const struct tenant_context *context, const char *logical,
                          struct error *err)
{
    char space[TENANT_NAMESPACE_SIZE];
    cleanup_free char *plain = make_plain(logical);
    if (!plain[0]) {
        error_set(err, ERROR_INVALID, "session_id has no letter, digit, '_' or '.'");
        return NULL;
    }
    tenant_namespace(context->instance, context->workspace, space);
    cleanup_free char *name = xasprintf("%s-g%" PRIu64 "-%s", space, context->generation, plain);
    if (strlen(name) > SESSION_NAME_MAX) {
        error_set(err, ERROR_INVALID, "session_id is longer than %zu bytes",
                  SESSION_NAME_MAX - (strlen(name) - strlen(plain)));
        return NULL;
    }
    return steal_ptr(name);
}

/* As it is written by us and in no other way; two spellings of one generation would be two names of
   one placement. */
static bool read_generation(const char **at, uint64_t *ret)
{
    const char *digits = *at;
    uint64_t value = 0;
    if (*digits < '1' || *digits > '9')
        return false;
    for (; *digits >= '0' && *digits <= '9'; digits++) {
        uint64_t next = (uint64_t)(*digits - '0');
        if (value > (UINT64_MAX - next) / 10)
            return false;
        value = value * 10 + next;
    }
    *at = digits;
    *ret = value;
    return true;
}

bool tenant_name_parse(const char *name, struct tenant_name *ret)
{
    uint64_t generation;
    if (strncmp(name, "ws-", 3) != 0 || strspn(name + 3, "0123456789abcdef") != DIGITS)
        return false;
    const char *at = name + SPACE_LENGTH;
    if (strncmp(at, "-g", 2) != 0)
        return false;
    at += 2;
    if (!read_generation(&at, &generation) || at[0] != '-' || !at[1])
        return false;
    if (ret) {
        memcpy(ret->space, name, SPACE_LENGTH);
        ret->space[SPACE_LENGTH] = '\0';
        ret->generation = generation;
        ret->logical = at + 1;
    }
    return true;
}

bool tenant_owns(const struct tenant_context *context, const char *name)
{
    struct tenant_name parts;
    char space[TENANT_NAMESPACE_SIZE];
    if (!tenant_name_parse(name, &parts) || parts.generation != context->generation)
        return false;
    tenant_namespace(context->instance, context->workspace, space);
    return strcmp(parts.space, space) == 0;
}
