/* SPDX-License-Identifier: Apache-2.0 */
/* boxd, the daemon: the order in which things begin. See confine.c for why it is this one. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/log.h"
#include "daemon/confine.h"
#include "daemon/daemon.h"
#include "daemon/load.h"

#define EXIT_USAGE   2
#define READY_AHEAD  4 /* sessions that the spawner is prepared for */
#define FILES_WANTED (1u << 20)
#define FILES_NEEDED (1u << 16)

static int complain(const struct error *err)
{
    fprintf(stderr, "boxd: %s\n", err->message);
    if (err->hint[0])
        fprintf(stderr, "      %s\n", err->hint);
    return 1;
}

static int print_problems(const struct config_problems *problems)
{
    for (size_t i = 0; i < problems->lines.count; i++)
        fprintf(stderr, "boxd: %s\n", problems->lines.items[i]);
    return 1;
}

/* A token that cannot be used is a problem of the configuration too. */
static int check_config(const struct config *config, const char *file)
{
    struct error err = ERROR_INIT;
    struct account account;
    cleanup_free char *token = NULL;
    if (account_find(config, &account, &err) < 0 ||
        (*config->token_file && token_read(config->token_file, &token, &err) < 0))
        return complain(&err);
    printf("OK: %s\n", file ? file : "no file, defaults");
    return 0;
}

static int print_config(const struct config *config)
{
    cleanup_free char *text = config_print(config);
    fputs(text, stdout);
    return fflush(stdout) == 0 ? 0 : 1;
}

/* Each connection is a descriptor, and each command several. Not for the spawner: sessions are to
   have what whoever started boxd had. */
static void raise_file_limit(void)
{
    static const rlim_t wanted[] = {FILES_WANTED, FILES_NEEDED};
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return;
    for (size_t i = 0; i < ARRAY_SIZE(wanted) && geteuid() == 0 && limit.rlim_max < wanted[i]; i++)
        if (setrlimit(RLIMIT_NOFILE, &(struct rlimit){wanted[i], wanted[i]}) == 0)
            return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

/* With all rights still: places, the spawner, then what the front is to have open. */
static int start(struct daemon *daemon, struct error *err)
{
    static struct spawner_config spawner = {.ready = READY_AHEAD};
    static struct native_options native = {.spawner = &spawner};
    const struct config *config = daemon->config;
    struct activation activation;
    int sock;
    pid_t pid;
    if (activate_take(&activation, err) < 0 || account_find(config, &daemon->account, err) < 0 ||
        places_prepare(config, &daemon->account, err) < 0 || places_lock(config, err) < 0)
        return -1;
    config_real_roots(config, &spawner.policy.allowed_roots);
    /* Who may talk to boxd need not be who started it: on loopback anybody on the machine may. So
       of the host only what was named is to be had, and by default nothing. */
    spawner.policy.only_allowed = true;
    spawner.socket_directory = xasprintf("%s/inits", config->run_dir);
    strings_copy(&native.allow_net, &config->allow_net);
    native.scratch_bytes = config->scratch_mb << 20;
    native.strict = config->strict;
    if (native_spawn(&native, &sock, &pid, err) < 0)
        return -1;
    umask(077);
    signal(SIGPIPE, SIG_IGN);
    raise_file_limit();
    notify_open();
    if ((*config->token_file && token_read(config->token_file, &daemon->token, err) < 0) ||
        daemon_bind(daemon, &activation, err) < 0 ||
        confine_privileges(&daemon->account, err) < 0 || places_reach(config, err) < 0)
        return -1;
    log_event(LOG_INFO, "starting", LOG_TEXT("version", BOX_VERSION), LOG_NUMBER("pid", getpid()),
              LOG_NUMBER("spawner", pid), LOG_TEXT("backend", "native"),
              LOG_NUMBER("front_uid", daemon->account.uid), LOG_TEXT("run_dir", config->run_dir),
              LOG_TEXT("state_dir", config->state_dir));
    return daemon_open(daemon, sock, &native, err);
}

static int run(const struct options *options, struct config *config, const char *file)
{
    struct daemon daemon = {.options = options, .config = config, .config_file = file};
    struct error err = ERROR_INIT;
    config_to_log(config);
    if (start(&daemon, &err) < 0) {
        if (strcmp(config->log_format, "json") != 0)
            return complain(&err);
        log_error(LOG_ERROR, "cannot_start", &err);
        return 1;
    }
    return daemon_run(&daemon);
}

int main(int argc, char **argv)
{
    struct options options = {0};
    struct config config;
    struct config_problems problems = {0};
    struct error err = ERROR_INIT;
    cleanup_free char *file = NULL;
    if (options_parse(&options, argc, argv, &err) < 0) {
        complain(&err);
        return EXIT_USAGE;
    }
    if (options.action == OPTIONS_HELP) {
        options_print_help();
        return 0;
    }
    if (options.action == OPTIONS_VERSION) {
        puts("boxd " BOX_VERSION);
        return 0;
    }
    load_config(&options, &config, &file, &problems);
    int rc = problems.lines.count > 0          ? print_problems(&problems)
             : options.action == OPTIONS_CHECK ? check_config(&config, file)
             : options.action == OPTIONS_PRINT ? print_config(&config)
                                               : run(&options, &config, file);
    config_problems_release(&problems);
    config_release(&config);
    options_release(&options);
    return rc;
}
