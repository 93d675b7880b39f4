/* SPDX-License-Identifier: Apache-2.0 */
/* A trial: sessions made as a tenant's would be, one after the other, each told to try what it must
   not be able to do.

     WITH_QUOTA ──► SKILLS ──► (told)        a session whose quota cannot be had is not made at all,
         │ not made   ▲                      so what else is to be known is asked of one without;
     WITHOUT_QUOTA ───┤                      and where not even the workspace can be mounted, of one
         │ not made   │                      without that
     WITHOUT_WORKSPACE┘

   Of each: RUNNING its script, READING from outside the file that it left in its workspace,
   CLEANING that up, DELETING the session. The alarm ends all of it in any state, and a runtime that
   stops fails whatever is asked of it, so that a trial is over soon after. */
#include <stdio.h>
#include <string.h>

#include "runtime/internal.h"
#include "runtime/readiness-internal.h"

#define COMMAND_MS    20000
#define MARKER_PREFIX ".langbot-box-volume-probe-"

uint64_t trial_deadline_ms = 60000;

enum trial_step {
    WITH_QUOTA, /* of these, each only if the one before could not be had */
    WITHOUT_QUOTA,
    WITHOUT_WORKSPACE,
    SKILLS,
    STEPS,
};

static const struct {
    bool workspace;
    bool skills;
    bool quota;
    bool isolation; /* what is asked beside storage */
} steps[STEPS] = {
    [WITH_QUOTA] = {.workspace = true, .quota = true, .isolation = true},
    [WITHOUT_QUOTA] = {.workspace = true, .isolation = true},
    [WITHOUT_WORKSPACE] = {.isolation = true},
    [SKILLS] = {.skills = true, .quota = true},
};

/* Something that cannot be called off; the trial may be over when it answers. */
struct trial_call {
    struct trial *trial; /* NULL: it is */
};

struct trial {
    struct runtime *runtime;
    const struct readiness_setup *setup;
    struct readiness_result result;
    trial_done done;
    void *data;
    enum trial_step step;
    bool made; /* the step's session was there, and did what it was told */
    bool crowded;
    char name[sizeof READINESS_SESSION + TRIAL_TOKEN_SIZE];
    char token[TRIAL_TOKEN_SIZE];
    char marker[sizeof MARKER_PREFIX + TRIAL_TOKEN_SIZE];
    char *notes;
    struct execution *execution;
    struct trial_call *call;
    struct alarm *deadline;
};

static void run_step(struct trial *trial);

static bool is_skipped(const struct trial *trial, enum trial_step step)
{
    return (steps[step].skills && !trial->setup->skills_root) ||
           (steps[step].workspace && !trial->setup->workspace_root) ||
           (step == WITH_QUOTA && trial->setup->policy->workspace_quota_mb == 0);
}

/* --- the end ---------------------------------------------------------------------------------- */

static struct trial_call *call_new(struct trial *trial)
{
    struct trial_call *call = xcalloc(1, sizeof *call);
    call->trial = trial;
    trial->call = call;
    return call;
}

/* The trial that waits for the answer, or NULL. */
static struct trial *call_take(struct trial_call *call)
{
    struct trial *trial = call->trial;
    if (trial)
        trial->call = NULL;
    free(call);
    return trial;
}

static void on_left(void *data, const struct error *err)
{
    (void)data;
    (void)err;
}

static void trial_free(struct trial *trial)
{
    alarm_free(&trial->deadline);
    if (trial->call)
        trial->call->trial = NULL;
    free(trial->notes);
    free(trial);
}

void trial_abort(struct trial *trial)
{
    if (trial->execution)
        execution_cancel(trial->execution);
    if (!trial->runtime->stopping)
        runtime_delete_session(trial->runtime, trial->name, on_left, NULL);
    trial_free(trial);
}

static void finish(struct trial *trial)
{
    struct readiness_result result = trial->result;
    trial_done done = trial->done;
    void *data = trial->data;
    bool crowded = trial->crowded;
    trial_free(trial);
    done(data, &result, crowded);
}

