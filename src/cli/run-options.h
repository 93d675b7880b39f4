/* SPDX-License-Identifier: Apache-2.0 */
/* What `box run` was asked for. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cli/options.h"
#include "core/mem.h"
#include "sandbox/spec.h"

struct run_options {
    struct sandbox_spec spec;
    uint64_t timeout_ms; /* 0: none */
    char *workdir;
    struct strings env; /* as given: "K=V" or "K" */
    struct strings env_files;
    bool interactive;
    bool terminal;
    bool json;
    bool plan;
    bool quiet;
    bool read_only; /* said so, rather than by default */
    char **command; /* within argv */
};

extern const struct option run_option_table[];

void run_options_init(struct run_options *options);
void run_options_release(struct run_options *options);
/* What no single option can tell: contradictions, and whether there is a command. */
int run_options_check(const struct run_options *options, struct error *err);

/* "SRC:DST[:ro|rw]" as a mount of the spec; a relative SRC is taken from `cwd`. */
int run_parse_mount(struct sandbox_spec *spec, const char *text, const char *cwd,
                    struct error *err);
/* "SIZE[,INODES]". */
int run_parse_quota(struct sandbox_spec *spec, const char *text, struct error *err);
