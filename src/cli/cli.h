/* SPDX-License-Identifier: Apache-2.0 */
/* What the verbs of `box` share. */
#pragma once

#include <stdbool.h>

#include "cli/options.h"
#include "core/error.h"

/* boxd's own exit codes, beside the command's: as env(1), timeout(1) and docker have them. */
enum exit_status {
    EXIT_TIMED_OUT = 124,
    EXIT_BOXD = 125, /* boxd itself failed, usage errors included */
    EXIT_NOT_EXECUTABLE = 126,
    EXIT_NOT_FOUND = 127,
    EXIT_SIGNAL = 128, /* and the signal's number */
};

extern const struct verb verb_run;
extern const struct verb verb_doctor;

/* "box: message", and the fix on a second line. `verb` may be NULL. Returns EXIT_BOXD. */
int cli_fail(const char *verb, const struct error *err);
