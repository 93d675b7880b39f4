/* SPDX-License-Identifier: Apache-2.0 */
/* Specs: defaults, checks, and their form on the wire. */
#include "sandbox/spec.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "core/path.h"
#include "sandbox/net.h"

#define MIB            (1024ULL * 1024)
#define MEMORY_MIN     (4 * MIB)
#define SCRATCH_MIN    (64ULL * 1024)
#define QUOTA_MIN      (1 * MIB)
#define SIZE_LIMIT_MAX (1ULL << 50)

static const char *const network_names[NETWORK_MODE_MAX] = {
#define X(name, text) [NETWORK_##name] = text,
    NETWORK_MODES(X)
#undef X
};

const char *network_mode_name(enum network_mode mode)
{
    return (unsigned)mode < NETWORK_MODE_MAX ? network_names[mode] : "invalid";
}

enum network_mode network_mode_from_name(const char *name)
{
    for (int i = 0; i < NETWORK_MODE_MAX; i++) {
        if (strcmp(name, network_names[i]) == 0)
            return (enum network_mode)i;
    }
    return NETWORK_MODE_INVALID;
}

void sandbox_spec_init(struct sandbox_spec *spec)
{
    *spec = (struct sandbox_spec){
        .image = xstrdup("host"),
        .network = NETWORK_OFF,
        .memory_bytes = 1024 * MIB,
        .cpu_milli = 1000,
        .pids = 256,
        .scratch_bytes = 256 * MIB,
        .scratch_inodes = 65536,
        .workspace = xstrdup(SPEC_WORKSPACE),
        .seccomp = SECCOMP_DEFAULT,
    };
}

void sandbox_spec_release(struct sandbox_spec *spec)
{
    free(spec->image);
    free(spec->workspace);
    strings_release(&spec->allow_net);
    strings_release(&spec->ro_paths);
    for (size_t i = 0; i < spec->mount_count; i++) {
        free(spec->mounts[i].source);
        free(spec->mounts[i].target);
    }
    *spec = (struct sandbox_spec){0};
}

int sandbox_spec_add_mount(struct sandbox_spec *spec, const char *source, const char *target,
                           bool writable, struct error *err)
{
    if (spec->mount_count == SPEC_MOUNTS_MAX)
        return error_set(err, ERROR_LIMIT, "more than %d mounts", SPEC_MOUNTS_MAX);
    cleanup_free char *clean_source = path_normalise(source, err);
    if (!clean_source)
        return error_wrap(err, "mount source");
    cleanup_free char *clean_target = path_normalise(target, err);
    if (!clean_target)
        return error_wrap(err, "mount target");
    spec->mounts[spec->mount_count++] = (struct spec_mount){
        .source = steal_ptr(clean_source),
        .target = steal_ptr(clean_target),
        .writable = writable,
    };
    return 0;
}

int sandbox_spec_set_workspace(struct sandbox_spec *spec, const char *path, struct error *err)
{
    char *clean = path_normalise(path, err);
    if (!clean)
        return error_wrap(err, "workspace");
    free(spec->workspace);
    spec->workspace = clean;
    return 0;
}

int sandbox_spec_add_ro_path(struct sandbox_spec *spec, const char *path, struct error *err)
{
    if (spec->ro_paths.count == SPEC_PATHS_MAX)
        return error_set(err, ERROR_LIMIT, "more than %d read-only paths", SPEC_PATHS_MAX);
    char *clean = path_normalise(path, err);
    if (!clean)
        return error_wrap(err, "read-only path");
    strings_take(&spec->ro_paths, clean);
    return 0;
}

/* Places that the sandbox itself is made of: a mount there would undo a protection. */
static int check_target(const char *target, struct error *err)
{
    static const char *const owned[] = {"/proc", "/sys", "/dev"};
    static const char *const exact[] = {"/",      "/usr",    "/bin", "/sbin", "/lib", "/lib32",
                                        "/lib64", "/libx32", "/etc", "/tmp",  "/home"};
    for (size_t i = 0; i < ARRAY_SIZE(owned); i++) {
        if (path_is_below(target, owned[i]))
            return error_set(err, ERROR_INVALID, "mount target '%s' lies in %s of the sandbox",
                             target, owned[i]);
    }
    for (size_t i = 0; i < ARRAY_SIZE(exact); i++) {
        if (strcmp(target, exact[i]) == 0)
            return error_set(err, ERROR_INVALID,
                             "mount target '%s' would replace the sandbox's own", target);
    }
    return 0;
}

