/* SPDX-License-Identifier: Apache-2.0 */
/* What the spawner, which is root, does when the front sends whatever it likes: the code of its
   loop over a socket, with what it does to the machine replaced below.

   The input is a list of steps: a length of two bytes and a message of so many, or with the highest
   bit set the end of a session. Checked is what must hold whatever was asked: nobody but a
   session's own init is signalled, no group or lane is named that could not be one, nothing but a
   session's socket is removed, nothing but a marker is read, no directory is limited but a store's
   of the front's own, and each request that is well-formed is answered once. */
#include <assert.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

static int signal_init(pid_t pid, int number);
static long call_kernel(long number, ...);
static int remove_socket(int dir, const char *name, int flags);
static int open_marker(int dir, const char *name, int flags);

#define kill(pid, number)          signal_init(pid, number)
#define syscall(...)               call_kernel(__VA_ARGS__)
#define unlinkat(dir, name, flags) remove_socket(dir, name, flags)
#define geteuid()                  0 /* who is not root is refused, and there is nothing to see */
#define fork()                     (-1) /* it is answered all the same */
#include "sandbox/spawner-requests.c"
#undef fork
#include "sandbox/spawner.c"
#include "sandbox/spawner-adopt.c"
#undef kill
#undef syscall
#undef unlinkat
#undef geteuid

#define openat(dir, name, flags) open_marker(dir, name, flags)
#include "sandbox/roots-marker.c"
#undef openat
#include "sandbox/roots-store.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define INIT_PID 0x3fffffff /* of every session that was made here; no process has it */
#define KEY      "0123456789abcdef"
#define MARKER   ROOTS_MARKER_PREFIX "0123456789abcdef0123456789abcdef"
#define STEPS    64

static int directory = -1; /* of sockets, and of a marker */

/* --- the machine
 * -------------------------------------------------------------------------------- */

static int signal_init(pid_t pid, int number)
{
    assert(pid == INIT_PID && number == SIGKILL);
    return 0;
}

static long call_kernel(long number, ...)
{
    va_list args;
    va_start(args, number);
    int first = va_arg(args, int);
    if (number == SYS_openat2) { /* in a store: one component, and no link */
        const char *name = va_arg(args, const char *);
        const struct open_how *how = va_arg(args, const struct open_how *);
        const uint64_t strict = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS;
        va_end(args);
        assert(name[0] && !strchr(name, '/') && strcmp(name, "..") != 0);
        assert(how->flags & O_PATH && (how->resolve & strict) == strict);
        return syscall(SYS_openat2, first, name, how, sizeof *how);
    }
    va_end(args);
    if (number == SYS_pidfd_open) {
        assert(first == getpid()); /* who listens on the socket */
        return dup(0);
    }
    assert(number == SYS_pidfd_send_signal && first > 2);
    return 0;
}

static int remove_socket(int dir, const char *name, int flags)
{
    assert(strlen(name) == strlen(KEY) && strspn(name, "0123456789abcdef") == strlen(KEY));
    return unlinkat(dir, name, flags);
}

static int open_marker(int dir, const char *name, int flags)
{
    size_t prefix = strlen(ROOTS_MARKER_PREFIX);
    assert(strncmp(name, ROOTS_MARKER_PREFIX, prefix) == 0 && !strchr(name, '/'));
    assert(strlen(name) == prefix + 32 && (flags & (O_PATH | O_NOFOLLOW)) == (O_PATH | O_NOFOLLOW));
    return openat(dir, name, flags);
}

/* The real one looks for the allowed root above the path: roots.c. */
int roots_open(const struct mount_policy *policy, const char *path, bool make, struct error *err)
{
    (void)policy;
    assert(!make && path[0] == '/' && strlen(path) < PATH_MAX);
    assert(!strstr(path, "//") && !strstr(path, "/../") && !strstr(path, "/./"));
    return path[1] == 's' ? dup(directory) : error_set(err, ERROR_DENIED, "no");
}

