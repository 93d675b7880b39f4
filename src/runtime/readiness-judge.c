/* SPDX-License-Identifier: Apache-2.0 */
/* From what a trial session told to checks, each with the reason why not. What was not told is as
   bad as what is wrong. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "runtime/readiness-internal.h"

#define MIB         (1024ULL * 1024)
#define MESSAGE_MIN 80

static const char *const check_names[READINESS_MAX] = {
#define X(name, text) [READINESS_##name] = text,
    READINESS_CHECKS(X)
#undef X
};

const char *readiness_name(enum readiness_check check)
{
    return (unsigned)check < READINESS_MAX ? check_names[check] : "invalid";
}

void check_passed(struct readiness_result *result, enum readiness_check check)
{
    result->checks[check].ok = true;
    result->checks[check].reason[0] = '\0';
}

void check_failed(struct readiness_result *result, enum readiness_check check, const char *format,
                  ...)
{
    va_list args;
    va_start(args, format);
    result->checks[check].ok = false;
    vsnprintf(result->checks[check].reason, sizeof result->checks[check].reason, format, args);
    va_end(args);
}

void check_failed_by(struct readiness_result *result, enum readiness_check check,
                     const struct error *err)
{
    /* Of a long message the end goes, and not what is to be done. */
    int room = (int)sizeof result->checks[check].reason - 3 - (int)strlen(err->hint);
    check_failed(result, check, "%.*s%s%s", room < MESSAGE_MIN ? MESSAGE_MIN : room, err->message,
                 err->hint[0] ? "; " : "", err->hint);
}

/* --- isolation -------------------------------------------------------------------------------- */

/* The namespace that is boxd's own, or that nobody told of; NULL: none. */
static const char *common_namespace(const struct trial_report *report)
{
    for (unsigned i = 0; i < TRIAL_NAMESPACE_MAX; i++) {
        const char *name = trial_namespace_name(i);
        char path[32];
        char own[32];
        snprintf(path, sizeof path, "/proc/self/ns/%s", name);
        ssize_t length = readlink(path, own, sizeof own - 1);
        if (length <= 0 || !report->namespaces[i][0])
            return name;
        own[length] = '\0';
        if (strcmp(own, report->namespaces[i]) == 0)
            return name;
    }
    return NULL;
}

static void judge_network(const struct trial_report *report, struct readiness_result *result)
{
    if (report->interface[0])
        check_failed(result, READINESS_NETWORK_ISOLATION,
                     "a sandbox without network sees the interface %s; run 'box doctor'",
                     report->interface);
    else if (!report->namespaces[TRIAL_NAMESPACE_net][0])
        check_failed(result, READINESS_NETWORK_ISOLATION,
                     "a sandbox could not tell its network namespace; run 'box doctor'");
    else
        check_passed(result, READINESS_NETWORK_ISOLATION);
}

static void judge_mounts(const struct trial_report *report, struct readiness_result *result)
{
    if (!report->mounts)
        check_failed(result, READINESS_MOUNT_ISOLATION,
                     "a sandbox could not tell its mounts; run 'box doctor'");
    else if (report->writable[0])
        check_failed(result, READINESS_MOUNT_ISOLATION,
                     "a sandbox can write to the mount %s; run 'box doctor'", report->writable);
    else if (report->shared[0])
        check_failed(result, READINESS_MOUNT_ISOLATION,
                     "the host sees what a sandbox mounts in %s; run 'box doctor'", report->shared);
    else
        check_passed(result, READINESS_MOUNT_ISOLATION);
}

void judge_isolation(const struct trial_report *report, const char *notes,
                     struct readiness_result *result)
{
    const char *common = common_namespace(report);
    if (common)
        check_failed(result, READINESS_NAMESPACE_ISOLATION,
                     "a sandbox has no %s namespace of its own; run 'box doctor'", common);
    else if (notes[0])
        check_failed(result, READINESS_NAMESPACE_ISOLATION,
                     "sandboxes are weaker than promised: "
                     "%.*s",
                     (int)strcspn(notes, "\n"), notes);
    else
        check_passed(result, READINESS_NAMESPACE_ISOLATION);
    judge_network(report, result);
    judge_mounts(report, result);
}

/* --- storage ---------------------------------------------------------------------------------- */

static const char *unbounded_place(const struct trial_report *report, bool inodes)
{
    for (unsigned i = 0; i < TRIAL_PLACE_MAX; i++) {
        const struct place_report *place = &report->places[i];
        bool bounded =
            inodes ? place->inodes > 0 : place->bytes > 0 && place->takes && !place->overflows;
        if (!place->told || !bounded)
            return trial_place_name(i);
    }
    return NULL;
}

void judge_places(const struct trial_report *report, struct readiness_result *result)
{
    const char *place = unbounded_place(report, false);
    const char *inodes = unbounded_place(report, true);
    if (place)
        check_failed(result, READINESS_BOUNDED_EPHEMERAL_STORAGE,
                     "%s of a sandbox has no limit that could be seen to hold; run 'box doctor'",
                     place);
    else
        check_passed(result, READINESS_BOUNDED_EPHEMERAL_STORAGE);
    if (inodes)
        check_failed(result, READINESS_INODE_QUOTA,
                     "%s of a sandbox has no limit on files; run 'box doctor'", inodes);
    else
        check_passed(result, READINESS_INODE_QUOTA);
}

/* It must be the quota that ends it, and not something that fails much earlier. */
bool judge_quota_bytes(const struct trial_report *report, char *ret_reason, size_t size)
{
    const struct quota_report *quota = &report->quota;
    uint64_t limit = TRIAL_QUOTA_MB * MIB;
    if (quota->told && !quota->filled && quota->bytes >= limit / 2 && quota->bytes <= limit)
        return true;
    if (!quota->told)
        snprintf(ret_reason, size, "a sandbox could not try its quota of %d MiB", TRIAL_QUOTA_MB);
    else
        snprintf(ret_reason, size,
                 "a sandbox with a quota of %d MiB wrote %llu bytes; see docs/storage.md",
                 TRIAL_QUOTA_MB, (unsigned long long)quota->bytes);
    return false;
}

bool judge_quota_files(const struct trial_report *report, char *ret_reason, size_t size)
{
    const struct quota_report *quota = &report->quota;
    if (quota->told && !quota->made && quota->files > 0)
        return true;
    if (!quota->told)
        snprintf(ret_reason, size, "a sandbox could not try to use up its inodes");
    else
        snprintf(ret_reason, size,
                 "a sandbox with a quota of %d MiB made %llu files; see docs/storage.md",
                 TRIAL_QUOTA_MB, (unsigned long long)quota->files);
    return false;
}
