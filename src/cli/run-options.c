/* SPDX-License-Identifier: Apache-2.0 */
/* The options of `box run`: one row each, and what each notes in the spec. */
#include "cli/run-options.h"

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

#define APPLY(name)                                                                  \
    static int apply_##name(void *target, const char *value __attribute__((unused)), \
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
SWITCH(json, json)
SWITCH(plan, plan)
SWITCH(quiet, quiet)

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
    return 0;
}

APPLY(image)
{
    static const char *const words[] = {"host"};
    struct sandbox_spec *spec = &((struct run_options *)target)->spec;
    if (strcmp(value, words[0]) != 0)
        return options_unknown_word(value, words, ARRAY_SIZE(words), err);
    free(spec->image);
    spec->image = xstrdup(value);
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
    if (parse_duration(value, &ms) < 0 || ms == 0)
        return error_set(err, ERROR_INVALID, "'%.64s' is not a time, such as 10, 1.5s or 5m",
                         value);
    ((struct run_options *)target)->timeout_ms = ms;
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

/* --- the table -----------------------------------------------------------------------------------
 */

/* clang-format off */
const struct option run_option_table[] = {
    {"network", 0, "off|on", "reach nothing (default), or public addresses only", apply_network},
    {"allow-net", 0, "CIDR", "also this private range; may be repeated", apply_allow_net},
    {"memory", 0, "SIZE", "memory of all its processes (default 1G)", apply_memory},
    {"cpus", 0, "N", "CPU time, in CPUs (default 1)", apply_cpus},
    {"pids", 0, "N", "processes and threads at once (default 256)", apply_pids},
    {"timeout", 0, "TIME", "end everything after it: 10, 1.5s, 5m", apply_timeout},
    {"mount", 0, "SRC:DST[:ro|rw]", "show a host directory; may be repeated", apply_mount},
    {"ro-path", 0, "PATH", "show a host path where it is, read-only; repeatable", apply_ro_path},
    {"read-only", 0, NULL, "write to /workspace, /tmp and home only (default)", apply_read_only},
    {"writable", 0, NULL, "write anywhere; the host's own files stay as they are", apply_writable},
    {"image", 0, "host", "the root file system", apply_image},
    {"seccomp", 0, "PROFILE", "system calls: default, strict, or dev (debuggers)", apply_seccomp},
    {"workspace-quota", 0, "SIZE[,INODES]", "hard limit on /workspace", apply_quota},
    {"tmp-size", 0, "SIZE", "of /tmp, home, and /workspace in memory (default 256M)", apply_tmp_size},
    {"workdir", 0, "DIR", "where the command starts (default /workspace)", apply_workdir},
    {"env", 0, "K=V", "set a variable; K alone passes yours on; repeatable", apply_env},
    {"env-file", 0, "FILE", "variables, one a line; may be repeated", apply_env_file},
    {"interactive", 'i', NULL, "feed standard input to the command", apply_interactive},
    {"tty", 't', NULL, "give it a terminal of its own; feeds standard input too", apply_terminal},
    {"json", 0, NULL, "print one JSON object: the result, output included", apply_json},
    {"plan", 0, NULL, "print what would be done, as JSON, and do nothing", apply_plan},
    {"quiet", 0, NULL, "no remarks of box's own", apply_quiet},
    {"strict", 0, NULL, "refuse to run with less isolation than promised", apply_strict},
    {0},
};
/* clang-format on */

void run_options_init(struct run_options *options)
{
    *options = (struct run_options){.workdir = xstrdup(SPEC_WORKSPACE)};
    sandbox_spec_init(&options->spec);
    options->spec.single = true;
}

void run_options_release(struct run_options *options)
{
    sandbox_spec_release(&options->spec);
    strings_release(&options->env);
    strings_release(&options->env_files);
    free(options->workdir);
}

int run_options_check(const struct run_options *options, struct error *err)
{
    if (options->spec.writable_root && options->read_only)
        return error_set(err, ERROR_INVALID, "--writable and --read-only contradict each other");
    if (options->json && options->terminal)
        return error_set(err, ERROR_INVALID, "--json keeps the output, --tty shows it: only one");
    if (sandbox_spec_check(&options->spec, err) < 0)
        return -1;
    if (!options->plan && (!options->command || !options->command[0]))
        return error_set(err, ERROR_INVALID, "no command given; see box run --help");
    return 0;
}