/* --- projects: the store is `directory`, its tenant "ws-1", and that one's the front's --- */

static bool is_own(int dir)
{
    struct stat st;
    return fstat(dir, &st) == 0 && st.st_uid == geteuid();
}

int storage_project_check(int dir_fd, struct error *err)
{
    (void)err;
    assert(is_own(dir_fd));
    return 0;
}

int storage_project_find(int dir_fd, uint32_t *ret, struct error *err)
{
    (void)dir_fd;
    (void)err;
    *ret = STORAGE_PROJECT_STORES + 1;
    return 0;
}

int storage_project_leave(int dir_fd, uint32_t project, struct error *err)
{
    (void)err;
    assert(is_own(dir_fd) && storage_project_is_store(project));
    return 0;
}

int storage_project_choose(int dir_fd, uint32_t first, uint32_t outer, uint32_t *ret,
                           struct error *err)
{
    (void)err;
    assert(is_own(dir_fd) && first == STORAGE_PROJECT_STORES);
    assert(outer == 0 || storage_project_is_store(outer));
    *ret = first + 2;
    return 0;
}

int storage_project_nest(int dir_fd, const struct storage_nest *nest,
                         const struct storage_limit *limit, struct error *err)
{
    assert(is_own(dir_fd) && storage_project_is_store(nest->project));
    assert(!nest->apart || strcmp(nest->apart, "tenants") == 0);
    return limit->bytes == 1 ? error_set(err, ERROR_LIMIT, "no") : 0;
}

static void check_group(const char *name)
{
    size_t length = strnlen(name, CGROUP_NAME_MAX);
    assert(length > 0 && length < CGROUP_NAME_MAX);
}

static void check_lane(const char *name, int lane)
{
    check_group(name);
    assert(lane >= 0 && lane < LANE_MAX);
}

/* Real ones refuse names that are not a session's: cgroup-session.c. */
bool cgroup_session_exists(struct cgroup_root *root, const char *name)
{
    (void)root;
    check_group(name);
    return name[0] == 's';
}

bool cgroup_is_own_kept(const struct cgroup_root *root, const char *name)
{
    (void)root;
    check_group(name);
    return name[0] == 's';
}

int cgroup_lane_create(struct cgroup_root *root, const char *name, int lane, struct error *err)
{
    (void)root;
    check_lane(name, lane);
    return lane % 8 == 7 ? error_set(err, ERROR_INVALID, "no") : 0;
}

int cgroup_lane_limit(struct cgroup_root *root, const char *name, int lane, uint64_t memory_bytes,
                      struct error *err)
{
    (void)root;
    (void)err;
    check_lane(name, lane);
    assert(memory_bytes != SPAWNER_MEMORY_AS_IS);
    return 0;
}

int cgroup_lane_kill(struct cgroup_root *root, const char *name, int lane, struct error *err)
{
    (void)root;
    (void)err;
    check_lane(name, lane);
    return 0;
}

int cgroup_entry_open(struct cgroup_root *root, const char *name, int lane,
                      struct cgroup_entry *ret, struct error *err)
{
    (void)root;
    (void)err;
    check_lane(name, lane);
    for (int i = 0; i < CGROUP_ENTRY_MAX; i++)
        ret->fds[i] = i == 1 ? -1 : dup(0);
    return 0;
}

bool cgroup_session_oom(struct cgroup_root *root, const char *name)
{
    (void)root;
    check_group(name);
    return false;
}

int cgroup_session_usage(struct cgroup_root *root, const char *name,
                         struct cgroup_session_usage *ret, struct error *err)
{
    (void)root;
    (void)err;
    check_group(name);
    *ret = (struct cgroup_session_usage){0};
    return 0;
}

void cgroup_sweep_except(struct cgroup_root *root, const char *const *keep, size_t count)
{
    (void)root;
    for (size_t i = 0; i < count; i++)
        assert(strnlen(keep[i], CGROUP_NAME_MAX) < CGROUP_NAME_MAX);
}

