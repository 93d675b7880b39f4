/* SPDX-License-Identifier: Apache-2.0 */
/* What boxd has on the machine: its directories, the lock that makes them its own, its token, and
   the account its front runs as. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "core/error.h"
#include "daemon/config.h"

/* Whom the front becomes. */
struct account {
    bool change; /* false: it stays what it is */
    uid_t uid;
    gid_t gid;
};

/* As the configuration says. Only root can become somebody else; asking for it as another user is
   an error. */
int account_find(const struct config *config, struct account *ret, struct error *err);

/* Makes run_dir, its "sessions" and state_dir where they are missing, checks owner and mode of
   those that are there, and gives the front what it needs. */
int places_prepare(const struct config *config, const struct account *account, struct error *err);

/* The directory of LangBot's workspaces, and with it the root that it lies below: LangBot's own
   runtime makes them too. Those inside are made when they are mounted. */
int places_workspace(const struct config *config, struct error *err);

/* The directory of skills, the front's own if it is not there yet. */
int places_skills(const struct config *config, const struct account *account, struct error *err);

/* As the front, once it is that: whether it can get there, through the directories above. */
int places_reach(const struct config *config, struct error *err);

/* Held until this process ends. ERROR_UNAVAILABLE names the process that holds it. */
int places_lock(const struct config *config, struct error *err);

/* At least 32 characters, no white space, from a file that others cannot read. The caller frees. */
#define TOKEN_MIN 32
#define TOKEN_MAX 4096
int token_read(const char *path, char **ret, struct error *err);
/* The bearer token, and LangBot's control token from its variable or its file: those that are
   configured, NULL for the others. To be freed with token_free(). */
int tokens_read(const struct config *config, char **ret_token, char **ret_control,
                struct error *err);
void token_free(char *token); /* and its memory forgotten */
