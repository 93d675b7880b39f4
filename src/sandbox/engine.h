/* SPDX-License-Identifier: Apache-2.0 */
/* The native engine as its caller sees it: an engine makes sessions, a session runs commands and
   opens files. All calls block; a caller with an event loop watches the descriptors instead.

     struct engine *engine;                        engine_open(&engine, &config, &err);
     struct sandbox *sandbox;                      sandbox_create(engine, &spec, &sandbox, &err);
     struct command command;                       command_start(sandbox, &request, &command, &err);
     poll(command_fd(&command)) … then             command_finish(&command, &outcome, &err);
     sandbox_destroy(sandbox, &err);               engine_close(engine); */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/error.h"
#include "sandbox/cgroup.h"
#include "sandbox/outcome.h"
#include "sandbox/protocol.h"
#include "sandbox/request.h"
#include "sandbox/spawner.h"
#include "sandbox/spec.h"

struct engine;
struct sandbox;

int engine_open(struct engine **ret, const struct spawner_config *config, struct error *err);
/* Ends every session that is left, and waits until nothing of them is left either. */
void engine_close(struct engine *engine);
/* The same without waiting: the sessions' processes are being killed, and are gone within moments,
   their groups and mounts with them. For callers that are about to exit. */
void engine_leave(struct engine *engine);

int sandbox_create(struct engine *engine, const struct sandbox_spec *spec, struct sandbox **ret,
                   struct error *err);
/* The same without waiting until it is up: the first command can be started at once, and what goes
   wrong while the session is built is its error. */
int sandbox_begin(struct engine *engine, const struct sandbox_spec *spec, struct sandbox **ret,
                  struct error *err);
/* Whether it turned out that it could not be built: then that is what a command's start failed of.
 */
bool sandbox_failed(const struct sandbox *sandbox);
/* Returns when no process of it is left. Frees the session in any case. */
int sandbox_destroy(struct sandbox *sandbox, struct error *err);
/* init's process id on the host, for people and tests. */
pid_t sandbox_host_pid(const struct sandbox *sandbox);
/* What it has less than the default promise, a sentence a line; "" if nothing. */
const char *sandbox_notes(const struct sandbox *sandbox);

/* INIT_OPEN_* flags; the file is looked up and opened inside, with the sandbox's rights. */
int sandbox_open(struct sandbox *sandbox, const char *path, uint32_t flags, uint32_t mode,
                 int *ret_fd, struct error *err);
int sandbox_space(struct sandbox *sandbox, const char *path, struct sandbox_space *ret,
                  struct error *err);

/* --- commands ----------------------------------------------------------------------------------
 */

struct command {
    struct sandbox *sandbox;
    int lane;
    int32_t pid;  /* inside */
    int terminal; /* master of the terminal, or -1 */
    uint64_t started_ns;
    struct cgroup_usage before;
    struct cgroup_usage last; /* when it was killed: its group may be gone afterwards */
    uint64_t memory_until_ns; /* how long a kill for memory may still be on its way */
    bool killed;
};

/* Fails with ERROR_NOT_FOUND (no such program, no such directory), ERROR_DENIED (not executable),
   and so on; `err->errnum` is the errno of exec. */
int command_start(struct sandbox *sandbox, const struct command_request *request,
                  struct command *ret, struct error *err);
/* Readable when the command has ended. */
int command_fd(const struct command *command);
/* Readable when something happened to the session or the spawner: command_check_engine() takes it
   in, and ends the command if there is nobody left to end it later. */
int command_engine_fd(const struct command *command);
void command_check_engine(struct command *command);
/* Readable when memory may have run out (call command_check_memory() then), or -1. */
int command_memory_fd(const struct command *command);
/* If the kernel killed a process of the command for memory, ends the rest of its tree too. True: to
   be called again in a moment, because the kernel (v1) tells that memory has run out before it
   kills. */
bool command_check_memory(struct command *command);
void command_signal(struct command *command, int number);
/* The whole tree, whatever it did. Where the session has no cgroup to tell its tree by, the
 * session. */
void command_kill(struct command *command);
/* Takes the exit, usage and cause; to be called once, when command_fd() is readable or after
   command_kill(). The lane is free again afterwards. */
int command_finish(struct command *command, bool timed_out, struct outcome *ret, struct error *err);
