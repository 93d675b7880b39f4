/* SPDX-License-Identifier: Apache-2.0 */
/* The keys of the configuration. Names that LangBot's `box:` tree has are the same here and mean
   the same; LangBot can change those while boxd runs (box_init). Those of its keys that mean
   nothing here are accepted, so that one file can serve both. */
#include "daemon/config.h"

#include <stdio.h>
#include <string.h>

#include "core/parse.h"

#define AT(field) offsetof(struct config, field)
#define DAY       86400
#define YEAR      (365 * DAY)
#define KIB       1024ULL
#define MIB       (1024 * KIB)
#define GIB       (1024 * MIB)
#define FIXED     false /* needs a restart */
#define RELOAD    true
#define NONE      CONFIG_NOWHERE
#define TREE      true /* LangBot's */
#define LOG_WORDS "debug|info|warn|warning|error"
#define BACKENDS  "native|local|docker|podman|nsjail|e2b"

/* clang-format off */
const struct config_key config_keys[] = {
    /* Where it listens and lives */
    {"listen", CONFIG_SOCKETS, FIXED, AT(listen), "127.0.0.1:5410", 0, 16, NULL,
     "addresses to listen on, HOST:PORT each; empty: the Unix socket only"},
    {"socket", CONFIG_PATH, FIXED, AT(socket), "", 0, 107, NULL,
     "the Unix socket; empty: boxd.sock in run_dir"},
    {"token_file", CONFIG_PATH, RELOAD, AT(token_file), "", 0, 4095, NULL,
     "file with the bearer token, which TCP clients must send; empty: none"},
    {"run_dir", CONFIG_PATH, FIXED, AT(run_dir), "", 0, 4000, NULL,
     "sockets, records of live sessions, the lock; empty: /run/boxd, or $XDG_RUNTIME_DIR/boxd"},
    {"state_dir", CONFIG_PATH, FIXED, AT(state_dir), "", 0, 4000, NULL,
     "audit log and kept output; empty: /var/lib/boxd, or $XDG_STATE_HOME/boxd"},
    {"user", CONFIG_TEXT, FIXED, AT(user), "", 0, 32, NULL,
     "account the front becomes when root starts it; empty: boxd if there is one; root: none"},
    {"log.format", CONFIG_CHOICE, FIXED, AT(log_format), "text", 0, 0, "text|json",
     "form of the log on standard error"},
    {"log.level", CONFIG_CHOICE, RELOAD, AT(log_level), "info", 0, 0, LOG_WORDS,
     "least important events that are logged; warning is warn"},

    /* Sessions */
    {"backend", CONFIG_CHOICE, FIXED, AT(backend), "local", 0, 0, BACKENDS,
     "what runs sessions; local: the first there is of native, docker, podman, nsjail", TREE},
    {"adopt", CONFIG_BOOL, FIXED, AT(adopt), "true", 0, 0, NULL,
     "take over the sessions of an earlier boxd, and leave them to the next; false: end them"},
    {"outlive_sec", CONFIG_SECONDS, FIXED, AT(outlive_ms), "3600", 0, YEAR, NULL,
     "how long sessions wait for a boxd after this one; 0: they end with it"},
    {"ready_sessions", CONFIG_COUNT, FIXED, AT(ready_sessions), "1", 0, 16, NULL,
     "sessions made ahead while nobody waits, like the last ones that were asked for"},
    {"session_ttl_sec", CONFIG_SECONDS, RELOAD, AT(session_ttl_ms), "300", 1, YEAR, NULL,
     "idle time after which a session is ended"},
    {"limits.max_sessions", CONFIG_COUNT, RELOAD, AT(max_sessions), "64", 0, 5000, NULL,
     "live sessions", TREE},
    {"limits.max_managed_processes", CONFIG_COUNT, RELOAD, AT(max_managed_processes), "64", 0,
     1024, NULL, "managed processes of all sessions together", TREE},
    {"limits.max_completed_processes", CONFIG_COUNT, RELOAD, AT(max_completed_processes),
     "256", 0, 10000,
     NULL, "managed processes that have ended and are still known", TREE},
    {"limits.completed_process_retention_sec", CONFIG_SECONDS, RELOAD, AT(completed_retention_ms),
     "300", 0,
     DAY, NULL, "how long those are known", TREE},
    {"limits.max_queued_bytes", CONFIG_SIZE, RELOAD, AT(max_queued_bytes), "256M", 0, 64 * GIB, NULL,
     "input, arguments and environment of commands that have not taken them yet, all sessions "
     "together; counted from 64 KiB on, and one alone always goes"},
    {"sessions.network", CONFIG_CHOICE, RELOAD, AT(network), "off", 0, 0, "off|on",
     "network of a session whose spec does not say"},
    {"sessions.cpus", CONFIG_CPUS, RELOAD, AT(milli_cpus), "1", 10, 1024 * 1000, NULL,
     "likewise: CPUs, in parts too"},
    {"sessions.memory_mb", CONFIG_MEBIBYTES, RELOAD, AT(memory_mb), "512", 32, 16 * MIB, NULL,
     "likewise: memory"},
    {"sessions.pids_limit", CONFIG_COUNT, RELOAD, AT(pids_limit), "128", 1, 4 * MIB, NULL,
     "likewise: processes and threads"},
    {"sessions.read_only_rootfs", CONFIG_BOOL, RELOAD, AT(read_only_rootfs), "true", 0, 0, NULL,
     "likewise: whether everything outside /workspace and /tmp is read-only"},
    {"sessions.workspace_quota_mb", CONFIG_MEBIBYTES, RELOAD, AT(workspace_quota_mb), "0", 0,
     16 * MIB, NULL, "likewise: size of /workspace; 0: no limit of its own"},
    {"sessions.timeout_sec", CONFIG_SECONDS, RELOAD, AT(timeout_ms), "30", 1, YEAR, NULL,
     "time limit of a command that does not say"},
    {"sessions.max_timeout_sec", CONFIG_SECONDS, RELOAD, AT(max_timeout_ms), "0", 0, YEAR, NULL,
     "longest time limit a command may ask for; 0: any, and none"},
    {"mounts.allowed_roots", CONFIG_PATHS, FIXED, AT(allowed_roots), "", 0, 64, NULL,
     "host directories that may be mounted, with all below them, and no others; by default none: "
     "whoever may talk to boxd may have them"},
    {"network.allow", CONFIG_RANGES, FIXED, AT(allow_net), "", 0, 64, NULL,
     "private address ranges that sessions with a network may reach"},
    {"scratch_mb", CONFIG_MEBIBYTES, FIXED, AT(scratch_mb), "256", 1, 16 * MIB, NULL,
     "/tmp, /dev/shm, the home directory and a workspace in memory, together"},
    {"strict", CONFIG_BOOL, FIXED, AT(strict), "false", 0, 0, NULL,
     "refuse sessions that would have less than the full isolation"},

    /* What is kept */
    {"output.keep_bytes", CONFIG_SIZE, RELOAD, AT(keep_bytes), "1M", KIB, 64 * MIB, NULL,
     "of each stream of a command, in its result"},
    {"output.session_log_bytes", CONFIG_SIZE, RELOAD, AT(session_log_bytes),
     "16M", 0, 16 * GIB, NULL,
     "output kept for later reading, of each session"},
    {"audit.max_bytes", CONFIG_SIZE, RELOAD, AT(audit_bytes), "64M", 0, 64 * GIB, NULL,
     "size at which the audit log is rotated; 0: no audit log"},
    {"audit.files", CONFIG_COUNT, RELOAD, AT(audit_files), "5", 0, 1000, NULL,
     "old audit logs that are kept"},

    /* What strangers may do to the HTTP server */
    {"http.allowed_hosts", CONFIG_LIST, RELOAD, AT(allowed_hosts), "", 0, 256, NULL,
     "names in Host that are ours, besides IP addresses and localhost"},
    {"http.allowed_origins", CONFIG_LIST, RELOAD, AT(allowed_origins), "", 0, 256, NULL,
     "web origins whose pages may call, as browsers send them: https://example.org"},
    {"http.connections", CONFIG_COUNT, FIXED, AT(connections), "4096", 1, 1000000, NULL,
     "open connections"},
    {"http.head_bytes", CONFIG_SIZE, FIXED, AT(head_bytes), "32K", KIB, MIB, NULL,
     "request line and headers"},
    {"http.headers", CONFIG_COUNT, FIXED, AT(headers), "100", 8, 1000, NULL,
     "headers of a request"},
    {"http.head_sec", CONFIG_SECONDS, FIXED, AT(head_ms), "10", 1, 3600, NULL,
     "time for a request's head to arrive"},
    {"http.idle_sec", CONFIG_SECONDS, FIXED, AT(idle_ms), "75", 1, DAY, NULL,
     "how long a connection may stay without a request"},
    {"http.body_bytes", CONFIG_SIZE, RELOAD, AT(body_bytes), "16M", KIB, GIB, NULL,
     "a JSON body; files are bounded by their session's space instead"},
    {"http.body_stall_sec", CONFIG_SECONDS, FIXED, AT(body_stall_ms), "20", 1, 3600, NULL,
     "longest pause in the middle of a body"},
    {"http.body_rate", CONFIG_SIZE, FIXED, AT(body_rate), "1K", 0, GIB, NULL,
     "bytes a second that a body must come with, on average"},
    {"http.write_stall_sec", CONFIG_SECONDS, FIXED, AT(write_stall_ms), "60", 1, 3600, NULL,
     "how long a client may take nothing of an answer"},
    {"http.unsent_bytes", CONFIG_SIZE, FIXED, AT(unsent_bytes), "256K", 4 * KIB, 64 * MIB, NULL,
     "part of an answer that may wait for its client"},

    /* LangBot: whom boxd serves, and how far */
    {"control_token_file", CONFIG_PATH, RELOAD, AT(control_token_file), "", 0, 4095, NULL,
     "file with the control token that LangBot must send; empty: none"},
    {"trusted_instance", CONFIG_TEXT, FIXED, AT(trusted_instance), "", 0, 128, NULL,
     "the one LangBot instance that is served; empty: the first to come"},
    {"tenancy", CONFIG_CHOICE, FIXED, AT(tenancy), "optional", 0, 0, "optional|required",
     "whether LangBot must name the workspace it asks for, which it does from 0.5 on"},
    {"local.host_root", CONFIG_PATH, FIXED, AT(host_root), "", 0, 4000, NULL,
     "where LangBot's directories lie; the only allowed root if none are listed", TREE},
    {"local.allowed_mount_roots", CONFIG_PATHS, FIXED, AT(allowed_roots), "", 0, 64, NULL,
     "LangBot's name for mounts.allowed_roots", TREE},
    {"local.default_workspace", CONFIG_PATH, FIXED, AT(default_workspace), "", 0, 4000, NULL,
     "directory of workspaces, from local.host_root on; empty: default in that, if it is set", TREE},
    {"local.skills_root", CONFIG_PATH, FIXED, AT(skills_root), "skills", 0, 4000, NULL,
     "directory of skill packages, from local.host_root on; skills in state_dir if that is not set",
     TREE},
    {"skills.quota_mb", CONFIG_MEBIBYTES, RELOAD, AT(skills_quota_mb), "0", 0, 16 * MIB, NULL,
     "what the skills of one workspace may take, and those that are no workspace's; 0: no limit"},
    {"skills.writable", CONFIG_BOOL, RELOAD, AT(skills_writable), "false", 0, 0, NULL,
     "whether sessions may change the skills they ask for by name"},
    {"limits.max_admission_records", CONFIG_COUNT, RELOAD, AT(max_records), "100000", 1, 250000,
     NULL, "workspaces whose generation and grants are remembered", TREE},
    {"limits.max_rpc_file_bytes", CONFIG_SIZE, RELOAD, AT(max_file_bytes), "20M", 1, 100 * MIB,
     NULL, "a file that LangBot sends", TREE},

    /* What a workspace may have where it needs a grant */
    {"admission.required", CONFIG_BOOL, RELOAD, AT(admission_required), "false", 0, 0, NULL,
     "whether sandboxes need a grant by LangBot; only a restart makes it false again", TREE},
    {"admission.max_sessions", CONFIG_COUNT, RELOAD, AT(admission_sessions), "1", 0, 1, NULL,
     "sessions of a workspace", TREE},
    {"admission.max_managed_processes", CONFIG_COUNT, RELOAD, AT(admission_processes), "0", 0, 0,
     NULL, "managed processes of a workspace", TREE},
    {"admission.max_grant_ttl_sec", CONFIG_SECONDS, RELOAD, AT(admission_grant_ms), "300", 1, YEAR,
     NULL, "how far ahead a grant may end", TREE},
    {"admission.max_timeout_sec", CONFIG_SECONDS, RELOAD, AT(admission_timeout_ms), "120", 1, YEAR,
     NULL, "time limit of a command; longer ones are cut to it", TREE},
    {"admission.cpus", CONFIG_CPUS, RELOAD, AT(admission_milli_cpus), "1", 10, 1024 * 1000, NULL,
     "CPUs of the session", TREE},
    {"admission.memory_mb", CONFIG_MEBIBYTES, RELOAD, AT(admission_memory_mb), "512", 32, 16 * MIB,
     NULL, "its memory", TREE},
    {"admission.pids_limit", CONFIG_COUNT, RELOAD, AT(admission_pids), "128", 1, 4 * MIB, NULL,
     "its processes and threads", TREE},
    {"admission.read_only_rootfs", CONFIG_BOOL, RELOAD, AT(admission_read_only), "true", 0, 0, NULL,
     "whether everything outside /workspace and /tmp is read-only in it", TREE},
    {"admission.workspace_quota_mb", CONFIG_MEBIBYTES, RELOAD, AT(admission_quota_mb), "0", 0,
     16 * MIB, NULL, "size of its /workspace; 0 is no limit, with which it is never ready", TREE},
    {"admission.readiness_cache_sec", CONFIG_SECONDS, RELOAD, AT(admission_cache_ms), "15", 0, YEAR,
     NULL, "how long a readiness that was tried is believed", TREE},

    /* Accepted and checked, no more */
    {"admission.logical_session_id", CONFIG_CHOICE, FIXED, NONE, "global", 0, 0, "global", "",
     TREE},
    {"admission.required_backend", CONFIG_CHOICE, FIXED, NONE, "nsjail", 0, 0, "nsjail|native", "",
     TREE},
    {"default_memory_mb", CONFIG_MEBIBYTES, FIXED, NONE, "1536", 0, 16 * MIB, NULL, "", TREE},
    {"docker.cpu_limit_enabled", CONFIG_BOOL, FIXED, NONE, "true", 0, 0, NULL, "", TREE},
    {"e2b.api_key", CONFIG_TEXT, FIXED, NONE, "", 0, 4096, NULL, "", TREE},
    {"e2b.api_url", CONFIG_TEXT, FIXED, NONE, "", 0, 4096, NULL, "", TREE},
    {"e2b.template", CONFIG_TEXT, FIXED, NONE, "", 0, 4096, NULL, "", TREE},
    {"enabled", CONFIG_BOOL, FIXED, NONE, "true", 0, 0, NULL, "", TREE},
    {"limits.max_workspace_entries", CONFIG_COUNT, FIXED, NONE, "100000", 1, 1000000, NULL, "",
     TREE},
    {"local.image", CONFIG_TEXT, FIXED, NONE, "", 0, 4096, NULL, "", TREE},
    {"local.profile", CONFIG_TEXT, FIXED, NONE, "default", 0, 128, NULL, "", TREE},
    {"local.workspace_quota_mb", CONFIG_MEBIBYTES, FIXED, NONE, "0", 0, 16 * MIB, NULL, "", TREE},
    {"profile", CONFIG_TEXT, FIXED, NONE, "default", 0, 128, NULL, "", TREE},
    {"runtime.endpoint", CONFIG_TEXT, FIXED, NONE, "", 0, 4096, NULL, "", TREE},
};
/* clang-format on */

