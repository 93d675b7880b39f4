/* SPDX-License-Identifier: Apache-2.0 */
/* What having a grant, and losing it, means: the timer that looks for those that have ended, and
   the end of the sessions and requests of their workspaces.

   Grants end by the clock on the wall, which may be set. The timer goes by another; so when it
   fires, what time it is is looked up, and it never sleeps for long. */
#include <stdio.h>
#include <string.h>

#include "api/rpc-internal.h"
#include "core/clock.h"
#include "core/log.h"

#define SLEEP_MAX_MS 60000

bool rpc_admission_required(const struct rpc *rpc)
{
    return admission_policy(rpc->admission)->required;
}

int rpc_require_grant(const struct rpc_call *call, const struct admission_grant **ret,
                      struct error *err)
{
    return admission_require(call->rpc->admission, &call->who, clock_now_us(), ret, err);
}

int rpc_require_ready(const struct readiness_result *result, struct error *err)
{
    char failed[ERROR_TEXT_MAX / 2] = "";
    if (result->ready)
        return 0;
    for (int i = 0; i < READINESS_MAX; i++) {
        size_t used = strlen(failed);
        if (!result->checks[i].ok)
            snprintf(failed + used, sizeof failed - used, "%s%s", used ? ", " : "",
                     readiness_name((enum readiness_check)i));
    }
    return error_set(err, ERROR_NOT_READY, "isolation is not what it must be: %s", failed);
}

void rpc_readiness_ask(struct rpc *rpc,
                       void (*done)(void *data, const struct readiness_result *result), void *data)
{
    const struct rpc_config *config = &rpc->api->config.rpc;
    struct readiness_setup setup = {
        .policy = admission_policy(rpc->admission),
        .workspace_root = config->default_workspace,
        .skills_root = config->skills_root,
    };
    readiness_ask(rpc->readiness, &setup, done, data);
}

/* --- the end of a workspace's sessions --- */

struct ending {
    char space[TENANT_NAMESPACE_SIZE];
    char *keep; /* the one that stays; NULL: none */
    backend_done done;
    void *data;
};

static bool is_of_workspace(const struct session *session, void *data)
{
    const struct ending *ending = data;
    const char *name = session_name(session);
    struct tenant_name parts;
    return tenant_name_parse(name, &parts) && strcmp(parts.space, ending->space) == 0 &&
           !(ending->keep && strcmp(name, ending->keep) == 0);
}

static bool uses_workspace(const struct rpc_call *call, const void *data)
{
    const struct ending *ending = data;
    char space[TENANT_NAMESPACE_SIZE];
    if (!call->who.workspace || !call->action || !(call->action->flags & RPC_SANDBOX))
        return false;
    tenant_namespace(call->who.instance, call->who.workspace, space);
    if (strcmp(space, ending->space) != 0)
        return false;
    /* One that has not come as far as to a session will be asked for its grant when it does. */
    return !ending->keep || (call->session && strcmp(call->session, ending->keep) != 0);
}

static void on_ended(void *data, const struct error *err)
{
    struct ending *ending = data;
    ending->done(ending->data, err);
    free(ending->keep);
    free(ending);
}

void rpc_end_workspace(struct rpc *rpc, const char *instance, const char *workspace, char *keep,
                       backend_done done, void *data)
{
    struct error err = ERROR_INIT;
    struct ending *ending = xcalloc(1, sizeof *ending);
    *ending = (struct ending){.keep = keep, .done = done, .data = data};
    tenant_namespace(instance, workspace, ending->space);
    error_set(&err, ERROR_ADMISSION, "the workspace's grant has ended, or is another now");
    rpc_call_off(rpc, uses_workspace, ending, &err);
    runtime_delete_sessions(rpc->api->runtime, is_of_workspace, on_ended, ending);
}

/* --- the timer --- */

static void on_nobody_waits(void *data, const struct error *err)
{
    (void)data;
    if (err && err->code != ERROR_NO_SESSION)
        log_error(LOG_ERROR, "session_remains", err);
}

