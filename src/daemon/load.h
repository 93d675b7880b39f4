/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration in effect, and the forms in which the layers below want it. */
#pragma once

#include "api/api.h"
#include "daemon/config.h"
#include "daemon/options.h"
#include "net/http-server.h"
#include "runtime/runtime.h"

/* All layers, settled. *ret_file is the file that was read (NULL: none); the caller frees. */
void load_config(const struct options *options, struct config *ret, char **ret_file,
                 struct config_problems *problems);

void config_to_log(const struct config *config);
void config_to_http(const struct config *config, struct http_limits *ret);
/* Points into the configuration; lists are copies, for runtime_config_release(). */
void config_to_runtime(const struct config *config, struct runtime_config *ret);
void runtime_config_release(struct runtime_config *config);
/* To be released with api_config_release(). Tokens may be NULL. */
void config_to_api(const struct config *config, const char *token, const char *control_token,
                   struct api_config *ret);
/* A root as it is written and as it really is: a source is asked about by both names. */
void add_real_root(const char *path, struct strings *ret);
/* The allowed ones. */
void config_real_roots(const struct config *config, struct strings *ret);
