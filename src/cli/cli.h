/* SPDX-License-Identifier: Apache-2.0 */
/* What the verbs of `box` share. */
#pragma once

#include <stdbool.h>

#include "cli/options.h"
#include "core/error.h"

/* boxd's own exit codes, beside the command's: as env(1), timeout(1) and docker have them. */
enum exit_status {
    EXIT_USAGE = 2, /* of verbs that run no command, whose own status it could be taken for */
    EXIT_TIMED_OUT = 124,
    EXIT_BOXD = 125, /* boxd itself failed, usage errors included */
    EXIT_NOT_EXECUTABLE = 126,
    EXIT_NOT_FOUND = 127,
    EXIT_SIGNAL = 128, /* and the signal's number */
};

/* Each in a cmd-*.c of its own. */
extern const struct verb verb_run;
extern const struct verb verb_create;
extern const struct verb verb_exec;
extern const struct verb verb_shell;
extern const struct verb verb_cp;
extern const struct verb verb_rm;
extern const struct verb verb_start;
extern const struct verb verb_stop;
extern const struct verb verb_kill;
extern const struct verb verb_logs;
extern const struct verb verb_ps;
extern const struct verb verb_top;
extern const struct verb verb_inspect;
extern const struct verb verb_events;
extern const struct verb verb_status;
extern const struct verb verb_skill;
extern const struct verb verb_doctor;

/* "box: message", and the fix on a second line. `verb` may be NULL. Returns EXIT_BOXD. */
int cli_fail(const char *verb, const struct error *err);

/* Asked for JSON, a program wants it of its own mistakes too, wherever it asked. */
bool cli_asks_for_json(int argc, char **argv);
