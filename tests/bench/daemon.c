/* SPDX-License-Identifier: Apache-2.0 */
/* A boxd of the benchmark's own: its directories, its socket and its port. */
#include "daemon.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "common.h"
#include "core/fd.h"
#include "core/mem.h"
#include "notify.h"

#define START_SEC 10
#define STOP_SEC  60

static const char config[] = "box:\n"
                             "  session_ttl_sec: 3600\n"
                             "  limits:\n"
                             "    max_sessions: 5000\n";

const char *daemon_log(void)
{
    static char *path;
    if (!path)
        path = xasprintf("%s/boxd.log", bench.directory);
    return path;
}

/* One that nobody has just now. */
static unsigned free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof address;
    cleanup_close int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, size) < 0 ||
        getsockname(fd, (struct sockaddr *)&address, &size) < 0)
        bench_fail("no free port: %s", strerror(errno));
    return ntohs(address.sin_port);
}

static char *write_config(const char *mount_roots)
{
    char *path = xasprintf("%s/boxd.yaml", bench.directory);
    FILE *file = fopen(path, "we");
    if (!file || fputs(config, file) < 0 ||
        (mount_roots &&
         fprintf(file, "  local:\n    allowed_mount_roots: %s\n", mount_roots) < 0) ||
        fclose(file) != 0)
        bench_fail("%s: %s", path, strerror(errno));
    return path;
}

void daemon_start(struct daemon *daemon)
{
    static unsigned number;
    cleanup_free char *run = xasprintf("%s/boxd-%u", bench.run_directory, number);
    cleanup_free char *state = xasprintf("%s/boxd-%u", bench.directory, number++);
    cleanup_free char *file = write_config(daemon->mount_roots);
    struct started started;
    daemon->port = free_port();
    daemon->socket = xasprintf("%s/boxd.sock", run);
    cleanup_free char *listen = xasprintf("127.0.0.1:%u", daemon->port);
    char *argv[] = {(char *)bench.boxd,
                    (char *)"--config",
                    file,
                    (char *)"--listen",
                    listen,
                    (char *)"--socket",
                    daemon->socket,
                    (char *)"--run-dir",
                    run,
                    (char *)"--state-dir",
                    state,
                    (char *)"--log-level",
                    (char *)"warn",
                    NULL};
    if (!start_and_wait_ready(argv, daemon_log(), START_SEC, &started))
        bench_fail("%s did not start: %s", bench.boxd, last_line(daemon_log()));
    daemon->pid = started.pid;
    daemon->ready_ms = started.ready_ms;
}

void daemon_stop(struct daemon *daemon)
{
    if (!stop_and_wait(daemon->pid, STOP_SEC))
        fprintf(stderr, "bench: boxd did not end well: %s\n", last_line(daemon_log()));
    free(daemon->socket);
    *daemon = (struct daemon){0};
}
