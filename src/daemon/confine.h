/* SPDX-License-Identifier: Apache-2.0 */
/* How the front gives up what it does not need: see confine.c. */
#pragma once

#include "core/error.h"
#include "core/mem.h"
#include "daemon/places.h"

/* User, groups, capabilities. The process must have one thread. */
int confine_privileges(const struct account *account, struct error *err);

struct confinement {
    struct strings writable; /* directories that are its own, with all below them */
    struct strings readable; /* files and directories to be read again later */
};

/* What the kernel could not do: a bit each. */
enum confine_missing {
    CONFINE_NO_LANDLOCK = 1 << 0, /* files are then protected by ownership and seccomp alone */
    CONFINE_NO_SECCOMP = 1 << 1,  /* only in a build with sanitizers, which need more calls */
};

/* Files and system calls, after the above. Returns a mask of enum confine_missing, or -1. There is
   no way back. */
int confine_front(const struct confinement *confinement, struct error *err);

/* Its two halves. 1: this kernel, or this build, has it not. */
int confine_files(const struct confinement *confinement, struct error *err);
int confine_calls(struct error *err);

/* The file, or where its replacements will appear: its directory, if that is named for us. The
   caller frees. */
char *confine_readable(const char *file);