const size_t config_key_count = ARRAY_SIZE(config_keys);

const char *config_type_name(enum config_type type)
{
    static const char *const names[CONFIG_TYPE_MAX] = {
#define X(name, text) text,
        CONFIG_TYPES(X)
#undef X
    };
    return names[type];
}

const struct config_key *config_key_find(const char *path)
{
    for (size_t i = 0; i < config_key_count; i++)
        if (strcmp(config_keys[i].path, path) == 0)
            return &config_keys[i];
    return NULL;
}

bool config_is_section(const char *path)
{
    size_t length = strlen(path);
    for (size_t i = 0; i < config_key_count; i++)
        if (strncmp(config_keys[i].path, path, length) == 0 && config_keys[i].path[length] == '.')
            return true;
    return false;
}

static void add_once(struct strings *list, char *text)
{
    for (size_t i = 0; i < list->count; i++) {
        if (strcmp(list->items[i], text) == 0) {
            free(text);
            return;
        }
    }
    strings_take(list, text);
}

/* Names that may stand where the last one of `path` stands: what comes next below the same section.
 */
static void add_siblings(struct strings *list, const char *path, size_t prefix)
{
    for (size_t i = 0; i < config_key_count; i++) {
        const char *key = config_keys[i].path;
        if (strncmp(key, path, prefix) == 0)
            add_once(list, xstrndup(key + prefix, strcspn(key + prefix, ".")));
    }
}

char *config_key_nearest(const char *path)
{
    cleanup_strings struct strings near = {0};
    const char *dot = strrchr(path, '.');
    size_t prefix = dot ? (size_t)(dot - path) + 1 : 0;
    /* In the wrong section, perhaps: "max_sessions" is "limits.max_sessions". */
    for (size_t i = 0; i < config_key_count; i++) {
        const char *last = strrchr(config_keys[i].path, '.');
        if (strcmp(last ? last + 1 : config_keys[i].path, path + prefix) == 0)
            return xstrdup(config_keys[i].path);
    }
    add_siblings(&near, path, prefix);
    const char *found = nearest_word(path + prefix, (const char *const *)near.items, near.count);
    return found ? xasprintf("%.*s%s", (int)prefix, path, found) : NULL;
}
