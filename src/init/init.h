/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of box-init share. box-init is static and small: no stdio, no heap. */
#pragma once

#include <linux/filter.h>
#include <stddef.h>
#include <stdint.h>

#include "sandbox/protocol.h"

/* The system call filter, read once and installed by each launcher. */
struct filter {
    struct sock_filter code[4096];
    unsigned short count;
};

int filter_load(struct filter *filter, int fd);

/* Moves the calling process into the groups behind the descriptors, and closes them; -1 is passed
 * over. */
int group_enter(int *fds, size_t count);

/* The launcher's whole life; never returns. `sock` carries LANE_* messages; the listener of its
   filter is sent over `listener_sock`, then its first command may come. */
_Noreturn void launcher_run(const struct filter *filter, int sock, int listener_sock);

/* kept.c: descriptors held for whoever comes after the caller. */
void kept_put(const struct init_keep *what, int *fds,
              size_t count); /* takes them over; none: lets go */
void kept_send(int control);

/* worker.c: INIT_FILE, in a process of its own: never returns. */
_Noreturn void worker_run(int sock, const struct file_request *request, const char *path,
                          const char *to);

/* INIT_OPEN and INIT_STATFS, from the sandbox's own point of view. */
void files_open(int control, const struct init_open *request, const char *path);
void files_statfs(int control, const struct init_open *request, const char *path);
