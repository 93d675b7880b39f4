/* SPDX-License-Identifier: Apache-2.0 */
/* JSON from strangers: objects decoded by tables of fields. */
#include "core/json.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "core/lax.h"
#include "core/mem.h"
#include "core/parse.h"
#include "core/utf8.h"

#define NAMES_MAX 64

static void *at(void *target, size_t offset)
{
    return (char *)target + offset;
}

static int wrong(struct error *err, const struct field *field, const char *expected)
{
    return error_set(err, ERROR_INVALID, "%s: must be %s", field->name, expected);
}

/* Only json_parse_lax() lets them in, but nothing of ours goes on behind one. */
static bool has_nul(const json_t *text)
{
    return memchr(json_string_value(text), '\0', json_string_length(text)) != NULL;
}

static int take_text(const struct field *field, const json_t *value, const char **ret,
                     size_t *ret_size, struct error *err)
{
    if (!json_is_string(value))
        return wrong(err, field, "a string");
    if (has_nul(value))
        return error_set(err, ERROR_INVALID, "%s: must not have a NUL in it", field->name);
    const char *text = json_string_value(value);
    size_t size = json_string_length(value);
    if (field->flags & FIELD_TRIMMED)
        utf8_strip(&text, &size);
    if (size == 0 && field->min > 0)
        return error_set(err, ERROR_INVALID, "%s: must not be empty", field->name);
    if ((double)size < field->min)
        return error_set(err, ERROR_INVALID, "%s: must be at least %.0f bytes", field->name,
                         field->min);
    if (field->max > 0 && (double)size > field->max)
        return error_set(err, ERROR_INVALID, "%s: must be at most %.0f bytes", field->name,
                         field->max);
    if ((field->flags & FIELD_ABSOLUTE) && (size == 0 || text[0] != '/'))
        return wrong(err, field, "an absolute path");
    *ret = text;
    *ret_size = size;
    return 0;
}

static int check_range(const struct field *field, double value, struct error *err)
{
    if (value < field->min)
        return error_set(err, ERROR_INVALID, "%s: must be at least %.12g", field->name, field->min);
    if (field->max > 0 && value > field->max)
        return error_set(err, ERROR_INVALID, "%s: must be at most %.12g", field->name, field->max);
    return 0;
}

/* A real that no 64 bits hold is what json_parse_lax() makes of such a whole number. */
static int exact_integer(const json_t *value, int64_t *ret)
{
    if (json_is_integer(value)) {
        *ret = json_integer_value(value);
        return 0;
    }
    return json_is_real(value) && fabs(json_real_value(value)) >= -(double)INT64_MIN ? -ERANGE
                                                                                     : -EINVAL;
}

static int take_integer(const struct field *field, const json_t *value, uint64_t max,
                        enum fields_mode mode, uint64_t *ret, struct error *err)
{
    int64_t number;
    bool lax = (mode & FIELDS_LAX) && !(field->flags & FIELD_EXACT);
    int rc = lax ? lax_integer(value, &number) : exact_integer(value, &number);
    if (rc == -ERANGE)
        return error_set(err, ERROR_INVALID, "%s: is out of range", field->name);
    if (rc < 0)
        return wrong(err, field, "a whole number");
    if (number < 0)
        return error_set(err, ERROR_INVALID, "%s: must be at least %.12g", field->name, field->min);
    if (check_range(field, (double)number, err) < 0)
        return -1;
    if ((uint64_t)number > max)
        return error_set(err, ERROR_INVALID, "%s: must be at most %llu", field->name,
                         (unsigned long long)max);
    *ret = (uint64_t)number;
    return 0;
}

static int take_choice(const struct field *field, const json_t *value, int *ret, struct error *err)
{
    if (!json_is_string(value))
        return wrong(err, field, "a string");
    size_t count = 0;
    for (; field->names[count]; count++) {
        if (!has_nul(value) && strcmp(json_string_value(value), field->names[count]) == 0) {
            *ret = (int)count;
            return 0;
        }
    }
    char list[256] = "";
    for (size_t i = 0, used = 0; i < count && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s\"%s\"",
                                 i == 0          ? ""
                                 : i + 1 < count ? ", "
                                                 : " or ",
                                 field->names[i]);
    return wrong(err, field, list);
}