/* Everything that waits for it has waited long enough. */
static void on_deadline(void *owner)
{
    struct trial *trial = owner;
    struct readiness_result result = trial->result;
    trial_done done = trial->done;
    void *data = trial->data;
    for (int i = 0; i < READINESS_MAX; i++) {
        if (!result.checks[i].ok && !result.checks[i].reason[0])
            check_failed(&result, i,
                         "the trial was not over in %u s; try again when the machine is less busy",
                         (unsigned)(trial_deadline_ms / 1000));
    }
    trial_abort(trial);
    done(data, &result, false);
}

/* --- what was found --------------------------------------------------------------------------- */

static void judge_cgroup(struct trial *trial)
{
    struct backend *backend = runtime_backend(trial->runtime);
    const char *kind = backend->ops->cgroup_kind(backend);
    if (strcmp(kind, "v2") == 0)
        check_passed(&trial->result, READINESS_CGROUP_V2);
    else if (strcmp(kind, "v1") == 0)
        check_failed(&trial->result, READINESS_CGROUP_V2,
                     "sessions are limited by cgroup v1; boot the host with "
                     "systemd.unified_cgroup_hierarchy=1");
    else
        check_failed(
            &trial->result, READINESS_CGROUP_V2,
            "no cgroup holds all limits of a session; run 'box doctor' for what is missing");
}

static void fail_isolation(struct trial *trial, const struct error *err)
{
    static const enum readiness_check checks[] = {
        READINESS_BACKEND_AVAILABLE, READINESS_NAMESPACE_ISOLATION,       READINESS_MOUNT_ISOLATION,
        READINESS_NETWORK_ISOLATION, READINESS_BOUNDED_EPHEMERAL_STORAGE,
    };
    for (size_t i = 0; i < ARRAY_SIZE(checks); i++)
        check_failed_by(&trial->result, checks[i], err);
    judge_cgroup(trial);
    if (!trial->result.checks[READINESS_INODE_QUOTA].reason[0])
        check_failed_by(&trial->result, READINESS_INODE_QUOTA, err);
}

/* The step has no session, or one that could not do what it was told. */
static void step_failed(struct trial *trial, const struct error *err)
{
    struct readiness_result *result = &trial->result;
    switch (trial->step) {
    case WITH_QUOTA:
        check_failed_by(result, READINESS_HARD_WORKSPACE_QUOTA, err);
        check_failed_by(result, READINESS_INODE_QUOTA, err);
        break;
    case WITHOUT_QUOTA:
        check_failed_by(result, READINESS_WORKSPACE_MOUNT, err);
        break;
    case WITHOUT_WORKSPACE:
        fail_isolation(trial, err);
        break;
    default:
        check_failed_by(result, READINESS_HARD_SKILL_STORAGE_QUOTA, err);
        break;
    }
}

/* No session can be made at all: there is nothing to be gained from trying others. */
static void give_up(struct trial *trial, const struct error *err)
{
    trial->crowded = err->code == ERROR_CAPACITY;
    for (enum trial_step step = trial->step; step < STEPS; step++) {
        trial->step = step;
        if (!is_skipped(trial, step))
            step_failed(trial, err);
    }
}

static void judge_quota(struct trial *trial, const struct trial_report *report)
{
    struct readiness_result *result = &trial->result;
    bool skills = steps[trial->step].skills;
    enum readiness_check check =
        skills ? READINESS_HARD_SKILL_STORAGE_QUOTA : READINESS_HARD_WORKSPACE_QUOTA;
    char bytes[256];
    char files[256];
    bool files_held = judge_quota_files(report, files, sizeof files);
    if (!judge_quota_bytes(report, bytes, sizeof bytes))
        check_failed(result, check, "%s", bytes);
    else if (skills && !files_held)
        check_failed(result, check, "%s", files);
    else
        check_passed(result, check);
    if (!skills && !files_held)
        check_failed(result, READINESS_INODE_QUOTA, "%s", files);
}

