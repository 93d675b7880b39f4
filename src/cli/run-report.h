/* SPDX-License-Identifier: Apache-2.0 */
/* What `box run` says of a command's end: as an exit status, as a line for people, as JSON. */
#pragma once

#include <jansson.h>
#include <stdio.h>

#include "cli/run-options.h"
#include "sandbox/capture.h"
#include "sandbox/engine.h"
#include "sandbox/plan.h"

int run_exit_status(const struct capture_result *result);
/* …of a command that could not be started. */
int run_start_status(const struct error *err);

/* "256M", "1.5G"; "10s", "250ms". */
void format_size(uint64_t bytes, char *ret, size_t size);
void format_duration(uint64_t ms, char *ret, size_t size);

/* The names of the system calls that were denied. */
void run_denied_names(const struct outcome *outcome, struct strings *ret);

/* One line for what a user should know; nothing if there is nothing. */
void run_explain(const struct run_options *options, const struct capture_result *result, FILE *out);

/* run-json.c */
json_t *run_result_to_json(const struct capture_result *result, const struct plan *plan,
                           const struct sandbox_spec *spec);
json_t *run_error_to_json(const struct error *err);
/* Writes and frees it. */
void run_print_json(json_t *value, size_t flags);
/* Reports it, on standard output if JSON is wanted; returns `status`. */
int run_fail(bool json, const char *verb, const struct error *err, int status);
