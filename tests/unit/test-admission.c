/* SPDX-License-Identifier: Apache-2.0 */
/* Admission: every rule of the book, and specs under a policy. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/internal.h"
#include "runtime/admission.h"

#define SECOND 1000000ll
#define NOW    (1800000000ll * SECOND)

/* --- the bench -------------------------------------------------------------------------------- */

static struct admission *new_book(size_t max)
{
    struct admission_policy policy;
    struct admission *book = admission_new(max);
    admission_policy_init(&policy);
    policy.required = true;
    admission_set_policy(book, &policy);
    return book;
}

static int set_up(void **state)
{
    *state = new_book(100);
    return 0;
}

static int tear_down(void **state)
{
    admission_free(*state);
    return 0;
}

static struct admission_grant grant_of(const char *workspace, uint64_t generation,
                                       uint64_t revision, int64_t seconds)
{
    return (struct admission_grant){
        .instance = (char *)"i",
        .workspace = (char *)workspace,
        .generation = generation,
        .revision = revision,
        .expires_us = NOW + seconds * SECOND,
        .max_sessions = 1,
    };
}

/* Its code; *ret_effect and the grant that holds must be right in success, and untouched else. */
static enum error_code upsert_at(struct admission *book, const struct admission_grant *grant,
                                 int64_t now, enum admission_effect *ret_effect)
{
    struct error err = ERROR_INIT;
    const struct admission_grant *held = NULL;
    enum admission_effect effect = 77;
    int result = admission_upsert(book, grant, now, &held, &effect, &err);
    assert_int_equal(result, err.code == ERROR_NONE ? 0 : -1);
    assert_int_equal(held != NULL, result == 0);
    assert_int_equal(effect != 77, result == 0);
    if (result == 0) {
        assert_string_equal(held->instance, grant->instance);
        assert_string_equal(held->workspace, grant->workspace);
        assert_int_equal(held->revision, grant->revision);
        assert_int_equal(held->generation, grant->generation);
        assert_true(held->expires_us >= grant->expires_us);
    } else {
        assert_true(strlen(err.message) > 0);
    }
    if (ret_effect)
        *ret_effect = effect;
    return err.code;
}

static enum error_code upsert(struct admission *book, struct admission_grant grant,
                              enum admission_effect *ret_effect)
{
    return upsert_at(book, &grant, NOW, ret_effect);
}

static enum error_code take_back(struct admission *book, const char *workspace, uint64_t revision)
{
    struct error err = ERROR_INIT;
    int result = admission_revoke(book, "i", workspace, revision, &err);
    assert_int_equal(result, err.code == ERROR_NONE ? 0 : -1);
    return err.code;
}

static enum error_code require_at(struct admission *book, const char *workspace,
                                  uint64_t generation, int64_t now)
{
    struct error err = ERROR_INIT, named_err = ERROR_INIT;
    const struct admission_grant *grant = NULL;
    struct tenant_context context = {"i", workspace, generation};
    int result = admission_require(book, &context, now, &grant, &err);
    assert_int_equal(result, err.code == ERROR_NONE ? 0 : -1);
    assert_int_equal(grant != NULL, result == 0);
    /* By the name of a session it is the same, where anything is required. */
    cleanup_free char *name = tenant_session_name(&context, "x", NULL);
    int named = admission_covers(book, name, now, &named_err);
    if (admission_policy(book)->required) {
        assert_int_equal(named, result);
        assert_string_equal(named_err.message, err.message);
    } else {
        assert_int_equal(named, 0);
    }
    return err.code;
}

static enum error_code require(struct admission *book, const char *workspace, uint64_t generation)
{
    return require_at(book, workspace, generation, NOW);
}

static void change_policy(struct admission *book, bool required, uint32_t sessions,
                          const char *problem)
{
    struct admission_policy policy;
    admission_policy_init(&policy);
    policy.required = required;
    policy.max_sessions = sessions;
    policy.problem = problem ? xstrdup(problem) : NULL;
    admission_set_policy(book, &policy);
    admission_policy_release(&policy);
}

static void assert_count(const struct admission *book, size_t records, size_t grants)
{
    size_t is_records, is_grants;
    admission_count(book, &is_records, &is_grants);
    assert_int_equal(is_records, records);
    assert_int_equal(is_grants, grants);
}

/* --- the policy ------------------------------------------------------------------------------- */

