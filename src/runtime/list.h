/* SPDX-License-Identifier: Apache-2.0 */
/* Doubly linked lists whose links lie in the things themselves. A link that is in no list points at
   itself, so that removing twice does no harm. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct list {
    struct list *prev, *next;
};

static inline void list_init(struct list *list)
{
    list->prev = list->next = list;
}

static inline bool list_empty(const struct list *list)
{
    return list->next == list;
}

static inline void list_append(struct list *head, struct list *item)
{
    item->prev = head->prev;
    item->next = head;
    head->prev->next = item;
    head->prev = item;
}

static inline void list_remove(struct list *item)
{
    item->prev->next = item->next;
    item->next->prev = item->prev;
    list_init(item);
}

/* Moves everything over, so that what is added meanwhile is not met. */
static inline void list_take(struct list *to, struct list *from)
{
    list_init(to);
    if (list_empty(from))
        return;
    *to = *from;
    to->next->prev = to;
    to->prev->next = to;
    list_init(from);
}

#define list_entry(item, type, member) ((type *)(void *)((char *)(item)-offsetof(type, member)))
#define list_each(at, head)            for (struct list *at = (head)->next; at != (head); at = at->next)
#define list_each_safe(at, after, head)                                   \
    for (struct list *at = (head)->next, *after = at->next; at != (head); \
         at = after, after = at->next)
