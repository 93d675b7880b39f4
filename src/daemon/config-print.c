/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration as a file that would give the same one again. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "daemon/config-internal.h"

/* In double quotes. What is beyond ASCII is spelled out: some of it YAML will not have as it is.
   The text is UTF-8 and has no control characters; the table sees to that. */
static void print_quoted(FILE *out, const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    putc('"', out);
    while (*at) {
        int more = *at < 0x80 ? 0 : *at < 0xE0 ? 1 : *at < 0xF0 ? 2 : 3;
        uint32_t code = more ? *at & (0x3Fu >> more) : *at;
        for (at++; more > 0; more--)
            code = code << 6 | (*at++ & 0x3Fu);
        if (code >= 0x80)
            fprintf(out, "\\U%08x", code);
        else
            fprintf(out, code == '"' || code == '\\' ? "\\%c" : "%c", (int)code);
    }
    putc('"', out);
}

static void print_thousandths(FILE *out, uint64_t value)
{
    fprintf(out, "%" PRIu64, value / 1000);
    if (value % 1000 > 0)
        fprintf(out, ".%03u", (unsigned)(value % 1000));
}

static void print_value(FILE *out, const struct config *config, const struct config_key *key)
{
    const void *at = slot(config, key);
    const struct strings *list = at;
    switch (key->type) {
    case CONFIG_TEXT:
    case CONFIG_PATH:
    case CONFIG_CHOICE:
        print_quoted(out, *(char *const *)at);
        break;
    case CONFIG_LIST:
    case CONFIG_PATHS:
    case CONFIG_RANGES:
    case CONFIG_SOCKETS:
        putc('[', out);
        for (size_t i = 0; i < list->count; i++) {
            fputs(i > 0 ? ", " : "", out);
            print_quoted(out, list->items[i]);
        }
        putc(']', out);
        break;
    case CONFIG_BOOL:
        fputs(*(const bool *)at ? "true" : "false", out);
        break;
    case CONFIG_SECONDS:
    case CONFIG_CPUS:
        print_thousandths(out, *(const uint64_t *)at);
        break;
    default:
        fprintf(out, "%" PRIu64, *(const uint64_t *)at);
    }
}

/* Not those that have no value, nor a second name. */
static bool is_printed(const struct config_key *key)
{
    return key->offset != CONFIG_NOWHERE && !is_other_name(key);
}

static void print_key(FILE *out, const struct config *config, const struct config_key *key)
{
    const char *dot = strchr(key->path, '.');
    int indent = dot ? 4 : 0;
    fprintf(out, "%*s# %s\n%*s%s: ", indent, "", key->help, indent, "", dot ? dot + 1 : key->path);
    print_value(out, config, key);
    putc('\n', out);
}

/* Keys of a section may lie apart in the table, but not in the file. */
static void print_section(FILE *out, const struct config *config, const struct config_key *first)
{
    size_t length = strcspn(first->path, ".");
    for (const struct config_key *at = config_keys; at < first; at++)
        if (is_printed(at) && strncmp(at->path, first->path, length + 1) == 0)
            return;
    fprintf(out, "\n%.*s:\n", (int)length, first->path);
    for (size_t i = 0; i < config_key_count; i++)
        if (is_printed(&config_keys[i]) &&
            strncmp(config_keys[i].path, first->path, length + 1) == 0)
            print_key(out, config, &config_keys[i]);
}

char *config_print(const struct config *config)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        abort();
    fputs("# What boxd " BOX_VERSION " would run with; see boxd.yaml(5).\n", out);
    for (size_t i = 0; i < config_key_count; i++)
        if (is_printed(&config_keys[i]) && !strchr(config_keys[i].path, '.'))
            print_key(out, config, &config_keys[i]);
    for (size_t i = 0; i < config_key_count; i++)
        if (is_printed(&config_keys[i]) && strchr(config_keys[i].path, '.'))
            print_section(out, config, &config_keys[i]);
    fclose(out);
    return text;
}
