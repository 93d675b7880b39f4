/* SPDX-License-Identifier: Apache-2.0 */
/* What LangBot's requests are made of, taken as pydantic's lax mode takes it: unknown keys are
   ignored, texts trimmed, numbers may be texts and the other way round where it allows that; errors
   (ERROR_INVALID) name the field. No I/O. */
#pragma once

#include <jansson.h>

#include "backend/spec.h"
#include "runtime/admission.h"
#include "runtime/runtime.h"

/* A spec: a session, and perhaps a command in it. */
struct rpc_spec {
    struct session_spec session;
    char *cmd; /* trimmed; may be "" */
    char *workdir;
    uint64_t timeout_sec; /* at least 1 */
    struct strings env;   /* "NAME=value" */
    char *skill_name;     /* NULL: none */
};

/* `ret` is the caller's to release in every case. */
int rpc_spec_decode(const json_t *data, struct rpc_spec *ret, struct error *err);
void rpc_spec_release(struct rpc_spec *spec);
int rpc_process_decode(const json_t *data, struct process_spec *ret, struct error *err);
int rpc_grant_decode(const json_t *data, struct admission_grant *ret, struct error *err);

struct rpc_revocation {
    char *instance;
    char *workspace;
    uint64_t revision;
};
int rpc_revocation_decode(const json_t *data, struct rpc_revocation *ret, struct error *err);
void rpc_revocation_release(struct rpc_revocation *revocation);

/* The `context` of a request. Its texts are trimmed copies. */
struct rpc_context {
    char *instance;
    char *workspace;
    uint64_t generation;
};
int rpc_context_decode(const json_t *context, struct rpc_context *ret, struct error *err);
void rpc_context_release(struct rpc_context *context);
/* The `admission` section of a configuration (NULL: there is none). A malformed one is a policy
   that is required and has a problem. */
void rpc_policy_decode(const json_t *section, struct admission_policy *ret);
