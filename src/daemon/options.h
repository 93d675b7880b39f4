/* SPDX-License-Identifier: Apache-2.0 */
/* boxd's command line. */
#pragma once

#include <stdbool.h>

#include "core/mem.h"
#include "daemon/config.h"

enum options_action {
    OPTIONS_RUN,
    OPTIONS_CHECK,
    OPTIONS_PRINT,
    OPTIONS_VERSION,
    OPTIONS_HELP,
};

struct options {
    enum options_action action;
    /* Root started it. Asked once: when the front reads the configuration again, it is somebody
       else, and the places are still the same. */
    bool system;
    char *config_file;     /* as given; NULL: where it is by default, if it is there */
    bool stdio;            /* LangBot is at standard input and output */
    char *host;            /* where to listen, in the words of LangBot's own runtime; NULL: … */
    char *port;            /* … not said */
    struct strings keys;   /* flags that set keys, and in `values` … */
    struct strings values; /* … to what */
};

int options_parse(struct options *options, int argc, char **argv, struct error *err);
void options_release(struct options *options);
/* Over what the configuration says. */
void options_apply(const struct options *options, struct config *config,
                   struct config_problems *problems);
void options_print_help(void);

/* The file that counts: the one given, or that of the default place; NULL if there is none there.
   The caller frees. */
char *options_config_file(const struct options *options);
/* The same, whether it is there or not; NULL if there is no such place. */
char *options_config_place(const struct options *options);
