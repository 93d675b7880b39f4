/* SPDX-License-Identifier: Apache-2.0 */
/* What is in a directory, sorted by name. */
#include <stdlib.h>
#include <string.h>

#include "api/file-call.h"

/* They are sorted and written in one go, a microsecond each, and everybody else waits meanwhile. */
#define ENTRIES_MAX 20000

struct file_entries {
    struct file_info *items; /* names are owned */
    size_t count;
    size_t capacity;
    bool truncated;
};

void file_entries_free(struct file_entries *entries)
{
    for (size_t i = 0; i < entries->count; i++)
        free((char *)entries->items[i].name);
    free(entries->items);
    free(entries);
}

static void on_entry(void *owner, const struct file_info *info)
{
    struct file_entries *entries = ((struct file_call *)owner)->entries;
    if (entries->count == ENTRIES_MAX) {
        entries->truncated = true;
        return;
    }
    if (entries->count == entries->capacity) {
        entries->capacity = entries->capacity ? entries->capacity * 2 : 64;
        entries->items = xreallocarray(entries->items, entries->capacity, sizeof *entries->items);
    }
    struct file_info *item = &entries->items[entries->count++];
    *item = *info;
    item->name = xstrdup(info->name);
}

static int compare(const void *a, const void *b)
{
    return strcmp(((const struct file_info *)a)->name, ((const struct file_info *)b)->name);
}

static void on_done(void *owner, const struct error *err)
{
    struct file_call *file = owner;
    struct file_entries *entries = file->entries;
    file->job = NULL;
    if (err) {
        file_call_fail(file, err);
        return;
    }
    cleanup_json_out struct json_out out = JSON_OUT_INIT;
    if (entries->count)
        qsort(entries->items, entries->count, sizeof *entries->items, compare);
    out_open(&out, NULL, '{');
    out_text(&out, "path", file->path);
    out_open(&out, "entries", '[');
    for (size_t i = 0; i < entries->count; i++)
        out_file(&out, "name", entries->items[i].name, &entries->items[i]);
    out_close(&out, ']');
    if (entries->truncated)
        out_flag(&out, "truncated", true);
    out_close(&out, '}');
    reply_json(file->req, 200, &out);
}

static void on_opened(void *owner, const struct file_info *info)
{
    (void)owner;
    (void)info;
}

static const struct file_events list_events = {
    .opened = on_opened, .entry = on_entry, .done = on_done};

void file_list_start(struct file_call *file)
{
    file->entries = xcalloc(1, sizeof *file->entries);
    file_call_start(file, &(struct file_request){.op = FILE_LIST}, &list_events);
}
