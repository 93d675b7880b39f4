/* SPDX-License-Identifier: Apache-2.0 */
/* `box skill`: the procedures that boxd keeps for agents. */
#include "cli/cli.h"
#include "cli/skill.h"
#include "cli/verbs.h"

static const struct verb *const skill_verbs[] = {
    &verb_skill_ls,       &verb_skill_show,
    &verb_skill_new,      &verb_skill_import,
    &verb_skill_install,  &verb_skill_export,
    &verb_skill_edit,     &verb_skill_rm,
    &verb_skill_validate, NULL,
};

const struct verb verb_skill = {
    .name = "skill",
    .arguments = "VERB [ARG]...",
    .help = "Keep the skills that boxd has for agents: directories with a SKILL.md.",
    .run = verbs_run,
    .below = skill_verbs,
    .misuse = EXIT_USAGE,
};
