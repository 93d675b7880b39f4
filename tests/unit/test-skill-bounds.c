/* SPDX-License-Identifier: Apache-2.0 */
/* What bounds scopes of the skill store: when a hard limit is asked for, of what size, who waits
   for the answer, and what becomes of each answer. The backend's half is the test's own. */
#include "rpc-world.h"

#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "api/skill-jobs.h"
#include "core/fd.h"

#define SLOTS 16
#define MIB   (UINT64_C(1) << 20)

static struct slot {
    bool done;
    enum error_code code;
    char message[ERROR_TEXT_MAX];
} slots[SLOTS];
static char root[96];

/* What the backend was asked, and how it is to answer. */
static struct {
    unsigned count;
    char root[256];
    char tenant[64];
    uint64_t bytes, inodes;
    bool known;
    bool later;           /* not before answer_now() */
    enum error_code code; /* NONE: it is set */
    backend_done done;
    void *data;
} asked;
static struct backend_ops ops;

static void answer_now(void)
{
    struct error err = ERROR_INIT;
    backend_done done = asked.done;
    assert_non_null(done);
    asked.done = NULL;
    if (asked.code)
        error_set(&err, asked.code, "the test says so");
    done(asked.data, err.code ? &err : NULL);
}

static void on_answer_timer(uv_timer_t *timer)
{
    uv_close((uv_handle_t *)timer, (uv_close_cb)free);
    answer_now();
}

static void bound_store(struct backend *backend, const struct backend_bound *bound,
                        backend_done done, void *data)
{
    struct stat st;
    cleanup_free char *path = bound->tenant ? xasprintf("%s/tenants/%s", bound->root, bound->tenant)
                                            : xstrdup(bound->root);
    assert_int_equal(stat(path, &st), 0); /* there is something to limit */
    assert_null(asked.done);
    asked.count++;
    snprintf(asked.root, sizeof asked.root, "%s", bound->root);
    snprintf(asked.tenant, sizeof asked.tenant, "%s", bound->tenant ? bound->tenant : "");
    asked.bytes = bound->bytes;
    asked.inodes = bound->inodes;
    asked.known = bound->known;
    asked.done = done;
    asked.data = data;
    if (asked.later)
        return;
    uv_timer_t *timer = xcalloc(1, sizeof *timer);
    uv_timer_init(backend->loop, timer);
    uv_timer_start(timer, on_answer_timer, 0, 0);
}

static uint64_t quota;
static bool writable, required;

static void adjust(struct api_config *api, struct runtime_config *runtime)
{
    snprintf(root, sizeof root, "%s/skills", runtime->state_dir);
    api->rpc.skills_root = xstrdup(root);
    api->skills_quota_bytes = quota;
    api->skills_writable = writable;
    api->rpc.admission.required = required;
}

static int open_store(void **state)
{
    (void)state;
    memset(slots, 0, sizeof slots);
    memset(&asked, 0, sizeof asked);
    quota = MIB;
    writable = required = false;
    world_open(adjust);
    ops = *world.backend->ops;
    ops.bound_store = bound_store;
    world.backend->ops = &ops;
    return 0;
}

static int close_store(void **state)
{
    (void)state;
    world_close(false);
    return 0;
}

static void on_done(void *data, struct skill_answer *answer, const struct error *err)
{
    struct slot *slot = data;
    assert_false(slot->done);
    assert_true((answer != NULL) == (err == NULL));
    slot->done = true;
    slot->code = err ? err->code : ERROR_NONE;
    snprintf(slot->message, sizeof slot->message, "%s", err ? err->message : "");
}

static void begin(size_t slot, enum skill_verb verb, const char *tenant, const char *name)
{
    struct skill_ask request;
    skill_ask_init(&request, verb);
    request.tenant = tenant ? xstrdup(tenant) : NULL;
    request.name = xstrdup(name);
    if (verb == SKILL_VERB_RESOLVE)
        strings_add(&request.names, name);
    slots[slot] = (struct slot){0};
    skills_ask(world.api, &request, on_done, &slots[slot]);
}

static bool is_done(void *data)
{
    return ((struct slot *)data)->done;
}

static enum error_code wait_for(size_t slot)
{
    world_wait(is_done, &slots[slot]);
    return slots[slot].code;
}

static enum error_code change(const char *tenant, const char *name)
{
    begin(SLOTS - 1, SKILL_VERB_CREATE, tenant, name);
    return wait_for(SLOTS - 1);
}

/* As if a minute had passed. */
static void lose_patience(void)
{
    TAILQ_FIRST(&world.api->skills->store->bounds)->retry_ns = 0;
}

