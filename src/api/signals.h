/* SPDX-License-Identifier: Apache-2.0 */
/* Names of signals. No I/O. */
#pragma once

#define SIGNAL_MAX       64
#define SIGNAL_TEXT_SIZE 16

/* "SIGTERM", "SIG40"; NULL for 0. */
const char *signal_text(int number, char ret[SIGNAL_TEXT_SIZE]);
/* Of "TERM", "SIGTERM", "term" or "15"; -1 if there is none. */
int signal_number(const char *text);
