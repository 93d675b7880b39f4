/* SPDX-License-Identifier: Apache-2.0 */
/* What box-init and its launchers receive, checked before a field is believed. No I/O. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "sandbox/protocol.h"

union init_request {
    uint32_t type;
    struct init_lane lane;
    struct init_signal signal;
    struct init_outlive outlive;
    struct init_keep keep;
    struct {
        struct init_file head;
        char paths[2 * INIT_PATH_MAX];
    } file;
    struct {
        struct init_open head;
        char path[INIT_PATH_MAX];
    } open;
};

/* Whether `size` bytes are a whole message of their type: exact length, and a path that ends where
 * it says. */
bool init_request_valid(const union init_request *request, size_t size);

/* Whether the message has the length and the number of descriptors that its head announces. */
bool lane_exec_valid(const struct lane_exec *head, size_t size, size_t fd_count);

/* Splits the strings behind a valid head. `vector` has room for argc + envc + 2 pointers: the
   arguments, NULL, the variables, NULL. 0, or -1 if the strings are not what the head says. */
int lane_exec_split(char *strings, const struct lane_exec *head, char **vector,
                    const char **ret_cwd, char ***ret_envp);