static bool is_asked(void *data)
{
    return asked.count == *(unsigned *)data;
}

static void wait_asked(unsigned count)
{
    world_wait(is_asked, &count);
}

/* --- when --- */

static void test_once_a_scope(void **state)
{
    (void)state;
    begin(0, SKILL_VERB_LIST, NULL, "");
    assert_int_equal(wait_for(0), ERROR_NONE);
    begin(0, SKILL_VERB_RESOLVE, NULL, "a"); /* to be mounted read-only */
    assert_int_equal(wait_for(0), ERROR_NOT_FOUND);
    assert_int_equal(asked.count, 0);
    assert_null(skills_quota(world.api->skills));
    assert_int_equal(change(NULL, "a"), ERROR_NONE);
    assert_int_equal(asked.count, 1);
    assert_string_equal(asked.root, root);
    assert_string_equal(asked.tenant, "");
    assert_int_equal(change(NULL, "b"), ERROR_NONE);
    assert_int_equal(asked.count, 1);
    assert_int_equal(change("ws-1", "a"), ERROR_NONE);
    assert_string_equal(asked.tenant, "ws-1");
    assert_int_equal(change("ws-1", "b"), ERROR_NONE);
    assert_int_equal(asked.count, 2);
    assert_string_equal(skills_quota(world.api->skills), "hard");
}

static void test_before_a_writable_mount(void **state)
{
    (void)state;
    writable = true;
    world_reconfigure(adjust);
    begin(0, SKILL_VERB_RESOLVE, "ws-1", "a");
    assert_int_equal(wait_for(0), ERROR_NOT_FOUND);
    assert_int_equal(asked.count, 1);
    assert_string_equal(asked.tenant, "ws-1");
}

/* Who needs the answer waits for it, and nobody else does. */
static void test_who_waits(void **state)
{
    (void)state;
    asked.later = true;
    begin(0, SKILL_VERB_CREATE, "ws-1", "a");
    begin(1, SKILL_VERB_CREATE, "ws-1", "b");
    wait_asked(1);
    begin(2, SKILL_VERB_LIST, "ws-1", "");
    begin(3, SKILL_VERB_LIST, NULL, "");
    assert_int_equal(wait_for(2), ERROR_NONE);
    assert_int_equal(wait_for(3), ERROR_NONE);
    world_turn();
    assert_false(slots[0].done || slots[1].done);
    answer_now();
    asked.later = false;
    assert_int_equal(change(NULL, "a"), ERROR_NONE);
    assert_int_equal(wait_for(0), ERROR_NONE);
    assert_int_equal(wait_for(1), ERROR_NONE);
    assert_int_equal(asked.count, 2);
}

static void test_another_quota(void **state)
{
    (void)state;
    assert_int_equal(change(NULL, "a"), ERROR_NONE);
    assert_int_equal(change("ws-1", "a"), ERROR_NONE);
    assert_int_equal(asked.count, 2);
    assert_false(asked.known);
    uint64_t before = asked.bytes;
    world_reconfigure(adjust); /* the same one */
    world_turn();
    assert_int_equal(asked.count, 2);
    /* A session may be writing there: the new limit does not wait for somebody to ask. */
    quota = 4 * MIB;
    world_reconfigure(adjust);
    wait_asked(4);
    assert_true(asked.known);
    assert_int_equal(asked.bytes - before, 3 * MIB + 3 * MIB / 16384 * ((uint64_t)4096 + 512));
    quota = 0;
    world_reconfigure(adjust);
    wait_asked(6);
    assert_int_equal(asked.bytes, 0);
    assert_string_equal(skills_quota(world.api->skills), "none");
    assert_int_equal(change(NULL, "b"), ERROR_NONE);
    assert_int_equal(asked.count, 6);
}

/* One that came while the answer was on its way counts. */
static void test_another_quota_meanwhile(void **state)
{
    (void)state;
    asked.later = true;
    begin(0, SKILL_VERB_CREATE, NULL, "a");
    wait_asked(1);
    quota = 2 * MIB;
    world_reconfigure(adjust);
    answer_now();
    wait_asked(2);
    assert_true(asked.bytes > 2 * MIB);
    assert_false(slots[0].done);
    answer_now();
    assert_int_equal(wait_for(0), ERROR_NONE);
    assert_int_equal(asked.count, 2);
}

/* --- how much --- */

static void test_room(void **state)
{
    (void)state;
    assert_int_equal(change(NULL, "a"), ERROR_NONE);
    /* Whatever the count allows has its blocks, its directories, and a second copy while it is
       changed. */
    uint64_t entries = MIB / 16384 + 576;
    assert_true(asked.inodes > entries);
    assert_true(asked.inodes < entries + 16);
    assert_true(asked.bytes >= MIB + entries * 4096 + SKILL_TEXT_MAX);
    assert_true(asked.bytes < MIB + asked.inodes * 5000 + 2 * MIB + 1);
}

