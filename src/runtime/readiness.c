/* SPDX-License-Identifier: Apache-2.0 */
/* Who asks whether this place is fit for a shared deployment, what was found last, and what the
   policy itself tells. One trial at a time; all who ask while it runs share what it finds, unless
   the configuration has changed in between: they wait for the next. */
#include "runtime/readiness.h"

#include <string.h>

#include "runtime/internal.h"
#include "runtime/readiness-internal.h"

struct asker {
    struct list link;
    void (*done)(void *data, const struct readiness_result *result);
    void *data;
    uint64_t round; /* of the trial that it waits for */
};

/* A setup of our own, for as long as a trial needs it. */
struct kept_setup {
    struct readiness_setup view;
    struct admission_policy policy;
    char *workspace_root, *skills_root;
};

struct readiness {
    struct runtime *runtime;
    struct list askers;       /* oldest first */
    struct kept_setup newest; /* of the last who asked */
    struct kept_setup tried;  /* of the trial */
    struct trial *trial;
    uint64_t round; /* of trials */
    bool stale;     /* the configuration has changed since it began */
    bool known;
    uint64_t known_ns;
    struct readiness_result result;
};

/* --- setups ----------------------------------------------------------------------------------- */

static void setup_release(struct kept_setup *setup)
{
    admission_policy_release(&setup->policy);
    free(setup->workspace_root);
    free(setup->skills_root);
    *setup = (struct kept_setup){0};
}

static void setup_keep(struct kept_setup *to, const struct readiness_setup *from)
{
    struct kept_setup kept = {0};
    admission_policy_copy(&kept.policy, from->policy);
    kept.workspace_root = from->workspace_root ? xstrdup(from->workspace_root) : NULL;
    kept.skills_root = from->skills_root ? xstrdup(from->skills_root) : NULL;
    setup_release(to);
    *to = kept;
    to->view = (struct readiness_setup){.policy = &to->policy,
                                        .workspace_root = to->workspace_root,
                                        .skills_root = to->skills_root};
}

/* --- what needs no trial ---------------------------------------------------------------------- */

/* Where sessions are nsjail's in name; ours give no less. */
static bool is_required_backend(const char *name)
{
    return strcmp(name, "native") == 0 || strcmp(name, "nsjail") == 0;
}

static void check_policy(const struct admission_policy *policy, struct readiness_result *result)
{
    if (policy->problem)
        check_failed(result, READINESS_CONFIGURATION, "%s", policy->problem);
    else
        check_passed(result, READINESS_CONFIGURATION);
    if (policy->max_sessions <= 1)
        check_passed(result, READINESS_SESSION_CAP);
    else
        check_failed(result, READINESS_SESSION_CAP,
                     "a workspace may have %u sessions; set admission.max_sessions to 1",
                     policy->max_sessions);
    if (policy->max_managed_processes == 0)
        check_passed(result, READINESS_MANAGED_PROCESS_CAP);
    else
        check_failed(result, READINESS_MANAGED_PROCESS_CAP,
                     "a workspace may have %u managed processes; set "
                     "admission.max_managed_processes to 0",
                     policy->max_managed_processes);
    if (policy->workspace_quota_mb == 0) {
        static const char none[] = "workspaces have no quota; set admission.workspace_quota_mb";
        check_failed(result, READINESS_HARD_WORKSPACE_QUOTA, none);
        check_failed(result, READINESS_INODE_QUOTA, none);
    }
}

static void check_setup(const struct readiness *readiness, const struct readiness_setup *setup,
                        struct readiness_result *result)
{
    const char *name = runtime_backend(readiness->runtime)->ops->name;
    *result = (struct readiness_result){0};
    check_policy(setup->policy, result);
    if (is_required_backend(name))
        check_passed(result, READINESS_REQUIRED_BACKEND);
    else
        check_failed(result, READINESS_REQUIRED_BACKEND,
                     "the backend is '%.60s'; set backend to native", name);
    if (!setup->workspace_root) {
        static const char none[] = "there is no place for workspaces; set local.default_workspace "
                                   "to a directory below an allowed root";
        check_failed(result, READINESS_WORKSPACE_MOUNT, none);
        check_failed(result, READINESS_HARD_WORKSPACE_QUOTA, none);
        check_failed(result, READINESS_INODE_QUOTA, none);
    }
    if (!setup->skills_root)
        check_failed(result, READINESS_HARD_SKILL_STORAGE_QUOTA,
                     "there is no place for skills; set local.skills_root to a directory below an "
                     "allowed root");
}

