/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions that outlive their caller, and the callers that come after.

   Each such session's init listens on a socket in the daemon's directory. The socket is bound here,
   so that init needs no way to that directory, but init itself calls listen(2): from then on the
   kernel names init as the peer of whoever connects, and that is how a session is told from its
   name alone whose process it is. A process id is believed only while the connection to it stands:
   if init had died before its pidfd was opened, its end of the connection would be closed. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "core/fd.h"
#include "sandbox/spawner-internal.h"

#define LOCK_TRIES 5000

int sockets_open(struct spawner *spawner, struct error *err)
{
    const char *path = spawner->config->socket_directory;
    struct stat st;
    char keeper[CGROUP_KEEPER_MAX];
    if (!path)
        return 0;
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return error_errno(err, errno, "cannot make %s", path);
    cleanup_close int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return error_errno(err, errno, "cannot open %s", path);
    if (st.st_uid != geteuid() || (st.st_mode & 077) != 0) {
        error_set(err, ERROR_DENIED, "%s is open to others", path);
        return error_hint(err, "chown and chmod 0700 %s", path);
    }
    /* An earlier spawner that is about to end may still be ending sessions. */
    for (int i = 0; flock(fd, LOCK_EX | LOCK_NB) < 0; i++) {
        if (errno != EWOULDBLOCK || i == LOCK_TRIES)
            return error_errno(err, errno, "another boxd is using %s", path);
        struct pollfd caller = {.fd = spawner->sock};
        if (poll(&caller, 1, 1) > 0)
            _exit(1); /* nobody waits for it any more */
    }
    /* The directory is the daemon's identity: who has it has its sessions. */
    snprintf(keeper, sizeof keeper, "%llx%08llx", (unsigned long long)st.st_dev & 0xffffffff,
             (unsigned long long)st.st_ino & 0xffffffff);
    cgroup_set_keeper(spawner->cgroups, keeper);
    spawner->sockets = steal_fd(&fd);
    return 0;
}

/* By way of the directory's descriptor: its path may be longer than an address has room for. */
static socklen_t socket_address(const struct spawner *spawner, const char *key,
                                struct sockaddr_un *ret)
{
    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    snprintf(ret->sun_path, sizeof ret->sun_path, "/proc/self/fd/%d/%s", spawner->sockets, key);
    return sizeof *ret;
}

int socket_make(const struct spawner *spawner, const char *key, int *ret_fd, struct error *err)
{
    struct sockaddr_un address;
    if (spawner->sockets < 0)
        return error_set(err, ERROR_INVALID, "this spawner keeps no sessions");
    cleanup_close int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    socklen_t size = socket_address(spawner, key, &address);
    mode_t mask = umask(077);
    int rc = fd < 0 ? -1 : bind(fd, (struct sockaddr *)&address, size);
    int errnum = errno;
    umask(mask);
    if (rc < 0)
        return error_errno(err, errnum, "cannot make the session's socket");
    *ret_fd = steal_fd(&fd);
    return 0;
}

void socket_remove(const struct spawner *spawner, const char *key)
{
    if (spawner->sockets >= 0 && key[0])
        unlinkat(spawner->sockets, key, 0);
}

/* The init behind a socket: a connection to it, its pid and a pidfd that is certainly its. */
static int socket_reach(const struct spawner *spawner, const char *key, int *ret_conn,
                        int *ret_pidfd, pid_t *ret_pid)
{
    struct sockaddr_un address;
    struct ucred peer;
    socklen_t peer_size = sizeof peer;
    cleanup_close int conn = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    socklen_t size = socket_address(spawner, key, &address);
    if (conn < 0 || connect(conn, (struct sockaddr *)&address, size) < 0 ||
        getsockopt(conn, SOL_SOCKET, SO_PEERCRED, &peer, &peer_size) < 0)
        return -errno;
    if (peer.pid <= 1)
        return -ESRCH;
    cleanup_close int pidfd = (int)syscall(SYS_pidfd_open, peer.pid, 0);
    if (pidfd < 0)
        return -errno;
    struct pollfd polled = {.fd = conn, .events = POLLIN};
    if (poll(&polled, 1, 0) < 0 || (polled.revents & (POLLHUP | POLLERR)))
        return -ECONNREFUSED;
    *ret_conn = steal_fd(&conn);
    *ret_pidfd = steal_fd(&pidfd);
    *ret_pid = peer.pid;
    return 0;
}

