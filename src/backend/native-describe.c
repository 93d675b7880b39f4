/* SPDX-License-Identifier: Apache-2.0 */
/* What native sessions are isolated by: the spawner tells, for the front, which is confined, sees
   little of the machine. */
#include "backend/native-internal.h"
#include "core/json.h"

struct native_curious {
    struct native_curious *next;
    void (*done)(void *data, const json_t *described, const struct error *err);
    void *data;
};

const char *native_cgroup_name(uint32_t version)
{
    static const char *const names[CGROUP_VERSION_MAX] = {
        [CGROUP_NONE] = "none", [CGROUP_V1] = "v1", [CGROUP_V2] = "v2"};
    return names[version < CGROUP_VERSION_MAX ? version : CGROUP_NONE];
}

static json_t *describe(const struct native *native, const struct spawner_reply *machine)
{
    uint32_t can = machine->can;
    bool network = can & SPAWNER_CAN_NETWORK;
    return json_pack(
        "{s:s, s:b, s:[s,s,s,s,s,s,s], s:b, s:b, s:s, s:s, s:{s:b, s:b, s:b}, s:{s:b, s:s*}, s:b}",
        "name", "native", "available", native->reason[0] == '\0', "namespaces", "user", "mount",
        "pid", "net", "ipc", "uts", "cgroup", "seccomp", 1, "no_new_privileges", 1, "ids",
        can & SPAWNER_CAN_RANGES ? "a range for each session" : "the user's own", "cgroups",
        native_cgroup_name(machine->cgroup), "limits", "memory", (can & SPAWNER_CAN_MEMORY) != 0,
        "cpu", (can & SPAWNER_CAN_CPU) != 0, "pids", (can & SPAWNER_CAN_PIDS) != 0, "network",
        "available", network, "reason", network ? NULL : machine->message, "survives_restart", 1);
}

/* All who have asked meanwhile have their answer by this one. */
static void on_machine(void *data, const struct spawner_reply *reply, int *fds, size_t count)
{
    struct native *native = data;
    struct error err = ERROR_INIT;
    (void)fds;
    (void)count;
    bool failed = spawner_answered(reply, &err) < 0;
    cleanup_json json_t *described = failed ? NULL : describe(native, reply);
    struct native_curious *curious = native->curious;
    native->curious = NULL;
    while (curious) {
        struct native_curious *next = curious->next;
        curious->done(curious->data, described, failed ? &err : NULL);
        free(curious);
        curious = next;
    }
}

/* To find out takes the spawner a process each time: it is asked once for all who wait. */
void native_describe(struct backend *backend,
                     void (*done)(void *data, const json_t *described, const struct error *err),
                     void *data)
{
    struct native *native = (struct native *)backend;
    const struct spawner_request request = {.type = SPAWNER_MACHINE};
    struct native_curious *curious = xmalloc(sizeof *curious);
    *curious = (struct native_curious){native->curious, done, data};
    native->curious = curious;
    if (!curious->next)
        native_call(native, &request, sizeof request, on_machine, native);
}