static int check_mounts(const struct sandbox_spec *spec, struct error *err)
{
    if (!spec->workspace || check_target(spec->workspace, err) < 0)
        return error_wrap(err, "workspace");
    for (size_t i = 0; i < spec->ro_paths.count; i++) {
        if (check_target(spec->ro_paths.items[i], err) < 0)
            return error_wrap(err, "read-only path");
    }
    for (size_t i = 0; i < spec->mount_count; i++) {
        if (check_target(spec->mounts[i].target, err) < 0)
            return -1;
        for (size_t j = 0; j < i; j++) {
            if (strcmp(spec->mounts[i].target, spec->mounts[j].target) == 0)
                return error_set(err, ERROR_INVALID, "mount target '%s' is given twice",
                                 spec->mounts[i].target);
        }
    }
    return 0;
}

static int check_limits(const struct sandbox_spec *spec, struct error *err)
{
    if (spec->memory_bytes < MEMORY_MIN || spec->memory_bytes > SIZE_LIMIT_MAX)
        return error_set(err, ERROR_INVALID, "memory limit must be at least 4M");
    if (spec->cpu_milli < 10 || spec->cpu_milli > 1024 * 1000)
        return error_set(err, ERROR_INVALID, "cpus must be between 0.01 and 1024");
    if (spec->pids < 1 || spec->pids > 4 * 1024 * 1024)
        return error_set(err, ERROR_INVALID, "pids must be between 1 and 4194304");
    if (spec->scratch_bytes < SCRATCH_MIN || spec->scratch_bytes > SIZE_LIMIT_MAX)
        return error_set(err, ERROR_INVALID, "tmp size must be at least 64K");
    if (spec->scratch_inodes < 16 || spec->scratch_inodes > UINT32_MAX)
        return error_set(err, ERROR_INVALID, "tmp inodes must be at least 16");
    if (spec->quota_bytes != 0 &&
        (spec->quota_bytes < QUOTA_MIN || spec->quota_bytes > SIZE_LIMIT_MAX))
        return error_set(err, ERROR_INVALID, "workspace quota must be at least 1M");
    if (spec->quota_inodes > UINT32_MAX || (spec->quota_inodes != 0 && spec->quota_bytes == 0))
        return error_set(err, ERROR_INVALID, "workspace inodes need a workspace quota");
    return 0;
}

int sandbox_spec_check(const struct sandbox_spec *spec, struct error *err)
{
    struct net_cidr cidr;
    if (strcmp(spec->image, "host") != 0) {
        error_set(err, ERROR_UNSUPPORTED, "image '%.100s' is not known", spec->image);
        return error_hint(err, "the root file system available is 'host'");
    }
    if ((unsigned)spec->network >= NETWORK_MODE_MAX)
        return error_set(err, ERROR_INVALID, "network mode out of range");
    if ((unsigned)spec->seccomp >= SECCOMP_PROFILE_MAX)
        return error_set(err, ERROR_INVALID, "seccomp profile out of range");
    if (spec->allow_net.count > 0 && spec->network == NETWORK_OFF)
        return error_set(err, ERROR_INVALID, "allowed networks need the network on");
    for (size_t i = 0; i < spec->allow_net.count; i++) {
        if (net_cidr_parse(spec->allow_net.items[i], &cidr, err) < 0)
            return -1;
    }
    if (spec->key[0] && (strlen(spec->key) != SPEC_KEY_MAX - 1 ||
                         strspn(spec->key, "0123456789abcdef") != SPEC_KEY_MAX - 1))
        return error_set(err, ERROR_INVALID, "a key has 16 hex digits");
    if (check_limits(spec, err) < 0)
        return -1;
    return check_mounts(spec, err);
}

void sandbox_spec_bounded(const struct sandbox_spec *spec, struct strings *ret)
{
    strings_add(ret, "/tmp"); /* and with it all that shares its memory */
    if (spec->quota_bytes > 0)
        strings_add(ret, spec->workspace);
    if (spec->writable_root) {
        strings_add(ret, "/");
        strings_add(ret, "/usr");
    }
}

static void encode_strings(struct wire_writer *w, const struct strings *list)
{
    wire_put_u32(w, (uint32_t)list->count);
    for (size_t i = 0; i < list->count; i++)
        wire_put_string(w, list->items[i]);
}

