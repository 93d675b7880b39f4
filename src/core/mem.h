/* SPDX-License-Identifier: Apache-2.0 */
/* Allocation that aborts when memory is out, string lists, and cleanup attributes. */
#pragma once

#include <stddef.h>
#include <stdlib.h>

void *xmalloc(size_t size);
void *xcalloc(size_t count, size_t size);
void *xreallocarray(void *old, size_t count, size_t size);
char *xstrdup(const char *text);
char *xstrndup(const char *text, size_t length);
char *xasprintf(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A growing, NULL-terminated list of owned strings. */
struct strings {
    char **items;
    size_t count;
};

void strings_add(struct strings *list, const char *text);
void strings_take(struct strings *list, char *text);
void strings_release(struct strings *list);
void strings_copy(struct strings *to, const struct strings *from);

static inline void cleanup_free_p(void *p)
{
    free(*(void **)p);
}

#define cleanup_free    __attribute__((cleanup(cleanup_free_p)))
#define cleanup_strings __attribute__((cleanup(strings_release)))
#define steal_ptr(p)                 \
    ({                               \
        __typeof__(p) stolen_ = (p); \
        (p) = NULL;                  \
        stolen_;                     \
    })
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
