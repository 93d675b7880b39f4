/* SPDX-License-Identifier: Apache-2.0 */
/* Whose turn it is in the skill store. Whoever holds a shared lock on a scope's directory, as
   searches do, holds its writers up and not its readers: that is how the tests stop time. */
#include "rpc-world.h"

#include <fcntl.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "api/skills.h"
#include "core/fd.h"

#define SLOTS 100

/* What became of each request. */
static struct slot {
    bool done;
    enum error_code code;
    unsigned order; /* how many were done before it */
} slots[SLOTS];
static unsigned done_count;
static char root[96];

static void with_skills(struct api_config *api, struct runtime_config *runtime)
{
    snprintf(root, sizeof root, "%s/skills", runtime->state_dir);
    api->rpc.skills_root = xstrdup(root);
}

static int open_store(void **state)
{
    (void)state;
    memset(slots, 0, sizeof slots);
    done_count = 0;
    world_open(with_skills);
    return 0;
}

static int close_store(void **state)
{
    (void)state;
    world_close(false);
    return 0;
}

/* A scope's directory, with a lock on it that keeps its writers waiting. */
static int hold_up(const char *tenant)
{
    cleanup_free char *path = tenant ? xasprintf("%s/tenants/%s", root, tenant) : xstrdup(root);
    cleanup_free char *above = xasprintf("%s/tenants", root);
    mkdir(root, 0700);
    if (tenant) {
        mkdir(above, 0700);
        mkdir(path, 0700);
    }
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(flock(fd, LOCK_SH), 0);
    return fd;
}

static void on_done(void *data, struct skill_answer *answer, const struct error *err)
{
    struct slot *slot = data;
    assert_false(slot->done);
    assert_true((answer != NULL) == (err == NULL));
    slot->done = true;
    slot->code = err ? err->code : ERROR_NONE;
    slot->order = done_count++;
}

static void ask_store(size_t slot, enum skill_verb verb, const char *tenant)
{
    struct skill_ask request;
    skill_ask_init(&request, verb);
    request.tenant = tenant ? xstrdup(tenant) : NULL;
    request.name = xasprintf("s%zu", slot);
    skills_ask(world.api, &request, on_done, &slots[slot]);
    assert_null(request.name);
}

static bool is_done(void *data)
{
    return ((struct slot *)data)->done;
}

static void wait_for(size_t first, size_t count)
{
    for (size_t i = first; i < first + count; i++)
        world_wait(is_done, &slots[i]);
}

/* The first writer of a scope waits until it is known what bounds it; later ones do not. */
static void settle(const char *tenant)
{
    ask_store(SLOTS - 1, SKILL_VERB_CREATE, tenant);
    wait_for(SLOTS - 1, 1);
    assert_int_equal(slots[SLOTS - 1].code, ERROR_NONE);
    slots[SLOTS - 1] = (struct slot){0};
    done_count = 0;
}

static void test_one_writer_a_scope(void **state)
{
    (void)state;
    int lock = hold_up(NULL);
    ask_store(0, SKILL_VERB_CREATE, NULL);
    ask_store(1, SKILL_VERB_CREATE, NULL);
    ask_store(2, SKILL_VERB_CREATE, "ws-1");
    for (size_t i = 3; i < 8; i++)
        ask_store(i, SKILL_VERB_LIST, i % 2 ? NULL : "ws-1");
    wait_for(2, 6);
    world_turn();
    assert_false(slots[0].done || slots[1].done);
    close(lock);
    wait_for(0, 2);
    assert_true(slots[0].order < slots[1].order);
    for (size_t i = 0; i < 8; i++)
        assert_int_equal(slots[i].code, ERROR_NONE);
}

static void test_readers_find_a_place(void **state)
{
    (void)state;
    settle(NULL);
    settle("ws-1");
    settle("ws-2");
    int plain = hold_up(NULL);
    int tenant = hold_up("ws-1");
    ask_store(0, SKILL_VERB_CREATE, NULL);
    ask_store(1, SKILL_VERB_CREATE, "ws-1");
    ask_store(2, SKILL_VERB_CREATE, "ws-2"); /* two writers are enough at a time */
    for (size_t i = 3; i < 20; i++)
        ask_store(i, SKILL_VERB_LIST, "ws-2");
    wait_for(3, 17);
    world_turn();
    assert_false(slots[0].done || slots[1].done || slots[2].done);
    close(tenant);
    wait_for(1, 2);
    close(plain);
    wait_for(0, 1);
}

