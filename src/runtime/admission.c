/* SPDX-License-Identifier: Apache-2.0 */
/* The book of grants: what may be written into it, and who may ask under it. */
#include "runtime/admission.h"

#include <inttypes.h>
#include <string.h>

#include "core/mem.h"
#include "runtime/admission-internal.h"

#define US_PER_SECOND 1000000

struct admission {
    struct admission_policy policy;
    struct spaces records;
    size_t max_records;
    struct admission_heap heap;
};

/* --- the book --------------------------------------------------------------------------------- */

void admission_grant_release(struct admission_grant *grant)
{
    free(grant->instance);
    free(grant->workspace);
    *grant = (struct admission_grant){0};
}

struct admission *admission_new(size_t max_records)
{
    struct admission *book = xcalloc(1, sizeof *book);
    admission_policy_init(&book->policy);
    spaces_init(&book->records);
    book->max_records = max_records;
    return book;
}

static void drop_grant(struct admission_record *record)
{
    if (!record->grant)
        return;
    admission_grant_release(record->grant);
    free(record->grant);
    record->grant = NULL;
}

static void record_free(struct space *space)
{
    struct admission_record *record = (struct admission_record *)space;
    drop_grant(record);
    free(record);
}

void admission_free(struct admission *book)
{
    if (!book)
        return;
    admission_policy_release(&book->policy);
    spaces_release(&book->records, record_free);
    free(book->heap.items);
    free(book);
}

void admission_set_max(struct admission *book, size_t max_records)
{
    book->max_records = max_records;
}

const struct admission_policy *admission_policy(const struct admission *book)
{
    return &book->policy;
}

void admission_set_policy(struct admission *book, const struct admission_policy *policy)
{
    if (book->policy.required && !policy->required) {
        free(book->policy.problem);
        book->policy.problem =
            xstrdup("admission was required, and cannot be given up without a restart");
        return;
    }
    struct admission_policy old = book->policy;
    admission_policy_copy(&book->policy, policy);
    admission_policy_release(&old);
}

void admission_count(const struct admission *book, size_t *ret_records, size_t *ret_grants)
{
    *ret_records = book->records.count;
    *ret_grants = book->heap.count;
}

static struct admission_record *find(const struct admission *book, const char *space)
{
    return (struct admission_record *)spaces_find(&book->records, space);
}

/* --- rules ------------------------------------------------------------------------------------ */

static int refuse(struct error *err, const char *why)
{
    return error_set(err, ERROR_ADMISSION, "%s", why);
}

static int check_enabled(const struct admission *book, struct error *err)
{
    if (!book->policy.required)
        return refuse(err, "admission is not required here, so there are no grants");
    return 0;
}

static int check_usable(const struct admission *book, struct error *err)
{
    if (check_enabled(book, err) < 0)
        return -1;
    if (book->policy.problem)
        return error_set(err, ERROR_NOT_READY, "the admission policy is not usable: %.400s",
                         book->policy.problem);
    return 0;
}

static int check_room(const struct admission *book, const struct admission_record *record,
                      struct error *err)
{
    if (record || book->records.count < book->max_records)
        return 0;
    error_set(err, ERROR_ADMISSION, "%zu workspaces are in the book, and no more may be",
              book->records.count);
    return error_hint(err,
                      "raise limits.max_admission_records; a restart forgets those that are gone");
}

static int check_caps(const struct admission_policy *policy, const struct admission_grant *grant,
                      struct error *err)
{
    if (grant->max_sessions > policy->max_sessions)
        return error_set(err, ERROR_ADMISSION,
                         "the grant has max_sessions = %" PRIu32 ", and the policy allows %" PRIu32,
                         grant->max_sessions, policy->max_sessions);
    if (grant->max_managed_processes > policy->max_managed_processes)
        return error_set(err, ERROR_ADMISSION,
                         "the grant has max_managed_processes = %" PRIu32
                         ", and the policy allows %" PRIu32,
                         grant->max_managed_processes, policy->max_managed_processes);
    return 0;
}

static int check_grant(const struct admission *book, const struct admission_grant *grant,
                       int64_t now_us, struct error *err)
{
    int64_t longest_us = (int64_t)book->policy.max_grant_ttl_sec * US_PER_SECOND;
    if (grant->expires_us <= now_us)
        return refuse(err, "the grant has expired already");
    if (grant->expires_us - now_us > longest_us)
        return error_set(err, ERROR_ADMISSION,
                         "the grant lasts longer than max_grant_ttl_sec = %" PRIu32,
                         book->policy.max_grant_ttl_sec);
    return check_caps(&book->policy, grant, err);
}

/* What came before must not come back. */
static int check_order(const struct admission_record *record, const struct admission_grant *grant,
                       struct error *err)
{
    if (grant->revision <= record->revoked)
        return error_set(err, ERROR_ADMISSION, "entitlement_revision %" PRIu64 " was revoked",
                         grant->revision);
    if (grant->revision < record->revision)
        return error_set(err, ERROR_ADMISSION,
                         "entitlement_revision %" PRIu64 " is older than %" PRIu64, grant->revision,
                         record->revision);
    if (grant->generation < record->generation)
        return error_set(err, ERROR_ADMISSION,
                         "execution_generation %" PRIu64 " is older than %" PRIu64,
                         grant->generation, record->generation);
    if (grant->revision == record->revision && record->generation > 0 &&
        (grant->max_sessions != record->max_sessions ||
         grant->max_managed_processes != record->max_managed_processes))
        return error_set(err, ERROR_ADMISSION,
                         "the limits of entitlement_revision %" PRIu64 " are fixed",
                         grant->revision);
    return 0;
}

