/* SPDX-License-Identifier: Apache-2.0 */
/* boxd, the daemon: the order in which things begin. See confine.c for why it is this one. */
#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
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
#define LARGE_BYTES  (1 << 20) /* of a block of memory */

static int complain(const struct error *err)
{
    fprintf(stderr, "boxd: %s\n", err->message);
    if (err->hint[0])
        fprintf(stderr, "  fix: %s\n", err->hint);
    return 1;
}

static void print_lines(const struct strings *lines)
{
    for (size_t i = 0; i < lines->count; i++)
        fprintf(stderr, "boxd: %s\n", lines->items[i]);
}

static void log_lines(const char *event, const struct strings *lines)
{
    for (size_t i = 0; i < lines->count; i++)
        log_event(LOG_WARN, event, LOG_TEXT("message", lines->items[i]));
}

/* A token that cannot be used is a problem of the configuration too. */
static int check_config(const struct config *config, const char *file)
{
    struct error err = ERROR_INIT;
    struct account account;
    char *token;
    char *control;
    if (account_find(config, &account, &err) < 0 || tokens_read(config, &token, &control, &err) < 0)
        return complain(&err);
    token_free(token);
    token_free(control);
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

static int take_places(struct daemon *daemon, struct error *err)
{
    struct config *config = daemon->config;
    struct error unmade = ERROR_INIT;
    int rc = config->stdio ? stdio_check(err) : 0;
    if (rc == 0 && config->stdio)
        rc = stdio_places(config, &daemon->account, err);
    else if (rc == 0)
        rc = places_prepare(config, &daemon->account, err) < 0 ? -1 : places_lock(config, err);
    if (rc == 0 && places_skills(config, &daemon->account, &unmade) < 0)
        log_error(LOG_WARN, "no_skills", &unmade);
    if (rc == 0 && places_workspace(config, &unmade) < 0)
        log_error(LOG_WARN, "no_workspace", &unmade);
    return rc;
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
        take_places(daemon, err) < 0)
        return -1;
    config_real_roots(config, &daemon->ceiling);
    strings_copy(&spawner.policy.allowed_roots, &daemon->ceiling);
    /* Not for whoever asks: the runtime mounts from there what it has found itself. */
    if (*config->skills_root) /* an empty root would be one that everything lies below */
        add_real_root(config->skills_root, &spawner.policy.own_roots);
    /* Who may talk to boxd need not be who started it: on loopback anybody on the machine may. So
       of the host only what was named is to be had, and by default nothing. */
    spawner.policy.only_allowed = true;
    spawner.front = daemon->account.uid;
    spawner.socket_directory = xasprintf("%s/inits", config->run_dir);
    strings_copy(&native.allow_net, &config->allow_net);
    native.scratch_bytes = config->scratch_mb << 20;
    native.strict = config->strict;
    native.spares = (unsigned)config->ready_sessions;
    if (native_spawn(&native, &sock, &pid, err) < 0)
        return -1;
    daemon->spawner = pidfd_open(pid, 0);
    if (config->stdio && stdio_take(daemon, err) < 0)
        return -1;
    umask(077);
    signal(SIGPIPE, SIG_IGN);
    raise_file_limit();
    notify_open();
    if (tokens_read(config, &daemon->token, &daemon->control_token, err) < 0 ||
        daemon_bind(daemon, &activation, err) < 0 ||
        confine_privileges(&daemon->account, err) < 0 || places_reach(config, err) < 0)
        return -1;
    log_event(LOG_INFO, "starting", LOG_TEXT("version", BOX_VERSION), LOG_NUMBER("pid", getpid()),
              LOG_NUMBER("spawner", pid), LOG_TEXT("backend", config->backend),
              LOG_NUMBER("front_uid", daemon->account.uid), LOG_TEXT("run_dir", config->run_dir),
              LOG_TEXT("state_dir", config->state_dir));
    return daemon_open(daemon, sock, &native, err);
}

/* Large blocks are bodies, input and output: they come and go, and what lies behind one that is
   gone would keep its memory from the system. So they have mappings of their own; left to itself,
   the C library stops doing that once it has seen a few. The rest is too little to be given back
   each time. */
static void give_memory_back(void)
{
#ifdef M_MMAP_THRESHOLD
    mallopt(M_MMAP_THRESHOLD, LARGE_BYTES);
    mallopt(M_TRIM_THRESHOLD, 8 * LARGE_BYTES);
#endif
}

static int run(const struct options *options, struct config *config,
               const struct config_problems *problems)
{
    struct daemon daemon = {.options = options, .config = config, .stdio_in = -1, .stdio_out = -1};
    struct error err = ERROR_INIT;
    config_to_log(config);
    log_lines("unknown_key", &problems->unknown);
    log_lines("config_warning", &problems->warnings);
    if (start(&daemon, &err) < 0) {
        if (strcmp(config->log_format, "json") != 0)
            return complain(&err);
        log_error(LOG_ERROR, "cannot_start", &err);
        return 1;
    }
    give_memory_back();
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
    print_lines(&problems.lines);
    if (options.action == OPTIONS_CHECK) {
        print_lines(&problems.unknown);
        print_lines(&problems.warnings);
    }
    int rc = problems.usage                    ? EXIT_USAGE
             : problems.lines.count > 0        ? 1
             : options.action == OPTIONS_CHECK ? check_config(&config, file)
             : options.action == OPTIONS_PRINT ? print_config(&config)
                                               : run(&options, &config, &problems);
    config_problems_release(&problems);
    config_release(&config);
    options_release(&options);
    return rc;
}
