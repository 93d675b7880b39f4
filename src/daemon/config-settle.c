/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration meets the machine: the file is read, directories get their defaults, paths
   become absolute, and what takes several keys to judge is judged. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "core/fd.h"
#include "core/parse.h"
#include "core/path.h"
#include "daemon/config.h"

#define WHERE "configuration"

int config_read_file(struct config *config, const char *path, struct config_problems *problems,
                     struct error *err)
{
    cleanup_close int fd = open(path, O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return error_errno(err, errno, "cannot read the configuration %s", path);
    if (!S_ISREG(st.st_mode))
        return error_set(err, ERROR_INVALID, "the configuration %s is not a regular file", path);
    cleanup_free char *text = xmalloc(CONFIG_TEXT_MAX + 1);
    size_t size = 0;
    ssize_t n;
    while ((n = read(fd, text + size, CONFIG_TEXT_MAX + 1 - size)) > 0)
        size += (size_t)n;
    if (n < 0)
        return error_errno(err, errno, "cannot read the configuration %s", path);
    config_read_yaml(config, text, size, path, problems);
    return 0;
}

/* --- paths --- */

/* From where we are, and in normal form. NULL with a problem if there is none. */
static char *absolute(const char *key, const char *path, struct config_problems *problems)
{
    struct error err = ERROR_INIT;
    char here[PATH_MAX];
    cleanup_free char *joined = NULL;
    if (path[0] == '/')
        joined = xstrdup(path);
    else if (getcwd(here, sizeof here))
        joined = xasprintf("%s/%s", here, path);
    char *normal = joined ? path_normalise(joined, &err) : NULL;
    if (!normal)
        config_problem(problems, WHERE, 0, "%s: %s", key, joined ? err.message : "no directory");
    return normal;
}

static void make_absolute(const char *key, char **path, struct config_problems *problems)
{
    char *normal = **path ? absolute(key, *path, problems) : NULL;
    if (!normal)
        return;
    free(*path);
    *path = normal;
}

static void set_default(char **path, char *value)
{
    if (**path) {
        free(value);
        return;
    }
    free(*path);
    *path = value;
}

static const char *absolute_variable(const char *name)
{
    const char *value = getenv(name);
    return value && value[0] == '/' ? value : NULL;
}

/* Root's places are the system's; an ordinary user's are those of the XDG base directories. */
static void default_directories(struct config *config, struct config_problems *problems)
{
    if (geteuid() == 0) {
        set_default(&config->run_dir, xstrdup("/run/boxd"));
        set_default(&config->state_dir, xstrdup("/var/lib/boxd"));
        return;
    }
    const char *home = absolute_variable("HOME");
    const char *state = absolute_variable("XDG_STATE_HOME");
    const char *run = absolute_variable("XDG_RUNTIME_DIR");
    if (!home && !(state && run)) {
        if (!*config->run_dir || !*config->state_dir)
            config_problem(problems, WHERE, 0, "HOME is not set, so run_dir and state_dir must be");
        return;
    }
    cleanup_free char *base = state ? xstrdup(state) : xasprintf("%s/.local/state", home);
    set_default(&config->state_dir, xasprintf("%s/boxd", base));
    set_default(&config->run_dir, run ? xasprintf("%s/boxd", run) : xasprintf("%s/boxd/run", base));
}

static void settle_roots(struct config *config, struct config_problems *problems)
{
    struct strings roots = {0};
    if (config->allowed_roots.count == 0 && *config->host_root)
        strings_add(&config->allowed_roots, config->host_root);
    for (size_t i = 0; i < config->allowed_roots.count; i++) {
        char *path = absolute("mounts.allowed_roots", config->allowed_roots.items[i], problems);
        if (path)
            strings_take(&roots, path);
    }
    strings_release(&config->allowed_roots);
    config->allowed_roots = roots;
}

/* --- what takes several keys --- */

/* As far as can be told without asking a name server; binding looks again. */
static bool is_loopback(const char *address, size_t length)
{
    unsigned char v4[4];
    struct in6_addr v6;
    bool bracketed = length > 2 && address[0] == '[' && address[length - 1] == ']';
    cleanup_free char *host = xstrndup(address + bracketed, length - (bracketed ? 2 : 0));
    if (inet_pton(AF_INET, host, v4) == 1)
        return v4[0] == 127;
    if (inet_pton(AF_INET6, host, &v6) == 1)
        return IN6_IS_ADDR_LOOPBACK(&v6);
    return strcasecmp(host, "localhost") == 0;
}

static void check_listen(const struct config *config, struct config_problems *problems)
{
    for (size_t i = 0; i < config->listen.count; i++) {
        const char *address = config->listen.items[i];
        const char *colon = strrchr(address, ':');
        uint64_t port;
        if (!colon || colon == address || parse_u64(colon + 1, 65535, &port) < 0)
            config_problem(problems, WHERE, 0, "listen: '%s' is not HOST:PORT", address);
        else if (!*config->token_file && !is_loopback(address, (size_t)(colon - address)))
            config_problem(problems, WHERE, 0,
                           "listen: %s is open to the network, which needs a token: "
                           "(umask 077; openssl rand -hex 32 > FILE), then token_file: FILE",
                           address);
    }
}

/* Keys that ask for a protection are not ignored: that would be less than was asked for. */
static void check_features(const struct config *config, struct config_problems *problems)
{
    if (strcmp(config->backend, "native") != 0 && strcmp(config->backend, "local") != 0)
        config_problem(problems, WHERE, 0,
                       "backend: boxd " BOX_VERSION " has only 'native' ('local' means the same); "
                       "'%s' comes with a later version",
                       config->backend);
    if (config->admission_required)
        config_problem(problems, WHERE, 0,
                       "admission.required: boxd " BOX_VERSION " has no admission grants yet");
    if (strcmp(config->tenancy, "required") == 0)
        config_problem(problems, WHERE, 0,
                       "tenancy: boxd " BOX_VERSION " does not tell workspaces apart yet");
    if (config->max_timeout_ms > 0 && config->timeout_ms > config->max_timeout_ms)
        config_problem(problems, WHERE, 0,
                       "sessions.timeout_sec is more than sessions.max_timeout_sec");
    if (config->listen.count == 0 && !*config->socket)
        config_problem(problems, WHERE, 0, "there is nothing to listen on");
}

void config_settle(struct config *config, struct config_problems *problems)
{
    default_directories(config, problems);
    make_absolute("run_dir", &config->run_dir, problems);
    make_absolute("state_dir", &config->state_dir, problems);
    if (*config->run_dir)
        set_default(&config->socket, xasprintf("%s/boxd.sock", config->run_dir));
    make_absolute("socket", &config->socket, problems);
    make_absolute("token_file", &config->token_file, problems);
    make_absolute("local.host_root", &config->host_root, problems);
    if (strlen(config->socket) > config_key_find("socket")->max)
        config_problem(problems, WHERE, 0, "socket: %s is too long for a Unix socket",
                       config->socket);
    settle_roots(config, problems);
    check_listen(config, problems);
    check_features(config, problems);
}
