/* SPDX-License-Identifier: Apache-2.0 */
/* What the cgroup sources share: the root, the operations of a version, and the pure parsers. */
#pragma once

#include <limits.h>

#include "sandbox/cgroup.h"

#define CGROUP_SESSION_ITSELF (-2) /* as a lane: the session's own group */
#define CGROUP_PATH_MAX       (CGROUP_NAME_MAX + 64)
#define CGROUP_WAIT_MS        2000 /* for a group to become empty */
#define CGROUP_SUPERVISOR     "supervisor"

enum cgroup_controller {
    CGROUP_HAS_MEMORY = 1,
    CGROUP_HAS_PIDS = 2,
    CGROUP_HAS_CPU = 4,
    CGROUP_HAS_CPUACCT = 8,
};

/* Who made a session. A pid means something in one namespace only, and may be used again. */
struct cgroup_owner {
    uint64_t pid_namespace;
    uint64_t pid;
    uint64_t start;
};

struct cgroup_hierarchy {
    int dir;
    unsigned controllers;
};

#define CGROUP_V1_MAX 3

/* v1: hierarchies[0] is listed by the sweep, so it is made first and removed last. */
struct cgroup_v1 {
    struct cgroup_hierarchy hierarchies[CGROUP_V1_MAX];
    size_t count;
    bool has_memsw;
    bool is_flat; /* before 5.11: groups do not count for those above unless told to */
};

enum cgroup_v2_way {
    CGROUP_V2_UNIT,  /* a group delegated to this process */
    CGROUP_V2_TOP,   /* a group `boxd` below the top */
    CGROUP_V2_SCOPE, /* a scope that the user manager makes */
    CGROUP_V2_WAY_MAX,
};

struct cgroup_v2 {
    enum cgroup_v2_way way;
    bool ready;
    int base; /* where sessions are; -1 while it does not exist */
    int top;
    bool top_movable;      /* the members of `top` may be moved into a group below it */
    char scopes[PATH_MAX]; /* where the user manager keeps scopes; empty if there is none */
};

struct cgroup_root {
    const struct cgroup_ops *ops;
    enum cgroup_version version;
    unsigned controllers; /* that sessions can be limited by */
    struct cgroup_owner owner;
    char keeper[CGROUP_KEEPER_MAX]; /* whose sessions outlive their owner; "": nobody's */
    struct cgroup_v1 v1;
    struct cgroup_v2 v2;
    char reason[ERROR_TEXT_MAX];
    char fix[ERROR_TEXT_MAX];
};

/* Names were checked before any of these is called, and limits against `controllers`. */
struct cgroup_ops {
    int (*session_create)(struct cgroup_root *root, const char *name,
                          const struct cgroup_limits *limits, int *ret_birth_fd, struct error *err);
    int (*session_limit)(struct cgroup_root *root, const char *name,
                         const struct cgroup_limits *limits, struct error *err);
    int (*session_kill)(struct cgroup_root *root, const char *name, struct error *err);
    bool (*session_exists)(struct cgroup_root *root, const char *name);
    int (*session_usage)(struct cgroup_root *root, const char *name,
                         struct cgroup_session_usage *ret);
    bool (*session_reusable)(struct cgroup_root *root, const char *name); /* NULL: never */
    bool (*session_oom)(struct cgroup_root *root, const char *name);      /* NULL: cannot be told */
    int (*session_remove)(struct cgroup_root *root, const char *name, struct error *err);
    int (*lane_create)(struct cgroup_root *root, const char *name, int lane, struct error *err);
    int (*lane_limit)(struct cgroup_root *root, const char *name, int lane, uint64_t memory);
    int (*lane_open)(struct cgroup_root *root, const char *name, int lane,
                     struct cgroup_lane_fds *ret, struct error *err);
    int (*lane_kill)(struct cgroup_root *root, const char *name, int lane, struct error *err);
    int (*place)(struct cgroup_root *root, const char *name, int lane, pid_t pid,
                 struct error *err);
    int (*entry_open)(struct cgroup_root *root, const char *name, int lane,
                      struct cgroup_entry *ret, struct error *err);
    void (*sweep)(struct cgroup_root *root, const char *const *keep, size_t count);
    void (*close)(struct cgroup_root *root);
};

extern const struct cgroup_ops cgroup_v1_ops;
extern const struct cgroup_ops cgroup_v2_ops;
extern const struct cgroup_ops cgroup_none_ops;

/* cgroup-session.c: an error if one of the limits cannot be enforced. */
int cgroup_check_limits(const struct cgroup_root *root, const struct cgroup_limits *limits,
                        struct error *err);