static bool key_valid(const char *key)
{
    return memchr(key, '\0', SPAWNER_KEY_MAX) && strlen(key) == SPEC_KEY_MAX - 1 &&
           strspn(key, "0123456789abcdef") == SPEC_KEY_MAX - 1;
}

int spawner_adopt(struct spawner *spawner, const struct spawner_adopt *request,
                  struct spawned **ret, int *ret_control, struct error *err)
{
    int conn;
    int pidfd;
    pid_t pid;
    if (spawner->sockets < 0 || !key_valid(request->key) ||
        !memchr(request->group, '\0', sizeof request->group) ||
        (request->group[0] && !cgroup_is_own_kept(spawner->cgroups, request->group)))
        return error_set(err, ERROR_PROTOCOL, "malformed request to adopt a session");
    for (const struct spawned *at = spawner->sessions; at; at = at->next) {
        if (strcmp(at->key, request->key) == 0)
            return error_set(err, ERROR_INVALID, "the session is here already");
    }
    int rc = socket_reach(spawner, request->key, &conn, &pidfd, &pid);
    if (rc < 0) {
        socket_remove(spawner, request->key);
        return error_set(err, ERROR_GONE, "nothing of the session is left (%s)", strerror(-rc));
    }
    struct spawned *session = xcalloc(1, sizeof *session);
    session->number = spawner->next_number++;
    session->pid = pid;
    session->pidfd = pidfd;
    session->netns = -1;
    session->range = request->range;
    session->linked = request->linked != 0;
    memcpy(session->key, request->key, sizeof session->key);
    memcpy(session->group, request->group, sizeof session->group);
    session->has_group =
        session->group[0] != '\0' && cgroup_session_exists(spawner->cgroups, session->group);
    /* The way out went with the last spawner. Failing that, the session goes on without. */
    if (session->linked && !spawner->net_host)
        net_host_open(&spawner->net_host, NULL);
    *ret_control = conn;
    *ret = session;
    return 0;
}

void spawner_prune(struct spawner *spawner, const struct spawned *session, uint64_t spared)
{
    for (int lane = 0; lane < LANE_MAX && session->has_group; lane++) {
        if (!(spared >> lane & 1))
            cgroup_lane_kill(spawner->cgroups, session->group, lane, NULL);
    }
}

/* --- what nobody adopted -----------------------------------------------------------------------
 */

static bool is_ours(const struct spawner *spawner, const char *key)
{
    for (const struct spawned *at = spawner->sessions; at; at = at->next) {
        if (strcmp(at->key, key) == 0)
            return true;
    }
    return false;
}

static void sweep_socket(const struct spawner *spawner, const char *key)
{
    int conn = -1;
    int pidfd = -1;
    pid_t pid;
    if (!key_valid(key) || is_ours(spawner, key))
        return;
    if (socket_reach(spawner, key, &conn, &pidfd, &pid) == 0) {
        syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
        close(conn);
        close(pidfd);
    }
    socket_remove(spawner, key);
}

static void sweep_sockets(const struct spawner *spawner)
{
    int fd = spawner->sockets < 0 ? -1 : openat(spawner->sockets, ".", O_RDONLY | O_CLOEXEC);
    DIR *list = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;
    while (list && (entry = readdir(list))) {
        char key[SPAWNER_KEY_MAX] = "";
        if (strlen(entry->d_name) < sizeof key)
            memcpy(key, entry->d_name, strlen(entry->d_name));
        sweep_socket(spawner, key);
    }
    if (list)
        closedir(list);
}

void spawner_sweep(struct spawner *spawner)
{
    size_t count = spawner->ready_groups.count + spawner->ended_groups.count;
    for (const struct spawned *at = spawner->sessions; at; at = at->next)
        count++;
    cleanup_free const char **keep = xcalloc(count + 1, sizeof *keep);
    size_t used = 0;
    for (const struct spawned *at = spawner->sessions; at; at = at->next)
        keep[used++] = at->group;
    for (unsigned i = 0; i < spawner->ready_groups.count; i++)
        keep[used++] = spawner->ready_groups.items[i].name;
    for (unsigned i = 0; i < spawner->ended_groups.count; i++)
        keep[used++] = spawner->ended_groups.items[i].name;
    sweep_sockets(spawner);
    cgroup_sweep_except(spawner->cgroups, keep, used);
}
