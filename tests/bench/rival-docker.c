/* SPDX-License-Identifier: Apache-2.0 */
/* docker: a dockerd of the benchmark's own, whose data, socket and process id are in the
   benchmark's directory, and which leaves the machine's bridges and firewall alone. */
#include <stdio.h>
#include <unistd.h>

#include "common.h"
#include "core/mem.h"
#include "notify.h"
#include "rival-image.h"
#include "rivals.h"

#define IMAGE     "box-bench"
#define START_SEC 60
#define STOP_SEC  60

char *rival_docker_exec[RIVAL_ARGS];
char *rival_docker_run[RIVAL_ARGS];

static struct started dockerd;
static char *log_path;
static char *client_argv[RIVAL_ARGS]; /* docker --host unix://…, and room for more */
static size_t client_argc;

/* docker with these words behind it. */
static void fill(char **argv, const char *const *words)
{
    size_t count = 0;
    for (; count < client_argc; count++)
        argv[count] = client_argv[count];
    for (; *words && count < RIVAL_ARGS - 1; words++)
        argv[count++] = (char *)*words;
    argv[count] = NULL;
}

static bool docker(const char *const *words)
{
    char *argv[RIVAL_ARGS];
    fill(argv, words);
    return spawn_logged(argv, log_path);
}

static const char *failed(const char *what)
{
    static char text[640];
    snprintf(text, sizeof text, "%s: %.512s", what, last_line(log_path));
    return text;
}

static bool start(const char *program, const char *driver)
{
    const char *at = bench.directory;
    char *argv[] = {(char *)program,
                    (char *)"--data-root",
                    xasprintf("%s/docker-%s", at, driver),
                    (char *)"--exec-root",
                    xasprintf("%s/docker-exec", at),
                    (char *)"--pidfile",
                    xasprintf("%s/docker.pid", at),
                    (char *)"--host",
                    xasprintf("unix://%s/docker.sock", at),
                    (char *)"--storage-driver",
                    (char *)driver,
                    (char *)"--bridge=none",
                    (char *)"--iptables=false",
                    (char *)"--ip6tables=false",
                    (char *)"--log-level=warn",
                    NULL};
    return start_and_wait_ready(argv, log_path, START_SEC, &dockerd);
}

static const char *prepare(const char *image)
{
    const char *import[] = {"import", image, IMAGE, NULL};
    static const char *const wait[] = {"run", "--detach", "--network", "none",  "--name",
                                       IMAGE, IMAGE,      "sleep",     "86400", NULL};
    static const char *const exec[] = {"exec", IMAGE, "sh", "-c", "true", NULL};
    static const char *const run[] = {"run", "--rm", "--network", "none", IMAGE,
                                      "sh",  "-c",   "true",      NULL};
    if (!docker(import))
        return failed("docker import");
    if (!docker(wait))
        return failed("docker run");
    if (!docker(exec))
        return failed("docker exec");
    fill(rival_docker_exec, exec);
    fill(rival_docker_run, run);
    return NULL;
}

const char *rival_docker_start(void)
{
    static const char *const drivers[] = {"overlay2", "vfs"};
    const char *daemon = rival_find("dockerd");
    const char *program = rival_find("docker");
    const char *image = rival_image();
    bool started = false;
    if (!daemon || !program)
        return "not installed";
    if (geteuid() != 0)
        return "needs root";
    if (!image)
        return "busybox-static is not installed";
    log_path = xasprintf("%s/docker.log", bench.directory);
    for (size_t i = 0; i < ARRAY_SIZE(drivers) && !started; i++)
        started = start(daemon, drivers[i]);
    if (!started)
        return failed("dockerd does not start here");
    client_argc = 0;
    client_argv[client_argc++] = (char *)program;
    client_argv[client_argc++] = (char *)"--config";
    client_argv[client_argc++] = (char *)bench.directory;
    client_argv[client_argc++] = (char *)"--host";
    client_argv[client_argc++] = xasprintf("unix://%s/docker.sock", bench.directory);
    const char *reason = prepare(image);
    if (reason)
        rival_docker_stop();
    return reason;
}

const char *rival_docker_tag(const char *name)
{
    const char *words[] = {"tag", IMAGE, name, NULL};
    return docker(words) ? NULL : failed("docker tag");
}

const char *rival_docker_host(void)
{
    return client_argv[client_argc - 1];
}

void rival_docker_stop(void)
{
    static const char *const remove[] = {"rm", "--force", IMAGE, NULL};
    if (dockerd.pid <= 0)
        return;
    docker(remove);
    stop_and_wait(dockerd.pid, STOP_SEC);
    dockerd.pid = 0;
    /* Under overlay2 it mounts its own data on itself, and leaves that. */
    cleanup_free char *data = xasprintf("%s/docker-overlay2", bench.directory);
    char *unmount[] = {(char *)"/bin/umount", data, NULL};
    spawn_logged(unmount, log_path);
}
