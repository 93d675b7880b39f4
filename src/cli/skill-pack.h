/* SPDX-License-Identifier: Apache-2.0 */
/* A directory with a SKILL.md as the archive that boxd takes. */
#pragma once

#include "cli/zip-write.h"
#include "core/error.h"

struct skill_pack {
    char *name; /* the skill's */
    struct zip_writer archive;
    unsigned skipped; /* links and the like, each told on standard error */
};

/* What boxd would refuse is refused here, with the path in question, before anything is read
   whole. `name` is what the skill is to be called; NULL: what it says itself, or the directory's
   name. */
int skill_pack_make(const char *directory, const char *name, struct skill_pack *ret,
                    struct error *err);
void skill_pack_release(struct skill_pack *pack);
#define cleanup_skill_pack __attribute__((cleanup(skill_pack_release)))
