/* SPDX-License-Identifier: Apache-2.0 */
/* The store and its scopes. */
#include "skills/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/fd.h"
#include "core/path.h"
#include "skills/beneath.h"

/* How many scopes nobody uses are remembered, with what is known of them: tenants come by the ten
   thousand. */
#define SCOPES_KEPT 64

struct skill_store {
    char *root; /* without links */
    void (*allowance)(void *data, const char *tenant, struct skill_room *ret);
    void *data;
    pthread_mutex_t lock;
    struct skill_scope *scopes;
    uint64_t uses;
};

/* mkdir -p, of a path that the operator chose. */
static int make_root(const char *path, struct error *err)
{
    cleanup_free char *copy = xstrdup(path);
    for (size_t end = 1; copy[end - 1]; end++) {
        end += strcspn(copy + end, "/");
        char saved = copy[end];
        copy[end] = '\0';
        if (mkdir(copy, 0755) < 0 && errno != EEXIST && errno != EROFS)
            return error_errno(err, errno, "cannot make the skill store's directory %s", copy);
        copy[end] = saved;
        if (!saved)
            break;
    }
    return 0;
}

struct skill_store *skill_store_open(const struct skill_store_options *options, struct error *err)
{
    cleanup_free char *path = path_normalise(options->root, err);
    if (!path || make_root(path, err) < 0)
        return NULL;
    char *root = realpath(path, NULL);
    if (!root) {
        error_errno(err, errno, "cannot find the skill store's directory %s", path);
        return NULL;
    }
    struct skill_store *store = xcalloc(1, sizeof *store);
    store->root = root;
    store->allowance = options->allowance;
    store->data = options->data;
    pthread_mutex_init(&store->lock, NULL);
    return store;
}

const char *skill_store_root(const struct skill_store *store)
{
    return store->root;
}

static void scope_free(struct skill_scope *scope)
{
    index_unref(scope->index);
    watch_close(&scope->watch);
    pthread_mutex_destroy(&scope->watching);
    pthread_mutex_destroy(&scope->lock);
    pthread_mutex_destroy(&scope->writer);
    free(scope->tenant);
    free(scope->path);
    free(scope);
}

void skill_store_close(struct skill_store *store)
{
    if (!store)
        return;
    while (store->scopes) {
        struct skill_scope *scope = store->scopes;
        store->scopes = scope->next;
        scope_free(scope);
    }
    pthread_mutex_destroy(&store->lock);
    free(store->root);
    free(store);
}

/* --- scopes --- */

static int check_tenant(const char *tenant, struct error *err)
{
    size_t size = strlen(tenant);
    if (size == 0 || size > SKILL_NAMESPACE_MAX || strpbrk(tenant, "/\\") ||
        strcmp(tenant, ".") == 0 || strcmp(tenant, "..") == 0)
        return error_set(err, ERROR_INVALID, "that is no tenant's name");
    return 0;
}

static bool is_of(const struct skill_scope *scope, const char *tenant)
{
    if (!tenant || !scope->tenant)
        return !tenant && !scope->tenant;
    return strcmp(scope->tenant, tenant) == 0;
}

static struct skill_scope *scope_new(struct skill_store *store, const char *tenant)
{
    struct skill_scope *scope = xcalloc(1, sizeof *scope);
    scope->store = store;
    scope->tenant = tenant ? xstrdup(tenant) : NULL;
    scope->path =
        tenant ? xasprintf("%s/" TENANTS "/%s", store->root, tenant) : xstrdup(store->root);
    scope->watch = (struct watch)WATCH_INIT;
    pthread_mutex_init(&scope->watching, NULL);
    pthread_mutex_init(&scope->lock, NULL);
    pthread_mutex_init(&scope->writer, NULL);
    scope->next = store->scopes;
    store->scopes = scope;
    return scope;
}

/* The one that was not used for the longest, if there are too many. */
static struct skill_scope *take_idle(struct skill_store *store)
{
    struct skill_scope **oldest = NULL;
    size_t idle = 0;
    for (struct skill_scope **at = &store->scopes; *at; at = &(*at)->next) {
        if ((*at)->refs > 0)
            continue;
        idle++;
        if (!oldest || (*at)->last_use < (*oldest)->last_use)
            oldest = at;
    }
    if (idle <= SCOPES_KEPT)
        return NULL;
    struct skill_scope *scope = *oldest;
    *oldest = scope->next;
    return scope;
}

struct skill_scope *skill_scope_get(struct skill_store *store, const char *tenant,
                                    struct error *err)
{
    if (tenant && check_tenant(tenant, err) < 0)
        return NULL;
    pthread_mutex_lock(&store->lock);
    struct skill_scope *scope = store->scopes;
    while (scope && !is_of(scope, tenant))
        scope = scope->next;
    if (!scope)
        scope = scope_new(store, tenant);
    scope->refs++;
    scope->last_use = ++store->uses;
    pthread_mutex_unlock(&store->lock);
    return scope;
}

void skill_scope_put(struct skill_scope *scope)
{
    if (!scope)
        return;
    struct skill_store *store = scope->store;
    pthread_mutex_lock(&store->lock);
    scope->refs--;
    struct skill_scope *idle = take_idle(store);
    pthread_mutex_unlock(&store->lock);
    /* Nobody else has it now. The kernel may take its time to end a watch. */
    if (idle)
        scope_free(idle);
}