static void test_not_required(void **state)
{
    (void)state;
    struct admission *book = admission_new(10);
    assert_false(admission_policy(book)->required);
    assert_int_equal(upsert(book, grant_of("w", 1, 1, 10), NULL), ERROR_ADMISSION);
    assert_int_equal(take_back(book, "w", 1), ERROR_ADMISSION);
    assert_int_equal(require(book, "w", 1), ERROR_ADMISSION);
    assert_count(book, 0, 0);
    change_policy(book, false, 1, NULL); /* it may stay so */
    assert_null(admission_policy(book)->problem);
    admission_free(book);
    admission_free(NULL);
}

static void test_problem(void **state)
{
    struct admission *book = *state;
    assert_int_equal(upsert(book, grant_of("w", 1, 1, 10), NULL), ERROR_NONE);
    change_policy(book, true, 1, "malformed");
    assert_int_equal(upsert(book, grant_of("w", 1, 1, 20), NULL), ERROR_NOT_READY);
    assert_int_equal(require(book, "w", 1), ERROR_NOT_READY);
    assert_int_equal(take_back(book, "v", 1), ERROR_NONE); /* is heard all the same */
    change_policy(book, true, 1, NULL);
    assert_int_equal(require(book, "w", 1), ERROR_NONE);
    assert_int_equal(upsert(book, grant_of("v", 1, 1, 20), NULL), ERROR_ADMISSION);
}

static void test_no_way_back(void **state)
{
    struct admission *book = *state;
    assert_int_equal(upsert(book, grant_of("w", 1, 1, 10), NULL), ERROR_NONE);
    change_policy(book, false, 0, NULL);
    assert_true(admission_policy(book)->required);
    assert_int_equal(admission_policy(book)->max_sessions, 1); /* the old one */
    assert_non_null(admission_policy(book)->problem);
    assert_int_equal(require(book, "w", 1), ERROR_NOT_READY);
    change_policy(book, false, 0, NULL);
    assert_int_equal(require(book, "w", 1), ERROR_NOT_READY);
    change_policy(book, true, 1, NULL); /* a good one heals it */
    assert_null(admission_policy(book)->problem);
    assert_int_equal(require(book, "w", 1), ERROR_NONE);
}

static void test_policy_lowered(void **state)
{
    struct admission *book = *state;
    assert_int_equal(upsert(book, grant_of("w", 1, 1, 10), NULL), ERROR_NONE);
    change_policy(book, true, 0, NULL);
    assert_int_equal(require(book, "w", 1), ERROR_ADMISSION);
    assert_int_equal(upsert(book, grant_of("w", 1, 1, 20), NULL), ERROR_ADMISSION);
    change_policy(book, true, 1, NULL);
    assert_int_equal(require(book, "w", 1), ERROR_NONE);
}

/* --- grants ----------------------------------------------------------------------------------- */

static void test_lifetime(void **state)
{
    struct admission *book = *state;
    struct admission_grant grant = grant_of("w", 1, 1, 0);
    assert_int_equal(upsert(book, grant, NULL), ERROR_ADMISSION); /* expires this very moment */
    grant.expires_us = NOW - 1;
    assert_int_equal(upsert(book, grant, NULL), ERROR_ADMISSION);
    grant.expires_us = NOW + 300 * SECOND + 1;
    assert_int_equal(upsert(book, grant, NULL), ERROR_ADMISSION);
    grant.expires_us = INT64_MAX;
    assert_int_equal(upsert(book, grant, NULL), ERROR_ADMISSION);
    assert_count(book, 0, 0); /* what is refused is not remembered */
    grant.expires_us = NOW + 1;
    assert_int_equal(upsert(book, grant, NULL), ERROR_NONE);
    grant.expires_us = NOW + 300 * SECOND;
    assert_int_equal(upsert(book, grant, NULL), ERROR_NONE);
    assert_int_equal(admission_next_expiry(book), NOW + 300 * SECOND);
    assert_int_equal(require_at(book, "w", 1, NOW + 300 * SECOND - 1), ERROR_NONE);
    assert_int_equal(require_at(book, "w", 1, NOW + 300 * SECOND), ERROR_ADMISSION);
    assert_count(book, 1, 1);
}

static void test_caps(void **state)
{
    struct admission *book = *state;
    struct admission_grant grant = grant_of("w", 1, 1, 10);
    grant.max_sessions = 2;
    assert_int_equal(upsert(book, grant, NULL), ERROR_ADMISSION);
    grant.max_sessions = 1;
    grant.max_managed_processes = 1;
    assert_int_equal(upsert(book, grant, NULL), ERROR_ADMISSION);
    grant.max_managed_processes = UINT32_MAX;
    assert_int_equal(upsert(book, grant, NULL), ERROR_ADMISSION);
    assert_count(book, 0, 0);
}