static void judge(struct trial *trial, const struct trial_report *report)
{
    struct readiness_result *result = &trial->result;
    if (steps[trial->step].isolation) {
        char inodes[sizeof result->checks[0].reason];
        memcpy(inodes, result->checks[READINESS_INODE_QUOTA].reason, sizeof inodes);
        check_passed(result, READINESS_BACKEND_AVAILABLE);
        judge_isolation(report, trial->notes ? trial->notes : "", result);
        judge_places(report, result);
        judge_cgroup(trial);
        if (inodes[0]) /* of the workspace: known to fail */
            check_failed(result, READINESS_INODE_QUOTA, "%s", inodes);
    }
    if (steps[trial->step].quota)
        judge_quota(trial, report);
}

/* --- one step --------------------------------------------------------------------------------- */

static void next_step(struct trial *trial)
{
    do
        trial->step = trial->made && trial->step < SKILLS ? SKILLS : trial->step + 1;
    while (trial->step < STEPS && is_skipped(trial, trial->step));
    if (trial->step < STEPS)
        run_step(trial);
    else
        finish(trial);
}

static void on_deleted(void *data, const struct error *err)
{
    struct trial *trial = call_take(data);
    (void)err; /* one that was never made, or is gone already */
    if (trial)
        next_step(trial);
}

static void delete_session(struct trial *trial)
{
    runtime_delete_session(trial->runtime, trial->name, on_deleted, call_new(trial));
}

static void fill_spec(const struct trial *trial, struct session_spec *spec)
{
    const struct readiness_setup *setup = trial->setup;
    const struct admission_policy *policy = setup->policy;
    const char *root = steps[trial->step].skills      ? setup->skills_root
                       : steps[trial->step].workspace ? setup->workspace_root
                                                      : NULL;
    session_spec_init(spec);
    spec->name = xstrdup(trial->name);
    spec->cpus = policy->cpus;
    spec->memory_mb = policy->memory_mb;
    spec->pids_limit = policy->pids_limit;
    spec->read_only_rootfs = policy->read_only_rootfs;
    spec->host_path = root ? xasprintf("%s/" READINESS_DIRECTORY, root) : NULL;
    spec->make_host_path = true;
    spec->own_host_path = true;
    spec->workspace_quota_mb = steps[trial->step].quota ? TRIAL_QUOTA_MB : 0;
}

static void on_opened(void *owner, struct session *session, bool created, const struct error *err)
{
    struct trial *trial = owner;
    (void)created;
    if (err)
        return;
    free(trial->notes);
    trial->notes = xstrdup(session_notes(session));
}

static void execute(struct trial *trial, const char *script, const struct exec_events *events)
{
    char *argv[] = {(char *)"sh", (char *)"-s", NULL};
    const struct exec_request request = {
        .argv = argv, .timeout_ms = COMMAND_MS, .input = script, .input_size = strlen(script)};
    struct session_spec spec;
    fill_spec(trial, &spec);
    runtime_set_actor(trial->runtime, "readiness");
    trial->execution = runtime_exec(trial->runtime, &spec, &request, on_opened, events, trial);
    session_spec_release(&spec);
}

static void on_cleaned(void *owner, const struct exec_result *result, const struct error *err)
{
    struct trial *trial = owner;
    (void)result;
    (void)err; /* the next trial begins with it */
    trial->execution = NULL;
    delete_session(trial);
}

static void on_marker(void *data, const void *bytes, size_t size, const struct error *err)
{
    static const struct exec_events events = {.done = on_cleaned};
    struct trial *trial = call_take(data);
    if (!trial)
        return;
    if (err)
        check_failed_by(&trial->result, READINESS_WORKSPACE_MOUNT, err);
    else if (size != strlen(trial->token) || memcmp(bytes, trial->token, size) != 0)
        check_failed(&trial->result, READINESS_WORKSPACE_MOUNT,
                     "what a sandbox wrote to its workspace is not what is in '%.100s'; make sure "
                     "that boxd sees the same directory",
                     trial->setup->workspace_root);
    else
        check_passed(&trial->result, READINESS_WORKSPACE_MOUNT);
    cleanup_free char *script = xasprintf("rm -f " SESSION_MOUNT_PATH "/%s\n", trial->marker);
    execute(trial, script, &events);
}

