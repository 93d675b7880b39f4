/* SPDX-License-Identifier: Apache-2.0 */
/* What native sessions are isolated by: the spawner tells, for the front, which is confined, sees
   little of the machine. */
#include "backend/native-internal.h"
#include "core/json.h"

struct question {
    struct native *native;
    void (*done)(void *data, const json_t *described, const struct error *err);
    void *data;
};

static json_t *describe(const struct native *native, const struct spawner_reply *machine)
{
    static const char *const cgroups[CGROUP_VERSION_MAX] = {
        [CGROUP_NONE] = "none", [CGROUP_V1] = "v1", [CGROUP_V2] = "v2"};
    uint32_t can = machine->can;
    bool network = can & SPAWNER_CAN_NETWORK;
    return json_pack(
        "{s:s, s:b, s:[s,s,s,s,s,s,s], s:b, s:b, s:s, s:s, s:{s:b, s:b, s:b}, s:{s:b, s:s*}, s:b}",
        "name", "native", "available", native->reason[0] == '\0', "namespaces", "user", "mount",
        "pid", "net", "ipc", "uts", "cgroup", "seccomp", 1, "no_new_privileges", 1, "ids",
        can & SPAWNER_CAN_RANGES ? "a range for each session" : "the user's own", "cgroups",
        cgroups[machine->cgroup < CGROUP_VERSION_MAX ? machine->cgroup : CGROUP_NONE], "limits",
        "memory", (can & SPAWNER_CAN_MEMORY) != 0, "cpu", (can & SPAWNER_CAN_CPU) != 0, "pids",
        (can & SPAWNER_CAN_PIDS) != 0, "network", "available", network, "reason",
        network ? NULL : machine->message, "survives_restart", 1);
}

static void on_machine(void *data, const struct spawner_reply *reply, int *fds, size_t count)
{
    struct question *question = data;
    struct error err = ERROR_INIT;
    (void)fds;
    (void)count;
    if (spawner_answered(reply, &err) < 0) {
        question->done(question->data, NULL, &err);
    } else {
        cleanup_json json_t *described = describe(question->native, reply);
        question->done(question->data, described, NULL);
    }
    free(question);
}

void native_describe(struct backend *backend,
                     void (*done)(void *data, const json_t *described, const struct error *err),
                     void *data)
{
    struct native *native = (struct native *)backend;
    const struct spawner_request request = {.type = SPAWNER_MACHINE};
    struct question *question = xcalloc(1, sizeof *question);
    *question = (struct question){.native = native, .done = done, .data = data};
    native_call(native, &request, sizeof request, on_machine, question);
}
