/* SPDX-License-Identifier: Apache-2.0 */
/* boxd --stdio: LangBot started it, and speaks to it over its standard input and output. It lives
   as long as that process wants it to: when its input ends, it ends, and with it its sessions. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/fd.h"
#include "daemon/daemon.h"

#define PLACES_MAX 16 /* of one port */

/* --- directories --- */

static void rename_place(char **path, const char *base, int number)
{
    free(*path);
    *path = xasprintf("%s-%d", base, number);
}

/* A port is in use by one, but an earlier one may be about to end, and a second one does without
   its port; so they cannot share what is named after it. */
int stdio_places(struct config *config, const struct account *account, struct error *err)
{
    cleanup_free char *run = xstrdup(config->run_dir);
    cleanup_free char *state = xstrdup(config->state_dir);
    cleanup_free char *own = xasprintf("%s/boxd.sock", config->run_dir);
    bool own_socket = strcmp(config->socket, own) == 0;
    for (int number = 1; number <= PLACES_MAX; number++) {
        if (number > 1) {
            rename_place(&config->run_dir, run, number);
            rename_place(&config->state_dir, state, number);
        }
        if (number > 1 && own_socket) {
            free(config->socket);
            config->socket = xasprintf("%s/boxd.sock", config->run_dir);
        }
        if (places_prepare(config, account, err) < 0)
            return -1;
        if (places_lock(config, err) == 0)
            return 0;
        if (err->code != ERROR_UNAVAILABLE)
            return -1;
    }
    return -1;
}

/* --- descriptors --- */

/* A file is always ready, which no loop can wait for. */
static bool can_wait(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode) || isatty(fd));
}

int stdio_check(struct error *err)
{
    if (can_wait(STDIN_FILENO) && can_wait(STDOUT_FILENO))
        return 0;
    error_set(err, ERROR_INVALID, "--stdio: standard %s is not a pipe, a socket or a terminal",
              can_wait(STDIN_FILENO) ? "output" : "input");
    return error_hint(err, "cat FILE | boxd --stdio | cat");
}

static int move_away(int fd, int instead, int *ret, struct error *err)
{
    *ret = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (*ret < 0 || dup2(instead, fd) < 0)
        return error_errno(err, errno, "cannot move descriptor %d", fd);
    return 0;
}

int stdio_take(struct daemon *daemon, struct error *err)
{
    cleanup_close int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null < 0)
        return error_errno(err, errno, "cannot open /dev/null");
    if (move_away(STDIN_FILENO, null, &daemon->stdio_in, err) < 0)
        return -1;
    return move_away(STDOUT_FILENO, STDERR_FILENO, &daemon->stdio_out, err);
}

/* --- serving --- */

static void on_ended(void *data)
{
    struct daemon *daemon = data;
    if (daemon->state == DAEMON_SERVING)
        daemon_stop(daemon, "EOF");
}

void stdio_serve(struct daemon *daemon)
{
    daemon->stdio =
        rpc_stdio_open(daemon->api, daemon->stdio_in, daemon->stdio_out, on_ended, daemon);
}
