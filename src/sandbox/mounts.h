/* SPDX-License-Identifier: Apache-2.0 */
/* Carrying out the steps of a plan that make the file system.

   Two halves, because they may have to happen in two places. Opening the sources turns every host
   path into a detached copy of its mount, checked and restricted, so that from there on no path of
   the host is looked at again. As root the spawner does it (only it may id-map a mount); an
   ordinary user's sources are opened inside the new namespaces. Executing attaches them below a new
   root. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/error.h"
#include "sandbox/plan.h"

/* One descriptor for each step from `first` on, -1 for steps that need none. The caller closes what
   is open in `ret_fds` also after a failure. `base` is the start of the session's ids (0 as an
   ordinary user). */
int mounts_open(const struct plan *plan, size_t first, const struct mount_policy *policy,
                uint32_t base, const char *image_directory, int *ret_fds, struct error *err);
void mounts_close(const struct plan *plan, int *fds);

/* In the new namespaces: builds the root and enters it; or, where `on_base`, completes the root it
   was born in, that of a namespace made by mounts_make_base(). `on_proc` is shown the session's own
   procfs before anything of it is covered: settings of its namespaces are to be written there. */
typedef int (*mounts_on_proc)(int proc, const struct plan *plan, struct error *err);
int mounts_execute(const struct plan *plan, const int *fds, bool on_base, mounts_on_proc on_proc,
                   struct error *err);

/* A mount namespace whose root is the plan's base and nothing else. A session cloned from within it
   needs no root of its own made, and copies a score of mounts instead of all the host's. Root only;
   forks. */
int mounts_make_base(const struct plan *plan, const struct mount_policy *policy, int *ret_namespace,
                     struct error *err);
