/* SPDX-License-Identifier: Apache-2.0 */
/* A command in a session of boxd's: for `box exec` and `box run --session`. */
#pragma once

#include "cli/client.h"
#include "cli/run-options.h"
#include "sandbox/capture.h"

/* Runs options->command in options->session, which is made if options->create says so or the
   options describe it. Returns the exit status, or -1; client->failure is then that of the
   failure. */
int session_exec(struct client *client, struct run_options *options, struct error *err);

/* exec-result.c: a result of boxd's as that of a command of our own, so that both are explained and
   turned into an exit status alike. */
void exec_result_from_json(const json_t *json, struct capture_result *ret);
/* The number of "SIGTERM" or "TERM", or 0. */
int exec_signal_number(const char *name);
/* What to exit with if boxd could not start a command. */
int exec_failure_status(const struct error *err);
