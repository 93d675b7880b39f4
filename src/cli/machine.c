/* SPDX-License-Identifier: Apache-2.0 */
/* The machine as seen by this process. */
#include "cli/machine.h"

#include <string.h>

#include "core/path.h"

void machine_policy(const struct facts *facts, struct mount_policy *ret)
{
    *ret = (struct mount_policy){0};
    cleanup_free char *home = path_normalise(facts->home, NULL);
    if (home && strcmp(home, "/") != 0)
        strings_add(&ret->allowed_roots, home);
}

int machine_open(struct machine *ret, struct error *err)
{
    struct machine machine = {0};
    if (cgroup_root_open(&machine.cgroups, err) < 0)
        return -1;
    facts_gather(&machine.facts);
    facts_gather_network(&machine.facts);
    facts_set_cgroup(&machine.facts, machine.cgroups);
    machine_policy(&machine.facts, &machine.policy);
    *ret = machine;
    return 0;
}

void machine_close(struct machine *machine)
{
    cgroup_root_close(machine->cgroups);
    facts_release(&machine->facts);
    strings_release(&machine->policy.allowed_roots);
}

int machine_plan(const struct sandbox_spec *spec, struct plan *ret, struct error *err)
{
    struct machine machine;
    if (machine_open(&machine, err) < 0)
        return -1;
    int rc = plan_build(spec, &machine.facts, &machine.policy, ret, err);
    machine_close(&machine);
    return rc;
}