int spawner_try_namespaces(struct error *err)
{
    (void)err;
    return 0;
}

int spawner_create(struct spawner *spawner, const struct sandbox_spec *spec,
                   struct spawner_reply *reply, int *ret_fds, size_t *ret_count,
                   struct spawned **ret, struct error *err)
{
    (void)reply;
    if (spec->pids % 16 == 15)
        return error_set(err, ERROR_INVALID, "no");
    struct spawned *session = xcalloc(1, sizeof *session);
    session->number = spawner->next_number++;
    session->pid = INIT_PID;
    session->pidfd = -1;
    session->has_group = spec->pids % 16 != 14;
    session->single = spec->single;
    strcpy(session->group, "session");
    memcpy(session->key, spec->key, sizeof session->key);
    ret_fds[(*ret_count)++] = dup(0);
    *ret = session;
    return 0;
}

void spawned_release(struct spawner *spawner, struct spawned *session)
{
    socket_remove(spawner, session->key);
    fd_clear(&session->pidfd);
    free(session);
}

void spawner_lane_fds(struct spawner *spawner, const struct spawned *session, int lane,
                      struct spawner_reply *reply, int *fds, size_t *count)
{
    (void)spawner;
    (void)reply;
    check_lane(session->group, lane);
    fds[(*count)++] = dup(0);
}

/* Not reached from a request. */
#define UNUSED(type, name, ...) \
    type name(__VA_ARGS__)      \
    {                           \
        abort();                \
    }
UNUSED(int, cgroup_root_open, struct cgroup_root **ret, struct error *err)
UNUSED(void, cgroup_root_close, struct cgroup_root *root)
UNUSED(void, cgroup_set_keeper, struct cgroup_root *root, const char *keeper)
UNUSED(void, cgroup_sweep, struct cgroup_root *root)
UNUSED(void, facts_gather, struct facts *facts)
UNUSED(void, facts_set_cgroup, struct facts *facts, const struct cgroup_root *root)
UNUSED(bool, groups_idle_work, struct spawner *spawner)
UNUSED(void, groups_release, struct spawner *spawner)
UNUSED(void, net_host_close, struct net_host *host)
UNUSED(struct netns_pool *, netns_pool_new, unsigned keep)
UNUSED(void, netns_pool_free, struct netns_pool *pool)
UNUSED(bool, netns_pool_fill, struct netns_pool *pool, unsigned lent)

void facts_gather_network(struct facts *facts)
{
    (void)facts;
}

int net_host_open(struct net_host **ret, struct error *err)
{
    (void)ret;
    (void)err;
    return -1;
}

/* --- the front
 * ---------------------------------------------------------------------------------- */

/* How many replies the message must have now; -1: one or none. */
static int replies_owed(const uint8_t *data, size_t size)
{
    struct spawner_request request;
    if (size < sizeof request)
        return 0;
    memcpy(&request, data, sizeof request);
    switch (request.type) {
    case SPAWNER_CREATE:
        return 1;
    case SPAWNER_ADOPT:
        return size == sizeof(struct spawner_adopt);
    case SPAWNER_MARKER:
        return size == sizeof(struct spawner_marker);
    case SPAWNER_STORE:
        return size == sizeof(struct spawner_store);
    case SPAWNER_DESTROY:
        return size == sizeof request ? -1 : 0;
    case SPAWNER_LANE:
    case SPAWNER_KILL:
    case SPAWNER_PRUNE:
    case SPAWNER_SWEEP:
    case SPAWNER_USAGE:
    case SPAWNER_MACHINE:
        return size == sizeof request;
    default:
        return 0;
    }
}

