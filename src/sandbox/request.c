/* SPDX-License-Identifier: Apache-2.0 */
/* A command on its way to a launcher, and the launcher's refusal in words. */
#include "sandbox/request.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#include "core/fd.h"
#include "core/mem.h"

/* Length of all strings with their NULs; 0 if too large. */
static size_t measure(const struct command_request *request, struct lane_exec *head)
{
    size_t size = strlen(request->cwd) + 1;
    for (char *const *at = request->argv; *at; at++, head->argc++)
        size += strlen(*at) + 1;
    for (char *const *at = request->envp; *at; at++, head->envc++)
        size += strlen(*at) + 1;
    if (size > LANE_STRINGS_MAX || head->argc + head->envc > LANE_ARGS_MAX)
        return 0;
    return size;
}

static void pack(const struct command_request *request, char *at)
{
    at = stpcpy(at, request->cwd) + 1;
    for (char *const *item = request->argv; *item; item++)
        at = stpcpy(at, *item) + 1;
    for (char *const *item = request->envp; *item; item++)
        at = stpcpy(at, *item) + 1;
}

static int strings_memfd(const char *data, size_t size, struct error *err)
{
    cleanup_close int fd = memfd_create("strings", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || fd_write_all(fd, data, size) < 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW) < 0)
        return error_errno(err, errno, "cannot pass a large command");
    return steal_fd(&fd);
}

int command_send(int sock, const struct command_request *request, struct error *err)
{
    struct lane_exec head = {.type = LANE_EXEC,
                             .rows = request->rows,
                             .columns = request->columns,
                             .flags = (request->terminal ? LANE_PTY : 0u) |
                                      (request->make_cwd ? LANE_MAKE_CWD : 0u)};
    int fds[4];
    size_t count = 0;
    size_t size = measure(request, &head);
    if (head.argc == 0 || !request->argv[0][0])
        return error_set(err, ERROR_INVALID, "the command is empty");
    if (size == 0)
        return error_set(err, ERROR_LIMIT, "arguments and environment exceed 2 MiB");
    head.size = (uint32_t)size;
    cleanup_free char *data = xmalloc(sizeof head + size);
    cleanup_close int memfd = -1;
    pack(request, data + sizeof head);
    for (size_t i = 0; i < 3 && !request->terminal; i++)
        fds[count++] = request->fds[i];
    if (size > LANE_INLINE_MAX) {
        memfd = strings_memfd(data + sizeof head, size, err);
        if (memfd < 0)
            return -1;
        fds[count++] = memfd;
        head.flags |= LANE_IN_MEMFD;
        size = 0;
    }
    memcpy(data, &head, sizeof head);
    ssize_t n = fd_send(sock, data, sizeof head + size, fds, count);
    return n < 0 ? -EPIPE : 0;
}

int command_explain_full(int errnum, const char *what, struct error *err)
{
    error_errno(err, errnum, "%s", what);
    if (errnum != EAGAIN)
        return -1;
    if (err)
        err->code = ERROR_CAPACITY;
    return error_hint(err, "the session has as many processes as it may; end some, or make it anew "
                           "with a higher limit");
}

int command_explain_start(const struct lane_started *started, const char *program, const char *cwd,
                          struct error *err)
{
    const char *what = started->stage == LANE_STAGE_CWD ? cwd : program;
    if (started->stage == LANE_STAGE_REQUEST)
        return error_errno(err, started->errnum, "the launcher refused the request");
    if (started->stage == LANE_STAGE_PTY)
        return error_errno(err, started->errnum, "cannot open a terminal inside");
    if (started->stage == LANE_STAGE_FORK)
        return command_explain_full(started->errnum, "cannot start a process inside", err);
    error_errno(err, started->errnum, "%s '%.200s'",
                started->stage == LANE_STAGE_CWD ? "cannot enter" : "cannot run", what);
    if (!err)
        return -1;
    if (started->errnum == ENOENT) {
        err->code = ERROR_NOT_FOUND;
        if (started->stage == LANE_STAGE_CWD)
            error_hint(err, "the directory does not exist inside the sandbox");
        else if (strchr(program, ' '))
            error_hint(err, "all of it is taken for the name of a program; a line for the shell is "
                            "run by sh -c 'LINE'");
        else
            error_hint(err, "no such program inside the sandbox, or its interpreter is missing; it "
                            "sees /usr of the host, and what was mounted");
    } else if (started->errnum == EACCES) {
        err->code = ERROR_DENIED;
    } else if (started->stage == LANE_STAGE_CWD || started->errnum == ENAMETOOLONG ||
               started->errnum == ENOTDIR || started->errnum == ELOOP) {
        err->code = ERROR_INVALID;
    }
    return -1;
}