int scope_open(struct skill_scope *scope, struct error *err)
{
    cleanup_close int root = open(scope->store->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (root < 0 && errno == ENOENT && make_root(scope->store->root, err) < 0)
        return -1;
    if (root < 0)
        root = open(scope->store->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return error_errno(err, errno, "cannot open the skill store");
    if (!scope->tenant)
        return steal_fd(&root);
    /* Not through links: whoever can place one there would give a tenant another's skills. */
    cleanup_free char *below = xasprintf(TENANTS "/%s", scope->tenant);
    int dir = beneath_open_plain(root, below, O_RDONLY | O_DIRECTORY);
    if (dir == -ENOENT) {
        if ((mkdirat(root, TENANTS, 0755) < 0 && errno != EEXIST) ||
            (mkdirat(root, below, 0755) < 0 && errno != EEXIST))
            return error_errno(err, errno, "cannot make a tenant's skill store");
        dir = beneath_open_plain(root, below, O_RDONLY | O_DIRECTORY);
    }
    if (dir < 0)
        return error_errno(err, -dir, "cannot open a tenant's skill store");
    return dir;
}

int skill_scope_make(struct skill_scope *scope, struct error *err)
{
    cleanup_close int dir = scope_open(scope, err);
    return dir < 0 ? -1 : 0;
}

int scope_check_target(const struct skill_scope *scope, const char *name, struct error *err)
{
    if (!*name || strlen(name) > 255 || strchr(name, '/') || strcmp(name, ".") == 0 ||
        strcmp(name, "..") == 0 || stage_is_name(name) ||
        (!scope->tenant && strcmp(name, TENANTS) == 0))
        return error_set(err, ERROR_INVALID, "'%.100s' is no name for a directory of the store",
                         name);
    return 0;
}

uint64_t skill_scope_generation(struct skill_scope *scope)
{
    pthread_mutex_lock(&scope->lock);
    uint64_t generation = scope->generation;
    pthread_mutex_unlock(&scope->lock);
    return generation;
}

void skill_scope_changed(struct skill_scope *scope)
{
    pthread_mutex_lock(&scope->lock);
    struct index *index = steal_ptr(scope->index);
    scope->forgotten = scope->tickets;
    scope->generation++;
    pthread_mutex_unlock(&scope->lock);
    index_unref(index);
}

/* --- writes --- */

/* What is left of what the scope may hold. */
static int find_room(struct skill_scope *scope, int root, struct budget *ret, struct error *err)
{
    struct skill_room limit = {UINT64_MAX, UINT64_MAX};
    struct skill_room used = {0, 0};
    *ret = (struct budget){UINT64_MAX, UINT64_MAX};
    if (scope->store->allowance)
        scope->store->allowance(scope->store->data, scope->tenant, &limit);
    if (limit.bytes == UINT64_MAX && limit.entries == UINT64_MAX)
        return 0;
    if (tree_measure(root, scope->tenant ? NULL : TENANTS, &used, err) < 0)
        return -1;
    if (limit.bytes != UINT64_MAX)
        ret->bytes = limit.bytes > used.bytes ? limit.bytes - used.bytes : 0;
    if (limit.entries != UINT64_MAX)
        ret->entries = limit.entries > used.entries ? limit.entries - used.entries : 0;
    return 0;
}

int write_begin(struct skill_scope *scope, struct write_op *ret, struct error *err)
{
    struct write_op op = WRITE_OP_INIT;
    pthread_mutex_lock(&scope->writer);
    op.scope = scope;
    op.root = scope_open(scope, err);
    if (op.root < 0 || scope_index(scope, op.root, true, &op.index, err) < 0) {
        write_end(&op);
        return -1;
    }
    *ret = op;
    return 0;
}

int write_stage(struct write_op *op, struct error *err)
{
    if (find_room(op->scope, op->root, &op->budget, err) < 0)
        return -1;
    return stage_open(op->root, &op->stage, err);
}

void write_end(struct write_op *op)
{
    if (!op->scope)
        return;
    stage_close(&op->stage);
    index_unref(op->index);
    fd_clear(&op->root);
    pthread_mutex_unlock(&op->scope->writer);
    *op = (struct write_op)WRITE_OP_INIT;
}

static void set_publishing(struct skill_scope *scope, bool publishing)
{
    pthread_mutex_lock(&scope->lock);
    scope->publishing = publishing;
    pthread_mutex_unlock(&scope->lock);
}

int write_publish(struct write_op *op, const struct strings *targets, struct error *err)
{
    set_publishing(op->scope, true);
    int rc = stage_publish(&op->stage, targets, err);
    set_publishing(op->scope, false);
    return rc;
}

int write_result(struct write_op *op, const char *name, const struct skill **ret, struct error *err)
{
    cleanup_index struct index *index = NULL;
    if (scope_index(op->scope, op->root, true, &index, err) < 0)
        return -1;
    struct package *package = index_find(index, name);
    if (!package)
        return error_set(err, ERROR_NOT_FOUND, "the skill '%.100s' is gone again", name);
    *ret = &package_ref(package)->skill;
    return 0;
}

int write_check_count(const struct write_op *op, size_t count, struct error *err)
{
    if (package_entry(op->root))
        return error_set(err, ERROR_INVALID,
                         "the skill store's directory is itself a skill, so it can hold no others");
    if (op->index->package_count + count > SKILL_COUNT_MAX)
        return error_set(err, ERROR_LIMIT, "a store holds at most %d skills", SKILL_COUNT_MAX);
    if (op->index->scanned + count > SKILL_SCAN_MAX)
        return error_set(err, ERROR_LIMIT, "the skill store has too many entries to be searched");
    return 0;
}
