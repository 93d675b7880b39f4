/* SPDX-License-Identifier: Apache-2.0 */
/* What a trial session runs, and what it says. The script only observes and tries; it prints a line
   for each thing it found, and nothing is decided in it. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "runtime/readiness-internal.h"

#define LINE_MAX_BYTES 1024
#define FILL_BLOCK     65536u
#define FILL_BLOCKS    (2u * TRIAL_QUOTA_MB * 1024 * 1024 / FILL_BLOCK)
/* Project quota gives an inode for each 16 KiB, and one. */
#define FILES_TRIED (2u * (TRIAL_QUOTA_MB * 1024 * 1024 / 16384 + 1))

static const char *const namespace_names[] = {
#define X(name) [TRIAL_NAMESPACE_##name] = #name,
    TRIAL_NAMESPACES(X)
#undef X
};

static const char *const place_names[] = {
#define X(name, text) [TRIAL_##name] = text,
    TRIAL_PLACES(X)
#undef X
};

const char *trial_namespace_name(enum trial_namespace which)
{
    return namespace_names[which];
}

const char *trial_place_name(enum trial_place which)
{
    return place_names[which];
}

/* --- the script ------------------------------------------------------------------------------- */

#define X(name) " " #name
static const char script_isolation[] = "for n in" TRIAL_NAMESPACES(
    X) "; do\n"
       "  echo \"ns $n $(readlink /proc/self/ns/$n)\"\n"
       "done\n"
       "tail -n +3 /proc/net/dev | while read -r name rest; do echo \"if $name\"; done\n"
       "while read -r line; do echo \"mount $line\"; done </proc/self/mountinfo\n"
       /* A file system in memory refuses at once to allocate more than it has in all, so that what
          it enforces is seen without filling the session's memory. Its inodes are told by the
          number that the kernel compares with; to use them all up would take as much memory. */
       "place() {\n"
       "  set -- $1 $2 $(stat -f -c '%b %S %c' $2)\n"
       "  fallocate -l 65536 $2/.boxd-small; small=$?\n"
       "  fallocate -l $(($3 * $4 + 65536)) $2/.boxd-large; large=$?\n"
       "  rm -f $2/.boxd-small $2/.boxd-large\n"
       "  echo \"place $1 $(($3 * $4)) $5 $small $large\"\n"
       "}\n"
       "place /tmp /tmp\n"
       "place home \"$HOME\"\n"
       "place /dev/shm /dev/shm\n";
#undef X

/* What an earlier trial left that was killed goes first, or it would count. */
static const char script_workspace[] = "cd /workspace || exit\n"
                                       "rm -rf -- * .[!.]*\n";

static char *script_quota(void)
{
    return xasprintf("dd if=/dev/zero of=fill bs=%u count=%u conv=fsync\n"
                     "echo \"fill $? $(stat -c %%s fill)\"\n"
                     "rm -f fill\n"
                     "mkdir files\n"
                     "i=0\n"
                     "while [ $i -lt %u ] && true >files/$i; do i=$((i + 1)); done\n"
                     "echo \"files $i\"\n"
                     "rm -rf files\n",
                     FILL_BLOCK, FILL_BLOCKS, FILES_TRIED);
}

char *trial_script(bool isolation, bool quota, const char *marker, const char *token)
{
    cleanup_free char *storage = quota ? script_quota() : xstrdup("");
    cleanup_free char *mark =
        marker ? xasprintf("printf %%s %s >%s\n", token, marker) : xstrdup("");
    return xasprintf("%s%s%s%secho end\n", isolation ? script_isolation : "",
                     quota || marker ? script_workspace : "", storage, mark);
}

/* --- the report ------------------------------------------------------------------------------- */

struct parsing {
    struct trial_report *report;
    bool writable_root;
};

static void take_namespace(const struct parsing *parsing, const char *rest)
{
    char name[16];
    char value[32];
    if (sscanf(rest, "%15s %31s", name, value) != 2)
        return;
    for (size_t i = 0; i < TRIAL_NAMESPACE_MAX; i++) {
        if (strcmp(name, namespace_names[i]) == 0)
            memcpy(parsing->report->namespaces[i], value, sizeof value);
    }
}

static void take_interface(const struct parsing *parsing, const char *rest)
{
    if (strcmp(rest, "lo:") != 0)
        snprintf(parsing->report->interface, sizeof parsing->report->interface, "%.*s",
                 (int)strcspn(rest, ":"), rest);
}

