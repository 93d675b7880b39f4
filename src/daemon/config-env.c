/* SPDX-License-Identifier: Apache-2.0 */
/* Variables that override keys: BOX__LIMITS__MAX_SESSIONS is limits.max_sessions. LangBot has the
   same convention, and hands its environment on to those it starts: what no key is set by may be
   its own. No I/O. */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "daemon/config.h"

#define PREFIX    "BOX__"
#define PATH_SIZE 256

/* "BOX__A__B" to "a.b" of exactly the same meaning; false if it is none. */
static bool name_to_path(const char *name, size_t length, char ret[PATH_SIZE])
{
    size_t used = 0;
    if (length >= PATH_SIZE)
        return false;
    for (size_t i = 0; i < length; i++) {
        if (name[i] == '_' && i + 1 < length && name[i + 1] == '_') {
            ret[used++] = '.';
            i++;
        } else if (isalnum((unsigned char)name[i]) || name[i] == '_') {
            ret[used++] = (char)tolower((unsigned char)name[i]);
        } else {
            return false;
        }
    }
    ret[used] = '\0';
    return used > 0;
}

/* As the person would have to write it. */
static char *path_to_name(const char *path)
{
    char *name = xmalloc(sizeof PREFIX + 2 * strlen(path));
    char *at = stpcpy(name, PREFIX);
    for (; *path; path++) {
        if (*path == '.')
            at = stpcpy(at, "__");
        else
            *at++ = (char)toupper((unsigned char)*path);
    }
    *at = '\0';
    return name;
}

static void unknown_variable(const char *name, const char *path, struct config_problems *problems)
{
    cleanup_free char *near = path ? config_key_nearest(path) : NULL;
    cleanup_free char *instead = near && config_key_find(near) ? path_to_name(near) : NULL;
    config_unknown(problems, "%s: no key is set by this variable%s%s%s", name,
                   instead ? "; did you mean " : "", instead ? instead : "", instead ? "?" : "");
}

static void read_variable(struct config *config, const char *variable, size_t length,
                          struct config_problems *problems)
{
    char path[PATH_SIZE];
    struct error err = ERROR_INIT;
    cleanup_free char *name = xstrndup(variable, length < PATH_SIZE ? length : PATH_SIZE);
    bool valid = name_to_path(variable + strlen(PREFIX), length - strlen(PREFIX), path);
    const struct config_key *key = valid ? config_key_find(path) : NULL;
    const char *text = variable + length + 1;
    if (!key)
        unknown_variable(name, valid ? path : NULL, problems);
    else if (config_set(config, key,
                        &(struct config_value){.items = &text, .count = 1, .is_open = true},
                        &err) < 0)
        config_problem(problems, name, 0, "%s", err.message);
}

void config_read_env(struct config *config, char *const *environment,
                     struct config_problems *problems)
{
    for (; *environment; environment++) {
        const char *equals = strchr(*environment, '=');
        if (equals && strncasecmp(*environment, PREFIX, strlen(PREFIX)) == 0 &&
            (size_t)(equals - *environment) >= strlen(PREFIX))
            read_variable(config, *environment, (size_t)(equals - *environment), problems);
    }
}
