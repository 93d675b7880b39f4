/* SPDX-License-Identifier: Apache-2.0 */
/* Validation of a skill in the store. Apart from that of directories, which `box` has too, and
   which should not bring the store along. */
#include <string.h>

#include "core/fd.h"
#include "skills/store.h"

int skill_validate(struct skill_scope *scope, const char *name, struct skill_problems *ret,
                   struct error *err)
{
    struct package *package;
    cleanup_close int root = scope_open(scope, err);
    if (root < 0 || scope_require(scope, root, name, &package, err) < 0)
        return -1;
    cleanup_close int dir = package_open(root, package, err);
    int rc = dir < 0 ? -1
                     : skill_validate_directory(dir, strrchr(package->skill.package_root, '/') + 1,
                                                ret, err);
    package_unref(package);
    return rc;
}