/* Whether what the session wrote is where it should be. */
static void read_marker(struct trial *trial)
{
    struct backend *backend = runtime_backend(trial->runtime);
    cleanup_free char *directory =
        xasprintf("%s/" READINESS_DIRECTORY, trial->setup->workspace_root);
    backend->ops->read_marker(backend, directory, trial->marker, on_marker, call_new(trial));
}

/* 0, or why the script did not do what it was to do. */
static int check_result(const struct exec_result *result, const struct trial_report *report,
                        struct error *err)
{
    if (result->outcome.timed_out)
        return error_set(err, ERROR_SYSTEM, "a sandbox was not done with its trial in %d s",
                         COMMAND_MS / 1000);
    if (!report->ended) {
        const struct exec_stream *stream = &result->streams[STREAM_ERROR];
        error_set(err, ERROR_SYSTEM, "a sandbox's trial broke off (%s): %.*s",
                  result->outcome.cause, (int)(stream->size < 100 ? stream->size : 100),
                  stream->size > 0 ? stream->data : "");
        return error_hint(err, "run 'box doctor'");
    }
    return 0;
}

static void on_ran(void *owner, const struct exec_result *result, const struct error *failed)
{
    struct trial *trial = owner;
    struct trial_report report;
    struct error err = ERROR_INIT;
    trial->execution = NULL;
    if (!failed) {
        trial_report_parse(result->streams[STREAM_OUTPUT].data, result->streams[STREAM_OUTPUT].size,
                           !trial->setup->policy->read_only_rootfs, &report);
        if (check_result(result, &report, &err) < 0)
            failed = &err;
    }
    trial->made = !failed;
    if (!failed)
        judge(trial, &report);
    else if (failed->code == ERROR_UNAVAILABLE || failed->code == ERROR_CAPACITY)
        give_up(trial, failed);
    else
        step_failed(trial, failed);
    if (trial->made && steps[trial->step].workspace)
        read_marker(trial);
    else
        delete_session(trial);
}

static void make_token(char token[TRIAL_TOKEN_SIZE])
{
    unsigned char random[(TRIAL_TOKEN_SIZE - 1) / 2];
    arc4random_buf(random, sizeof random);
    for (size_t i = 0; i < sizeof random; i++)
        snprintf(token + 2 * i, 3, "%02x", random[i]);
}

static void run_step(struct trial *trial)
{
    static const struct exec_events events = {.done = on_ran};
    bool workspace = steps[trial->step].workspace;
    cleanup_free char *script = trial_script(steps[trial->step].isolation, steps[trial->step].quota,
                                             workspace ? trial->marker : NULL, trial->token);
    execute(trial, script, &events);
}

bool readiness_owns(const char *session)
{
    return strncmp(session, READINESS_SESSION, strlen(READINESS_SESSION)) == 0;
}

struct trial *trial_start(struct runtime *runtime, const struct readiness_setup *setup,
                          const struct readiness_result *result, trial_done done, void *data)
{
    struct trial *trial = xcalloc(1, sizeof *trial);
    trial->runtime = runtime;
    trial->setup = setup;
    trial->result = *result;
    trial->done = done;
    trial->data = data;
    make_token(trial->token);
    snprintf(trial->name, sizeof trial->name, READINESS_SESSION "%.16s", trial->token);
    snprintf(trial->marker, sizeof trial->marker, MARKER_PREFIX "%s", trial->token);
    trial->deadline = alarm_new(runtime, on_deadline, trial);
    alarm_set(trial->deadline, trial_deadline_ms);
    while (is_skipped(trial, trial->step))
        trial->step++;
    run_step(trial);
    return trial;
}
