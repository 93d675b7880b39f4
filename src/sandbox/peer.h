/* SPDX-License-Identifier: Apache-2.0 */
/* What spawner and init say, taken in by their caller. */
#pragma once

#include "core/error.h"
#include "sandbox/cgroup.h"
#include "sandbox/protocol.h"

/* -1, with the reply's error. */
int peer_spawner_failed(const struct spawner_reply *reply, struct error *err);
int peer_init_failed(const struct init_failed *failed, struct error *err);
/* The descriptors of a lane's group, of those that came with a reply; the rest are closed. */
struct cgroup_lane_fds peer_lane_group(const struct spawner_reply *reply, const int *fds,
                                       size_t count);
/* init's page of denied calls, mapped; NULL if it could shrink under us. The descriptor stays the
   caller's. */
struct denied_page *peer_map_denied(int fd);
