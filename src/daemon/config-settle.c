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
#include "core/path.h"
#include "api/rpc.h"
#include "daemon/config-internal.h"
#include "net/http-address.h"

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

char *config_absolute(const char *key, const char *path, const char *base,
                      struct config_problems *problems)
{
    struct error err = ERROR_INIT;
    char here[PATH_MAX];
    cleanup_free char *joined = NULL;
    if (!*base && path[0] != '/')
        base = getcwd(here, sizeof here);
    if (path[0] == '/')
        joined = xstrdup(path);
    else if (base)
        joined = xasprintf("%s/%s", base, path);
    char *normal = joined ? path_normalise(joined, &err) : NULL;
    if (!normal)
        config_problem(problems, WHERE, 0, "%s: %s", key, joined ? err.message : "no directory");
    return normal;
}

static void make_absolute(const char *key, char **path, struct config_problems *problems)
{
    char *normal = **path ? config_absolute(key, *path, "", problems) : NULL;
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

/* "boxd", or for one that somebody started for themselves a name of its own, by its port: next to
   a boxd of the system, and to others like it. */
static char *directory_name(const struct config *config)
{
    const char *address = config->listen.count > 0 ? config->listen.items[0] : "";
    const char *colon = strrchr(address, ':');
    if (!config->stdio)
        return xstrdup("boxd");
    return xasprintf("boxd-stdio-%s", colon && !strchr(colon, '/') ? colon + 1 : "0");
}

/* Root's places are the system's; an ordinary user's are those of the XDG base directories. */
static void default_directories(struct config *config, struct config_problems *problems)
{
    cleanup_free char *name = directory_name(config);
    if (config->system) {
        set_default(&config->run_dir, xasprintf("/run/%s", name));
        set_default(&config->state_dir, xasprintf("/var/lib/%s", name));
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
    set_default(&config->state_dir, xasprintf("%s/%s", base, name));
    set_default(&config->run_dir,
                run ? xasprintf("%s/%s", run, name) : xasprintf("%s/%s/run", base, name));
}

/* --- what takes several keys --- */

/* How open a host is that boxd listens on, for a message; NULL: not at all. As far as can be told
   without asking a name server; binding looks again. */
static const char *openness(const char *host)
{
    static const char open[] = "is open to the network";
    unsigned char v4[4];
    struct in6_addr v6;
    if (inet_pton(AF_INET, host, v4) == 1)
        return v4[0] == 127 ? NULL : open;
    if (inet_pton(AF_INET6, host, &v6) == 1)
        return IN6_IS_ADDR_LOOPBACK(&v6) ? NULL : open;
    return strcasecmp(host, "localhost") == 0 ? NULL : "is a name, which may lead to the network";
}

/* A secret that clients must show: which of the two does not matter here. */
static bool has_token(const struct config *config)
{
    const char *control = getenv(CONTROL_TOKEN_VARIABLE);
    return *config->token_file || *config->control_token_file || (control && *control);
}

static void check_listen(const struct config *config, struct config_problems *problems)
{
    for (size_t i = 0; i < config->listen.count && !config->stdio && !has_token(config); i++) {
        struct error err = ERROR_INIT;
        cleanup_free char *host = NULL;
        cleanup_free char *port = NULL;
        const char *how = NULL;
        if (http_address_split(config->listen.items[i], &host, &port, &err) == 0)
            how = openness(host);
        if (how)
            config_problem(problems, WHERE, 0,
                           "listen: %s %s, and there it needs a token: (umask 077; openssl rand "
                           "-hex 32 > FILE), then --token-file FILE or token_file: FILE",
                           config->listen.items[i], how);
    }
}

static void check_several(const struct config *config, struct config_problems *problems)
{
    if (*config->trusted_instance && !rpc_instance_valid(config->trusted_instance))
        config_problem(problems, WHERE, 0,
                       "trusted_instance: '%.60s' is not the id of a LangBot instance: up to 128 "
                       "letters, digits, and ._:- behind the first",
                       config->trusted_instance);
    if (config->stdio && strcmp(config->tenancy, "required") == 0 && !*config->trusted_instance)
        config_problem(problems, WHERE, 0,
                       "tenancy: who is at standard input cannot say which instance it is, so with "
                       "--stdio trusted_instance (" INSTANCE_VARIABLE ") must");
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
    make_absolute("control_token_file", &config->control_token_file, problems);
    if (strlen(config->socket) > config_key_find("socket")->max)
        config_problem(problems, WHERE, 0, "socket: %s is too long for a Unix socket",
                       config->socket);
    config_settle_local(config, NULL, problems);
    check_listen(config, problems);
    check_several(config, problems);
}
