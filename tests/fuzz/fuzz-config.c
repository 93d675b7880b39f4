/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration: a file's text (up to the first NUL), then variables (each up to the next); and
   the same text as LangBot's tree. What comes out is printed and read again, and must be the same.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/json.h"
#include "core/path.h"
#include "daemon/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define VARIABLES_MAX 16

static void check_problems(const struct config_problems *problems)
{
    assert(problems->lines.count <= CONFIG_PROBLEMS_MAX + 1);
    for (size_t i = 0; i < problems->lines.count; i++)
        assert(problems->lines.items[i][0]);
}

/* Whatever was read, every value is one that the table allows. */
static void check_round_trip(const struct config *config)
{
    struct config again;
    struct config_problems problems = {0};
    struct strings differ = {0};
    char *text = config_print(config);
    config_init(&again);
    config_read_yaml(&again, text, strlen(text), "printed", &problems);
    assert(problems.lines.count == 0);
    config_differences(config, &again, true, &differ);
    config_differences(config, &again, false, &differ);
    assert(differ.count == 0);
    config_release(&again);
    config_problems_release(&problems);
    free(text);
}

/* As box_init takes it: nothing but LangBot's keys changes, and no root lies outside the ceiling.
 */
static void check_tree(const char *text, size_t size)
{
    struct config config, before;
    struct config_problems problems = {0};
    struct strings differ = {0};
    struct strings ceiling = {0};
    struct error err = ERROR_INIT;
    json_t *tree;
    if (json_parse(text, size, &tree, &err) < 0)
        return;
    strings_add(&ceiling, "/srv/box");
    config_init(&before);
    config_copy(&config, &before);
    config_read_tree(&config, config_tree_root(tree), "fuzz", true, NULL, &problems);
    config_differences(&before, &config, true, &differ);
    config_differences(&before, &config, false, &differ);
    for (size_t i = 0; i < differ.count; i++)
        assert(config_key_find(differ.items[i])->tree ||
               strcmp(differ.items[i], "mounts.allowed_roots") == 0);
    config_settle_local(&config, &ceiling, &problems);
    for (size_t i = 0; i < config.allowed_roots.count; i++)
        assert(path_is_below(config.allowed_roots.items[i], "/srv/box") ||
               strcmp(config.allowed_roots.items[i], "/dev/null/none") == 0);
    check_problems(&problems);
    strings_release(&ceiling);
    strings_release(&differ);
    config_release(&before);
    config_release(&config);
    config_problems_release(&problems);
    json_decref(tree);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct config config;
    struct config_problems problems = {0};
    char *variables[VARIABLES_MAX + 1] = {0};
    size_t count = 0;
    char *text = malloc(size + 1);
    assert(text);
    memcpy(text, data, size);
    text[size] = '\0';
    size_t length = strlen(text);
    for (size_t at = length + 1; at < size && count < VARIABLES_MAX; at += strlen(text + at) + 1)
        variables[count++] = text + at;

    config_init(&config);
    config_read_yaml(&config, text, length, "fuzz", &problems);
    config_read_env(&config, variables, &problems);
    check_problems(&problems);
    check_round_trip(&config);
    config_release(&config);
    config_problems_release(&problems);
    /* With NULs and all. */
    config_init(&config);
    config_read_yaml(&config, (const char *)data, size, "fuzz", &problems);
    check_round_trip(&config);
    config_release(&config);
    config_problems_release(&problems);
    check_tree(text, length);
    free(text);
    return 0;
}