static void test_capacity(void **state)
{
    (void)state;
    settle(NULL);
    int lock = hold_up(NULL);
    for (size_t i = 0; i <= SKILLS_WAITING_MAX; i++)
        ask_store(i, SKILL_VERB_CREATE, NULL);
    world_turn();
    assert_int_equal(done_count, 0);
    ask_store(70, SKILL_VERB_CREATE, NULL);
    ask_store(71, SKILL_VERB_CREATE, "ws-1");
    assert_true(slots[70].done && slots[71].done);
    assert_int_equal(slots[70].code, ERROR_CAPACITY);
    assert_int_equal(slots[71].code, ERROR_CAPACITY);
    ask_store(72, SKILL_VERB_LIST, NULL); /* need not wait */
    wait_for(72, 1);
    assert_int_equal(slots[72].code, ERROR_NONE);
    close(lock);
    wait_for(0, SKILLS_WAITING_MAX + 1);
    for (size_t i = 0; i <= SKILLS_WAITING_MAX; i++)
        assert_int_equal(slots[i].code, ERROR_NONE);
    ask_store(73, SKILL_VERB_CREATE, NULL);
    wait_for(73, 1);
    assert_int_equal(slots[73].code, ERROR_NONE);
}

/* A file that was sent is used by the request that is taken, not by one that is to come again. */
static void test_capacity_keeps_uploads(void **state)
{
    static struct peer peer;
    static const char install[] = "{'file_key':'k','filename':'k.zip'}";
    (void)state;
    peer_open(&peer, NULL);
    ask(&peer, NULL, "__file_chunk",
        "{'file_key':'k','chunk_base64':'bm8gemlw','chunk_index':0,'chunk_amount':1}");
    int lock = hold_up(NULL);
    for (size_t i = 0; i <= SKILLS_WAITING_MAX; i++)
        ask_store(i, SKILL_VERB_CREATE, NULL);
    for (int i = 0; i < 2; i++)
        ask_error(&peer, NULL, "box_install_skill_zip", install, "BoxCapacityExceededError",
                  "requests wait");
    assert_int_equal(world.api->rpc->uploads, 1);
    close(lock);
    wait_for(0, SKILLS_WAITING_MAX + 1);
    const char *message =
        ask_error(&peer, NULL, "box_install_skill_zip", install, "BoxValidationError", NULL);
    assert_null(strstr(message, "has been sent"));
    assert_int_equal(world.api->rpc->uploads, 0);
    ask_error(&peer, NULL, "box_install_skill_zip", install, "BoxValidationError",
              "no file 'k' has been sent");
    peer_close(&peer);
}

/* --- the pool held up --- */

static sem_t let_go;

static void be_in_the_way(uv_work_t *work)
{
    (void)work;
    sem_wait(&let_go);
}

static void on_way_free(uv_work_t *work, int status)
{
    (void)status;
    *(bool *)work->data = true;
}

static bool is_set(void *data)
{
    return *(bool *)data;
}

static void test_memory(void **state)
{
    static uv_work_t works[4];
    bool gone[ARRAY_SIZE(works)] = {false};
    (void)state;
    sem_init(&let_go, 0, 0);
    for (size_t i = 0; i < ARRAY_SIZE(works); i++) {
        works[i].data = &gone[i];
        uv_queue_work(&world.loop, &works[i], be_in_the_way, on_way_free);
    }
    for (size_t i = 0; i < 7; i++) {
        struct skill_ask request;
        skill_ask_init(&request, SKILL_VERB_PREVIEW);
        request.content_size = SKILL_ARCHIVE_MAX;
        request.content = xcalloc(1, request.content_size);
        skills_ask(world.api, &request, on_done, &slots[i]);
    }
    assert_int_equal(done_count, 1);
    assert_int_equal(slots[6].code, ERROR_CAPACITY);
    for (size_t i = 0; i < ARRAY_SIZE(works); i++)
        sem_post(&let_go);
    for (size_t i = 0; i < ARRAY_SIZE(works); i++)
        world_wait(is_set, &gone[i]);
    wait_for(0, 6);
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(slots[i].code, ERROR_INVALID);
    sem_destroy(&let_go);
}