/* Where a sandbox may write, and what must be there. */
static const struct {
    const char *path;
    const char *type; /* NULL: any */
} writable_places[] = {
    {SESSION_MOUNT_PATH, NULL}, {"/tmp", "tmpfs"},      {"/home/box", "tmpfs"},
    {"/dev/shm", "tmpfs"},      {"/dev/pts", "devpts"}, {"/proc", "proc"},
    {"/dev/null", NULL},        {"/dev/zero", NULL},    {"/dev/full", NULL},
    {"/dev/random", NULL},      {"/dev/urandom", NULL}, {"/dev/tty", NULL},
};

static bool may_be_writable(const struct parsing *parsing, const char *path, const char *type)
{
    for (size_t i = 0; i < ARRAY_SIZE(writable_places); i++) {
        if (strcmp(path, writable_places[i].path) == 0)
            return !writable_places[i].type || strcmp(type, writable_places[i].type) == 0;
    }
    /* Layers over the host's files, and a root in memory. */
    return parsing->writable_root &&
           (strcmp(type, "overlay") == 0 || (strcmp(path, "/") == 0 && strcmp(type, "tmpfs") == 0));
}

/* As proc_pid_mountinfo(5) has it: id, parent, device, root, mount point, options, fields that may
   be missing, "-", type. */
static void take_mount(const struct parsing *parsing, const char *rest)
{
    struct trial_report *report = parsing->report;
    char path[128];
    char options[128];
    char type[32];
    const char *dash = strstr(rest, " - ");
    if (sscanf(rest, "%*s %*s %*s %*s %127s %127s", path, options) != 2 || !dash ||
        sscanf(dash + 3, "%31s", type) != 1) {
        snprintf(report->writable, sizeof report->writable, "%s", "a mount that cannot be read");
        return;
    }
    report->mounts = true;
    const char *shared = strstr(rest, " shared:");
    if (shared && shared < dash)
        memcpy(report->shared, path, sizeof path);
    bool read_only = strncmp(options, "ro", 2) == 0 && (options[2] == ',' || !options[2]);
    if (!read_only && !may_be_writable(parsing, path, type))
        memcpy(report->writable, path, sizeof path);
}

static void take_place(const struct parsing *parsing, const char *rest)
{
    char name[16];
    struct place_report place = {.told = true};
    int small;
    int large;
    if (sscanf(rest, "%15s %" SCNu64 " %" SCNu64 " %d %d", name, &place.bytes, &place.inodes,
               &small, &large) != 5)
        return;
    place.takes = small == 0;
    place.overflows = large == 0;
    for (size_t i = 0; i < TRIAL_PLACE_MAX; i++) {
        if (strcmp(name, place_names[i]) == 0)
            parsing->report->places[i] = place;
    }
}

static void take_fill(const struct parsing *parsing, const char *rest)
{
    struct quota_report *quota = &parsing->report->quota;
    int status;
    quota->told = sscanf(rest, "%d %" SCNu64, &status, &quota->bytes) == 2;
    quota->filled = quota->told && status == 0;
}

static void take_files(const struct parsing *parsing, const char *rest)
{
    struct quota_report *quota = &parsing->report->quota;
    quota->told = quota->told && sscanf(rest, "%" SCNu64, &quota->files) == 1;
    quota->made = quota->files >= FILES_TRIED;
}

static void take_end(const struct parsing *parsing, const char *rest)
{
    (void)rest;
    parsing->report->ended = true;
}

static const struct {
    const char *word;
    void (*take)(const struct parsing *parsing, const char *rest);
} lines[] = {
    {"ns ", take_namespace}, {"if ", take_interface}, {"mount ", take_mount},
    {"place ", take_place},  {"fill ", take_fill},    {"files ", take_files},
    {"end", take_end},
};

void trial_report_parse(const char *text, size_t size, bool writable_root, struct trial_report *ret)
{
    const struct parsing parsing = {.report = ret, .writable_root = writable_root};
    char line[LINE_MAX_BYTES];
    *ret = (struct trial_report){0};
    while (size > 0) {
        const char *end = memchr(text, '\n', size);
        size_t length = end ? (size_t)(end - text) : size;
        size_t kept = length < sizeof line ? length : sizeof line - 1;
        memcpy(line, text, kept);
        line[kept] = '\0';
        for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
            if (strncmp(line, lines[i].word, strlen(lines[i].word)) == 0)
                lines[i].take(&parsing, line + strlen(lines[i].word));
        }
        text += length + (end != NULL);
        size -= length + (end != NULL);
    }
}
