/* SPDX-License-Identifier: Apache-2.0 */
/* What each option about a sandbox or a command notes in a struct run_options. */
#include "cli/run-apply.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "core/parse.h"
#include "core/path.h"
#include "sandbox/net.h"

/* --- values --------------------------------------------------------------------------------------
 */

static int size_value(const char *value, uint64_t *ret, struct error *err)
{
    if (parse_size(value, ret) < 0)
        return error_set(err, ERROR_INVALID, "'%.64s' is not a size, such as 256M or 1.5G", value);
    return 0;
}

static char *absolute(const char *path, const char *cwd, struct error *err)
{
    cleanup_free char *joined = path[0] == '/' ? xstrdup(path) : xasprintf("%s/%s", cwd, path);
    char *clean = path_normalise(joined, err);
    if (!clean && err && strstr(joined, ".."))
        error_hint(err, "name it without '..': \"$(realpath %.200s)\"", path);
    return clean;
}

int run_parse_mount(struct sandbox_spec *spec, const char *text, const char *cwd, struct error *err)
{
    static const char *const modes[] = {"ro", "rw"};
    const char *colon = strchr(text, ':');
    if (!colon || colon == text || colon[1] != '/')
        return error_set(err, ERROR_INVALID, "'%.200s' is not SRC:DST[:ro|rw] with an absolute DST",
                         text);
    cleanup_free char *given = xstrndup(text, (size_t)(colon - text));
    cleanup_free char *target = xstrdup(colon + 1);
    const char *mode = "rw";
    char *second = strchr(target, ':');
    if (second) {
        *second = '\0';
        mode = second + 1;
        if (strcmp(mode, "ro") != 0 && strcmp(mode, "rw") != 0)
            return options_unknown_word(mode, modes, ARRAY_SIZE(modes), err);
    }
    cleanup_free char *source = absolute(given, cwd, err);
    if (!source)
        return -1;
    return sandbox_spec_add_mount(spec, source, target, strcmp(mode, "rw") == 0, err);
}

int run_parse_quota(struct sandbox_spec *spec, const char *text, struct error *err)
{
    uint64_t bytes;
    uint64_t inodes = 0;
    size_t length = strcspn(text, ",");
    cleanup_free char *size = xstrndup(text, length);
    if (size_value(size, &bytes, err) < 0)
        return -1;
    if (bytes == 0)
        return error_set(err, ERROR_INVALID, "a quota of nothing");
    if (text[length] == ',' && parse_u64(text + length + 1, UINT32_MAX, &inodes) < 0)
        return error_set(err, ERROR_INVALID, "'%.64s' is not a number of inodes",
                         text + length + 1);
    spec->quota_bytes = bytes;
    spec->quota_inodes = inodes;
    return 0;
}

static int current_directory(char *ret, size_t size, struct error *err)
{
    return getcwd(ret, size) ? 0 : error_errno(err, errno, "cannot tell the current directory");
}

/* --- one function an option ----------------------------------------------------------------------
 */

#define APPLY(name)                                                           \
    int apply_##name(void *target, const char *value __attribute__((unused)), \
                     struct error *err __attribute__((unused)))

#define SWITCH(name, field)                           \
    APPLY(name)                                       \
    {                                                 \
        ((struct run_options *)target)->field = true; \
        return 0;                                     \
    }

SWITCH(writable, spec.writable_root)
SWITCH(read_only, read_only)
SWITCH(strict, spec.strict)
SWITCH(interactive, interactive)
SWITCH(terminal, terminal)
SWITCH(plan, plan)
SWITCH(quiet, quiet)
SWITCH(create, create)
SWITCH(persistent, persistent)
SWITCH(concurrent, concurrent)

APPLY(network)
{
    static const char *const words[] = {
#define X(name, text) text,
        NETWORK_MODES(X)
#undef X
    };
    enum network_mode mode = network_mode_from_name(value);
    if (mode == NETWORK_MODE_INVALID)
        return options_unknown_word(value, words, ARRAY_SIZE(words), err);
    ((struct run_options *)target)->spec.network = mode;
    ((struct run_options *)target)->given |= GIVEN_NETWORK;
    return 0;
}

APPLY(seccomp)
{
    static const char *const words[] = {
#define X(name, text) text,
        SECCOMP_PROFILES(X)
#undef X
    };
    enum seccomp_profile profile = seccomp_profile_from_name(value);
    if (profile == SECCOMP_PROFILE_INVALID)
        return options_unknown_word(value, words, ARRAY_SIZE(words), err);
    ((struct run_options *)target)->spec.seccomp = profile;
    ((struct run_options *)target)->given |= GIVEN_SECCOMP;
    return 0;
}