static int check_count(const struct field *field, size_t count, struct error *err)
{
    if ((double)count < field->min)
        return error_set(err, ERROR_INVALID, "%s: must have at least %.0f", field->name,
                         field->min);
    if (field->max > 0 && (double)count > field->max)
        return error_set(err, ERROR_INVALID, "%s: must have at most %.0f", field->name, field->max);
    return 0;
}

static int take_texts(const struct field *field, const json_t *value, struct strings *ret,
                      struct error *err)
{
    size_t i;
    json_t *item;
    if (!json_is_array(value))
        return wrong(err, field, "an array of strings");
    if (check_count(field, json_array_size(value), err) < 0)
        return -1;
    strings_release(ret);
    /* All at once: strings_add() would move a long list again and again. */
    ret->items = xcalloc(json_array_size(value) + 1, sizeof *ret->items);
    json_array_foreach(value, i, item)
    {
        if (!json_is_string(item))
            return error_set(err, ERROR_INVALID, "%s[%zu]: must be a string", field->name, i);
        if (has_nul(item))
            return error_set(err, ERROR_INVALID, "%s[%zu]: must not have a NUL in it", field->name,
                             i);
        ret->items[ret->count++] = xstrndup(json_string_value(item), json_string_length(item));
    }
    return 0;
}

/* Control characters in a name are nobody's wish, and what json_parse_lax() makes of a NUL there.
 */
static bool is_variable(const char *name)
{
    for (const char *at = name; *at; at++) {
        if (*at == '=' || (unsigned char)*at < 0x20 || *at == 0x7f)
            return false;
    }
    return *name;
}

static int take_env(const struct field *field, const json_t *value, struct strings *ret,
                    struct error *err)
{
    const char *name;
    json_t *item;
    if (!json_is_object(value))
        return wrong(err, field, "an object of strings");
    if (check_count(field, json_object_size(value), err) < 0)
        return -1;
    strings_release(ret);
    ret->items = xcalloc(json_object_size(value) + 1, sizeof *ret->items);
    json_object_foreach((json_t *)value, name, item)
    {
        if (!is_variable(name))
            return error_set(err, ERROR_INVALID, "%s: '%.100s' is no name of a variable",
                             field->name, name);
        if (!json_is_string(item))
            return error_set(err, ERROR_INVALID, "%s.%.100s: must be a string", field->name, name);
        if (has_nul(item))
            return error_set(err, ERROR_INVALID, "%s.%.100s: must not have a NUL in it",
                             field->name, name);
        ret->items[ret->count++] = xasprintf("%s=%s", name, json_string_value(item));
    }
    return 0;
}

static int take_list(const struct field *field, const json_t *value, void *target,
                     enum fields_mode mode, struct error *err)
{
    size_t i;
    json_t *item;
    size_t *count = at(target, field->count_offset);
    if (!json_is_array(value))
        return wrong(err, field, "an array of objects");
    if (check_count(field, json_array_size(value), err) < 0)
        return -1;
    json_array_foreach(value, i, item)
    {
        struct fields part = {field->items, field->item_fields,
                              at(target, field->offset + i * field->item_size)};
        if (!json_is_object(item))
            return error_set(err, ERROR_INVALID, "%s[%zu]: must be an object", field->name, i);
        /* Counted first: it is released with the rest, however far it gets. */
        *count = i + 1;
        if (fields_decode(item, &part, 1, mode, err) < 0)
            return error_wrap(err, "%s[%zu]", field->name, i);
    }
    return 0;
}

static int take_number(const struct field *field, const json_t *value, enum fields_mode mode,
                       double *ret, struct error *err)
{
    double number;
    bool lax = (mode & FIELDS_LAX) && !(field->flags & FIELD_EXACT);
    if ((!lax && !json_is_number(value)) || lax_number(value, &number) < 0)
        return wrong(err, field, "a number");
    if (check_range(field, number, err) < 0)
        return -1;
    *ret = number;
    return 0;
}

static int take_whole(const struct field *field, const json_t *value, void *place,
                      enum fields_mode mode, struct error *err)
{
    uint64_t max = field->kind == FIELD_U16   ? UINT16_MAX
                   : field->kind == FIELD_U32 ? UINT32_MAX
                                              : UINT64_MAX;
    uint64_t number;
    if (take_integer(field, value, max, mode, &number, err) < 0)
        return -1;
    if (field->kind == FIELD_U16)
        *(uint16_t *)place = (uint16_t)number;
    else if (field->kind == FIELD_U32)
        *(uint32_t *)place = (uint32_t)number;
    else
        *(uint64_t *)place = number;
    return 0;
}

