/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of LangBot's RPC know of each other. */
#pragma once

#include "api/internal.h"
#include "api/rpc-spec.h"
#include "runtime/readiness.h"
#include "runtime/tenant.h"

#define RPC_MESSAGE_MAX   (16u << 20)
#define RPC_FRAGMENTS_MAX 4096
#define RPC_INFLIGHT_MAX  128
#define RPC_UPLOADS_MAX   128
#define RPC_CHUNK_BYTES   (16u << 10) /* of an upload, and of a message on standard output */
#define RPC_ERROR_CHARS   4096

struct rpc_conn;

/* --- a connection, whatever carries it (rpc-conn.c) --- */

struct rpc_transport {
    /* One message. False: more waits to go out than should (it was taken all the same); the
       transport calls rpc_conn_drained() when there is room again. */
    bool (*send)(void *owner, const char *text, size_t size);
    /* Stops and goes on giving messages. */
    void (*pause)(void *owner);
    void (*resume)(void *owner);
};

/* `instance`: who the peer is, NULL for one of 0.4. `actor`: for the audit log. */
struct rpc_conn *rpc_conn_new(struct api *api, const char *instance, const char *actor,
                              const struct rpc_transport *transport, void *owner);
void rpc_conn_message(struct rpc_conn *conn, const char *text, size_t size);
void rpc_conn_drained(struct rpc_conn *conn);
/* Answers are still to come. */
bool rpc_conn_busy(const struct rpc_conn *conn);
/* The transport is gone: what is under way is called off, uploads are dropped, nothing is sent. */
void rpc_conn_free(struct rpc_conn *conn);