/* --- the end --- */

static void test_stop(void **state)
{
    (void)state;
    open_store(NULL);
    settle(NULL);
    int lock = hold_up(NULL);
    for (size_t i = 0; i < 4; i++)
        ask_store(i, SKILL_VERB_CREATE, NULL);
    api_stop(world.api);
    assert_int_equal(done_count, 3);
    ask_store(4, SKILL_VERB_LIST, NULL);
    for (size_t i = 1; i < 5; i++)
        assert_int_equal(slots[i].code, ERROR_UNAVAILABLE);
    assert_false(slots[0].done);
    close(lock);
    wait_for(0, 1);
    assert_int_equal(slots[0].code, ERROR_NONE);
    world_close(false);
}

static pthread_t closer;

static void *close_later(void *data)
{
    usleep(200000);
    close(*(int *)data);
    return NULL;
}

/* One that runs when all is taken down ends in its own time, and its asker hears of it. */
static void test_free_while_one_runs(void **state)
{
    (void)state;
    open_store(NULL);
    settle(NULL);
    int lock = hold_up(NULL);
    ask_store(0, SKILL_VERB_CREATE, NULL);
    ask_store(1, SKILL_VERB_CREATE, NULL);
    assert_int_equal(pthread_create(&closer, NULL, close_later, &lock), 0);
    world_close(false);
    pthread_join(closer, NULL);
    assert_true(slots[0].done && slots[1].done);
    assert_int_equal(slots[1].code, ERROR_UNAVAILABLE);
}

static void test_the_peer_leaves(void **state)
{
    static struct peer peer;
    (void)state;
    int lock = hold_up(NULL);
    peer_open(&peer, NULL);
    for (int i = 0; i < 3; i++)
        peer_ask(&peer, NULL, "box_create_skill", "{'skill':{'name':'x'}}");
    peer_ask(&peer, NULL, "box_exec", "{'session_id':'s','cmd':'true','skills':['x']}");
    peer_close(&peer);
    close(lock);
    ask_store(0, SKILL_VERB_GET, NULL); /* behind them all */
    wait_for(0, 1);
    ask_store(1, SKILL_VERB_CREATE, NULL);
    wait_for(1, 1);
    assert_false(world_has("s"));
}

/* A store that cannot be opened, one that is configured away, another quota. */
static void without_skills(struct api_config *api, struct runtime_config *runtime)
{
    (void)runtime;
    api->rpc.skills_root = NULL;
}

static void with_quota(struct api_config *api, struct runtime_config *runtime)
{
    with_skills(api, runtime);
    api->skills_quota_bytes = 1;
}

static void with_no_directory(struct api_config *api, struct runtime_config *runtime)
{
    (void)runtime;
    api->rpc.skills_root = xstrdup("/proc/none/skills");
}

static void test_configurations(void **state)
{
    (void)state;
    ask_store(0, SKILL_VERB_CREATE, NULL);
    world_reconfigure(with_quota);
    wait_for(0, 1);
    ask_store(1, SKILL_VERB_CREATE, NULL);
    wait_for(1, 1);
    assert_int_equal(slots[1].code, ERROR_LIMIT);
    world_reconfigure(without_skills);
    ask_store(2, SKILL_VERB_LIST, NULL);
    wait_for(2, 1);
    assert_int_equal(slots[2].code, ERROR_UNAVAILABLE);
    world_reconfigure(with_no_directory);
    ask_store(3, SKILL_VERB_LIST, NULL);
    wait_for(3, 1);
    assert_int_not_equal(slots[3].code, ERROR_NONE);
    world_reconfigure(with_skills);
    ask_store(4, SKILL_VERB_CREATE, NULL);
    wait_for(4, 1);
    assert_int_equal(slots[4].code, ERROR_NONE);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_store, close_store)
    const struct CMUnitTest tests[] = {
        TEST(test_one_writer_a_scope),
        TEST(test_readers_find_a_place),
        TEST(test_capacity),
        TEST(test_capacity_keeps_uploads),
        TEST(test_memory),
        cmocka_unit_test(test_stop),
        cmocka_unit_test(test_free_while_one_runs),
        TEST(test_the_peer_leaves),
        TEST(test_configurations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
