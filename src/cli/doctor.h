/* SPDX-License-Identifier: Apache-2.0 */
/* What `box doctor` looks at: a table of checks, each with what it found and the command that
 * helps. */
#pragma once

#include <stdio.h>

#include "cli/machine.h"

enum check_state {
    CHECK_OK,
    CHECK_WARN, /* something optional is missing */
    CHECK_FAIL, /* sandboxes do not work without it */
};

#define CHECK_TEXT_MAX ERROR_TEXT_MAX

struct finding {
    enum check_state state;
    char found[CHECK_TEXT_MAX];
    char fix[CHECK_TEXT_MAX]; /* empty: nothing to do */
};

struct check {
    const char *name;
    void (*look)(const struct machine *machine, struct finding *ret);
};

/* Ends with a row that has no name. */
extern const struct check doctor_checks[];

/* For the checks: what was found, and what would help. */
#define finding_set(finding, state_, ...)                                  \
    do {                                                                   \
        (finding)->state = (state_);                                       \
        snprintf((finding)->found, sizeof((finding)->found), __VA_ARGS__); \
    } while (0)
#define finding_fix(finding, ...) \
    ((void)snprintf((finding)->fix, sizeof((finding)->fix), __VA_ARGS__))

/* doctor-probes.c: each tries the real thing in a child; 0 or -errno. */
int probe_user_namespace(void);
int probe_overlay(bool root);
int probe_idmap(const char *directory);

/* doctor-trial.c: the last check, a whole session. */
void look_at_session(const struct machine *machine, struct finding *ret);
