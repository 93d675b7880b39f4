/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of building a root share. */
#pragma once

#include <limits.h>
#include <stdint.h>
#include <sys/types.h>

#include "sandbox/mounts.h"

/* mounts-fresh.c: new file systems, each as a detached mount. A tmpfs takes size, inodes, mode and
   owner from the step. */
int mounts_make_tmpfs(const struct step *step, struct error *err);
int mounts_make_proc(struct error *err);
int mounts_make_devpts(struct error *err);

/* mounts-target.c: a root under construction, and places in it. Targets are looked up below the
   root by descriptor, with no link of any kind followed: a caller's directory may hold links, and a
   mount must never land where one points. */
struct builder {
    int root;
    bool prepared; /* mount points are there already, as a rule */
    int scratch;   /* the tmpfs that scratch directories share, once there is one */
    int parent;    /* the directory that was looked up last: steps come in groups */
    char parent_path[PATH_MAX];
    const struct plan *plan;
    mounts_on_proc on_proc; /* NULL: nobody wants to see it */
};

void builder_init(struct builder *builder, int root, bool prepared);
void builder_release(struct builder *builder); /* all but the root */
int builder_open(const struct builder *builder, const char *path);
/* The directory that holds `path`, made if it is missing. The builder's, not to be closed.
 *ret_name is the last part of the path. */
int builder_parent(struct builder *builder, const char *path, const char **ret_name,
                   struct error *err);
/* Mounts what is detached at the step's target, which is made if it is missing. */
int builder_attach(struct builder *builder, const struct step *step, int mount, mode_t kind,
                   struct error *err);
