/* SPDX-License-Identifier: Apache-2.0 */
/* Control groups of sessions: kept for the next where they are as good as new, removed when nobody
   waits.

   On v1 a session is five directories in three hierarchies, 300 µs to make and 100 to remove: as
   much as the rest of a cold start's system calls together. On v2 it is two, and being born in them
   is what counts. */
#include <string.h>

#include "sandbox/spawner-internal.h"

static char *list_push(struct group_list *list)
{
    return list->count < GROUPS_MAX ? list->names[list->count++] : NULL;
}

static const char *list_pop(struct group_list *list)
{
    return list->count > 0 ? list->names[--list->count] : NULL;
}

int groups_take(struct spawner *spawner, struct spawned *session,
                const struct cgroup_limits *limits, int *ret_birth_group, struct error *err)
{
    const char *ready = list_pop(&spawner->ready_groups);
    if (ready) {
        memcpy(session->group, ready, sizeof session->group);
        session->has_group = true;
        return cgroup_session_limit(spawner->cgroups, session->group, limits, err);
    }
    cgroup_session_name(spawner->cgroups, session->number, session->group, sizeof session->group);
    if (cgroup_session_create(spawner->cgroups, session->group, limits, ret_birth_group, err) < 0)
        return -1;
    session->has_group = true;
    return 0;
}

void groups_give(struct spawner *spawner, struct spawned *session)
{
    char *name = NULL;
    if (spawner->config->ready > 0 && cgroup_session_reusable(spawner->cgroups, session->group))
        name = list_push(&spawner->ready_groups);
    if (!name && spawner->config->ready > 0)
        name = list_push(&spawner->ended_groups);
    if (name)
        memcpy(name, session->group, sizeof session->group);
    else
        cgroup_session_remove(spawner->cgroups, session->group, NULL);
    session->has_group = false;
}

bool groups_idle_work(struct spawner *spawner)
{
    const char *ended = list_pop(&spawner->ended_groups);
    if (ended)
        cgroup_session_remove(spawner->cgroups, ended, NULL);
    return ended != NULL;
}

void groups_release(struct spawner *spawner)
{
    const char *name;
    while ((name = list_pop(&spawner->ended_groups)) || (name = list_pop(&spawner->ready_groups)))
        cgroup_session_remove(spawner->cgroups, name, NULL);
}
