/* SPDX-License-Identifier: Apache-2.0 */
/* The options of the verbs that run something: one row each. */
#include "cli/run-options.h"

#include <string.h>

#include "cli/run-apply.h"

/* clang-format off */

/* --- rows ---------------------------------------------------------------------------------------
 */

#define ROW_NETWORK   {"network", 0, "off|on", "reach nothing (default), or public addresses only", apply_network}
#define ROW_MOUNT     {"mount", 0, "SRC:DST[:ro|rw]", "show a host directory; may be repeated", apply_mount}
#define ROW_RO_PATH   {"ro-path", 0, "PATH", "show a host path where it is, read-only; repeatable", apply_ro_path}
#define ROW_READ_ONLY {"read-only", 0, NULL, "write to /workspace, /tmp and home only (default)", apply_read_only}
#define ROW_WRITABLE  {"writable", 0, NULL, "write anywhere; the host's own files stay as they are", apply_writable}
#define ROW_WORKDIR   {"workdir", 0, "DIR", "where the command starts (default /workspace)", apply_workdir}
#define ROW_ENV       {"env", 0, "K=V", "set a variable; K alone passes yours on; repeatable", apply_env}
#define ROW_ENV_FILE  {"env-file", 0, "FILE", "variables, one a line; may be repeated", apply_env_file}
#define ROW_INPUT     {"interactive", 'i', NULL, "feed standard input to the command", apply_interactive}
#define ROW_RESULT    {"json", 0, NULL, "print one JSON object: the result, output included", client_apply_json}
#define ROW_QUIET     {"quiet", 0, NULL, "no remarks of box's own", apply_quiet}
#define ROW_SKILL     {"skill", 0, "SKILL", "show a skill of boxd's at /workspace/.skills; repeatable", apply_skill}
#define ROW_CREATE    {"create", 0, NULL, "make the session if it is not there", apply_create}

const struct option run_option_table[] = {
    ROW_NETWORK,
    {"allow-net", 0, "CIDR", "also this private range; may be repeated", apply_allow_net},
    {"memory", 0, "SIZE", "memory of all its processes (default 1G)", apply_memory},
    {"cpus", 0, "N", "CPU time, in CPUs (default 1)", apply_cpus},
    {"pids", 0, "N", "processes and threads at once (default 256)", apply_pids},
    {"timeout", 0, "TIME", "end everything after it: 10, 1.5s, 5m (default none)", apply_timeout},
    ROW_MOUNT,
    ROW_RO_PATH,
    ROW_READ_ONLY,
    ROW_WRITABLE,
    {"image", 0, "host", "the root file system", apply_image},
    {"seccomp", 0, "PROFILE", "system calls: default, strict, or dev (debuggers)", apply_seccomp},
    {"workspace-quota", 0, "SIZE[,INODES]", "hard limit on /workspace", apply_quota},
    {"tmp-size", 0, "SIZE", "of /tmp, home, and /workspace in memory (default 256M)", apply_tmp_size},
    ROW_WORKDIR,
    ROW_ENV,
    ROW_ENV_FILE,
    ROW_INPUT,
    {"tty", 't', NULL, "give it a terminal of its own; feeds standard input too", apply_terminal},
    ROW_RESULT,
    {"plan", 0, NULL, "print what would be done, as JSON, and do nothing", apply_plan},
    ROW_QUIET,
    {"strict", 0, NULL, "refuse to run with less isolation than promised", apply_strict},
    {"session", 0, "NAME", "run it in that session of boxd's, made if it is not there", apply_session},
    ROW_SKILL,
    CLIENT_OPTIONS,
    {0},
};

const struct option create_option_table[] = {
    ROW_NETWORK,
    {"memory", 0, "SIZE", "memory of all its processes (default 512M)", apply_memory},
    {"cpus", 0, "N", "CPU time, in CPUs (default 1)", apply_cpus},
    {"pids", 0, "N", "processes and threads at once (default 128)", apply_pids},
    ROW_MOUNT,
    ROW_RO_PATH,
    ROW_READ_ONLY,
    ROW_WRITABLE,
    {"image", 0, "IMAGE", "the root file system (default: the host's)", apply_image},
    {"workspace-quota", 0, "SIZE", "hard limit on /workspace", apply_quota},
    {"persistent", 0, NULL, "keep it, however long nobody uses it", apply_persistent},
    ROW_SKILL,
    CLIENT_OPTION_JSON,
    ROW_QUIET,
    CLIENT_OPTIONS,
    {0},
};

const struct option exec_option_table[] = {
    {"timeout", 0, "TIME", "end it after 10, 1.5s, 5m; 0: never (default 30s)", apply_timeout},
    ROW_ENV,
    ROW_ENV_FILE,
    ROW_WORKDIR,
    ROW_INPUT,
    {"concurrent", 0, NULL, "beside the session's other commands, not after them", apply_concurrent},
    ROW_CREATE,
    ROW_SKILL,
    ROW_RESULT,
    ROW_QUIET,
    CLIENT_OPTIONS,
    {0},
};

const struct option shell_option_table[] = {
    ROW_WORKDIR,
    ROW_CREATE,
    CLIENT_OPTIONS,
    {0},
};

const struct option start_option_table[] = {
    {"id", 0, "ID", "the name of the process (default: default)", apply_process_id},
    ROW_ENV,
    ROW_ENV_FILE,
    ROW_WORKDIR,
    {"memory", 0, "SIZE", "a limit of its own, below the session's", apply_memory},
    ROW_CREATE,
    CLIENT_OPTION_JSON,
    CLIENT_OPTIONS,
    {0},
};

/* clang-format on */

void run_options_init(struct run_options *options)
{
    *options = (struct run_options){0};
    sandbox_spec_init(&options->spec);
    options->spec.single = true;
}

void run_options_release(struct run_options *options)
{
    sandbox_spec_release(&options->spec);
    strings_release(&options->env);
    strings_release(&options->env_files);
    strings_release(&options->skills);
    free(options->workdir);
}

int run_options_check(const struct run_options *options, struct error *err)
{
    static const char *const images[] = {"host"};
    if (options->spec.writable_root && options->read_only)
        return error_set(err, ERROR_INVALID, "--writable and --read-only contradict each other");
    if (!options->session && (options->client.url || options->client.token_file))
        return error_set(err, ERROR_INVALID, "--url and --token-file are for --session");
    if (!options->session && options->skills.count > 0) {
        error_set(err, ERROR_INVALID, "--skill is for --session: it is boxd that keeps skills");
        return error_hint(err, "show the directory itself: --mount DIR:/workspace/.skills/NAME:ro");
    }
    if (!options->session && strcmp(options->spec.image, images[0]) != 0) {
        options_unknown_word(options->spec.image, images, ARRAY_SIZE(images), err);
        return error_wrap(err, "--image");
    }
    if (options->client.json && options->terminal)
        return error_set(err, ERROR_INVALID, "--json keeps the output, --tty shows it: only one");
    /* boxd has ranges of its own, and says so itself. */
    if (!options->session && sandbox_spec_check(&options->spec, err) < 0)
        return -1;
    if ((!options->plan || options->session) && (!options->command || !options->command[0]))
        return error_set(err, ERROR_INVALID, "no command given; see box run --help");
    return 0;
}
