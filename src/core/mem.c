/* SPDX-License-Identifier: Apache-2.0 */
/* Allocation that aborts when memory is out, and string lists. */
#include "core/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void *checked(void *p)
{
    if (!p) {
        fputs("out of memory\n", stderr);
        abort();
    }
    return p;
}

void *xmalloc(size_t size)
{
    return checked(malloc(size ? size : 1));
}

void *xcalloc(size_t count, size_t size)
{
    return checked(calloc(count ? count : 1, size ? size : 1));
}

void *xreallocarray(void *old, size_t count, size_t size)
{
    return checked(reallocarray(old, count ? count : 1, size ? size : 1));
}

char *xstrdup(const char *text)
{
    return checked(strdup(text));
}

char *xstrndup(const char *text, size_t length)
{
    return checked(strndup(text, length));
}

char *xasprintf(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text;
    int length = vasprintf(&text, format, args);
    va_end(args);
    return checked(length < 0 ? NULL : text);
}

void strings_take(struct strings *list, char *text)
{
    list->items = xreallocarray(list->items, list->count + 2, sizeof *list->items);
    list->items[list->count++] = text;
    list->items[list->count] = NULL;
}

void strings_add(struct strings *list, const char *text)
{
    strings_take(list, xstrdup(text));
}

void strings_copy(struct strings *to, const struct strings *from)
{
    size_t count = from->count; /* `to` may be the same list */
    for (size_t i = 0; i < count; i++)
        strings_add(to, from->items[i]);
}

void strings_release(struct strings *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->items[i]);
    free(list->items);
    *list = (struct strings){0};
}