static void end_adopted(struct rpc *rpc)
{
    struct strings names = rpc->adopted;
    rpc->adopted = (struct strings){0};
    for (size_t i = 0; i < names.count; i++)
        runtime_delete_session(rpc->api->runtime, names.items[i], on_nobody_waits, NULL);
    strings_release(&names);
}

static void on_expiry(uv_timer_t *timer)
{
    struct rpc *rpc = timer->data;
    struct admission_grant grant;
    runtime_set_actor(rpc->api->runtime, "admission");
    end_adopted(rpc);
    while (admission_expire(rpc->admission, clock_now_us(), &grant)) {
        log_event(LOG_INFO, "grant_expired", LOG_TEXT("workspace", grant.workspace));
        rpc_end_workspace(rpc, grant.instance, grant.workspace, NULL, on_nobody_waits, NULL);
        admission_grant_release(&grant);
    }
    rpc_admission_arm(rpc);
}

void rpc_admission_arm(struct rpc *rpc)
{
    int64_t next_us = admission_next_expiry(rpc->admission);
    if (next_us == 0) {
        uv_timer_stop(&rpc->expiry);
        return;
    }
    int64_t left_us = next_us - clock_now_us();
    uint64_t sleep_ms = left_us > 0 ? ((uint64_t)left_us + 999) / 1000 : 0;
    uv_update_time(rpc->api->loop);
    uv_timer_start(&rpc->expiry, on_expiry, sleep_ms < SLEEP_MAX_MS ? sleep_ms : SLEEP_MAX_MS, 0);
}

/* Of tenants, and from an earlier boxd: its grants are not known here, so there is none. Not from
   within the event: the runtime is in the middle of taking it over. */
static void on_event(void *data, const struct runtime_event *event)
{
    struct rpc *rpc = data;
    if (event->type != RUNTIME_SESSION_ADOPTED || !rpc_admission_required(rpc))
        return;
    strings_add(&rpc->adopted, event->session);
    uv_timer_start(&rpc->expiry, on_expiry, 0, 0);
}

static int may_create(void *data, const char *name, struct error *err)
{
    const struct rpc *rpc = data;
    return admission_covers(rpc->admission, name, clock_now_us(), err);
}

void rpc_admission_start(struct rpc *rpc)
{
    uv_timer_init(rpc->api->loop, &rpc->expiry);
    uv_unref((uv_handle_t *)&rpc->expiry);
    rpc->expiry.data = rpc;
    rpc->listener = (struct runtime_listener){.event = on_event, .data = rpc};
    runtime_listen(rpc->api->runtime, &rpc->listener);
    rpc->guard = (struct runtime_guard){.may_create = may_create, .data = rpc};
    runtime_add_guard(rpc->api->runtime, &rpc->guard);
}

void rpc_admission_stop(struct rpc *rpc)
{
    runtime_unlisten(rpc->api->runtime, &rpc->listener);
    runtime_remove_guard(rpc->api->runtime, &rpc->guard);
    strings_release(&rpc->adopted);
}

/* The trials of readiness are boxd's own. */
static bool needs_grant(const struct session *session, void *data)
{
    (void)data;
    return !readiness_owns(session_name(session));
}

static bool uses_sandbox(const struct rpc_call *call, const void *data)
{
    (void)data;
    return call->action && call->action->flags & RPC_SANDBOX;
}

void rpc_admission_changed(struct rpc *rpc, bool was)
{
    struct error err = ERROR_INIT;
    if (!was && rpc_admission_required(rpc)) { /* from now on, and nobody has a grant */
        error_set(&err, ERROR_ADMISSION, "a grant is required from now on");
        rpc_call_off(rpc, uses_sandbox, NULL, &err);
        runtime_delete_sessions(rpc->api->runtime, needs_grant, on_nobody_waits, NULL);
    }
}
