/* SPDX-License-Identifier: Apache-2.0 */
/* What `box run` was asked for, and the verbs that make sessions and run things in them through
   boxd: each has rows of its own for the same structure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cli/client.h"
#include "cli/options.h"
#include "core/mem.h"
#include "sandbox/spec.h"

/* Said so, rather than by default, where the value does not tell. */
enum run_given {
    GIVEN_NETWORK = 1 << 0,
    GIVEN_IMAGE = 1 << 1,
    GIVEN_SECCOMP = 1 << 2,
    GIVEN_TMP_SIZE = 1 << 3,
    GIVEN_TIMEOUT = 1 << 4,
};

struct run_options {
    struct client_options client; /* first: see client.h */
    const char *session;          /* NULL: a sandbox of the command's own, without boxd */
    const char *process_id;       /* NULL: the default one */
    bool create;                  /* the session, if it is not there */
    bool persistent;
    bool concurrent;
    struct sandbox_spec spec;
    uint32_t given;      /* enum run_given */
    uint64_t timeout_ms; /* 0: none */
    char *workdir;       /* NULL: the default */
    struct strings env;  /* as given: "K=V" or "K" */
    struct strings env_files;
    struct strings skills; /* names in boxd's store */
    bool interactive;
    bool terminal;
    bool plan;
    bool quiet;
    bool read_only; /* said so, rather than by default */
    char **command; /* within argv */
};

extern const struct option run_option_table[];
extern const struct option create_option_table[];
extern const struct option exec_option_table[];
extern const struct option shell_option_table[];
extern const struct option start_option_table[];

void run_options_init(struct run_options *options);
void run_options_release(struct run_options *options);
/* What no single option can tell: contradictions, and whether there is a command. */
int run_options_check(const struct run_options *options, struct error *err);

/* "SRC:DST[:ro|rw]" as a mount of the spec; a relative SRC is taken from `cwd`. */
int run_parse_mount(struct sandbox_spec *spec, const char *text, const char *cwd,
                    struct error *err);
/* "SIZE[,INODES]". */
int run_parse_quota(struct sandbox_spec *spec, const char *text, struct error *err);

/* The spec of a session as boxd takes it: what was asked for and nothing else, so that boxd's
   defaults are the rest. What boxd cannot be asked for is an error. */
int run_options_to_spec(const struct run_options *options, json_t **ret, struct error *err);
/* The named variables as an object. */
int run_options_env(const struct run_options *options, json_t **ret, struct error *err);