static void test_no_sessions(void **state)
{
    struct admission *book = *state;
    enum admission_effect effect;
    struct admission_grant grant = grant_of("w", 1, 1, 10);
    assert_int_equal(upsert(book, grant, NULL), ERROR_NONE);
    grant.revision = 2;
    grant.max_sessions = 0;
    assert_int_equal(upsert(book, grant, &effect), ERROR_NONE);
    assert_int_equal(effect, ADMISSION_END_ALL);
    assert_int_equal(require(book, "w", 1), ERROR_ADMISSION);
    assert_int_equal(upsert(book, grant, &effect), ERROR_NONE);
    assert_int_equal(effect, ADMISSION_END_ALL);
}

static void test_require(void **state)
{
    struct admission *book = *state;
    assert_int_equal(require(book, "w", 5), ERROR_ADMISSION);
    assert_int_equal(upsert(book, grant_of("w", 5, 1, 10), NULL), ERROR_NONE);
    assert_int_equal(require(book, "w", 5), ERROR_NONE);
    assert_int_equal(require(book, "w", 4), ERROR_ADMISSION);
    assert_int_equal(require(book, "w", 6), ERROR_ADMISSION);
    assert_int_equal(require(book, "v", 5), ERROR_ADMISSION);
    struct tenant_context other = {"j", "w", 5};
    struct error err;
    assert_int_equal(admission_require(book, &other, NOW, NULL, &err), -1);
    assert_int_equal(err.code, ERROR_ADMISSION);
    assert_int_equal(admission_covers(book, "no tenant's", NOW, &err), 0);
}

static void test_order(void **state)
{
    struct admission *book = *state;
    enum admission_effect effect;
    assert_int_equal(upsert(book, grant_of("w", 5, 5, 10), &effect), ERROR_NONE);
    assert_int_equal(effect, ADMISSION_END_ALL); /* the first: whatever is there is older */
    assert_int_equal(upsert(book, grant_of("w", 5, 4, 20), NULL), ERROR_ADMISSION);
    assert_int_equal(upsert(book, grant_of("w", 4, 5, 20), NULL), ERROR_ADMISSION);
    assert_int_equal(upsert(book, grant_of("w", 4, 6, 20), NULL), ERROR_ADMISSION);
    assert_int_equal(upsert(book, grant_of("w", 6, 4, 20), NULL), ERROR_ADMISSION);
    assert_int_equal(upsert(book, grant_of("w", 5, 5, 20), &effect), ERROR_NONE); /* renewed */
    assert_int_equal(effect, ADMISSION_END_OTHERS);
    assert_int_equal(upsert(book, grant_of("w", 5, 6, 5), &effect), ERROR_NONE);
    assert_int_equal(effect, ADMISSION_END_OTHERS);
    assert_int_equal(admission_next_expiry(book), NOW + 5 * SECOND); /* shorter, but newer */
    assert_int_equal(upsert(book, grant_of("w", 6, 6, 4), &effect), ERROR_NONE);
    assert_int_equal(effect, ADMISSION_END_ALL);
    assert_int_equal(admission_next_expiry(book), NOW + 4 * SECOND);
    assert_int_equal(upsert(book, grant_of("w", UINT64_MAX, UINT64_MAX, 4), NULL), ERROR_NONE);
    assert_int_equal(upsert(book, grant_of("w", UINT64_MAX, UINT64_MAX - 1, 4), NULL),
                     ERROR_ADMISSION);
    assert_count(book, 1, 1);
}

static void test_shorter_duplicate(void **state)
{
    struct admission *book = *state;
    enum admission_effect effect;
    struct error err;
    const struct admission_grant *held;
    assert_int_equal(upsert(book, grant_of("w", 1, 1, 100), NULL), ERROR_NONE);
    struct admission_grant shorter = grant_of("w", 1, 1, 50);
    assert_int_equal(admission_upsert(book, &shorter, NOW, &held, &effect, &err), 0);
    assert_int_equal(effect, ADMISSION_KEEP);
    assert_int_equal(held->expires_us, NOW + 100 * SECOND);
    assert_int_equal(admission_next_expiry(book), NOW + 100 * SECOND);
    assert_int_equal(upsert(book, grant_of("w", 1, 1, 100), &effect), ERROR_NONE);
    assert_int_equal(effect, ADMISSION_END_OTHERS); /* as long is no shorter */
    /* Under other limits it is no duplicate. */
    shorter.max_sessions = 0;
    assert_int_equal(upsert(book, shorter, NULL), ERROR_ADMISSION);
}