void sandbox_spec_encode(const struct sandbox_spec *spec, struct wire_writer *w)
{
    wire_put_string(w, spec->image);
    wire_put_u32(w, (uint32_t)spec->network);
    encode_strings(w, &spec->allow_net);
    wire_put_u32(w, (uint32_t)spec->mount_count);
    for (size_t i = 0; i < spec->mount_count; i++) {
        wire_put_string(w, spec->mounts[i].source);
        wire_put_string(w, spec->mounts[i].target);
        wire_put_u32(w, spec->mounts[i].writable);
        wire_put_u32(w, spec->mounts[i].make);
    }
    encode_strings(w, &spec->ro_paths);
    wire_put_u32(w, spec->writable_root);
    wire_put_u64(w, spec->memory_bytes);
    wire_put_u32(w, spec->cpu_milli);
    wire_put_u32(w, spec->pids);
    wire_put_u32(w, spec->asked);
    wire_put_u64(w, spec->scratch_bytes);
    wire_put_u64(w, spec->scratch_inodes);
    wire_put_string(w, spec->workspace);
    wire_put_u64(w, spec->quota_bytes);
    wire_put_u64(w, spec->quota_inodes);
    wire_put_u32(w, (uint32_t)spec->seccomp);
    wire_put_u32(w, spec->strict);
    wire_put_u32(w, spec->single);
    wire_put_string(w, spec->key);
}

static bool get_bool(struct wire_reader *r)
{
    uint32_t value = wire_get_u32(r);
    if (value > 1)
        r->bad = true;
    return value == 1;
}

static void decode_strings(struct wire_reader *r, uint32_t max, size_t length, struct strings *ret)
{
    uint32_t count = wire_get_count(r, max);
    for (uint32_t i = 0; i < count && !r->bad; i++)
        strings_add(ret, wire_get_string(r, length));
}

static void decode_ro_paths(struct wire_reader *r, struct sandbox_spec *spec, struct error *err)
{
    uint32_t count = wire_get_count(r, SPEC_PATHS_MAX);
    for (uint32_t i = 0; i < count && !r->bad; i++) {
        const char *path = wire_get_string(r, PATH_MAX - 1);
        if (!r->bad && sandbox_spec_add_ro_path(spec, path, err) < 0)
            r->bad = true;
    }
}

static void decode_mounts(struct wire_reader *r, struct sandbox_spec *spec, struct error *err)
{
    uint32_t count = wire_get_count(r, SPEC_MOUNTS_MAX);
    for (uint32_t i = 0; i < count && !r->bad; i++) {
        const char *source = wire_get_string(r, PATH_MAX - 1);
        const char *target = wire_get_string(r, PATH_MAX - 1);
        bool writable = get_bool(r);
        bool make = get_bool(r);
        if (!r->bad && sandbox_spec_add_mount(spec, source, target, writable, err) < 0)
            r->bad = true;
        if (!r->bad)
            spec->mounts[i].make = make;
    }
}

static void decode_workspace(struct wire_reader *r, struct sandbox_spec *spec, struct error *err)
{
    const char *path = wire_get_string(r, PATH_MAX - 1);
    if (!r->bad && sandbox_spec_set_workspace(spec, path, err) < 0)
        r->bad = true;
}

int sandbox_spec_decode(struct wire_reader *r, struct sandbox_spec *ret, struct error *err)
{
    struct sandbox_spec spec = {0};
    struct error inner = ERROR_INIT;
    spec.image = xstrdup(wire_get_string(r, 255));
    spec.network = (enum network_mode)wire_get_u32(r);
    decode_strings(r, SPEC_ALLOW_MAX, 64, &spec.allow_net);
    decode_mounts(r, &spec, &inner);
    decode_ro_paths(r, &spec, &inner);
    spec.writable_root = get_bool(r);
    spec.memory_bytes = wire_get_u64(r);
    spec.cpu_milli = wire_get_u32(r);
    spec.pids = wire_get_u32(r);
    spec.asked = wire_get_u32(r);
    spec.scratch_bytes = wire_get_u64(r);
    spec.scratch_inodes = wire_get_u64(r);
    decode_workspace(r, &spec, &inner);
    spec.quota_bytes = wire_get_u64(r);
    spec.quota_inodes = wire_get_u64(r);
    spec.seccomp = (enum seccomp_profile)wire_get_u32(r);
    spec.strict = get_bool(r);
    spec.single = get_bool(r);
    snprintf(spec.key, sizeof spec.key, "%s", wire_get_string(r, sizeof spec.key - 1));
    if (!wire_done(r)) {
        error_set(err, ERROR_PROTOCOL, "malformed spec%s%s", inner.message[0] ? ": " : "",
                  inner.message);
        sandbox_spec_release(&spec);
        return -1;
    }
    if (sandbox_spec_check(&spec, err) < 0) {
        sandbox_spec_release(&spec);
        return -1;
    }
    *ret = spec;
    return 0;
}
