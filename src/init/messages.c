/* SPDX-License-Identifier: Apache-2.0 */
/* What box-init and its launchers receive, checked before a field is believed. */
#include "init/messages.h"

#include <string.h>

/* One or two absolute paths, each ended by its NUL and by no other. */
static bool file_valid(const struct init_file *head, const char *paths, size_t size)
{
    if (head->path_size == 0 || head->path_size > INIT_PATH_MAX || head->to_size > INIT_PATH_MAX ||
        size != (size_t)head->path_size + head->to_size)
        return false;
    const char *to = paths + head->path_size;
    if (paths[0] != '/' || memchr(paths, '\0', head->path_size) != to - 1)
        return false;
    if (head->to_size > 0 &&
        (to[0] != '/' || memchr(to, '\0', head->to_size) != to + head->to_size - 1))
        return false;
    return head->request.op < FILE_OP_MAX &&
           (head->request.flags & ~(uint32_t)FILE_FLAGS_ALL) == 0 &&
           (head->request.op == FILE_MOVE) == (head->to_size > 0);
}

bool init_request_valid(const union init_request *request, size_t size)
{
    if (size < sizeof request->type || size > sizeof *request)
        return false;
    switch (request->type) {
    case INIT_LANE:
        return size == sizeof request->lane && request->lane.lane < LANE_MAX;
    case INIT_SIGNAL:
        return size == sizeof request->signal;
    case INIT_OUTLIVE:
        return size == sizeof request->outlive;
    case INIT_KEEP:
        return size == sizeof request->keep && request->keep.id != 0 &&
               request->keep.lane < LANE_MAX;
    case INIT_FILE:
        return size > sizeof request->file.head &&
               file_valid(&request->file.head, request->file.paths,
                          size - sizeof request->file.head);
    case INIT_OPEN:
    case INIT_STATFS: {
        if (size <= sizeof request->open.head)
            return false;
        size_t length = size - sizeof request->open.head;
        return request->open.head.path_size == length && request->open.path[0] == '/' &&
               memchr(request->open.path, '\0', length) == request->open.path + length - 1;
    }
    default:
        return false;
    }
}

bool lane_exec_valid(const struct lane_exec *head, size_t size, size_t fd_count)
{
    if (size < sizeof *head || head->type != LANE_EXEC ||
        (head->flags & ~(uint32_t)LANE_FLAGS_ALL) != 0)
        return false;
    bool in_memfd = head->flags & LANE_IN_MEMFD;
    size_t wanted = (head->flags & LANE_PTY ? 0 : 3) + (in_memfd ? 1 : 0);
    if (head->size == 0 || head->size > (in_memfd ? LANE_STRINGS_MAX : LANE_INLINE_MAX))
        return false;
    if (head->argc == 0 || head->argc > LANE_ARGS_MAX || head->envc > LANE_ARGS_MAX - head->argc)
        return false;
    return fd_count == wanted && size == sizeof *head + (in_memfd ? 0 : head->size);
}

int lane_exec_split(char *strings, const struct lane_exec *head, char **vector,
                    const char **ret_cwd, char ***ret_envp)
{
    const char *end = strings + head->size;
    uint32_t total = head->argc + head->envc;
    if (end[-1] != '\0')
        return -1;
    *ret_cwd = strings;
    strings += strlen(strings) + 1;
    for (uint32_t i = 0; i < total; i++) {
        if (strings >= end)
            return -1;
        if (i == head->argc)
            *vector++ = NULL;
        *vector++ = strings;
        strings += strlen(strings) + 1;
    }
    if (head->envc == 0)
        *vector++ = NULL;
    *vector = NULL;
    *ret_envp = vector - head->envc;
    return strings == end ? 0 : -1;
}
