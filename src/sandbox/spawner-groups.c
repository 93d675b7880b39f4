/* SPDX-License-Identifier: Apache-2.0 */
/* Control groups of sessions: kept for the next where they are as good as new, removed when nobody
   waits.

   On v1 a session is five directories in three hierarchies, 300 µs to make and 100 to remove: as
   much as the rest of a cold start's system calls together. On v2 it is two, and being born in them
   is what counts. */
#include <string.h>

#include "sandbox/spawner-internal.h"

static bool list_push(struct group_list *list, const struct spawned *session)
{
    if (list->count == GROUPS_MAX)
        return false;
    struct group *group = &list->items[list->count++];
    memcpy(group->name, session->group, sizeof group->name);
    group->limits = session->limits;
    return true;
}

static const struct group *list_pop(struct group_list *list)
{
    return list->count > 0 ? &list->items[--list->count] : NULL;
}

static bool same_limits(const struct cgroup_limits *a, const struct cgroup_limits *b)
{
    return a->memory_bytes == b->memory_bytes && a->cpu_milli == b->cpu_milli && a->pids == b->pids;
}

/* The last one given back whose limits are those wanted, else the last one. Writing the same limits
   again would take the kernel as long as making the process. */
static struct group take_ready(struct group_list *list, const struct cgroup_limits *limits)
{
    unsigned index = list->count - 1;
    for (unsigned i = list->count; i-- > 0;) {
        if (same_limits(&list->items[i].limits, limits)) {
            index = i;
            break;
        }
    }
    struct group taken = list->items[index];
    list->items[index] = list->items[--list->count];
    return taken;
}

int groups_take(struct spawner *spawner, struct spawned *session,
                const struct cgroup_limits *limits, int *ret_birth_group, struct error *err)
{
    session->limits = *limits;
    while (spawner->ready_groups.count > 0) {
        struct group ready = take_ready(&spawner->ready_groups, limits);
        /* Judged only now: right after a session's end the kernel is still giving back what it had.
           And somebody else may have removed it. */
        if (!cgroup_session_reusable(spawner->cgroups, ready.name)) {
            cgroup_session_remove(spawner->cgroups, ready.name, NULL);
            continue;
        }
        memcpy(session->group, ready.name, sizeof session->group);
        session->has_group = true;
        return same_limits(&ready.limits, limits)
                   ? 0
                   : cgroup_session_limit(spawner->cgroups, session->group, limits, err);
    }
    cgroup_session_name(spawner->cgroups, session->number, session->group, sizeof session->group);
    if (cgroup_session_create(spawner->cgroups, session->group, limits, ret_birth_group, err) < 0)
        return -1;
    session->has_group = true;
    return 0;
}

void groups_give(struct spawner *spawner, struct spawned *session)
{
    bool later = spawner->config->ready > 0;
    bool kept =
        later && spawner->facts.cgroup == CGROUP_V1 && list_push(&spawner->ready_groups, session);
    if (!kept && !(later && list_push(&spawner->ended_groups, session)))
        cgroup_session_remove(spawner->cgroups, session->group, NULL);
    session->has_group = false;
}

bool groups_idle_work(struct spawner *spawner)
{
    const struct group *ended = list_pop(&spawner->ended_groups);
    if (ended)
        cgroup_session_remove(spawner->cgroups, ended->name, NULL);
    return ended != NULL;
}

void groups_release(struct spawner *spawner)
{
    const struct group *group;
    while ((group = list_pop(&spawner->ended_groups)) || (group = list_pop(&spawner->ready_groups)))
        cgroup_session_remove(spawner->cgroups, group->name, NULL);
}
