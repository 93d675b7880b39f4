/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration: one table of keys, from which the YAML reader, the environment, --print-config
   and the manual page all take what they know.

   Layers, each over the one before: the table's defaults, the file, LANGBOT_BOX_CONFIG, BOX__…
   variables, flags; and what LangBot's box_init says, of its own keys. Reading collects every
   problem instead of stopping at the first; a configuration with problems is not used. Reading does
   no I/O; config_settle() and config_read_file() do. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "core/error.h"
#include "core/mem.h"
#include "runtime/admission.h"

/* LangBot's variables. */
#define CONTROL_TOKEN_VARIABLE "LANGBOT_BOX_CONTROL_TOKEN"
#define INSTANCE_VARIABLE      "LANGBOT_BOX_TRUSTED_INSTANCE_UUID"

struct config {
    struct strings listen;
    char *socket;
    char *token_file;
    char *state_dir;
    char *run_dir;
    char *user;
    char *log_format;
    char *log_level;
    char *backend;
    uint64_t outlive_ms;
    uint64_t ready_sessions;

    uint64_t session_ttl_ms;
    uint64_t max_sessions;
    uint64_t max_managed_processes;
    uint64_t max_completed_processes;
    uint64_t completed_retention_ms;
    uint64_t max_queued_bytes;

    char *network;
    uint64_t milli_cpus;
    uint64_t memory_mb;
    uint64_t pids_limit;
    uint64_t workspace_quota_mb;
    uint64_t timeout_ms;
    uint64_t max_timeout_ms;

    uint64_t keep_bytes;
    uint64_t session_log_bytes;
    uint64_t audit_bytes;
    uint64_t audit_files;

    uint64_t head_bytes;
    uint64_t headers;
    uint64_t connections;
    uint64_t head_ms;
    uint64_t idle_ms;
    uint64_t body_bytes;
    uint64_t body_stall_ms;
    uint64_t body_rate;
    uint64_t write_stall_ms;
    uint64_t unsent_bytes;
    struct strings allowed_hosts;
    struct strings allowed_origins;

    struct strings allowed_roots;
    char *host_root;
    struct strings allow_net;
    uint64_t scratch_mb;

    char *control_token_file;
    char *trusted_instance;
    char *tenancy;
    char *default_workspace;
    char *skills_root;
    uint64_t skills_quota_mb;
    uint64_t max_records;
    uint64_t max_file_bytes;

    uint64_t admission_sessions;
    uint64_t admission_processes;
    uint64_t admission_grant_ms;
    uint64_t admission_timeout_ms;
    uint64_t admission_milli_cpus;
    uint64_t admission_memory_mb;
    uint64_t admission_pids;
    uint64_t admission_quota_mb;
    uint64_t admission_cache_ms;

    /* Of LangBot's tree, which may be malformed and must not be less strict for it: counts instead
       of the above. NULL: none. Of no key. */
    struct admission_policy *policy;

    /* Flags, all in one place: between the others each would take the room of eight. */
    bool adopt;
    bool read_only_rootfs;
    bool strict;
    bool skills_writable;
    bool admission_required;
    bool admission_read_only;
    bool stdio;  /* LangBot is at standard input and output. Of no key. */
    bool system; /* root started it: its places are the system's. Of no key. */
};

/* type, what stands for a value of it in the manual */
#define CONFIG_TYPES(X)                                                   \
    X(TEXT, "text")                                                       \
    X(PATH, "path")   /* relative ones from where boxd was started */     \
    X(CHOICE, "word") /* one of `choices` */                              \
    X(BOOL, "boolean")                                                    \
    X(COUNT, "number")                                                    \
    X(SIZE, "size")       /* bytes, or "64M" */                           \
    X(MEBIBYTES, "MiB")   /* of these, or "2G" */                         \
    X(SECONDS, "seconds") /* of these, or "5m"; kept as milliseconds */   \
    X(CPUS, "CPUs")       /* "1.5"; kept as thousandths */                \
    X(LIST, "list")       /* of texts; one text with commas is as good */ \
    X(PATHS, "paths")                                                     \
    X(RANGES, "ranges") /* of IP addresses */                             \
    X(SOCKETS, "list")  /* of HOST:PORT */

enum config_type {
#define X(name, text) CONFIG_##name,
    CONFIG_TYPES(X)
#undef X
        CONFIG_TYPE_MAX,
};
const char *config_type_name(enum config_type type);

#define CONFIG_NOWHERE SIZE_MAX