/* cgroup-parse.c: bytes in, values out. Those that can fail return 0 or -EINVAL (-ENOENT: not
   there), with outputs untouched. */
struct cgroup_self {
    bool v2;
    unsigned controllers;
    char path[PATH_MAX];
};

struct cgroup_pid_reader {
    uint64_t value;
    bool digits;
    bool bad;
};

int cgroup_parse_number(const char *text, size_t size, uint64_t *ret);
int cgroup_parse_keyed(const char *text, size_t size, const char *key, uint64_t *ret);
unsigned cgroup_parse_controllers(const char *text, size_t size);
/* The next line of /proc/self/cgroup; false at the end. Lines of no interest are passed over. */
bool cgroup_parse_self(const char **at, const char *end, struct cgroup_self *ret);
/* Where /proc/self/mountinfo shows that group. `ret_top` is how much of it is the mount point. */
int cgroup_parse_mount(const char *text, size_t size, const struct cgroup_self *self,
                       char ret_dir[PATH_MAX], size_t *ret_top);
/* /proc/PID/stat: the state and the start time. */
int cgroup_parse_stat(const char *text, size_t size, char *ret_state, uint64_t *ret_start);
/* cgroup.procs, byte by byte: true when a pid is complete. Pids outside the reader's pid namespace
   are 0, and passed over. */
bool cgroup_parse_pid(struct cgroup_pid_reader *reader, char c, pid_t *ret);
bool cgroup_name_valid(const char *name);
void cgroup_name_format(const struct cgroup_owner *owner, unsigned number, char *ret, size_t size);
int cgroup_name_parse(const char *name, struct cgroup_owner *ret_owner, unsigned *ret_number);
/* Whether a unit's name is that of a scope made by cgroup_scope_enter(). */
bool cgroup_is_scope(const char *unit);

/* cgroup-tree.c: groups as directories. `dir` is where sessions are. */
void cgroup_path(char ret[CGROUP_PATH_MAX], const char *name, int lane, const char *file);
int cgroup_make(int dir, const char *name, int lane, struct error *err);
int cgroup_write(int dir, const char *name, int lane, const char *file, const char *text);
int cgroup_open(int dir, const char *name, int lane, const char *file, int flags);
/* A number in a file of the group: alone if `key` is NULL, else behind that word. 0 or -errno. */
int cgroup_read_number(int dir, const char *name, int lane, const char *file, const char *key,
                       uint64_t *ret);
bool cgroup_is_there(int dir, const char *name);
/* Calls `visit` for each group below `dir`/`name` until it returns other than 0; returns that, or
   -errno if they cannot be listed. */
typedef int (*cgroup_visit)(const char *child, void *data);
int cgroup_each_child(int dir, const char *name, cgroup_visit visit, void *data);
int cgroup_tree_kill(int dir, const char *name, uint64_t deadline);
int cgroup_tree_remove(int dir, const char *name, bool has_lanes, uint64_t deadline);

/* cgroup-procs.c: members. `path` is that of a group, relative to `dir`; 0 or -errno. */
/* Sends SIGKILL until none is left; -ETIMEDOUT at the deadline. */
int cgroup_procs_kill(int dir, const char *path, uint64_t deadline);
/* Waits for members to exit, or a little where there is none. `pause_us` starts at 0. */
void cgroup_procs_wait(int dir, const char *path, uint64_t deadline, unsigned *pause_us);
/* Moves every member into `dir`/`to`. */
int cgroup_procs_move(int dir, const char *to);

/* cgroup-sweep.c */
int cgroup_owner_self(struct cgroup_owner *ret);
/* Sweeps the sessions below `dir`, which is where `root` has them. */
void cgroup_sweep_dir(struct cgroup_root *root, int dir, const char *const *keep, size_t count);

/* cgroup.c: why there are no groups, or not all limits, and what helps. */
void cgroup_explain(struct cgroup_root *root, const char *fix, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The directory of this process's v2 group now; `ret_top` is how much of it is the mount point. */
int cgroup_v2_own(char ret_dir[PATH_MAX], size_t *ret_top);

/* cgroup-v2-root.c. The first looks whether and where sessions can be made; if they can, it fills
   `root` and returns true, else it explains. The second makes that place ready, once. */
bool cgroup_v2_find(struct cgroup_root *root, const char *own, size_t top_length);
int cgroup_v2_prepare(struct cgroup_root *root, struct error *err);
/* Sessions are to outlive the unit that this process is in: not below it, if that can be had. */
void cgroup_v2_leave_unit(struct cgroup_root *root);

/* cgroup-scope.c: puts this process into a scope of its own, made by the systemd user manager. */
bool cgroup_scope_possible(void);
int cgroup_scope_enter(struct error *err);
