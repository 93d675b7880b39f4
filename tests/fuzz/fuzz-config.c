/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration: a file's text (up to the first NUL), then variables (each up to the next).
   What comes out is printed and read again, and must be the same. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

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
    free(text);
    return 0;
}
