/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration of LangBot's RPC, and the forms of what identifies its peers. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "api/rpc.h"

#define CONTROL_TOKEN_MIN 32
#define INSTANCE_MAX      128

void rpc_config_init(struct rpc_config *config)
{
    *config = (struct rpc_config){.max_file_bytes = 20u << 20, .max_records = 100000};
    admission_policy_init(&config->admission);
}

void rpc_config_release(struct rpc_config *config)
{
    if (config->control_token)
        explicit_bzero(config->control_token, strlen(config->control_token));
    free(config->control_token);
    free(config->instance);
    free(config->default_workspace);
    free(config->skills_root);
    admission_policy_release(&config->admission);
    *config = (struct rpc_config){0};
}

static char *copy(const char *text)
{
    return text ? xstrdup(text) : NULL;
}

void rpc_config_copy(struct rpc_config *to, const struct rpc_config *from)
{
    *to = *from;
    to->control_token = copy(from->control_token);
    to->instance = copy(from->instance);
    to->default_workspace = copy(from->default_workspace);
    to->skills_root = copy(from->skills_root);
    admission_policy_copy(&to->admission, &from->admission);
}

bool rpc_instance_valid(const char *id)
{
    size_t size = strspn(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:-");
    return size > 0 && size <= INSTANCE_MAX && !id[size] && isalnum((unsigned char)id[0]);
}

int rpc_control_token_check(const char *token, struct error *err)
{
    if (strlen(token) < CONTROL_TOKEN_MIN || strpbrk(token, " \t\r\n\v\f")) {
        error_set(err, ERROR_INVALID,
                  "the control token must be at least %d characters, and no "
                  "white space among them",
                  CONTROL_TOKEN_MIN);
        return error_hint(err, "openssl rand -hex 32");
    }
    return 0;
}