static void test_limits_are_fixed(void **state)
{
    struct admission *book = *state;
    struct admission_grant none = grant_of("w", 1, 1, 10), gone;
    none.max_sessions = 0;
    assert_int_equal(upsert(book, none, NULL), ERROR_NONE);
    assert_int_equal(upsert(book, grant_of("w", 1, 1, 20), NULL), ERROR_ADMISSION);
    assert_int_equal(upsert(book, grant_of("w", 2, 1, 20), NULL), ERROR_ADMISSION);
    /* Also when the grant is gone. */
    assert_true(admission_expire(book, NOW + 10 * SECOND, &gone));
    admission_grant_release(&gone);
    assert_int_equal(upsert(book, grant_of("w", 1, 1, 20), NULL), ERROR_ADMISSION);
    assert_int_equal(upsert(book, grant_of("w", 1, 2, 20), NULL), ERROR_NONE);
    assert_int_equal(require(book, "w", 1), ERROR_NONE);
}

static void test_revocation(void **state)
{
    struct admission *book = *state;
    enum admission_effect effect;
    assert_int_equal(upsert(book, grant_of("w", 3, 5, 10), NULL), ERROR_NONE);
    assert_int_equal(take_back(book, "w", 4), ERROR_ADMISSION);
    assert_int_equal(require(book, "w", 3), ERROR_NONE);
    assert_int_equal(take_back(book, "w", 5), ERROR_NONE);
    assert_int_equal(require(book, "w", 3), ERROR_ADMISSION);
    assert_int_equal(admission_next_expiry(book), 0);
    assert_count(book, 1, 0);
    assert_int_equal(take_back(book, "w", 5), ERROR_NONE); /* again */
    assert_int_equal(upsert(book, grant_of("w", 3, 5, 20), NULL), ERROR_ADMISSION);
    assert_int_equal(take_back(book, "w", 7), ERROR_NONE); /* before it was granted */
    assert_int_equal(take_back(book, "w", 6), ERROR_ADMISSION);
    assert_int_equal(upsert(book, grant_of("w", 3, 7, 20), NULL), ERROR_ADMISSION);
    assert_int_equal(upsert(book, grant_of("w", 2, 8, 20), NULL), ERROR_ADMISSION);
    assert_int_equal(upsert(book, grant_of("w", 3, 8, 20), &effect), ERROR_NONE);
    assert_int_equal(effect, ADMISSION_END_ALL);
    assert_int_equal(require(book, "w", 3), ERROR_NONE);
    /* Of one who is unknown. */
    assert_int_equal(take_back(book, "v", 9), ERROR_NONE);
    assert_int_equal(upsert(book, grant_of("v", 1, 9, 20), NULL), ERROR_ADMISSION);
    assert_int_equal(upsert(book, grant_of("v", 1, 10, 20), NULL), ERROR_NONE);
    assert_count(book, 2, 2);
}

static void test_expiry(void **state)
{
    struct admission *book = *state;
    struct admission_grant gone = {0};
    enum admission_effect effect;
    assert_int_equal(admission_next_expiry(book), 0);
    assert_false(admission_expire(book, INT64_MAX, &gone));
    assert_int_equal(upsert(book, grant_of("a", 1, 1, 30), NULL), ERROR_NONE);
    assert_int_equal(upsert(book, grant_of("b", 2, 3, 10), NULL), ERROR_NONE);
    assert_int_equal(upsert(book, grant_of("c", 1, 1, 20), NULL), ERROR_NONE);
    assert_int_equal(admission_next_expiry(book), NOW + 10 * SECOND);
    assert_false(admission_expire(book, NOW + 10 * SECOND - 1, &gone));
    assert_null(gone.workspace);
    assert_true(admission_expire(book, NOW + 10 * SECOND, &gone));
    assert_string_equal(gone.instance, "i");
    assert_string_equal(gone.workspace, "b");
    assert_int_equal(gone.generation, 2);
    assert_int_equal(gone.revision, 3);
    admission_grant_release(&gone);
    assert_false(admission_expire(book, NOW + 10 * SECOND, &gone));
    assert_count(book, 3, 2);
    /* A renewal moves it, in both directions. */
    assert_int_equal(upsert(book, grant_of("c", 1, 1, 40), NULL), ERROR_NONE);
    assert_int_equal(admission_next_expiry(book), NOW + 30 * SECOND);
    assert_int_equal(upsert(book, grant_of("c", 1, 2, 15), NULL), ERROR_NONE);
    assert_int_equal(admission_next_expiry(book), NOW + 15 * SECOND);
    /* What has expired and is still in the book counts as gone. */
    struct admission_grant again = grant_of("c", 1, 2, 200);
    assert_int_equal(upsert_at(book, &again, NOW + 15 * SECOND, &effect), ERROR_NONE);
    assert_int_equal(effect, ADMISSION_END_ALL);
    /* The book still knows who was there. */
    assert_int_equal(upsert(book, grant_of("b", 1, 3, 50), NULL), ERROR_ADMISSION);
    assert_int_equal(upsert(book, grant_of("b", 2, 2, 50), NULL), ERROR_ADMISSION);
    assert_int_equal(upsert(book, grant_of("b", 2, 3, 50), &effect), ERROR_NONE);
    assert_int_equal(effect, ADMISSION_END_ALL);
}

