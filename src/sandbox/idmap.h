/* SPDX-License-Identifier: Apache-2.0 */
/* User namespaces: writing their maps, and making one just for its map. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "core/error.h"
#include "sandbox/plan.h"

/* Writes the maps of the new user namespace that `pid` is in; `base` is the start of the session's
   range (ID_RANGE only). Uses newuidmap and newgidmap for ID_SUBIDS. */
int idmap_write(pid_t pid, const struct plan *plan, uint32_t base, struct error *err);

/* A user namespace in which the host ids uid and gid stand for to_uid and to_gid: what an id-mapped
   mount wants. Root only. */
int idmap_namespace(uid_t uid, gid_t gid, uint32_t to_uid, uint32_t to_gid, int *ret_fd,
                    struct error *err);
