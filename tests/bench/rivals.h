/* SPDX-License-Identifier: Apache-2.0 */
/* What a user would pick instead. */
#pragma once

#include <stdbool.h>

/* One-shot commands with isolation like ours. Each fills a command line for running `true`, or
   returns false if the program is not installed. The strings live until the program ends. */
#define RIVAL_ARGS 64
bool rival_bwrap(char **argv);
bool rival_nsjail(char **argv);
/* `directory` is made for the bundle; it stays until the caller removes it. */
bool rival_runc(const char *directory, char **argv);

/* The path of a program, or NULL if it is not installed. */
const char *rival_find(const char *name);

/* rival-docker.c: a dockerd of the benchmark's own, with an image and a container that waits. NULL,
   or why there is none. */
const char *rival_docker_start(void);
void rival_docker_stop(void);
/* While it runs: another name for its image (NULL, or why not), and its address. */
const char *rival_docker_tag(const char *name);
const char *rival_docker_host(void);
extern char *rival_docker_exec[RIVAL_ARGS]; /* sh -c true in that container */
extern char *rival_docker_run[RIVAL_ARGS];  /* and in one made for it */

/* rival-podman.c: likewise, without a daemon. */
const char *rival_podman_start(void);
extern char *rival_podman_run[RIVAL_ARGS];