static void test_room(void **state)
{
    (void)state;
    struct admission *book = new_book(2);
    struct admission_grant gone;
    assert_int_equal(upsert(book, grant_of("a", 1, 1, 10), NULL), ERROR_NONE);
    assert_int_equal(take_back(book, "b", 1), ERROR_NONE);
    assert_int_equal(upsert(book, grant_of("c", 1, 1, 10), NULL), ERROR_ADMISSION);
    assert_int_equal(take_back(book, "c", 1), ERROR_ADMISSION);
    /* Nothing is forgotten to make room. */
    assert_true(admission_expire(book, NOW + 10 * SECOND, &gone));
    admission_grant_release(&gone);
    assert_int_equal(upsert(book, grant_of("c", 1, 1, 10), NULL), ERROR_ADMISSION);
    assert_int_equal(upsert(book, grant_of("a", 1, 1, 10), NULL), ERROR_NONE);
    assert_int_equal(upsert(book, grant_of("b", 1, 2, 10), NULL), ERROR_NONE);
    admission_set_max(book, 1);
    assert_int_equal(upsert(book, grant_of("b", 1, 2, 20), NULL), ERROR_NONE);
    assert_int_equal(take_back(book, "b", 2), ERROR_NONE);
    admission_set_max(book, 3);
    assert_int_equal(upsert(book, grant_of("c", 1, 1, 10), NULL), ERROR_NONE);
    assert_int_equal(take_back(book, "d", 1), ERROR_ADMISSION);
    assert_count(book, 3, 2);
    admission_free(book);
}

/* --- against a model -------------------------------------------------------------------------- */

#define WORKSPACES 15 /* enough for a heap of four storeys */

/* The rules said plainly: everything that ever was, and the present grant. */
struct model {
    bool known, has_grant;
    uint64_t revision, revoked, generation;
    uint32_t sessions;
    bool limits_known;
    struct admission_grant grant;
};

static const char *const names[WORKSPACES] = {"a", "b", "c", "d", "e", "f", "g", "h",
                                              "i", "j", "k", "l", "m", "n", "o"};

static size_t known(const struct model *m)
{
    size_t count = 0;
    for (int i = 0; i < WORKSPACES; i++)
        count += m[i].known;
    return count;
}

static bool model_accepts(const struct model *all, const struct model *m,
                          const struct admission_grant *g, int64_t now, size_t max)
{
    if (g->expires_us <= now || g->expires_us > now + 300 * SECOND)
        return false;
    if (g->max_sessions > 1 || g->max_managed_processes > 0)
        return false;
    if (!m->known && known(all) >= max)
        return false;
    if (g->revision <= m->revoked || g->revision < m->revision || g->generation < m->generation)
        return false;
    return !(m->limits_known && g->revision == m->revision && g->max_sessions != m->sessions);
}

static enum admission_effect model_upsert(struct model *m, const struct admission_grant *g,
                                          int64_t now)
{
    bool current = m->has_grant && m->grant.expires_us > now;
    bool same = current && m->grant.generation == g->generation;
    if (same && m->grant.revision == g->revision && g->expires_us < m->grant.expires_us)
        return ADMISSION_KEEP;
    m->known = m->has_grant = m->limits_known = true;
    m->grant = *g;
    m->revision = g->revision;
    m->generation = g->generation;
    m->sessions = g->max_sessions;
    return same && g->max_sessions > 0 ? ADMISSION_END_OTHERS : ADMISSION_END_ALL;
}

