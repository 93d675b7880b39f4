/* SPDX-License-Identifier: Apache-2.0 */
/* Directories of the host that clients name, to scan them or to import what is in them: of those
   that may be mounted, or in the store. The front is confined to these and its own. But that the
   kernel can do that is not certain, and what is the front's own is not for everybody. */
#include <stdlib.h>
#include <string.h>

#include "api/skills.h"
#include "core/path.h"
#include "core/utf8.h"

static bool is_below_any(const struct strings *roots, const char *path)
{
    for (size_t i = 0; i < roots->count; i++) {
        cleanup_free char *root = realpath(roots->items[i], NULL);
        if (path_is_below(path, root ? root : roots->items[i]))
            return true;
    }
    return false;
}

int skill_source_find(const struct skill_ask *ask, const char *given, char **ret, struct error *err)
{
    size_t size = strlen(given);
    utf8_strip(&given, &size);
    cleanup_free char *path = xstrndup(given, size);
    /* What is wrong with these the store says, and to a tenant it says no more than that. */
    if (*path != '/' || ask->tenant) {
        *ret = steal_ptr(path);
        return 0;
    }
    /* Of what is not there, too, nothing is told outside. */
    cleanup_free char *real = realpath(path, NULL);
    cleanup_free char *place = real ? xstrdup(real) : path_normalise(path, NULL);
    if (!place || !is_below_any(&ask->roots, place)) {
        error_set(err, ERROR_DENIED, "'%.200s' lies outside the allowed roots", path);
        return error_hint(err, "send the package as a zip archive, or have a directory above it "
                               "added to mounts.allowed_roots");
    }
    if (!real)
        return error_set(err, ERROR_NOT_FOUND, "there is no directory '%.200s'", path);
    *ret = steal_ptr(real);
    return 0;
}
