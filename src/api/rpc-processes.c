/* SPDX-License-Identifier: Apache-2.0 */
/* Managed processes: start, look at, stop. */
#include "api/rpc-internal.h"

#define USUAL "default"

/* --- start --- */

static void on_started(void *data, struct process *process, const struct error *err)
{
    struct rpc_call *call = data;
    if (!rpc_due(call))
        return;
    if (err) {
        rpc_fail(call, err);
        return;
    }
    out_process(rpc_answer(call), NULL, rpc_logical(call, call->session), process, true);
    rpc_send(call);
}

static void count_running(struct process *process, void *data)
{
    struct process_info info;
    process_info(process, &info);
    *(unsigned *)data += info.running;
}

/* Whether the grant, where one is needed, has room for one more. */
static int check_grant(const struct rpc_call *call, struct error *err)
{
    const struct admission_grant *grant;
    unsigned running = 0;
    if (!rpc_admission_required(call->rpc))
        return 0;
    if (rpc_require_grant(call, &grant, err) < 0)
        return -1;
    struct session *session = runtime_find_session(call->api->runtime, call->session);
    if (session)
        session_each_process(session, count_running, &running);
    if (running >= grant->max_managed_processes)
        return error_set(err, ERROR_ADMISSION, "the grant allows %u managed processes",
                         grant->max_managed_processes);
    return 0;
}

void rpc_start_process(struct rpc_call *call)
{
    struct error err = ERROR_INIT;
    struct process_spec spec = {0};
    const json_t *wanted = json_object_get(call->data, "spec");
    struct session *session;
    if (!rpc_name_session(call))
        return;
    if (!wanted)
        rpc_fail_missing(call, "spec");
    else if (rpc_process_decode(wanted, &spec, &err) < 0 || check_grant(call, &err) < 0)
        rpc_fail(call, &err);
    else if ((session = rpc_named_session(call)))
        session_start_process(session, &spec, on_started, rpc_wait(call));
    process_spec_release(&spec);
}

/* --- look at, stop --- */

/* The one that the request names; NULL: it has been answered. */
static struct process *find_process(struct rpc_call *call)
{
    struct error err = ERROR_INIT;
    struct session *session = rpc_find_session(call);
    const char *id = session ? rpc_text(call, "process_id", USUAL) : NULL;
    if (!id)
        return NULL;
    struct process *process = session_find_process(session, id);
    if (process)
        return process;
    error_set(&err, ERROR_NO_PROCESS, "no managed process '%.128s' in session '%.128s'", id,
              rpc_logical(call, call->session));
    rpc_fail(call, &err);
    return NULL;
}

void rpc_get_process(struct rpc_call *call)
{
    struct process *process = find_process(call);
    if (!process)
        return;
    out_process(rpc_answer(call), NULL, rpc_logical(call, call->session), process, true);
    rpc_send(call);
}

void rpc_stop_process(struct rpc_call *call)
{
    struct process *process = find_process(call);
    struct process_info info;
    if (!process)
        return;
    process_info(process, &info);
    struct json_out *out = rpc_answer(call);
    out_open(out, NULL, '{');
    out_text(out, "stopped", info.id);
    out_close(out, '}');
    process_stop(process, rpc_done, rpc_wait(call));
}