static void try_upsert(struct admission *book, struct model *all, int w, int64_t now, size_t max)
{
    struct model *m = &all[w];
    enum admission_effect effect;
    struct admission_grant grant = grant_of(names[w], m->generation + (uint64_t)(random() % 3),
                                            m->revision + (uint64_t)(random() % 3), 0);
    grant.generation -= grant.generation > 1 && random() % 3 == 0;
    grant.revision -= grant.revision > 1 && random() % 2 == 0;
    grant.generation += grant.generation == 0;
    grant.revision += grant.revision == 0;
    grant.expires_us = now + (random() % 306 - 3) * SECOND;
    grant.max_sessions = (uint32_t)(random() % 12 == 0 ? random() % 3 : 1);
    bool accepted = model_accepts(all, m, &grant, now, max);
    assert_int_equal(upsert_at(book, &grant, now, &effect),
                     accepted ? ERROR_NONE : ERROR_ADMISSION);
    if (accepted)
        assert_int_equal(effect, model_upsert(m, &grant, now));
}

static void try_revoke(struct admission *book, struct model *all, int w, size_t max)
{
    struct model *m = &all[w];
    uint64_t revision = m->revision + (uint64_t)(random() % 3);
    revision -= revision > 1 ? 1 : 0;
    revision += revision == 0;
    bool accepted = revision >= m->revision && (m->known || known(all) < max);
    assert_int_equal(take_back(book, names[w], revision), accepted ? ERROR_NONE : ERROR_ADMISSION);
    if (!accepted)
        return;
    m->known = true;
    m->has_grant = false;
    m->revision = m->revoked = revision;
}

static void check_model(struct admission *book, struct model *all, int64_t now)
{
    int64_t next = 0;
    size_t grants = 0;
    for (int i = 0; i < WORKSPACES; i++) {
        struct model *m = &all[i];
        bool good = m->has_grant && m->grant.expires_us > now && m->grant.max_sessions > 0;
        grants += m->has_grant;
        if (m->has_grant && (next == 0 || m->grant.expires_us < next))
            next = m->grant.expires_us;
        if (m->generation == 0)
            continue;
        assert_int_equal(require_at(book, names[i], m->generation, now),
                         good ? ERROR_NONE : ERROR_ADMISSION);
        assert_int_equal(require_at(book, names[i], m->generation + 1, now), ERROR_ADMISSION);
    }
    assert_int_equal(admission_next_expiry(book), next);
    assert_count(book, known(all), grants);
}

static void expire(struct admission *book, struct model *all, int64_t now)
{
    struct admission_grant gone;
    int64_t last = 0;
    while (admission_expire(book, now, &gone)) {
        struct model *m = &all[gone.workspace[0] - 'a'];
        assert_true(m->has_grant);
        assert_true(gone.expires_us <= now && gone.expires_us >= last); /* in order */
        assert_int_equal(gone.expires_us, m->grant.expires_us);
        last = gone.expires_us;
        m->has_grant = false;
        admission_grant_release(&gone);
    }
    for (int i = 0; i < WORKSPACES; i++)
        assert_false(all[i].has_grant && all[i].grant.expires_us <= now);
}

static void test_random(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= 20; seed++) {
        struct model all[WORKSPACES] = {0};
        size_t max = seed % 2 ? 3 : WORKSPACES;
        struct admission *book = new_book(max);
        int64_t now = NOW;
        srandom(seed);
        for (int round = 0; round < 2000; round++) {
            int w = (int)(random() % WORKSPACES);
            long what = random() % 10;
            if (what < 6)
                try_upsert(book, all, w, now, max);
            else if (what < 7)
                try_revoke(book, all, w, max);
            else if (what < 9)
                now += random() % 20 * SECOND;
            else
                expire(book, all, now);
            check_model(book, all, now);
        }
        admission_free(book);
    }
}

/* --- many ------------------------------------------------------------------------------------- */

