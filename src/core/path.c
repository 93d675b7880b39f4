/* SPDX-License-Identifier: Apache-2.0 */
/* Paths as text: normal forms and containment. */
#include "core/path.h"

#include <limits.h>
#include <string.h>

#include "core/mem.h"

char *path_normalise(const char *path, struct error *err)
{
    size_t length = strlen(path);
    if (path[0] != '/') {
        error_set(err, ERROR_INVALID, "path '%.200s' is not absolute", path);
        return NULL;
    }
    if (length >= PATH_MAX) {
        error_set(err, ERROR_INVALID, "path is longer than %d bytes", PATH_MAX - 1);
        return NULL;
    }
    cleanup_free char *out = xmalloc(length + 2);
    size_t used = 0;
    for (const char *at = path; *at;) {
        at += strspn(at, "/");
        size_t part = strcspn(at, "/");
        if (part == 2 && at[0] == '.' && at[1] == '.') {
            error_set(err, ERROR_INVALID, "path '%.200s' contains '..'", path);
            return NULL;
        }
        if (part > 0 && !(part == 1 && at[0] == '.')) {
            out[used++] = '/';
            memcpy(out + used, at, part);
            used += part;
        }
        at += part;
    }
    if (used == 0)
        out[used++] = '/';
    out[used] = '\0';
    return steal_ptr(out);
}

bool path_is_below(const char *path, const char *root)
{
    size_t length = strlen(root);
    if (length == 1 && root[0] == '/')
        return true;
    return strncmp(path, root, length) == 0 && (path[length] == '\0' || path[length] == '/');
}
