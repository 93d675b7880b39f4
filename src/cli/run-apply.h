/* SPDX-License-Identifier: Apache-2.0 */
/* The functions behind the rows of run-options.c; `target` is a struct run_options. */
#pragma once

#include "cli/run-options.h"

int apply_allow_net(void *target, const char *value, struct error *err);
int apply_concurrent(void *target, const char *value, struct error *err);
int apply_cpus(void *target, const char *value, struct error *err);
int apply_create(void *target, const char *value, struct error *err);
int apply_env(void *target, const char *value, struct error *err);
int apply_env_file(void *target, const char *value, struct error *err);
int apply_image(void *target, const char *value, struct error *err);
int apply_interactive(void *target, const char *value, struct error *err);
int apply_memory(void *target, const char *value, struct error *err);
int apply_mount(void *target, const char *value, struct error *err);
int apply_network(void *target, const char *value, struct error *err);
int apply_persistent(void *target, const char *value, struct error *err);
int apply_pids(void *target, const char *value, struct error *err);
int apply_plan(void *target, const char *value, struct error *err);
int apply_process_id(void *target, const char *value, struct error *err);
int apply_quiet(void *target, const char *value, struct error *err);
int apply_quota(void *target, const char *value, struct error *err);
int apply_read_only(void *target, const char *value, struct error *err);
int apply_ro_path(void *target, const char *value, struct error *err);
int apply_seccomp(void *target, const char *value, struct error *err);
int apply_session(void *target, const char *value, struct error *err);
int apply_skill(void *target, const char *value, struct error *err);
int apply_strict(void *target, const char *value, struct error *err);
int apply_terminal(void *target, const char *value, struct error *err);
int apply_timeout(void *target, const char *value, struct error *err);
int apply_tmp_size(void *target, const char *value, struct error *err);
int apply_workdir(void *target, const char *value, struct error *err);
int apply_writable(void *target, const char *value, struct error *err);