static void test_many(void **state)
{
    (void)state;
    long count = 100000;
    char workspace[32];
    struct admission_grant gone;
    struct mallinfo2 before = mallinfo2();
    struct admission *book = new_book((size_t)count);
    srandom(1);
    for (long i = 0; i < count; i++) {
        snprintf(workspace, sizeof workspace, "workspace-%ld", i);
        struct admission_grant grant = grant_of(workspace, 1, 1, 1 + random() % 299);
        assert_int_equal(upsert(book, grant, NULL), ERROR_NONE);
    }
    struct mallinfo2 full = mallinfo2();
    assert_count(book, (size_t)count, (size_t)count);
    int64_t last = 0;
    for (long i = 0; i < count; i++) {
        assert_true(admission_expire(book, NOW + 300 * SECOND, &gone));
        assert_true(gone.expires_us >= last);
        last = gone.expires_us;
        admission_grant_release(&gone);
    }
    assert_count(book, (size_t)count, 0);
    struct mallinfo2 after = mallinfo2();
    size_t with = (full.uordblks + full.hblkhd - before.uordblks - before.hblkhd) / (size_t)count;
    size_t without =
        (after.uordblks + after.hblkhd - before.uordblks - before.hblkhd) / (size_t)count;
    print_message("%zu bytes a workspace, %zu with a grant\n", without, with);
    assert_true(with <= 256 && without <= 112); /* 0 where the allocator is a checker's */
    admission_free(book);
}

/* --- specs ------------------------------------------------------------------------------------ */

#define DIRECTORY "/srv/box/tenants/ws-59b271ae1bbcb1d31d419298"

static const struct tenant_context asker = {"a", "b", 7};

static enum error_code apply(struct session_spec *spec, const char *workdir, uint64_t *timeout_ms)
{
    struct error err = ERROR_INIT;
    struct admission_policy policy;
    admission_policy_init(&policy);
    policy.required = true;
    policy.cpus = 0.5;
    policy.memory_mb = 256;
    policy.pids_limit = 64;
    policy.read_only_rootfs = false;
    policy.workspace_quota_mb = 100;
    int result = admission_apply(&policy, &asker, DIRECTORY "/", spec, workdir, timeout_ms, &err);
    assert_int_equal(result, err.code == ERROR_NONE ? 0 : -1);
    return err.code;
}

static struct session_spec spec_of(const char *name)
{
    struct session_spec spec;
    session_spec_init(&spec);
    spec.name = xstrdup(name);
    return spec;
}

static void test_apply(void **state)
{
    (void)state;
    struct error err;
    uint64_t timeout_ms = 500000;
    struct session_spec spec = spec_of("whatever it is called");
    free(spec.image);
    spec.image = xstrdup("debian:12");
    spec.cpus = 64;
    spec.memory_mb = 1 << 20;
    spec.host_path_mode = MOUNT_RO;
    spec.host_path = xstrdup("/srv/./box//tenants/ws-59b271ae1bbcb1d31d419298/");
    assert_int_equal(apply(&spec, "/workspace/a/b", &timeout_ms), ERROR_NONE);
    assert_string_equal(spec.name, "ws-59b271ae1bbcb1d31d419298-g7-global");
    assert_string_equal(spec.image, SESSION_IMAGE_DEFAULT);
    assert_string_equal(spec.host_path, DIRECTORY);
    assert_int_equal(spec.host_path_mode, MOUNT_RW);
    assert_string_equal(spec.mount_path, "/workspace");
    assert_true(spec.make_host_path);
    assert_true(spec.persistent);
    assert_false(spec.network);
    assert_true(spec.cpus > 0.49 && spec.cpus < 0.51);
    assert_int_equal(spec.memory_mb, 256);
    assert_int_equal(spec.pids_limit, 64);
    assert_false(spec.read_only_rootfs);
    assert_int_equal(spec.workspace_quota_mb, 100);
    assert_int_equal(spec.mount_count, 0);
    assert_int_equal(timeout_ms, 120000);
    assert_int_equal(session_spec_check(&spec, &err), 0);
    /* Applied to what it made it changes nothing. */
    assert_int_equal(apply(&spec, NULL, NULL), ERROR_NONE);
    assert_string_equal(spec.name, "ws-59b271ae1bbcb1d31d419298-g7-global");
    session_spec_release(&spec);
}

static void test_apply_timeout(void **state)
{
    (void)state;
    static const struct {
        uint64_t wanted, given;
    } cases[] = {{1, 1},           {119999, 119999}, {120000, 120000},
                 {120001, 120000}, {0, 120000},      {UINT64_MAX, 120000}};
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        uint64_t timeout_ms = cases[i].wanted;
        struct session_spec spec = spec_of("x");
        assert_int_equal(apply(&spec, NULL, &timeout_ms), ERROR_NONE);
        assert_int_equal(timeout_ms, cases[i].given);
        session_spec_release(&spec);
    }
}

