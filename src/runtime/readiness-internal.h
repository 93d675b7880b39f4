/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the readiness trial know of each other.

     readiness.c          who asks, what is kept, what the policy itself tells
     readiness-trial.c    sessions made, used and deleted, one after the other
     readiness-report.c   the script that runs in them, and reading what it printed
     readiness-judge.c    from that to checks and reasons */
#pragma once

#include "runtime/readiness.h"

#define TRIAL_TOKEN_SIZE 33 /* 32 hex digits and a NUL */
#define TRIAL_QUOTA_MB   4  /* of a trial's workspace: enough to tell, and soon filled */

/* --- the script and its report ---------------------------------------------------------------- */

#define TRIAL_NAMESPACES(X) X(user) X(mnt) X(pid) X(net) X(ipc) X(uts) X(cgroup)

enum trial_namespace {
#define X(name) TRIAL_NAMESPACE_##name,
    TRIAL_NAMESPACES(X)
#undef X
        TRIAL_NAMESPACE_MAX,
};
const char *trial_namespace_name(enum trial_namespace which);

/* Places that are memory: each with a limit on bytes and inodes. */
#define TRIAL_PLACES(X) X(TMP, "/tmp") X(HOME, "home") X(SHM, "/dev/shm")

enum trial_place {
#define X(name, text) TRIAL_##name,
    TRIAL_PLACES(X)
#undef X
        TRIAL_PLACE_MAX,
};
const char *trial_place_name(enum trial_place which);

struct place_report {
    bool told;
    uint64_t bytes;  /* in all; 0: as many as there are */
    uint64_t inodes; /* likewise */
    bool takes;      /* a little can be allocated */
    bool overflows;  /* so can more than there is */
};

struct quota_report {
    bool told;
    bool filled;    /* twice the quota could be written */
    uint64_t bytes; /* that were */
    bool made;      /* files: twice as many as there are inodes for */
    uint64_t files;
};

struct trial_report {
    bool ended; /* all of it came */
    char namespaces[TRIAL_NAMESPACE_MAX][32];
    char interface[32]; /* one that is not loopback; "" */
    bool mounts;        /* there was at least one */
    char writable[128]; /* a mount point that should not be; "" */
    char shared[128];   /* one that the host sees changes of; "" */
    struct place_report places[TRIAL_PLACE_MAX];
    struct quota_report quota;
};

/* What a session is asked to do, for `sh -s`. The caller frees. `marker`: a file to be left in the
   workspace with `token` in it; NULL: none. */
char *trial_script(bool isolation, bool quota, const char *marker, const char *token);
/* `writable_root`: more may be written to than the usual places. */
void trial_report_parse(const char *text, size_t size, bool writable_root,
                        struct trial_report *ret);

/* --- checks ----------------------------------------------------------------------------------- */

void check_passed(struct readiness_result *result, enum readiness_check check);
void check_failed(struct readiness_result *result, enum readiness_check check, const char *format,
                  ...) __attribute__((format(printf, 3, 4)));
/* With what is to be done about it, where the error knows. */
void check_failed_by(struct readiness_result *result, enum readiness_check check,
                     const struct error *err);

void judge_isolation(const struct trial_report *report, const char *notes,
                     struct readiness_result *result);
void judge_places(const struct trial_report *report, struct readiness_result *result);
/* Whether the workspace has hard limits; else why not, a sentence. */
bool judge_quota_bytes(const struct trial_report *report, char *ret_reason, size_t size);
bool judge_quota_files(const struct trial_report *report, char *ret_reason, size_t size);

/* --- the trial -------------------------------------------------------------------------------- */

struct trial;

extern uint64_t trial_deadline_ms; /* for a whole trial; tests have less time */

/* `crowded`: there was no room for a session, so that nothing could be found out. */
typedef void (*trial_done)(void *data, const struct readiness_result *result, bool crowded);

/* `setup` must stay; `result` is what is known already. `done` later, from the loop. */
struct trial *trial_start(struct runtime *runtime, const struct readiness_setup *setup,
                          const struct readiness_result *result, trial_done done, void *data);
void trial_abort(struct trial *trial); /* `done` is not called */
