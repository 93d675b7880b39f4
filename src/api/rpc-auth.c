/* SPDX-License-Identifier: Apache-2.0 */
/* Who LangBot is, by the headers of its requests. What transport it came by, and whether by a
   browser, has been looked at before (guard.c). */
#include <string.h>

#include "api/guard.h"
#include "api/rpc-internal.h"
#include "core/clock.h"
#include "core/parse.h"

#define INSTANCE   "X-LangBot-Instance-Id"
#define WORKSPACE  "X-LangBot-Workspace-Id"
#define GENERATION "X-LangBot-Placement-Generation"

static int refuse(struct error *err, const char *why)
{
    return error_set(err, ERROR_FORBIDDEN, "%s", why);
}

static int check_control_token(const struct api *api, struct http_request *req, struct error *err)
{
    const char *token = api->config.rpc.control_token;
    const char *given = http_header(req, GUARD_CONTROL_HEADER);
    if (token && !guard_same(token, given ? given : ""))
        return refuse(err, "the control token is missing or wrong");
    return 0;
}

static int check_instance(const struct api *api, const char *instance, struct error *err)
{
    const char *served = api->rpc->instance;
    if (!rpc_instance_valid(instance))
        return refuse(err, INSTANCE " is not an instance's id");
    if (served && strcmp(served, instance) != 0)
        return refuse(err, "another instance is served here");
    return 0;
}

int rpc_auth_peer(struct api *api, struct http_request *req, const char **ret_instance,
                  struct error *err)
{
    const char *instance = http_header(req, INSTANCE);
    if (check_control_token(api, req, err) < 0)
        return -1;
    if (!instance && (api->config.rpc.control_token || api->config.rpc.tenancy_required))
        return refuse(err, INSTANCE " is needed here");
    if (api->config.relay_only && http_origin(req) != HTTP_UNIX && !api->config.rpc.control_token)
        return refuse(err, "this boxd is spoken to by its standard input");
    if (instance && check_instance(api, instance, err) < 0)
        return -1;
    *ret_instance = instance;
    return 0;
}

/* As we write it: no sign, no space, no zero before it. */
static int read_generation(const char *text, uint64_t *ret)
{
    return text && text[0] != '0' && text[strspn(text, "0123456789")] == '\0'
               ? parse_u64(text, UINT64_MAX, ret)
               : -1;
}

static int read_placement(const struct api *api, struct http_request *req,
                          struct tenant_context *ret, struct error *err)
{
    ret->instance = http_header(req, INSTANCE);
    ret->workspace = http_header(req, WORKSPACE);
    if (!ret->instance || !api->rpc->instance)
        return refuse(err, "the relay of a workspace's session is for the instance it belongs to");
    if (check_control_token(api, req, err) < 0 || check_instance(api, ret->instance, err) < 0)
        return -1;
    if (!ret->workspace || !ret->workspace[0] || strlen(ret->workspace) > TENANT_ID_MAX)
        return refuse(err, WORKSPACE " is missing or wrong");
    if (read_generation(http_header(req, GENERATION), &ret->generation) < 0)
        return refuse(err, GENERATION " is missing or wrong");
    return 0;
}

/* Where grants are required, whether this one covers managed processes. */
static int check_grant(const struct rpc *rpc, const struct tenant_context *who, struct error *err)
{
    const struct admission_grant *grant;
    if (!rpc_admission_required(rpc))
        return 0;
    if (admission_require(rpc->admission, who, clock_now_us(), &grant, err) < 0)
        return -1;
    if (grant->max_managed_processes == 0)
        return error_set(err, ERROR_ADMISSION, "the grant allows no managed processes");
    return 0;
}

int rpc_auth_relay(struct api *api, struct http_request *req, const char *session,
                   struct tenant_lease *lease, struct error *err)
{
    struct tenant_context who = {0};
    /* Who has no tenancy, and asks for what is no tenant's. */
    if (!tenant_name_parse(session, NULL) && !http_header(req, INSTANCE))
        return rpc_admission_required(api->rpc)
                   ? error_set(err, ERROR_ADMISSION, "sandboxes are for workspaces with a grant")
                   : 0;
    if (read_placement(api, req, &who, err) < 0 ||
        tenant_join(api->rpc->tenants, &who, lease, err) < 0)
        return -1;
    int rc = check_grant(api->rpc, &who, err);
    if (rc == 0 && !tenant_owns(&who, session))
        rc = refuse(err, "the session is of another placement");
    if (rc < 0)
        tenant_release(lease);
    return rc;
}

/* The reason is for whoever reads the log: who asks with something wrong is not told what. */
void rpc_auth_refuse(struct api *api, struct http_request *req, const struct error *err)
{
    struct error told = ERROR_INIT;
    rpc_noise_from(api->rpc, req, "rpc_refused", err->message);
    error_set(&told, ERROR_FORBIDDEN, "LangBot's headers are missing or wrong");
    error_hint(&told, "boxd's log says which");
    http_add_header(req, "WWW-Authenticate", "Bearer realm=\"boxd\"");
    reply_wire_error(req, (struct wire_error){WIRE_AUTHENTICATION, 401}, &told);
}