static int take_flag(const struct field *field, const json_t *value, enum fields_mode mode,
                     bool *ret, struct error *err)
{
    if ((!(mode & FIELDS_LAX) && !json_is_boolean(value)) || lax_flag(value, ret) < 0)
        return wrong(err, field, "true or false");
    return 0;
}

static int field_take(const struct field *field, const json_t *value, void *target,
                      enum fields_mode mode, struct error *err)
{
    void *place = at(target, field->offset);
    const char *text;
    size_t size;
    int choice;
    switch (field->kind) {
    case FIELD_TEXT:
        if (take_text(field, value, &text, &size, err) < 0)
            return -1;
        free(*(char **)place);
        *(char **)place = xstrndup(text, size);
        return 0;
    case FIELD_VIEW:
        if (take_text(field, value, &text, &size, err) < 0)
            return -1;
        *(struct json_view *)place = (struct json_view){text, size};
        return 0;
    case FIELD_FLAG:
        return take_flag(field, value, mode, place, err);
    case FIELD_U16:
    case FIELD_U32:
    case FIELD_U64:
        return take_whole(field, value, place, mode, err);
    case FIELD_NUMBER:
        return take_number(field, value, mode, place, err);
    case FIELD_CHOICE:
    case FIELD_EITHER:
        if (take_choice(field, value, &choice, err) < 0)
            return -1;
        if (field->kind == FIELD_EITHER)
            *(bool *)place = choice == 1;
        else
            *(int *)place = choice;
        return 0;
    case FIELD_TEXTS:
        return take_texts(field, value, place, err);
    case FIELD_ENV:
        return take_env(field, value, place, err);
    case FIELD_LIST:
        return take_list(field, value, target, mode, err);
    case FIELD_OBJECT:
        if (!json_is_object(value))
            return wrong(err, field, "an object");
        *(const json_t **)place = value;
        return 0;
    case FIELD_VALUE:
        *(const json_t **)place = value;
        return 0;
    }
    return wrong(err, field, "something else");
}

static int unknown(const char *name, const struct fields *tables, size_t count, struct error *err)
{
    const char *names[NAMES_MAX];
    size_t known = 0;
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < tables[i].count && known < NAMES_MAX; j++)
            names[known++] = tables[i].table[j].name;
    const char *near = nearest_word(name, names, known);
    if (near)
        return error_set(err, ERROR_INVALID, "%.100s: unknown field; did you mean \"%s\"?", name,
                         near);
    return error_set(err, ERROR_INVALID, "%.100s: unknown field", name);
}

/* The field of that name, and its number among all. */
static const struct field *find(const char *name, const struct fields *tables, size_t count,
                                void **ret_target, size_t *ret_number)
{
    size_t number = 0;
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < tables[i].count; j++, number++) {
            if (strcmp(tables[i].table[j].name, name) == 0) {
                *ret_target = tables[i].target;
                *ret_number = number;
                return &tables[i].table[j];
            }
        }
    }
    return NULL;
}

int fields_decode(const json_t *object, const struct fields *tables, size_t count,
                  enum fields_mode mode, struct error *err)
{
    const char *name;
    json_t *value;
    uint64_t seen = 0; /* a bit for each field: NAMES_MAX of them */
    if (!json_is_object(object))
        return error_set(err, ERROR_INVALID, "must be a JSON object");
    json_object_foreach((json_t *)object, name, value)
    {
        void *target;
        size_t number;
        const struct field *field = find(name, tables, count, &target, &number);
        if (!field && (mode & FIELDS_OPEN))
            continue;
        if (!field)
            return unknown(name, tables, count, err);
        if (json_is_null(value) && (field->flags & FIELD_NULLABLE))
            continue;
        if (field_take(field, value, target, mode, err) < 0)
            return -1;
        seen |= 1ULL << number;
    }
    size_t number = 0;
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < tables[i].count; j++, number++)
            if ((tables[i].table[j].flags & FIELD_REQUIRED) && !(seen >> number & 1))
                return error_set(err, ERROR_INVALID, "%s: is missing", tables[i].table[j].name);
    return 0;
}