/* --- changes ---------------------------------------------------------------------------------- */

static struct admission_record *record_new(struct admission *book, const char *space)
{
    struct admission_record *record = xcalloc(1, sizeof *record);
    spaces_add(&book->records, &record->space, space);
    return record;
}

static void install(struct admission *book, struct admission_record *record,
                    const struct admission_grant *grant)
{
    struct admission_grant *copy = xmalloc(sizeof *copy);
    *copy = *grant;
    copy->instance = xstrdup(grant->instance);
    copy->workspace = xstrdup(grant->workspace);
    bool renewed = record->grant;
    drop_grant(record);
    record->grant = copy;
    record->revision = grant->revision;
    record->generation = grant->generation;
    record->max_sessions = grant->max_sessions;
    record->max_managed_processes = grant->max_managed_processes;
    if (renewed)
        heap_moved(&book->heap, record);
    else
        heap_add(&book->heap, record);
}

/* Two hosts may renew one grant by clocks that differ; the later time holds, and neither is told
   that it is wrong. */
static bool is_shorter(const struct admission_grant *grant, const struct admission_grant *current)
{
    return grant->revision == current->revision && grant->generation == current->generation &&
           grant->expires_us < current->expires_us;
}

int admission_upsert(struct admission *book, const struct admission_grant *grant, int64_t now_us,
                     const struct admission_grant **ret, enum admission_effect *ret_effect,
                     struct error *err)
{
    static const struct admission_record blank;
    char space[TENANT_NAMESPACE_SIZE];
    if (check_usable(book, err) < 0 || check_grant(book, grant, now_us, err) < 0)
        return -1;
    tenant_namespace(grant->instance, grant->workspace, space);
    struct admission_record *record = find(book, space);
    if (check_room(book, record, err) < 0 || check_order(record ? record : &blank, grant, err) < 0)
        return -1;
    if (!record)
        record = record_new(book, space);
    /* One that has expired counts as gone, whether or not anybody has noticed. */
    const struct admission_grant *current = record->grant;
    if (current && current->expires_us <= now_us)
        current = NULL;
    if (current && is_shorter(grant, current)) {
        *ret = current;
        *ret_effect = ADMISSION_KEEP;
        return 0;
    }
    bool same = current && current->generation == grant->generation && grant->max_sessions > 0;
    install(book, record, grant);
    *ret = record->grant;
    *ret_effect = same ? ADMISSION_END_OTHERS : ADMISSION_END_ALL;
    return 0;
}

int admission_revoke(struct admission *book, const char *instance, const char *workspace,
                     uint64_t revision, struct error *err)
{
    char space[TENANT_NAMESPACE_SIZE];
    /* Also under a policy with a problem: what takes rights away is always heard. */
    if (check_enabled(book, err) < 0)
        return -1;
    tenant_namespace(instance, workspace, space);
    struct admission_record *record = find(book, space);
    if (check_room(book, record, err) < 0)
        return -1;
    if (!record)
        record = record_new(book, space);
    /* What is revoked was seen, so `revision` is the higher of the two. */
    if (revision < record->revision)
        return error_set(err, ERROR_ADMISSION,
                         "entitlement_revision %" PRIu64 " is older than %" PRIu64, revision,
                         record->revision);
    if (record->grant)
        heap_remove(&book->heap, record);
    drop_grant(record);
    record->revision = record->revoked = revision;
    return 0;
}

int64_t admission_next_expiry(const struct admission *book)
{
    return book->heap.count > 0 ? book->heap.items[0]->grant->expires_us : 0;
}

bool admission_expire(struct admission *book, int64_t now_us, struct admission_grant *ret)
{
    if (book->heap.count == 0 || book->heap.items[0]->grant->expires_us > now_us)
        return false;
    struct admission_record *record = book->heap.items[0];
    heap_remove(&book->heap, record);
    *ret = *record->grant;
    free(record->grant);
    record->grant = NULL;
    return true;
}

/* --- asking ----------------------------------------------------------------------------------- */

static int require(const struct admission *book, const char *space, uint64_t generation,
                   int64_t now_us, const struct admission_grant **ret, struct error *err)
{
    if (check_usable(book, err) < 0)
        return -1;
    const struct admission_record *record = find(book, space);
    const struct admission_grant *grant = record ? record->grant : NULL;
    if (!grant)
        return refuse(err, "the workspace has no grant");
    if (grant->expires_us <= now_us)
        return refuse(err, "the workspace's grant has expired");
    if (grant->generation != generation)
        return refuse(err, "the workspace's grant is of another generation");
    if (grant->max_sessions == 0)
        return refuse(err, "the workspace's grant allows no session");
    if (check_caps(&book->policy, grant, err) < 0)
        return -1;
    if (ret)
        *ret = grant;
    return 0;
}

int admission_require(const struct admission *book, const struct tenant_context *context,
                      int64_t now_us, const struct admission_grant **ret, struct error *err)
{
    char space[TENANT_NAMESPACE_SIZE];
    tenant_namespace(context->instance, context->workspace, space);
    return require(book, space, context->generation, now_us, ret, err);
}

int admission_covers(const struct admission *book, const char *session, int64_t now_us,
                     struct error *err)
{
    struct tenant_name parts;
    if (!book->policy.required || !tenant_name_parse(session, &parts))
        return 0;
    return require(book, parts.space, parts.generation, now_us, NULL, err);
}
