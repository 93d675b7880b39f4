/* SPDX-License-Identifier: Apache-2.0 */
/* What makes a directory a skill. */
#include "skills/beneath.h"
#include "skills/package.h"

const char *package_entry(int dir)
{
    static const char *const names[] = {ENTRY_FILE, "skill.md"};
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        if (beneath_is_file(dir, names[i]))
            return names[i];
    }
    return NULL;
}