/* Which ones there are depends on who makes the session: see run_options_check(). */
APPLY(image)
{
    struct run_options *options = target;
    free(options->spec.image);
    options->spec.image = xstrdup(value);
    options->given |= GIVEN_IMAGE;
    return 0;
}

APPLY(session)
{
    if (value[0] == '\0')
        return error_set(err, ERROR_INVALID, "the name is empty");
    ((struct run_options *)target)->session = value;
    return 0;
}

APPLY(process_id)
{
    if (value[0] == '\0')
        return error_set(err, ERROR_INVALID, "the name is empty");
    ((struct run_options *)target)->process_id = value;
    return 0;
}

APPLY(allow_net)
{
    struct sandbox_spec *spec = &((struct run_options *)target)->spec;
    struct net_cidr cidr;
    if (spec->allow_net.count == SPEC_ALLOW_MAX)
        return error_set(err, ERROR_LIMIT, "more than %d of them", SPEC_ALLOW_MAX);
    if (net_cidr_parse(value, &cidr, err) < 0)
        return -1;
    strings_add(&spec->allow_net, value);
    return 0;
}

APPLY(memory)
{
    struct sandbox_spec *spec = &((struct run_options *)target)->spec;
    spec->asked |= SPEC_ASKED_MEMORY;
    return size_value(value, &spec->memory_bytes, err);
}

APPLY(cpus)
{
    struct sandbox_spec *spec = &((struct run_options *)target)->spec;
    uint64_t milli;
    if (parse_milli(value, &milli) < 0 || milli == 0 || milli > UINT32_MAX)
        return error_set(err, ERROR_INVALID, "'%.64s' is not a number of CPUs, such as 0.5", value);
    spec->asked |= SPEC_ASKED_CPU;
    spec->cpu_milli = (uint32_t)milli;
    return 0;
}

APPLY(pids)
{
    struct sandbox_spec *spec = &((struct run_options *)target)->spec;
    uint64_t count;
    if (parse_u64(value, UINT32_MAX, &count) < 0)
        return error_set(err, ERROR_INVALID, "'%.64s' is not a number of processes", value);
    spec->asked |= SPEC_ASKED_PIDS;
    spec->pids = (uint32_t)count;
    return 0;
}

APPLY(timeout)
{
    uint64_t ms;
    /* Nothing at all is no limit; next to nothing, which becomes 0 too, is not meant so. */
    if (parse_duration(value, &ms) < 0 || (ms == 0 && strpbrk(value, "123456789")))
        return error_set(err, ERROR_INVALID,
                         "'%.64s' is not a time, such as 10, 1.5s or 5m; 0 is none", value);
    ((struct run_options *)target)->timeout_ms = ms;
    ((struct run_options *)target)->given |= GIVEN_TIMEOUT;
    return 0;
}

APPLY(mount)
{
    char cwd[PATH_MAX] = "";
    if (value[0] != '/' && current_directory(cwd, sizeof cwd, err) < 0)
        return -1;
    return run_parse_mount(&((struct run_options *)target)->spec, value, cwd, err);
}

APPLY(ro_path)
{
    struct sandbox_spec *spec = &((struct run_options *)target)->spec;
    char cwd[PATH_MAX] = "";
    if (value[0] != '/' && current_directory(cwd, sizeof cwd, err) < 0)
        return -1;
    cleanup_free char *path = absolute(value, cwd, err);
    return path ? sandbox_spec_add_ro_path(spec, path, err) : -1;
}

APPLY(quota)
{
    return run_parse_quota(&((struct run_options *)target)->spec, value, err);
}

APPLY(tmp_size)
{
    ((struct run_options *)target)->given |= GIVEN_TMP_SIZE;
    return size_value(value, &((struct run_options *)target)->spec.scratch_bytes, err);
}

APPLY(workdir)
{
    struct run_options *options = target;
    char *path = path_normalise(value, err);
    if (!path)
        return -1;
    free(options->workdir);
    options->workdir = path;
    return 0;
}

APPLY(env)
{
    if (value[0] == '\0' || value[0] == '=')
        return error_set(err, ERROR_INVALID, "'%.64s' has no name before the '='", value);
    strings_add(&((struct run_options *)target)->env, value);
    return 0;
}

APPLY(env_file)
{
    strings_add(&((struct run_options *)target)->env_files, value);
    return 0;
}

APPLY(skill)
{
    if (value[0] == '\0')
        return error_set(err, ERROR_INVALID, "the name is empty");
    strings_add(&((struct run_options *)target)->skills, value);
    return 0;
}
