/* SPDX-License-Identifier: Apache-2.0 */
/* The root file system that container engines run: a shell, what LangBot's runtime calls by it, and
   the directory it works in. */
#include "rival-image.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common.h"
#include "core/mem.h"

static const char *const applets[] = {"sh", "true", "sleep", "cat", "mkdir"};

const char *rival_image(void)
{
    static char *tar;
    if (tar || access("/bin/busybox", X_OK) != 0)
        return tar;
    cleanup_free char *root = xasprintf("%s/image", bench.directory);
    cleanup_free char *bin = xasprintf("%s/bin", root);
    cleanup_free char *workspace = xasprintf("%s/workspace", root);
    cleanup_free char *copy = xasprintf("%s/busybox", bin);
    cleanup_free char *log = xasprintf("%s/image.log", bench.directory);
    char *cp[] = {(char *)"/bin/cp", (char *)"/bin/busybox", copy, NULL};
    mkdir(root, 0755);
    mkdir(bin, 0755);
    mkdir(workspace, 0755);
    if (!spawn_logged(cp, log))
        return NULL;
    for (size_t i = 0; i < ARRAY_SIZE(applets); i++) {
        cleanup_free char *path = xasprintf("%s/%s", bin, applets[i]);
        if (symlink("busybox", path) < 0)
            return NULL;
    }
    char *file = xasprintf("%s.tar", root);
    char *pack[] = {(char *)"/bin/tar", (char *)"-C", root, (char *)"-cf", file, (char *)".", NULL};
    if (spawn_logged(pack, log))
        tar = file;
    return tar;
}
