/* SPDX-License-Identifier: Apache-2.0 */
/* An api on the null backend, and peers for it. */
#include "rpc-world.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/clock.h"
#include "null-backend.h"

#define PATIENCE_NS 20000000000u

struct world world;

/* --- instead of readiness.c: its trials need real sandboxes --- */

struct readiness {
    void (*done[64])(void *data, const struct readiness_result *result);
    void *data[64];
    size_t count;
};

static struct readiness asking;

struct readiness *readiness_new(struct runtime *runtime)
{
    (void)runtime;
    return &asking;
}

void readiness_free(struct readiness *readiness)
{
    assert_int_equal(readiness->count, 0);
}

void readiness_forget(struct readiness *readiness)
{
    (void)readiness;
}

static void tell(void (*done)(void *data, const struct readiness_result *result), void *data)
{
    struct readiness_result result = {.ready = world.ready};
    for (int i = 0; i < READINESS_MAX; i++)
        result.checks[i].ok = world.ready || i != READINESS_INODE_QUOTA;
    if (!world.ready)
        snprintf(result.checks[READINESS_INODE_QUOTA].reason,
                 sizeof result.checks[READINESS_INODE_QUOTA].reason, "none here");
    done(data, &result);
}

void readiness_ask(struct readiness *readiness, const struct readiness_setup *setup,
                   void (*done)(void *data, const struct readiness_result *result), void *data)
{
    assert_non_null(setup->policy);
    world.asked++;
    if (!world.ready_later) {
        tell(done, data);
        return;
    }
    assert_true(readiness->count < 64);
    readiness->done[readiness->count] = done;
    readiness->data[readiness->count++] = data;
}

void readiness_cancel(struct readiness *readiness, void *data)
{
    for (size_t i = 0; i < readiness->count; i++) {
        if (readiness->data[i] != data)
            continue;
        readiness->count--;
        readiness->data[i] = readiness->data[readiness->count];
        readiness->done[i] = readiness->done[readiness->count];
        return;
    }
    fail_msg("nobody asks that");
}

void world_tell_readiness(void)
{
    while (asking.count > 0) {
        asking.count--;
        tell(asking.done[asking.count], asking.data[asking.count]);
    }
}

/* --- the world --- */

static void settle(world_adjust adjust, struct api_config *api, struct runtime_config *runtime)
{
    api_config_init(api);
    runtime_config_init(runtime);
    runtime->run_dir = world.directory;
    runtime->state_dir = world.directory;
    runtime->audit_bytes = 0;
    runtime->outlive_seconds = 60;
    if (adjust)
        adjust(api, runtime);
}

static void set_flag(void *data)
{
    *(bool *)data = true;
}

static bool flag_is_set(void *data)
{
    return *(bool *)data;
}

void world_open(world_adjust adjust)
{
    struct error err = ERROR_INIT;
    struct api_config api;
    struct runtime_config runtime;
    bool recovered = false;
    if (!world.directory[0]) {
        snprintf(world.directory, sizeof world.directory, "/tmp/test-rpc-XXXXXX");
        assert_non_null(mkdtemp(world.directory));
    }
    world.ready = true;
    world.ready_later = false;
    world.asked = 0;
    uv_loop_init(&world.loop);
    uv_async_init(&world.loop, &world.alive, NULL);
    world.backend = backend_null_new(&world.loop);
    settle(adjust, &api, &runtime);
    if (runtime_new(&world.loop, &runtime, world.backend, &world.runtime, &err) < 0)
        fail_msg("%s", err.message);
    runtime_recover(world.runtime, true, set_flag, &recovered);
    world.api = api_new(&world.loop, world.runtime, world.backend, &api);
    api_config_release(&api);
    world_wait(flag_is_set, &recovered);
}

void world_close(bool keep)
{
    bool stopped = false;
    api_stop(world.api);
    runtime_stop(world.runtime, keep, set_flag, &stopped);
    world_wait(flag_is_set, &stopped);
    api_free(world.api);
    world_turn();
    runtime_free(world.runtime);
    world.backend->ops->close(world.backend);
    uv_close((uv_handle_t *)&world.alive, NULL);
    /* Threads may have something to finish. */
    for (int i = 0; i < 10000 && uv_run(&world.loop, UV_RUN_NOWAIT) != 0; i++)
        usleep(1000);
    assert_int_equal(uv_loop_close(&world.loop), 0);
    if (keep)
        return;
    cleanup_free char *command = xasprintf("rm -rf %s", world.directory);
    assert_int_equal(system(command), 0);
    world.directory[0] = '\0';
}

void world_reconfigure(world_adjust adjust)
{
    struct api_config api;
    struct runtime_config runtime;
    settle(adjust, &api, &runtime);
    api_reconfigure(world.api, &api);
    api_config_release(&api);
}