/* --- answers --- */

static void test_counted(void **state)
{
    (void)state;
    asked.code = ERROR_UNSUPPORTED;
    required = true;
    world_reconfigure(adjust);
    assert_int_equal(change(NULL, "a"), ERROR_NONE);
    assert_int_equal(change(NULL, "b"), ERROR_NONE);
    assert_int_equal(asked.count, 1);
    assert_string_equal(skills_quota(world.api->skills), "counted");
}

static void test_failed(void **state)
{
    (void)state;
    asked.code = ERROR_DENIED;
    assert_int_equal(change(NULL, "a"), ERROR_NONE);
    assert_string_equal(skills_quota(world.api->skills), "counted");
    /* Not by each that comes; but after a while it is tried again, and may work then. */
    assert_int_equal(change(NULL, "b"), ERROR_NONE);
    assert_int_equal(asked.count, 1);
    asked.code = ERROR_NONE;
    lose_patience();
    assert_int_equal(change(NULL, "c"), ERROR_NONE);
    assert_int_equal(change(NULL, "d"), ERROR_NONE);
    assert_int_equal(asked.count, 2);
    assert_string_equal(skills_quota(world.api->skills), "hard");
}

/* Where isolation is required, nothing grows without its limit; what shrinks may. */
static void test_failed_where_required(void **state)
{
    (void)state;
    assert_int_equal(change(NULL, "a"), ERROR_NONE);
    required = writable = true;
    quota = 2 * MIB;
    asked.code = ERROR_SYSTEM;
    world_reconfigure(adjust);
    assert_int_equal(change(NULL, "b"), ERROR_UNAVAILABLE);
    assert_non_null(strstr(slots[SLOTS - 1].message, "the test says so"));
    begin(0, SKILL_VERB_RESOLVE, NULL, "a");
    assert_int_equal(wait_for(0), ERROR_UNAVAILABLE);
    begin(0, SKILL_VERB_LIST, NULL, "");
    assert_int_equal(wait_for(0), ERROR_NONE);
    begin(0, SKILL_VERB_DELETE, NULL, "a");
    assert_int_equal(wait_for(0), ERROR_NONE);
    asked.code = ERROR_NONE;
    lose_patience();
    assert_int_equal(change(NULL, "b"), ERROR_NONE);
}

/* --- the end --- */

static void test_stop_while_asking(void **state)
{
    (void)state;
    asked.later = true;
    begin(0, SKILL_VERB_CREATE, NULL, "a");
    wait_asked(1);
    api_stop(world.api);
    assert_int_equal(wait_for(0), ERROR_UNAVAILABLE);
    answer_now();
    world_turn();
    assert_int_equal(asked.count, 1);
}

/* The answer comes when nobody is there any more. */
static void test_free_while_asking(void **state)
{
    (void)state;
    open_store(NULL);
    asked.later = true;
    begin(0, SKILL_VERB_CREATE, NULL, "a");
    wait_asked(1);
    world_close(false);
    assert_true(slots[0].done);
    answer_now();
}

/* A disk that is full is told like a quota that is. */
static void test_full_disk(void **state)
{
    (void)state;
    cleanup_free char *path = xasprintf("%s/tenants/ws-1", root);
    cleanup_free char *above = xasprintf("%s/tenants", root);
    mkdir(above, 0755);
    mkdir(path, 0755);
    if (mount("tmpfs", path, "tmpfs", 0, "size=64k,nr_inodes=3") < 0) {
        print_message("skipped: needs to mount a tmpfs\n");
        skip();
    }
    enum error_code code = change("ws-1", "a");
    struct stat st;
    cleanup_free char *made = xasprintf("%s/a", path);
    bool left = lstat(made, &st) == 0;
    umount2(path, MNT_DETACH);
    assert_int_equal(code, ERROR_LIMIT);
    assert_non_null(strstr(slots[SLOTS - 1].message, "full"));
    assert_false(left);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_store, close_store)
    const struct CMUnitTest tests[] = {
        TEST(test_once_a_scope),
        TEST(test_before_a_writable_mount),
        TEST(test_who_waits),
        TEST(test_another_quota),
        TEST(test_another_quota_meanwhile),
        TEST(test_room),
        TEST(test_counted),
        TEST(test_failed),
        TEST(test_failed_where_required),
        TEST(test_stop_while_asking),
        cmocka_unit_test(test_free_while_asking),
        TEST(test_full_disk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
