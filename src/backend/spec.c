/* SPDX-License-Identifier: Apache-2.0 */
/* What a session is to be: defaults, copies, and the checks that need no machine. */
#include "backend/spec.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "core/path.h"
#include "core/utf8.h"

#define SPEC_CPUS_MAX      1024.0
#define SPEC_MEMORY_MIN_MB 32
#define SPEC_MEMORY_MAX_MB (16ull * 1024 * 1024)
#define SPEC_PIDS_MAX      (4u * 1024 * 1024)
#define SPEC_QUOTA_MAX_MB  (1024ull * 1024 * 1024)
#define SPEC_IMAGE_MAX     512

static const char *const mount_mode_names[MOUNT_MODE_MAX] = {
#define X(name, text) [MOUNT_##name] = text,
    MOUNT_MODES(X)
#undef X
};

const char *spec_field_name(enum spec_field field)
{
    static const char *const names[SPEC_FIELD_MAX] = {
#define X(name, text) [SPEC_##name] = text,
        SPEC_FIELDS(X)
#undef X
    };
    return names[field];
}

const char *mount_mode_name(enum mount_mode mode)
{
    return (unsigned)mode < MOUNT_MODE_MAX ? mount_mode_names[mode] : "invalid";
}

enum mount_mode mount_mode_from_name(const char *name)
{
    for (int i = 0; name && i < MOUNT_MODE_MAX; i++) {
        if (strcmp(name, mount_mode_names[i]) == 0)
            return (enum mount_mode)i;
    }
    return MOUNT_MODE_INVALID;
}

void session_spec_init(struct session_spec *spec)
{
    *spec = (struct session_spec){
        .image = xstrdup(SESSION_IMAGE_DEFAULT),
        .host_path_mode = MOUNT_RW,
        .mount_path = xstrdup(SESSION_MOUNT_PATH),
        .cpus = 1.0,
        .memory_mb = 512,
        .pids_limit = 128,
        .read_only_rootfs = true,
        .named = UINT32_MAX,
        .recreate = true,
    };
}

void session_spec_release(struct session_spec *spec)
{
    free(spec->name);
    free(spec->image);
    free(spec->host_path);
    free(spec->mount_path);
    for (size_t i = 0; i < spec->mount_count; i++) {
        free(spec->mounts[i].host_path);
        free(spec->mounts[i].mount_path);
    }
    strings_release(&spec->skills);
    *spec = (struct session_spec){0};
}

static char *copy_text(const char *text)
{
    return text ? xstrdup(text) : NULL;
}

void session_spec_copy(struct session_spec *to, const struct session_spec *from)
{
    *to = *from;
    to->name = copy_text(from->name);
    to->image = copy_text(from->image);
    to->host_path = copy_text(from->host_path);
    to->mount_path = copy_text(from->mount_path);
    for (size_t i = 0; i < from->mount_count; i++) {
        to->mounts[i].host_path = copy_text(from->mounts[i].host_path);
        to->mounts[i].mount_path = copy_text(from->mounts[i].mount_path);
    }
    to->skills = (struct strings){0};
    strings_copy(&to->skills, &from->skills);
}

/* Control characters and ill-formed UTF-8 would go on into logs, records and answers. */
static bool is_clean_text(const char *text)
{
    size_t length = strlen(text);
    bool ascii = true;
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c < 0x20 || c == 0x7f)
            return false;
        /* U+0080 to U+009F: the C1 controls */
        if (c == 0xc2 && (unsigned char)text[i + 1] >= 0x80 && (unsigned char)text[i + 1] <= 0x9f)
            return false;
        ascii = ascii && c < 0x80;
    }
    if (ascii)
        return true;
    size_t size;
    cleanup_free char *repaired = utf8_repair(text, length, &size);
    return size == length && memcmp(repaired, text, size) == 0;
}

static int check_name(const char *name, struct error *err)
{
    if (!name || !name[0])
        return error_set(err, ERROR_INVALID, "session_id is empty");
    if (strlen(name) > SESSION_NAME_MAX)
        return error_set(err, ERROR_INVALID, "session_id is longer than %d bytes",
                         SESSION_NAME_MAX);
    if (!is_clean_text(name))
        return error_set(err, ERROR_INVALID,
                         "session_id has control characters or is not valid UTF-8");
    return 0;
}

static int check_path(const char *field, const char *path, struct error *err)
{
    if (!path)
        return error_set(err, ERROR_INVALID, "%s is missing", field);
    cleanup_free char *normal = path_normalise(path, err);
    if (!normal)
        return error_wrap(err, "%s", field);
    if (!is_clean_text(path))
        return error_set(err, ERROR_INVALID, "%s has control characters or is not valid UTF-8",
                         field);
    return 0;
}

static int check_mounts(const struct session_spec *spec, struct error *err)
{
    if (spec->mount_count > SESSION_MOUNTS_MAX)
        return error_set(err, ERROR_INVALID, "more than %d extra_mounts", SESSION_MOUNTS_MAX);
    for (size_t i = 0; i < spec->mount_count; i++) {
        const struct session_mount *mount = &spec->mounts[i];
        if (check_path("host_path", mount->host_path, err) < 0 ||
            check_path("mount_path", mount->mount_path, err) < 0)
            return error_wrap(err, "extra_mounts[%zu]", i);
        if ((unsigned)mount->mode >= MOUNT_MODE_MAX)
            return error_set(err, ERROR_INVALID, "extra_mounts[%zu]: mode is none, ro or rw", i);
    }
    return 0;
}

static int check_limits(const struct session_spec *spec, struct error *err)
{
    if (!isfinite(spec->cpus) || spec->cpus <= 0 || spec->cpus > SPEC_CPUS_MAX)
        return error_set(err, ERROR_INVALID, "cpus must be above 0 and at most %g", SPEC_CPUS_MAX);
    if (spec->memory_mb < SPEC_MEMORY_MIN_MB || spec->memory_mb > SPEC_MEMORY_MAX_MB)
        return error_set(err, ERROR_INVALID, "memory_mb must be from %d to %llu",
                         SPEC_MEMORY_MIN_MB, SPEC_MEMORY_MAX_MB);
    if (spec->pids_limit < 1 || spec->pids_limit > SPEC_PIDS_MAX)
        return error_set(err, ERROR_INVALID, "pids_limit must be from 1 to %u", SPEC_PIDS_MAX);
    if (spec->workspace_quota_mb > SPEC_QUOTA_MAX_MB)
        return error_set(err, ERROR_INVALID, "workspace_quota_mb must be at most %llu",
                         SPEC_QUOTA_MAX_MB);
    return 0;
}

int session_spec_check(const struct session_spec *spec, struct error *err)
{
    if (check_name(spec->name, err) < 0)
        return -1;
    if (!spec->image || !spec->image[0] || strlen(spec->image) > SPEC_IMAGE_MAX ||
        !is_clean_text(spec->image))
        return error_set(err, ERROR_INVALID,
                         "image must be a name of 1 to %d bytes without control characters",
                         SPEC_IMAGE_MAX);
    if (spec->host_path && check_path("host_path", spec->host_path, err) < 0)
        return -1;
    if ((unsigned)spec->host_path_mode >= MOUNT_MODE_MAX)
        return error_set(err, ERROR_INVALID, "host_path_mode is none, ro or rw");
    if (check_path("mount_path", spec->mount_path, err) < 0)
        return -1;
    if (check_mounts(spec, err) < 0)
        return -1;
    return check_limits(spec, err);
}
