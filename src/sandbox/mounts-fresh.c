/* SPDX-License-Identifier: Apache-2.0 */
/* New file systems, as detached mounts. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>

#include "core/fd.h"
#include "sandbox/mounts-internal.h"

static int set_number(int context, const char *key, uint64_t value)
{
    char text[32];
    /* The mode is read as octal. */
    if (strcmp(key, "mode") == 0)
        snprintf(text, sizeof text, "%llo", (unsigned long long)value);
    else
        snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    return fsconfig(context, FSCONFIG_SET_STRING, key, text, 0);
}

int mounts_make_tmpfs(const struct step *step, struct error *err)
{
    cleanup_close int context = fsopen("tmpfs", FSOPEN_CLOEXEC);
    if (context < 0 || set_number(context, "size", step->bytes) < 0 ||
        set_number(context, "nr_inodes", step->inodes) < 0 ||
        set_number(context, "mode", step->mode) < 0 ||
        (step->owned &&
         (set_number(context, "uid", BOX_UID) < 0 || set_number(context, "gid", BOX_GID) < 0)) ||
        fsconfig(context, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return error_errno(err, errno, "cannot make a tmpfs");
    unsigned attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
    if (!step->writable)
        attributes |= MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOEXEC;
    int mount = fsmount(context, FSMOUNT_CLOEXEC, attributes);
    return mount < 0 ? error_errno(err, errno, "cannot make a tmpfs") : mount;
}

static int make_special(const char *type, const char *const *options, struct error *err)
{
    cleanup_close int context = fsopen(type, FSOPEN_CLOEXEC);
    if (context < 0)
        return error_errno(err, errno, "cannot make a file system of type %s", type);
    for (; options[0]; options += 2) {
        if (fsconfig(context, FSCONFIG_SET_STRING, options[0], options[1], 0) < 0)
            return error_errno(err, errno, "%s does not take %s", type, options[0]);
    }
    if (fsconfig(context, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return error_errno(err, errno, "cannot make a file system of type %s", type);
    unsigned attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC;
    if (strcmp(type, "devpts") != 0) /* whose files are all devices */
        attributes |= MOUNT_ATTR_NODEV;
    int mount = fsmount(context, FSMOUNT_CLOEXEC, attributes);
    return mount < 0 ? error_errno(err, errno, "cannot mount %s", type) : mount;
}

int mounts_make_proc(struct error *err)
{
    static const char *const options[] = {NULL};
    int mount = make_special("proc", options, err);
    if (mount >= 0)
        return mount;
    if (err->errnum == EPERM)
        error_hint(err, "this often means boxd runs inside a container whose /proc is partly "
                        "covered: give that container an unmasked /proc (docker: --security-opt "
                        "systempaths=unconfined)");
    return -1;
}

int mounts_make_devpts(struct error *err)
{
    static const char *const options[] = {"ptmxmode", "0666", "mode", "0620", NULL};
    return make_special("devpts", options, err);
}