static int read_replies(int sock, uint32_t tag)
{
    struct spawner_reply reply;
    int fds[FD_PASS_MAX];
    int count = 0;
    for (;;) {
        size_t fd_count = FD_PASS_MAX;
        ssize_t size = fd_receive(sock, &reply, sizeof reply, fds, &fd_count, MSG_DONTWAIT);
        if (size <= 0)
            return count;
        for (size_t i = 0; i < fd_count; i++)
            close(fds[i]);
        assert(size == sizeof reply || size == offsetof(struct spawner_reply, message));
        assert(reply.type == SPAWNER_REPLY ? reply.tag == tag : reply.type == SPAWNER_ENDED);
        if (reply.marker_size > 0)
            assert(reply.request == SPAWNER_MARKER && reply.code == 0 && reply.marker_size == 6 &&
                   memcmp(reply.marker, "marker", 6) == 0);
        count++;
    }
}

static void send_message(struct spawner *spawner, int front, const uint8_t *data, size_t size)
{
    uint32_t tag = 0;
    if (size >= sizeof(struct spawner_request))
        memcpy(&tag, data + offsetof(struct spawner_request, tag), sizeof tag);
    if (size == 0 || fd_send(front, data, size, NULL, 0) < 0)
        return;
    assert(spawner_serve_request(spawner));
    int owed = replies_owed(data, size);
    int got = read_replies(front, tag);
    assert(owed < 0 ? got <= 1 : got == owed);
}

static void end_one(struct spawner *spawner, int front, unsigned index)
{
    struct spawned *session = spawner->sessions;
    while (session && index-- > 0)
        session = session->next;
    if (!session || session->state == SESSION_DEAD)
        return;
    uint32_t tag = session->destroy_tag;
    session_ended(spawner, session);
    assert(read_replies(front, tag) == 1);
}

/* A socket that a session could be behind. */
static void listen_as_init(void)
{
    static int listener = -1;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (faccessat(directory, KEY, F_OK, 0) == 0)
        return;
    if (listener >= 0)
        close(listener);
    listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/" KEY, directory);
    assert(bind(listener, (struct sockaddr *)&address, sizeof address) == 0);
    assert(listen(listener, 64) == 0);
}

static char directory_path[] = "/tmp/fuzz-spawner-XXXXXX";

static void remove_directory(void)
{
    cleanup_free char *path = xasprintf("%s/" KEY, directory_path);
    cleanup_free char *marker = xasprintf("%s/" MARKER, directory_path);
    cleanup_free char *tenants = xasprintf("%s/tenants", directory_path);
    cleanup_free char *tenant = xasprintf("%s/ws-1", tenants);
    unlink(path);
    unlink(marker);
    rmdir(tenant);
    rmdir(tenants);
    rmdir(directory_path);
}

static int make_directory(void)
{
    assert(mkdtemp(directory_path));
    atexit(remove_directory);
    int fd = open(directory_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert(fd >= 0);
    int marker = openat(fd, MARKER, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert(marker >= 0 && write(marker, "marker", 6) == 6);
    close(marker);
    assert(mkdirat(fd, "tenants", 0700) == 0 && mkdirat(fd, "tenants/ws-1", 0700) == 0);
    return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int pair[2];
    static struct spawner_config config = {.ready = 4};
    if (directory < 0) {
        directory = make_directory();
        config.front = geteuid();
        assert(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
    }
    listen_as_init();
    struct spawner spawner = {.sock = pair[1],
                              .events = epoll_create1(EPOLL_CLOEXEC),
                              .sockets = directory,
                              .config = &config,
                              .next_number = 1};
    for (int step = 0; step < STEPS && size >= 2; step++) {
        unsigned word = data[0] | (unsigned)data[1] << 8;
        data += 2;
        size -= 2;
        if (word & 0x8000) {
            end_one(&spawner, pair[0], word & 0xff);
            continue;
        }
        size_t length = word < size ? word : size;
        send_message(&spawner, pair[0], data, length);
        data += length;
        size -= length;
    }
    while (spawner.sessions)
        spawned_drop(&spawner, spawner.sessions);
    close(spawner.events);
    return 0;
}
