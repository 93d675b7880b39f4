/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors held for whoever comes after the caller: the pipes of processes that outlive it. */
#include "core/fd.h"
#include "init/init.h"

struct kept {
    uint32_t id; /* 0: free */
    uint32_t lane;
    int32_t pid;
    int fds[INIT_KEEP_FDS_MAX];
    size_t count;
};

static struct kept kept[INIT_KEPT_MAX];

static void release(struct kept *slot)
{
    for (size_t i = 0; i < slot->count; i++)
        fd_clear(&slot->fds[i]);
    *slot = (struct kept){0};
}

void kept_put(const struct init_keep *what, int *fds, size_t count)
{
    struct kept *room = NULL;
    for (size_t i = 0; i < INIT_KEPT_MAX; i++) {
        if (kept[i].id == what->id)
            release(&kept[i]);
        if (kept[i].id == 0 && !room)
            room = &kept[i];
    }
    if (count == 0 || count > INIT_KEEP_FDS_MAX || !room)
        return;
    room->id = what->id;
    room->lane = what->lane;
    room->pid = what->pid;
    for (size_t i = 0; i < count; i++)
        room->fds[room->count++] = steal_fd(&fds[i]);
}

void kept_send(int control)
{
    for (size_t i = 0; i < INIT_KEPT_MAX; i++) {
        const struct init_keep message = {
            .type = INIT_KEEP, .id = kept[i].id, .lane = kept[i].lane, .pid = kept[i].pid};
        if (kept[i].id != 0)
            fd_send(control, &message, sizeof message, kept[i].fds, kept[i].count);
    }
}