/* --- trials ----------------------------------------------------------------------------------- */

static void begin(struct readiness *readiness);

static struct asker *find_asker(const struct readiness *readiness, uint64_t round)
{
    list_each(at, &readiness->askers)
    {
        struct asker *asker = list_entry(at, struct asker, link);
        if (asker->round <= round)
            return asker;
    }
    return NULL;
}

/* Each may ask again, or call others off, when it is told. */
static void tell(struct readiness *readiness, uint64_t round, const struct readiness_result *result)
{
    struct asker *asker;
    while ((asker = find_asker(readiness, round))) {
        list_remove(&asker->link);
        memory_later(readiness->runtime, asker);
        asker->done(asker->data, result);
    }
}

static void settle(struct readiness_result *result)
{
    result->ready = true;
    for (int i = 0; i < READINESS_MAX; i++) {
        if (!result->checks[i].ok && !result->checks[i].reason[0])
            check_failed(result, i, "it could not be tried");
        result->ready = result->ready && result->checks[i].ok;
    }
}

static void on_tried(void *data, const struct readiness_result *found, bool crowded)
{
    struct readiness *readiness = data;
    struct readiness_result result = *found;
    uint64_t round = readiness->round;
    readiness->trial = NULL;
    settle(&result);
    /* A daemon that holds as many sessions as it may is as fit as it was before. */
    if (crowded && readiness->known && !readiness->stale)
        result = readiness->result;
    if (!readiness->stale) {
        readiness->known = true;
        readiness->known_ns = uv_hrtime();
        readiness->result = result;
    }
    tell(readiness, round, &result);
    if (!readiness->trial && !list_empty(&readiness->askers))
        begin(readiness);
}

static void begin(struct readiness *readiness)
{
    struct readiness_result result;
    readiness->stale = false;
    readiness->round++;
    setup_keep(&readiness->tried, &readiness->newest.view);
    check_setup(readiness, &readiness->tried.view, &result);
    readiness->trial =
        trial_start(readiness->runtime, &readiness->tried.view, &result, on_tried, readiness);
}

/* --- asking ----------------------------------------------------------------------------------- */

struct readiness *readiness_new(struct runtime *runtime)
{
    struct readiness *readiness = xcalloc(1, sizeof *readiness);
    readiness->runtime = runtime;
    list_init(&readiness->askers);
    return readiness;
}

void readiness_free(struct readiness *readiness)
{
    if (!readiness)
        return;
    if (readiness->trial)
        trial_abort(readiness->trial);
    setup_release(&readiness->newest);
    setup_release(&readiness->tried);
    free(readiness);
}

void readiness_forget(struct readiness *readiness)
{
    readiness->known = false;
    readiness->stale = true;
}

static bool is_fresh(const struct readiness *readiness, const struct admission_policy *policy)
{
    uint64_t age_ns = uv_hrtime() - readiness->known_ns;
    return readiness->known && age_ns < policy->readiness_cache_sec * UINT64_C(1000000000);
}

void readiness_ask(struct readiness *readiness, const struct readiness_setup *setup,
                   void (*done)(void *data, const struct readiness_result *result), void *data)
{
    if (is_fresh(readiness, setup->policy)) {
        struct readiness_result result = readiness->result;
        done(data, &result);
        return;
    }
    struct asker *asker = xcalloc(1, sizeof *asker);
    asker->done = done;
    asker->data = data;
    list_append(&readiness->askers, &asker->link);
    setup_keep(&readiness->newest, setup);
    if (!readiness->trial)
        begin(readiness);
    asker->round = readiness->round + readiness->stale;
}

void readiness_cancel(struct readiness *readiness, void *data)
{
    list_each_safe(at, after, &readiness->askers)
    {
        struct asker *asker = list_entry(at, struct asker, link);
        if (asker->data == data) {
            list_remove(&asker->link);
            free(asker);
        }
    }
}
