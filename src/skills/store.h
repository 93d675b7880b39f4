/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of the store: scopes, what is known of their packages, and how a write begins. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "core/error.h"
#include "core/mem.h"
#include "skills/package.h"
#include "skills/skills.h"
#include "skills/stage.h"
#include "skills/tree.h"
#include "skills/watch.h"

#define TENANTS         "tenants"
#define DISCOVERY_DEPTH 6
#define SCAN_DEPTH      2

/* What a search found. Shared and never changed. */
struct index {
    atomic_uint refs;
    uint64_t ticket;           /* of the search: a later one knows better */
    struct package **packages; /* by path, broken ones too */
    size_t package_count;
    struct package **skills; /* newest first */
    size_t count;
    size_t scanned;
    enum search_end end; /* unless whole, there is more */
};

void index_unref(struct index *index);
static inline void index_unref_p(struct index **index)
{
    index_unref(*index);
}
#define cleanup_index __attribute__((cleanup(index_unref_p)))

struct skill_scope {
    struct skill_store *store;
    struct skill_scope *next;
    char *tenant; /* NULL: the store outside tenants */
    char *path;
    unsigned refs;     /* under the store's lock */
    uint64_t last_use; /* likewise */
    pthread_mutex_t writer;
    pthread_mutex_t watching; /* of `watch`; never wanted by who has `lock` */
    struct watch watch;
    pthread_mutex_t lock; /* of what follows */
    struct index *index;  /* the latest; NULL: none yet */
    uint64_t tickets;     /* one for each search */
    uint64_t forgotten;   /* what searches up to this one knew is not to be kept */
    uint64_t generation;
    bool publishing; /* somebody needs the root for himself: no new searches */
};

/* The scope's directory, made if need be. Returns a descriptor of its own, which locks of its own
   can be taken on. */
int scope_open(struct skill_scope *scope, struct error *err);
/* What is there now. Nothing is searched while the watch has nothing to tell, and a package is read
   only if its stamps differ from when it was read last. While somebody publishes it may be what was
   there before, unless `wait` is set. */
int scope_index(struct skill_scope *scope, int root, bool wait, struct index **ret,
                struct error *err);
/* ERROR_LIMIT unless it has all that is there. */
int index_check_whole(const struct index *index, struct error *err);
struct package *index_find(const struct index *index, const char *name);
/* ERROR_NOT_FOUND if it has none of that name. */
struct package *index_require(const struct index *index, const char *name, struct error *err);
int scope_require(struct skill_scope *scope, int root, const char *name, struct package **ret,
                  struct error *err);
/* The package's directory, no links on the way. A descriptor or -1. */
int package_open(int root, const struct package *package, struct error *err);

/* One write: the lock, the directory, a stage in it and what may be written. */
struct write_op {
    struct skill_scope *scope; /* NULL: not begun */
    int root;
    struct index *index; /* before the write */
    struct stage stage;
    struct budget budget;
};

#define WRITE_OP_INIT                   \
    {                                   \
        .root = -1, .stage = STAGE_INIT \
    }

int write_begin(struct skill_scope *scope, struct write_op *ret, struct error *err);
/* The stage is made by those who need one: deleting must work on a full disk. */
int write_stage(struct write_op *op, struct error *err);
void write_end(struct write_op *op);
#define cleanup_write __attribute__((cleanup(write_end)))

/* stage_publish(), before which searches of this process stand back. */
int write_publish(struct write_op *op, const struct strings *targets, struct error *err);
/* The skill of that name after a write, as everybody sees it now. */
int write_result(struct write_op *op, const char *name, const struct skill **ret,
                 struct error *err);
/* Whether `count` more packages, directly under the root, will be found by searches. */
int write_check_count(const struct write_op *op, size_t count, struct error *err);
/* Whether a directory directly under the root may be called so. */
int scope_check_target(const struct skill_scope *scope, const char *name, struct error *err);

/* A host path that a client named, if the scope may use it: where it is below the scope's root in
   `ret_below` (NULL: it lies outside). */
struct host_path {
    int dir;
    char *path;  /* without links */
    char *below; /* "" is the root itself */
};
#define HOST_PATH_INIT \
    {                  \
        .dir = -1      \
    }
int scope_host_path(struct skill_scope *scope, int root, const char *path, struct host_path *ret,
                    struct error *err);
void host_path_release(struct host_path *path);
#define cleanup_host_path __attribute__((cleanup(host_path_release)))
