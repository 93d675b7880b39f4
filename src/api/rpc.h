/* SPDX-License-Identifier: Apache-2.0 */
/* LangBot's action RPC: named actions as JSON messages, over a WebSocket (/rpc/ws) or standard
   input and output. docs/langbot.md is what it promises.

   Three generations of clients come to the same place. Who names its instance at the connection
   (0.5) speaks for workspaces, and each of its requests about sandboxes carries a context that says
   which; who does not (0.4) has the sessions that are no tenant's, by the names it gives them. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "runtime/admission.h"

struct api;
struct rpc_stdio;

struct rpc_config {
    char *control_token; /* NULL: none is needed */
    char *instance;      /* the only one that is served; NULL: the first to come */
    bool tenancy_required;
    uint64_t max_file_bytes; /* of an upload */
    uint32_t max_records;    /* workspaces remembered by fence and grants */
    char *default_workspace; /* absolute; NULL: none */
    char *skills_root;       /* absolute; NULL: none */
    bool shares_files; /* with its peer, which started it: what is gone is no surprise to it */
    struct admission_policy admission;
    /* box_init: the tree is merged over the configuration (api_reconfigure() and the like are
       called before it returns), or refused, and nothing has changed. NULL: refused. */
    int (*init)(void *data, const json_t *tree, struct error *err);
    void *init_data;
};

void rpc_config_init(struct rpc_config *config); /* WIRE's defaults */
void rpc_config_release(struct rpc_config *config);
void rpc_config_copy(struct rpc_config *to, const struct rpc_config *from);
/* "^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$" */
bool rpc_instance_valid(const char *id);
/* At least 32 characters, none of them white space. */
int rpc_control_token_check(const char *token, struct error *err);

/* The connection on two descriptors, which are taken over: one JSON object a line, large ones in
   chunks. They must be pipes, sockets or terminals. `ended`, once, when the peer has closed `in`
   and every answer is out (or half a second later: it does not mean to wait), or `out` is broken.
 */
struct rpc_stdio *rpc_stdio_open(struct api *api, int in, int out, void (*ended)(void *data),
                                 void *data);
/* Also in or after `ended`, and before api_free(). Its handles close when the loop runs next. NULL
   is nothing. */
void rpc_stdio_close(struct rpc_stdio *stdio);
