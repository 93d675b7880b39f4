/* SPDX-License-Identifier: Apache-2.0 */
/* What makes a directory a package, and what else is told of one by the names in it.

   Most packages hold a handful of files, so reading their names costs less than asking for each
   name that might be among them. A directory of thousands is asked. */
#include "skills/glance.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "skills/beneath.h"
#include "skills/package.h"

#define NAMES_BYTES 4096
#define READS_MAX   4

enum { ENTRIES = 2 }; /* of these names the first two, the first of them rather than the second */

static const struct {
    const char *name;
    unsigned char type;
} names[] = {
    {ENTRY_FILE, DT_REG},       {"skill.md", DT_REG}, {"requirements.txt", DT_REG},
    {"pyproject.toml", DT_REG}, {"setup.py", DT_REG}, {"setup.cfg", DT_REG},
    {".venv", DT_DIR},
};

typedef unsigned char types_t[ARRAY_SIZE(names)];

static void note(const char *name, unsigned char type, types_t types)
{
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        if (strcmp(name, names[i].name) == 0)
            types[i] = type;
    }
}

static void ask(int dir, types_t types)
{
    struct stat st;
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        bool there = fstatat(dir, names[i].name, &st, AT_SYMLINK_NOFOLLOW) == 0;
        types[i] = there ? (unsigned char)IFTODT(st.st_mode) : DT_UNKNOWN;
    }
}

/* 1: there are more of them. */
static int read_names(int dir, types_t types)
{
    _Alignas(struct dirent64) char data[NAMES_BYTES];
    for (int i = 0; i < READS_MAX; i++) {
        ssize_t n = getdents64(dir, data, sizeof data);
        if (n <= 0)
            return n < 0 ? -errno : 0;
        for (ssize_t at = 0; at < n;) {
            const struct dirent64 *entry = (const void *)(data + at);
            if (entry->d_type == DT_UNKNOWN)
                return 1; /* a file system that keeps no types: then all are asked */
            note(entry->d_name, entry->d_type, types);
            at += entry->d_reclen;
        }
    }
    return 1;
}

static bool is_there(int dir, size_t index, const types_t types)
{
    if (types[index] == DT_LNK)
        return names[index].type == DT_DIR ? beneath_is_dir(dir, names[index].name)
                                           : beneath_is_file(dir, names[index].name);
    return types[index] == names[index].type;
}

int glance_at(int dir, struct glance *ret)
{
    types_t types = {DT_UNKNOWN};
    struct glance glance = {.entry_file = NULL};
    int rc = read_names(dir, types);
    if (rc < 0)
        return rc;
    if (rc > 0)
        ask(dir, types);
    for (size_t i = 0; i < ENTRIES && !glance.entry_file; i++) {
        if (is_there(dir, i, types)) {
            glance.entry_file = names[i].name;
            glance.by_link = types[i] == DT_LNK;
        }
    }
    for (size_t i = ENTRIES; i < ARRAY_SIZE(names) && !glance.python; i++)
        glance.python = is_there(dir, i, types);
    *ret = glance;
    return 0;
}
