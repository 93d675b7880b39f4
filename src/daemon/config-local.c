/* SPDX-License-Identifier: Apache-2.0 */
/* LangBot's directories on this machine: where they are, and whether they are boxd's to mount.

   The spawner gets its allowed roots once, before anything from outside was read, and mounts
   nothing else. They are the ceiling: what LangBot says later can only choose within it, and what
   lies outside is not there for it. That is no reason to refuse LangBot, which sends all it has
   each time it connects; but somebody must be told. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "core/path.h"
#include "daemon/config-internal.h"

/* No directory lies below it: a list of roots that allows nothing, where an empty one would allow
   whatever the spawner does. */
#define NO_ROOT "/dev/null/none"

static bool is_allowed(const struct strings *roots, const char *path)
{
    for (size_t i = 0; i < roots->count; i++)
        if (path_is_below(path, roots->items[i]))
            return true;
    return false;
}

static void warn_outside(const char *key, const char *path, struct config_problems *problems)
{
    config_warning(problems,
                   "%s: %s lies outside what boxd was started to mount, and is not used; add it to "
                   "mounts.allowed_roots of boxd.yaml and start boxd again",
                   key, path);
}

/* --- roots --- */

/* What the root and the ceiling have in common. */
static void add_common(const struct strings *ceiling, const char *root, struct strings *ret)
{
    for (size_t i = 0; i < ceiling->count; i++) {
        if (path_is_below(root, ceiling->items[i])) {
            strings_add(ret, root);
            return;
        }
        if (path_is_below(ceiling->items[i], root))
            strings_add(ret, ceiling->items[i]);
    }
}

/* What is allowed, but is hardly what was meant. LangBot's own root may be made later. */
static void warn_root(const struct config *config, const char *path, const char *root,
                      struct config_problems *problems)
{
    if (strcmp(root, "/") == 0)
        config_warning(problems, "mounts.allowed_roots: with / whoever may talk to boxd may mount "
                                 "nearly all of this machine");
    else if (strcmp(root, config->host_root) != 0 && access(root, F_OK) < 0 && errno == ENOENT)
        config_warning(problems, "mounts.allowed_roots: %s is not there%s", root,
                       path[0] == '/' ? "" : "; relative ones are from where boxd is started");
}

static void take_root(const char *path, const struct strings *ceiling, struct strings *ret,
                      struct config_problems *problems)
{
    cleanup_free char *root = config_absolute("mounts.allowed_roots", path, "", problems);
    size_t before = ret->count;
    if (!root)
        return;
    if (!ceiling)
        strings_add(ret, root);
    else
        add_common(ceiling, root, ret);
    if (ret->count == before)
        warn_outside("local.allowed_mount_roots", root, problems);
}

static void settle_roots(struct config *config, const struct strings *ceiling,
                         struct config_problems *problems)
{
    struct strings roots = {0};
    bool named = config->allowed_roots.count > 0;
    if (!named && *config->host_root)
        strings_add(&config->allowed_roots, config->host_root);
    for (size_t i = 0; i < config->allowed_roots.count; i++) {
        size_t before = roots.count;
        take_root(config->allowed_roots.items[i], ceiling, &roots, problems);
        if (named && !ceiling && roots.count > before)
            warn_root(config, config->allowed_roots.items[i], roots.items[before], problems);
    }
    if (ceiling && config->allowed_roots.count == 0)
        strings_copy(&roots, ceiling);
    if (ceiling && roots.count == 0)
        strings_add(&roots, NO_ROOT);
    strings_release(&config->allowed_roots);
    config->allowed_roots = roots;
}

/* --- directories --- */

/* `standard` is what an empty one is, below host_root. */
static void settle_directory(const struct config *config, const char *key, char **path,
                             const char *standard, struct config_problems *problems)
{
    const char *wanted = **path ? *path : standard;
    char *settled = NULL;
    /* A relative one and nothing that it could be relative to is as good as none. */
    if (wanted[0] == '/' || *config->host_root)
        settled = config_absolute(key, wanted, config->host_root, problems);
    if (settled && !is_allowed(&config->allowed_roots, settled)) {
        warn_outside(key, settled, problems);
        free(settled);
        settled = NULL;
    }
    free(*path);
    *path = settled ? settled : xstrdup("");
}

void config_settle_local(struct config *config, const struct strings *ceiling,
                         struct config_problems *problems)
{
    if (*config->host_root) {
        char *root = config_absolute("local.host_root", config->host_root, "", problems);
        if (root) {
            free(config->host_root);
            config->host_root = root;
        }
    }
    settle_roots(config, ceiling, problems);
    settle_directory(config, "local.default_workspace", &config->default_workspace, "default",
                     problems);
    /* Skills are boxd's own: there is always a place for them, which may also be asked for. */
    cleanup_free char *own = xasprintf("%s/skills", config->state_dir);
    if (strcmp(config->skills_root, own) != 0)
        settle_directory(config, "local.skills_root", &config->skills_root, "skills", problems);
    if (!*config->skills_root && *config->state_dir) {
        free(config->skills_root);
        config->skills_root = steal_ptr(own);
    }
}
