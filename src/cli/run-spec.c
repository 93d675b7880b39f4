/* SPDX-License-Identifier: Apache-2.0 */
/* What was asked for on the command line, as boxd's REST interface takes it. */
#include <string.h>
#include <unistd.h>

#include "cli/environment.h"
#include "cli/run-options.h"

#define MIB (1024u * 1024)

/* Options that only a sandbox of `box run`'s own has, and what to do instead. */
static int refuse_foreign(const struct run_options *options, struct error *err)
{
    const struct {
        bool given;
        const char *option;
        const char *instead;
    } foreign[] = {
        {options->terminal, "--tty", "box shell SESSION COMMAND gives a command a terminal"},
        {options->plan, "--plan", "box inspect SESSION shows what a session is"},
        {options->spec.strict, "--strict", "whether boxd is strict is set in its configuration"},
        {options->spec.allow_net.count > 0, "--allow-net",
         "which private ranges sessions reach is set in boxd's configuration"},
        {options->given & GIVEN_SECCOMP, "--seccomp", "sessions of boxd have the default profile"},
        {options->given & GIVEN_TMP_SIZE, "--tmp-size",
         "the size of /tmp is set in boxd's configuration"},
        {options->spec.quota_inodes > 0, "--workspace-quota with a number of inodes",
         "leave the number away: --workspace-quota SIZE"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(foreign); i++) {
        if (!foreign[i].given)
            continue;
        error_set(err, ERROR_INVALID, "%s has no meaning for a session of boxd's",
                  foreign[i].option);
        return error_hint(err, "%s", foreign[i].instead);
    }
    return 0;
}

static json_t *mebibytes(uint64_t bytes)
{
    uint64_t count = bytes / MIB + (bytes % MIB != 0);
    return json_integer((json_int_t)count);
}

static int set_text(json_t *object, const char *key, const char *text, struct error *err)
{
    if (json_object_set_new(object, key, json_string(text)) < 0)
        return error_set(err, ERROR_INVALID, "'%.200s' is not UTF-8, which boxd needs", text);
    return 0;
}

static int add_mount(json_t *mounts, const char *source, const char *target, bool writable,
                     struct error *err)
{
    json_t *mount = json_object();
    json_array_append_new(mounts, mount);
    json_object_set_new(mount, "mode", json_string(writable ? "rw" : "ro"));
    if (set_text(mount, "host_path", source, err) < 0)
        return -1;
    return set_text(mount, "mount_path", target, err);
}

/* What is mounted at /workspace is the session's own directory, with its rules (quota, working
   directory); everything else is beside it. */
static int set_mounts(json_t *object, const struct sandbox_spec *spec, struct error *err)
{
    cleanup_json json_t *others = json_array();
    for (size_t i = 0; i < spec->mount_count; i++) {
        const struct spec_mount *mount = &spec->mounts[i];
        int rc;
        if (strcmp(mount->target, SPEC_WORKSPACE) == 0) {
            rc = set_text(object, "host_path", mount->source, err);
            json_object_set_new(object, "host_path_mode",
                                json_string(mount->writable ? "rw" : "ro"));
        } else {
            rc = add_mount(others, mount->source, mount->target, mount->writable, err);
        }
        if (rc < 0)
            return -1;
    }
    for (size_t i = 0; i < spec->ro_paths.count; i++) {
        if (add_mount(others, spec->ro_paths.items[i], spec->ro_paths.items[i], false, err) < 0)
            return -1;
    }
    if (json_array_size(others) > 0)
        json_object_set(object, "extra_mounts", others);
    return 0;
}

static int set_skills(json_t *object, const struct strings *skills, struct error *err)
{
    cleanup_json json_t *names = json_array();
    for (size_t i = 0; i < skills->count; i++) {
        if (json_array_append_new(names, json_string(skills->items[i])) < 0)
            return error_set(err, ERROR_INVALID, "--skill: a name that is not UTF-8");
    }
    if (skills->count > 0)
        json_object_set(object, "skills", names);
    return 0;
}

static void set_limits(json_t *object, const struct sandbox_spec *spec)
{
    if (spec->asked & SPEC_ASKED_MEMORY)
        json_object_set_new(object, "memory_mb", mebibytes(spec->memory_bytes));
    if (spec->asked & SPEC_ASKED_CPU)
        json_object_set_new(object, "cpus", json_real(spec->cpu_milli / 1000.0));
    if (spec->asked & SPEC_ASKED_PIDS)
        json_object_set_new(object, "pids_limit", json_integer(spec->pids));
    if (spec->quota_bytes > 0)
        json_object_set_new(object, "workspace_quota_mb", mebibytes(spec->quota_bytes));
}

int run_options_to_spec(const struct run_options *options, json_t **ret, struct error *err)
{
    const struct sandbox_spec *spec = &options->spec;
    cleanup_json json_t *object = json_object();
    if (refuse_foreign(options, err) < 0 || set_mounts(object, spec, err) < 0 ||
        set_skills(object, &options->skills, err) < 0)
        return -1;
    set_limits(object, spec);
    if (options->given & GIVEN_NETWORK)
        json_object_set_new(object, "network", json_string(network_mode_name(spec->network)));
    if (options->given & GIVEN_IMAGE && set_text(object, "image", spec->image, err) < 0)
        return -1;
    if (spec->writable_root || options->read_only)
        json_object_set_new(object, "read_only_rootfs", json_boolean(!spec->writable_root));
    if (options->persistent)
        json_object_set_new(object, "persistent", json_true());
    *ret = steal_ptr(object);
    return 0;
}

int run_options_env(const struct run_options *options, json_t **ret, struct error *err)
{
    cleanup_strings struct strings env = {0};
    cleanup_json json_t *object = json_object();
    for (size_t i = 0; i < options->env_files.count; i++) {
        if (environment_read(&env, options->env_files.items[i], environ, err) < 0)
            return -1;
    }
    for (size_t i = 0; i < options->env.count; i++) {
        if (environment_set(&env, options->env.items[i], environ, err) < 0)
            return -1;
    }
    for (size_t i = 0; i < env.count; i++) {
        size_t length = strcspn(env.items[i], "=");
        cleanup_free char *name = xstrndup(env.items[i], length);
        /* The value may be a secret: it is not quoted in a message. */
        if (json_object_set_new(object, name, json_string(env.items[i] + length + 1)) < 0)
            return error_set(err, ERROR_INVALID, "variable '%.64s' is not UTF-8, which boxd needs",
                             name);
    }
    *ret = steal_ptr(object);
    return 0;
}