/* In the order of writing. NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding) */
struct config_key {
    const char *path;
    enum config_type type;
    bool reload;   /* SIGHUP changes it */
    size_t offset; /* in struct config; CONFIG_NOWHERE: accepted and checked, but LangBot's own
                      business or a later version's */
    const char *standard; /* the default, as one would write it */
    uint64_t min; /* of numbers, as one would write them (CPUs in thousandths); of texts and */
    uint64_t max; /* lists, the longest */
    const char *choices; /* "text|json" */
    const char *help;    /* one sentence */
    bool tree;           /* of LangBot's tree: box_init may change it */
};

extern const struct config_key config_keys[];
extern const size_t config_key_count;

const struct config_key *config_key_find(const char *path);
/* Whether keys lie below it: "limits". */
bool config_is_section(const char *path);
/* The key or section that was probably meant; NULL if none is near. The caller frees. */
char *config_key_nearest(const char *path);

/* What is wrong, each as "where: sentence". */
struct config_problems {
    struct strings lines;
    struct strings unknown;  /* keys that LangBot has and boxd does not know: its next version may
                                have more. No reason not to start. */
    struct strings warnings; /* what cannot be as it was asked for, and how it could */
    bool usage;              /* of `lines`, some are of the command line */
};
#define CONFIG_PROBLEMS_MAX 100
void config_problem(struct config_problems *problems, const char *where, unsigned line,
                    const char *format, ...) __attribute__((format(printf, 4, 5)));
void config_unknown(struct config_problems *problems, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void config_warning(struct config_problems *problems, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void config_problems_release(struct config_problems *problems);

/* One value as it was written. */
struct config_value {
    const char *const *items;
    size_t count; /* 1 for a scalar */
    bool is_list;
    bool is_plain; /* a scalar without quotes: "true" and "null" are no texts then */
    bool is_open;  /* of LangBot's keys, a word that is none of the choices is taken too: its next
                      version may have more */
};

/* The table's defaults. */
void config_init(struct config *config);
void config_release(struct config *config);
/* Checks type and range; a value that is wrong leaves the old one. */
int config_set(struct config *config, const struct config_key *key,
               const struct config_value *value, struct error *err);
/* Flags and variables: one text. */
int config_set_text(struct config *config, const struct config_key *key, const char *text,
                    struct error *err);

/* Text of a file. `where` is for the problems. */
#define CONFIG_TEXT_MAX (1024 * 1024)
void config_read_yaml(struct config *config, const char *text, size_t size, const char *where,
                      struct config_problems *problems);
/* The tree itself, if all there is in it is a `box` around it. */
const json_t *config_tree_root(const json_t *tree);
/* LangBot's tree: numbers must be numbers in it, null is as good as no text or list, and what means
   nothing to boxd is not looked at. `set` (by key of the table; may be NULL) tells what was set.
   With `only_tree` keys that are not LangBot's are as unknown as any. */
void config_read_tree(struct config *config, const json_t *tree, const char *where, bool only_tree,
                      bool *set, struct config_problems *problems);
/* Every variable BOX__A__B of `environment`. */
void config_read_env(struct config *config, char *const *environment,
                     struct config_problems *problems);
/* -1 with `err` if it cannot be read at all; problems of its content are in `problems`. */
int config_read_file(struct config *config, const char *path, struct config_problems *problems,
                     struct error *err);

/* Fills in what depends on who and where we are (directories, the socket, allowed roots as they
   really are), and checks what needs more than one key. */
void config_settle(struct config *config, struct config_problems *problems);
/* Its part for LangBot's directories. Of roots and directories there is left what lies below the
   `ceiling`, roots that were settled before; NULL: all of it. What does not is told as a warning.
 */
void config_settle_local(struct config *config, const struct strings *ceiling,
                         struct config_problems *problems);

/* Paths of the keys that differ, from among those that SIGHUP changes or (`reload` false) does not.
 */
void config_differences(const struct config *old, const struct config *new, bool reload,
                        struct strings *ret);
/* Takes over what SIGHUP changes. */
void config_take_reloadable(struct config *config, const struct config *from);
/* Takes over the keys that are marked. */
void config_take(struct config *config, const struct config *from, const bool *marked);
void config_copy(struct config *to, const struct config *from);
/* Back to the table's defaults, with all that lies below "local"; marks those keys. */
void config_reset_section(struct config *config, const char *section, bool *marked);

/* The whole as a file with comments; the caller frees. */
char *config_print(const struct config *config);