void world_wait(bool (*is_so)(void *data), void *data)
{
    uint64_t began = clock_monotonic_ns();
    while (!is_so(data)) {
        uv_run(&world.loop, UV_RUN_NOWAIT);
        if (clock_monotonic_ns() - began > PATIENCE_NS)
            fail_msg("it does not come");
        usleep(200);
    }
}

void world_turn(void)
{
    for (int i = 0; i < 50; i++)
        uv_run(&world.loop, UV_RUN_NOWAIT);
}

bool world_has(const char *session)
{
    return runtime_find_session(world.runtime, session);
}

static bool is_gone(void *data)
{
    return !world_has(data);
}

void world_wait_gone(const char *session)
{
    world_wait(is_gone, (void *)session);
}

/* --- peers --- */

static bool take(void *owner, const char *text, size_t size)
{
    struct peer *peer = owner;
    struct error err = ERROR_INIT;
    json_t *answer;
    if (json_parse_lax(text, size, &answer, &err) < 0)
        fail_msg("%s: %.*s", err.message, (int)size, text);
    json_array_append_new(peer->answers, answer);
    return !peer->full;
}

static size_t unsent_of(void *owner)
{
    return ((const struct peer *)owner)->unsent;
}

static void give_up(void *owner, const char *reason)
{
    (void)reason;
    ((struct peer *)owner)->given_up = true;
}

static void pause_peer(void *owner)
{
    struct peer *peer = owner;
    assert_false(peer->paused);
    peer->paused = true;
}

static void resume_peer(void *owner)
{
    struct peer *peer = owner;
    assert_true(peer->paused);
    peer->paused = false;
}

void peer_open(struct peer *peer, const char *instance)
{
    static const struct rpc_transport transport = {.send = take,
                                                   .unsent = unsent_of,
                                                   .pause = pause_peer,
                                                   .resume = resume_peer,
                                                   .give_up = give_up};
    *peer = (struct peer){.answers = json_array()};
    peer->conn = rpc_conn_new(world.api, instance, "test", &transport, peer);
}

void peer_close(struct peer *peer)
{
    rpc_conn_free(peer->conn);
    json_decref(peer->answers);
    *peer = (struct peer){0};
}

void peer_say(struct peer *peer, const char *text)
{
    rpc_conn_message(peer->conn, text, strlen(text));
}

struct awaited {
    struct peer *peer;
    long seq;
    json_t *found;
};

static bool is_there(void *data)
{
    struct awaited *awaited = data;
    size_t i;
    json_t *answer;
    json_array_foreach(awaited->peer->answers, i,
                       answer) if (json_integer_value(json_object_get(answer, "seq_id")) ==
                                   awaited->seq) awaited->found = answer;
    return awaited->found;
}

json_t *peer_answer(struct peer *peer, long seq)
{
    struct awaited awaited = {.peer = peer, .seq = seq};
    world_wait(is_there, &awaited);
    return awaited.found;
}

long peer_ask(struct peer *peer, const struct as *as, const char *action, const char *data)
{
    cleanup_free char *json = xstrdup(data);
    cleanup_free char *context = NULL;
    for (char *at = json; *at; at++)
        if (*at == '\'')
            *at = '"';
    if (as)
        context = xasprintf(",\"context\":{\"instance_uuid\":\"%s\",\"workspace_uuid\":\"%s\","
                            "\"placement_generation\":%llu}",
                            as->instance ? as->instance : WORLD_INSTANCE, as->workspace,
                            (unsigned long long)as->generation);
    cleanup_free char *text = xasprintf("{\"seq_id\":%ld,\"action\":\"%s\",\"data\":%s%s}",
                                        ++peer->seq, action, json, context ? context : "");
    peer_say(peer, text);
    return peer->seq;
}

json_t *ask(struct peer *peer, const struct as *as, const char *action, const char *data)
{
    json_t *answer = peer_answer(peer, peer_ask(peer, as, action, data));
    if (json_integer_value(json_object_get(answer, "code")) != 0)
        fail_msg("%s: %s", action, json_string_value(json_object_get(answer, "message")));
    assert_text(answer, "message", "success");
    assert_text(answer, "chunk_status", "continue");
    json_t *found = json_object_get(answer, "data");
    assert_true(json_is_object(found));
    return found;
}

void assert_error(const json_t *answer, const char *class, const char *words)
{
    const char *message = json_string_value(json_object_get(answer, "message"));
    assert_number(answer, "code", 1);
    assert_int_equal(json_object_size(json_object_get(answer, "data")), 0);
    assert_true(json_is_object(json_object_get(answer, "data")));
    if (strncmp(message, class, strlen(class)) != 0 || message[strlen(class)] != ':' ||
        (words && !strstr(message, words)))
        fail_msg("not '%s: … %s': %s", class, words ? words : "", message);
}

const char *ask_error(struct peer *peer, const struct as *as, const char *action, const char *data,
                      const char *class, const char *words)
{
    json_t *answer = peer_answer(peer, peer_ask(peer, as, action, data));
    assert_error(answer, class, words);
    return json_string_value(json_object_get(answer, "message"));
}
