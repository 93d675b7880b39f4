/* SPDX-License-Identifier: Apache-2.0 */
/* SKILL.md from a stranger: read, then written back with other fields. What is written must say
   what was meant, and still say everything else that it said. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/buf.h"
#include "core/mem.h"
#include "core/utf8.h"
#include "skills/front.h"
#include "skills/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_parts(const struct front_parts *parts, size_t size)
{
    if (!parts->present)
        return;
    assert(parts->yaml <= parts->closing && parts->closing < parts->body);
    assert(parts->body <= parts->instructions && parts->instructions <= size);
}

static void check_value(const struct value *value, size_t size)
{
    assert(value->start <= value->end && value->end <= size);
    for (size_t i = 0; i < value->count; i++)
        check_value(value->items[i], size);
}

static bool is_field(const struct value *key)
{
    return key->kind == VALUE_TEXT &&
           (strcmp(key->text, "name") == 0 || strcmp(key->text, "display_name") == 0 ||
            strcmp(key->text, "description") == 0);
}

/* Everything but the fields, as one text. */
static void emit_rest(const struct value *map, struct buf *out)
{
    for (size_t i = 0; map && i < map->count; i += 2) {
        if (is_field(map->items[i]))
            continue;
        value_emit(out, map->items[i]);
        value_emit(out, map->items[i + 1]);
    }
    buf_append(out, "", 1);
}

static void check_same(const char *text, const char *wanted)
{
    char *stripped = text_stripped(wanted);
    assert(strcmp(text, stripped) == 0);
    free(stripped);
}

static void check_write(const char *text, size_t size, const struct front *front,
                        const char *description)
{
    const struct front_edit edit = {
        .name = front->name, .display_name = "x: y", .description = description};
    char *out = NULL;
    size_t out_size;
    struct error err = ERROR_INIT;
    if (front_write(text, size, &edit, &out, &out_size, &err) < 0) {
        assert(err.code == ERROR_LIMIT || err.code == ERROR_INVALID);
        return;
    }
    struct front again;
    assert(front_read(out, out_size, "dir", &again, &err) == 0);
    assert(strcmp(again.name, front->name) == 0);
    check_same(again.display_name, "x: y");
    check_same(again.description, description);
    size_t from = front->parts.present ? front->parts.instructions : 0;
    size_t skipped = 0;
    while (!front->parts.present && from + skipped < size && text[from + skipped] == '\n')
        skipped++;
    assert(out_size - again.parts.instructions == size - from - skipped);
    assert(memcmp(out + again.parts.instructions, text + from + skipped, size - from - skipped) ==
           0);
    cleanup_buf struct buf one = BUF_INIT(8u << 20);
    cleanup_buf struct buf two = BUF_INIT(8u << 20);
    emit_rest(front->meta, &one);
    emit_rest(again.meta, &two);
    assert(one.size == two.size && memcmp(one.data, two.data, one.size) == 0);
    front_release(&again);
    free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct front front;
    struct error err = ERROR_INIT;
    if (!utf8_valid((const char *)data, size))
        return 0;
    char *text = malloc(size + 1);
    assert(text);
    memcpy(text, data, size);
    text[size] = '\0';
    if (front_read(text, size, "dir", &front, &err) < 0) {
        assert(err.message[0]);
        free(text);
        return 0;
    }
    check_parts(&front.parts, size);
    if (front.meta)
        check_value(front.meta, front.parts.closing - front.parts.yaml);
    check_write(text, size, &front, "");
    check_write(text, size, &front, "plain words");
    /* A part of the input itself. */
    char *part = xstrndup(text, size < 64 ? size : 64);
    char *mended = utf8_repair(part, strlen(part), NULL);
    check_write(text, size, &front, mended);
    free(mended);
    free(part);
    front_release(&front);
    free(text);
    return 0;
}
