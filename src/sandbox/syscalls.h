/* SPDX-License-Identifier: Apache-2.0 */
/* System calls that Debian 12's C library has no wrapper for. */
#pragma once

#include <linux/mount.h>
#include <linux/openat2.h>
#include <linux/sched.h>
#include <sys/syscall.h>
#include <unistd.h>

static inline int sys_openat2(int dir, const char *path, struct open_how *how)
{
    return (int)syscall(SYS_openat2, dir, path, how, sizeof *how);
}

static inline long sys_clone3(struct clone_args *args)
{
    return syscall(SYS_clone3, args, sizeof *args);
}

static inline int sys_pivot_root(const char *new_root, const char *put_old)
{
    return (int)syscall(SYS_pivot_root, new_root, put_old);
}

static inline int sys_close_range(unsigned first, unsigned last, unsigned flags)
{
    return (int)syscall(SYS_close_range, first, last, flags);
}