static void test_apply_workdir(void **state)
{
    (void)state;
    static const struct {
        const char *workdir;
        bool good;
    } cases[] = {
        {"/workspace", true},
        {"/workspace/", true},
        {"/workspace/x", true},
        {"/workspacex", false},
        {"/work", false},
        {"/", false},
        {"/tmp", false},
        {"workspace", false},
        {"", false},
        {"/etc/workspace", false},
        {"/workspace/../etc", false},
        {"/workspace/..", false},
        {"/workspace/...", true},
        {"/workspace/a/../../x", false},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct session_spec spec = spec_of("x");
        if (apply(&spec, cases[i].workdir, NULL) != (cases[i].good ? ERROR_NONE : ERROR_ADMISSION))
            fail_msg("workdir '%s' is judged wrongly", cases[i].workdir);
        session_spec_release(&spec);
    }
}

/* What is refused is as it was. */
static void assert_refused(struct session_spec *spec)
{
    uint64_t timeout_ms = 500000;
    struct session_spec before;
    session_spec_copy(&before, spec);
    assert_int_equal(apply(spec, NULL, &timeout_ms), ERROR_ADMISSION);
    assert_int_equal(timeout_ms, 500000);
    assert_string_equal(spec->name, before.name);
    assert_string_equal(spec->image, before.image);
    assert_string_equal(spec->mount_path, before.mount_path);
    assert_int_equal(spec->memory_mb, before.memory_mb);
    assert_int_equal(spec->make_host_path, before.make_host_path);
    assert_int_equal(spec->persistent, before.persistent);
    assert_int_equal(spec->host_path != NULL, before.host_path != NULL);
    session_spec_release(&before);
    session_spec_release(spec);
}

static void test_apply_refuses(void **state)
{
    (void)state;
    struct session_spec spec = spec_of("x");
    spec.network = true;
    assert_refused(&spec);
    spec = spec_of("x");
    spec.mounts[0] = (struct session_mount){xstrdup("/a"), xstrdup("/b"), MOUNT_RO};
    spec.mount_count = 1;
    assert_refused(&spec);
    static const char *const mount_paths[] = {"/", "/work", "/workspace/x", "/workspace/"};
    for (size_t i = 0; i < ARRAY_SIZE(mount_paths); i++) {
        spec = spec_of("x");
        free(spec.mount_path);
        spec.mount_path = xstrdup(mount_paths[i]);
        assert_refused(&spec);
    }
    static const char *const host_paths[] = {"/",
                                             "/srv/box/tenants",
                                             DIRECTORY "x",
                                             DIRECTORY "/x",
                                             DIRECTORY "/../" DIRECTORY,
                                             "/srv/box/tenants/ws-000000000000000000000000",
                                             "relative",
                                             ""};
    for (size_t i = 0; i < ARRAY_SIZE(host_paths); i++) {
        spec = spec_of("x");
        spec.host_path = xstrdup(host_paths[i]);
        assert_refused(&spec);
        /* Also where it would not be mounted. */
        spec = spec_of("x");
        spec.host_path = xstrdup(host_paths[i]);
        spec.host_path_mode = MOUNT_NONE;
        assert_refused(&spec);
    }
}

/* It says how a session is made: carried to the backend, and no reason for a conflict. */
static void test_make_host_path(void **state)
{
    (void)state;
    struct session_spec spec = spec_of("x"), copy;
    assert_false(spec.make_host_path);
    spec.make_host_path = true;
    session_spec_copy(&copy, &spec);
    assert_true(copy.make_host_path);
    session_spec_release(&copy);
    assert_false(copy.make_host_path);
    session_spec_release(&spec);
}

int main(void)
{
#define with_book(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest book[] = {
        cmocka_unit_test(test_not_required),
        with_book(test_problem),
        with_book(test_no_way_back),
        with_book(test_policy_lowered),
        with_book(test_lifetime),
        with_book(test_caps),
        with_book(test_no_sessions),
        with_book(test_require),
        with_book(test_order),
        with_book(test_shorter_duplicate),
        with_book(test_limits_are_fixed),
        with_book(test_revocation),
        with_book(test_expiry),
        cmocka_unit_test(test_room),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_many),
    };
    const struct CMUnitTest specs[] = {
        cmocka_unit_test(test_apply),          cmocka_unit_test(test_apply_timeout),
        cmocka_unit_test(test_apply_workdir),  cmocka_unit_test(test_apply_refuses),
        cmocka_unit_test(test_make_host_path),
    };
    int failed = cmocka_run_group_tests_name("book", book, NULL, NULL);
    return failed + cmocka_run_group_tests_name("specs", specs, NULL, NULL);
}
