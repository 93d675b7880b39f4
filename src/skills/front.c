/* SPDX-License-Identifier: Apache-2.0 */
/* SKILL.md read: what is front matter, and what it says of the skill. */
#include "skills/front.h"

#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "core/utf8.h"
#include "skills/skills.h"
#include "skills/text.h"

static bool is_fence(const char *text, size_t start, size_t end)
{
    const char *line = text + start;
    size_t size = end - start;
    text_strip(&line, &size);
    return size == 3 && memcmp(line, "---", 3) == 0;
}

void front_split(const char *text, size_t size, struct front_parts *ret)
{
    size_t next;
    *ret = (struct front_parts){.present = false};
    if (size < 3 || memcmp(text, "---", 3) != 0)
        return;
    size_t end = text_line_end(text, size, 0, &next);
    if (!is_fence(text, 0, end))
        return;
    struct front_parts parts = {.present = true, .yaml = next, .yaml_line = 1};
    for (size_t at = next; at < size; at = next) {
        end = text_line_end(text, size, at, &next);
        if (!is_fence(text, at, end))
            continue;
        parts.closing = at;
        parts.body = next;
        parts.instructions = next;
        while (parts.instructions < size && text[parts.instructions] == '\n')
            parts.instructions++;
        *ret = parts;
        return;
    }
}

/* str(value or "").strip(). */
static char *field_text(const struct value *meta, const char *key, struct error *err)
{
    const struct value *value = value_get(meta, key);
    size_t size = 0;
    if (!value || !value->truthy)
        return xstrdup("");
    cleanup_free char *whole = value_str(value, &size, err);
    if (!whole) {
        error_wrap(err, "%s", key);
        return NULL;
    }
    const char *text = whole;
    text_strip(&text, &size);
    if (memchr(text, '\0', size)) {
        error_set(err, ERROR_INVALID, "there is a NUL character in its %s", key);
        return NULL;
    }
    return xstrndup(text, size);
}

static int read_name(struct front *front, const char *dir_name, struct error *err)
{
    const struct value *value = value_get(front->meta, "name");
    cleanup_free char *name = field_text(front->meta, "name", err);
    if (!name)
        return -1;
    /* Only one that is not there at all is replaced: "   " is a mistake, not a missing name. */
    if (!value || !value->truthy) {
        if (!utf8_valid(dir_name, strlen(dir_name)))
            return error_set(err, ERROR_INVALID,
                             "the directory's name is not UTF-8, and the skill "
                             "has no other");
        free(name);
        name = text_stripped(dir_name);
    }
    front->name = steal_ptr(name);
    return 0;
}

int front_read_any(const char *text, size_t size, const char *dir_name, struct front *ret,
                   struct error *err)
{
    cleanup_front struct front front = {.meta = NULL};
    unsigned line;
    front_split(text, size, &front.parts);
    const struct front_parts *parts = &front.parts;
    if (parts->present &&
        value_parse(text + parts->yaml, parts->closing - parts->yaml, &front.meta, &line, err) < 0)
        return error_wrap(err, "line %u", line + parts->yaml_line + 1);
    if (front.meta && front.meta->kind != VALUE_MAP) {
        value_free(front.meta);
        front.meta = NULL;
    }
    if (read_name(&front, dir_name, err) < 0)
        return -1;
    front.display_name = field_text(front.meta, "display_name", err);
    if (!front.display_name)
        return -1;
    const struct value *display = value_get(front.meta, "display_name");
    if (!display || !display->truthy) {
        free(front.display_name);
        front.display_name = xstrdup(front.name);
    }
    front.description = field_text(front.meta, "description", err);
    if (!front.description)
        return -1;
    *ret = front;
    front = (struct front){.meta = NULL};
    return 0;
}

int front_read(const char *text, size_t size, const char *dir_name, struct front *ret,
               struct error *err)
{
    cleanup_front struct front front = {.meta = NULL};
    if (front_read_any(text, size, dir_name, &front, err) < 0 ||
        text_check_name(front.name, strlen(front.name), err) < 0)
        return -1;
    *ret = front;
    front = (struct front){.meta = NULL};
    return 0;
}

void front_release(struct front *front)
{
    value_free(front->meta);
    free(front->name);
    free(front->display_name);
    free(front->description);
    *front = (struct front){.meta = NULL};
}
