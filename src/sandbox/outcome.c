/* SPDX-License-Identifier: Apache-2.0 */
/* How a command ended, what it used, and why. */
#include "sandbox/outcome.h"

#include <sys/wait.h>

/* A place with less left than a part of it is full: what could not be written was larger than what
   is left, and file systems keep a few blocks for themselves. */
#define FULL_PART      64
#define FULL_BYTES_MIN (32u * 1024)
#define FULL_BYTES_MAX (1024u * 1024)

static const char *const cause_names[CAUSE_MAX] = {
#define X(name, text) [CAUSE_##name] = text,
    CAUSES(X)
#undef X
};

const char *cause_name(enum cause cause)
{
    return (unsigned)cause < CAUSE_MAX ? cause_names[cause] : "unknown";
}

struct sandbox_space sandbox_space_from(const struct init_statfs *reply)
{
    return (struct sandbox_space){
        .bytes = reply->block_size * reply->blocks,
        .bytes_free = reply->block_size * reply->blocks_free,
        .inodes_free = reply->inodes ? reply->inodes_free : UINT64_MAX,
    };
}

bool sandbox_space_is_full(const struct sandbox_space *space)
{
    uint64_t part = space->bytes / FULL_PART;
    if (part < FULL_BYTES_MIN)
        part = FULL_BYTES_MIN;
    if (part > FULL_BYTES_MAX)
        part = FULL_BYTES_MAX;
    return space->bytes_free < part || space->inodes_free == 0;
}

void outcome_take_exit(struct outcome *outcome, const struct lane_exited *exited)
{
    outcome->cpu_us = exited->cpu_us;
    outcome->peak_bytes = exited->max_rss;
    if (WIFEXITED(exited->status))
        outcome->exit_code = WEXITSTATUS(exited->status);
    else if (WIFSIGNALED(exited->status))
        outcome->signal = WTERMSIG(exited->status);
}

void outcome_take_usage(struct outcome *outcome, const struct cgroup_usage *before,
                        const struct cgroup_usage *after, uint64_t memory_limit)
{
    if (after->has_cpu && after->cpu_us - before->cpu_us > outcome->cpu_us)
        outcome->cpu_us = after->cpu_us - before->cpu_us;
    if (after->has_peak) {
        /* The kernel charges a lane in batches before the session's limit is asked. */
        outcome->peak_bytes = after->peak_bytes < memory_limit ? after->peak_bytes : memory_limit;
        outcome->peak_of_tree = true;
    }
}

void outcome_take_denied(struct outcome *outcome, struct denied_page *page, int lane)
{
    for (size_t i = 0; i < DENIED_WORDS; i++)
        outcome->denied[i] = __atomic_exchange_n(&page->lanes[lane][i], 0, __ATOMIC_SEQ_CST);
}

static bool any_denied(const struct outcome *outcome)
{
    for (size_t i = 0; i < DENIED_WORDS; i++) {
        if (outcome->denied[i])
            return true;
    }
    return false;
}

bool outcome_asks_space(const struct outcome *outcome, const struct cgroup_usage *before,
                        const struct cgroup_usage *after)
{
    return after->oom_kills <= before->oom_kills && !outcome->timed_out &&
           outcome->exit_code != 0 && after->pids_denied <= before->pids_denied;
}

enum cause outcome_cause(const struct outcome *outcome, const struct cgroup_usage *before,
                         const struct cgroup_usage *after, bool full)
{
    if (after->oom_kills > before->oom_kills)
        return CAUSE_OOM;
    if (outcome->timed_out)
        return CAUSE_TIMEOUT;
    if (outcome->exit_code == 0)
        return CAUSE_EXITED;
    if (after->pids_denied > before->pids_denied)
        return CAUSE_PIDS_LIMIT;
    if (full)
        return CAUSE_DISK_QUOTA;
    if (any_denied(outcome))
        return CAUSE_DENIED_SYSCALL;
    return outcome->signal ? CAUSE_SIGNAL : CAUSE_EXITED;
}
