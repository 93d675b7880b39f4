/* SPDX-License-Identifier: Apache-2.0 */
/* Specs that name skills, over RPC: looked up in the peer's own scope of the store. */
#include "api/rpc-internal.h"
#include "api/skills.h"

/* A request whose spec waits for its skills. */
struct waiting {
    struct rpc_call *call;
    struct rpc_spec spec;
    void (*then)(struct rpc_call *call, struct rpc_spec *spec);
};

static void waiting_free(struct waiting *waiting)
{
    rpc_spec_release(&waiting->spec);
    free(waiting);
}

static void on_found(void *data, struct skill_answer *answer, const struct error *refused)
{
    struct waiting *waiting = data;
    struct rpc_call *call = waiting->call;
    struct error err = ERROR_INIT;
    if (!rpc_due(call)) {
        waiting_free(waiting);
        return;
    }
    if (refused && rpc_admission_required(call->rpc) && refused->code != ERROR_CAPACITY) {
        rpc_fail_as(call, wire_class_name(WIRE_ADMISSION), refused);
    } else if (refused) {
        rpc_fail(call, refused);
    } else if (skills_mount(call->api, &answer->names, &answer->paths, &waiting->spec.session,
                            &err) < 0) {
        rpc_fail(call, &err);
    } else {
        call->warnings = answer->warnings;
        answer->warnings = (struct strings){0};
        waiting->then(call, &waiting->spec);
    }
    waiting_free(waiting);
}

void rpc_with_skills(struct rpc_call *call, struct rpc_spec *spec,
                     void (*then)(struct rpc_call *call, struct rpc_spec *spec))
{
    char space[TENANT_NAMESPACE_SIZE];
    struct skill_ask ask;
    if (spec->skill_name)
        strings_add(&spec->session.skills, spec->skill_name);
    if (spec->session.skills.count == 0) {
        then(call, spec);
        return;
    }
    struct waiting *waiting = xcalloc(1, sizeof *waiting);
    skill_ask_init(&ask, SKILL_VERB_RESOLVE);
    ask.names = spec->session.skills;
    ask.skip_missing = call->api->config.rpc.shares_files;
    spec->session.skills = (struct strings){0};
    if (call->who.workspace) {
        tenant_namespace(call->who.instance, call->who.workspace, space);
        ask.tenant = xstrdup(space);
    }
    *waiting = (struct waiting){.call = call, .spec = *spec, .then = then};
    *spec = (struct rpc_spec){0};
    rpc_wait(call);
    skills_ask(call->api, &ask, on_found, waiting);
}

void out_warnings(struct json_out *out, const struct rpc_call *call)
{
    if (call->warnings.count == 0)
        return;
    out_open(out, "warnings", '[');
    for (size_t i = 0; i < call->warnings.count; i++)
        out_text(out, NULL, call->warnings.items[i]);
    out_close(out, ']');
}
