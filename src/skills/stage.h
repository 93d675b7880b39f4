/* SPDX-License-Identifier: Apache-2.0 */
/* Where things are made before they are seen: directories ".boxd-stage-…" directly under the root
   of a scope. No search looks into anything called ".boxd-…". They are in the same file system and
   under the same quota as what they become, so a rename is all it takes.

   Who makes one holds a lock on it for as long as it is in use; the kernel lets go of that lock
   when the process dies, however it dies. A stage that nobody holds is left over: it is finished if
   it was committed, and removed otherwise. */
#pragma once

#include <stdbool.h>

#include "core/error.h"
#include "core/mem.h"

struct stage {
    int root; /* the scope's, borrowed */
    int dir;  /* -1: there is none */
    char name[40];
};

#define STAGE_INIT \
    {              \
        .dir = -1  \
    }

int stage_open(int root, struct stage *ret, struct error *err);
/* Removes it and all that is left in it. */
void stage_close(struct stage *stage);
#define cleanup_stage __attribute__((cleanup(stage_close)))

bool stage_is_name(const char *name); /* whether it is boxd's own, and nobody's package */
/* Whether it is something that somebody makes or removes, or that is left over of that. */
bool stage_is_temporary(const char *name);

/* Moves "0", "1", … in the stage to the names `targets` under the root: all of them or none, also
   if the machine stops in the middle. ERROR_INVALID if one is there already. What is in the stage
   must have been synced. */
int stage_publish(struct stage *stage, const struct strings *targets, struct error *err);

/* Deals with what is left over of that name, if it is a stage and nobody holds it. A committed one
   needs the root's lock, exclusively, and is left alone without `may_commit`: then this returns
   true, and is to be called again with it. One that cannot be finished now stays. */
bool stage_recover(int root, const char *name, bool may_commit);

/* Moves a directory of `parent`, which is the root or below it, aside, by one rename and without
   needing room, and removes it. */
int stage_remove(int root, int parent, const char *name, struct error *err);

/* A file made in the stage takes its place in `dir`. */
int stage_write(struct stage *stage, int dir, const char *name, const char *data, size_t size,
                unsigned mode, struct error *err);
