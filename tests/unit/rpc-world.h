/* SPDX-License-Identifier: Apache-2.0 */
/* An api on the null backend, on a loop that the tests turn, and peers that speak LangBot's RPC to
   it without a socket in between. */
#pragma once

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "api/rpc-internal.h"

#define WORLD_INSTANCE "instance-1"

/* How a test wants it; NULL: as it is by default. */
typedef void (*world_adjust)(struct api_config *api, struct runtime_config *runtime);

struct world {
    uv_loop_t loop;
    uv_async_t alive; /* as a daemon's listeners do, it keeps the loop turning */
    struct backend *backend;
    struct runtime *runtime;
    struct api *api;
    char directory[64];
    /* What stands in for the trial of isolation. */
    bool ready;
    bool ready_later; /* who asks waits for world_tell_readiness() */
    unsigned asked;
};
extern struct world world;

void world_open(world_adjust adjust);
/* As a boxd that is told to stop: with `keep` its sessions wait for the next world_open(). */
void world_close(bool keep);
void world_reconfigure(world_adjust adjust);
/* Turns the loop until `is_so` is, or fails the test. */
void world_wait(bool (*is_so)(void *data), void *data);
/* Turns it a few times, for what must not happen to have the time to. */
void world_turn(void);
void world_tell_readiness(void);
bool world_has(const char *session);
void world_wait_gone(const char *session);

struct peer {
    struct rpc_conn *conn;
    json_t *answers; /* in the order in which they came */
    bool full;       /* what it is sent is too much for it */
    size_t unsent;   /* what it says waits to go out */
    bool given_up;
    bool paused;
    long seq;
};

void peer_open(struct peer *peer, const char *instance);
void peer_close(struct peer *peer);
/* A message, as it is. */
void peer_say(struct peer *peer, const char *text);
/* Waits for the answer of that number; borrowed until the peer is closed. */
json_t *peer_answer(struct peer *peer, long seq);

/* Who asks: NULL for one of 0.4. */
struct as {
    const char *workspace;
    uint64_t generation;
    const char *instance; /* NULL: the one that is served */
};
/* Sends a request and returns its number. `data` is JSON with ' for ". */
long peer_ask(struct peer *peer, const struct as *as, const char *action, const char *data);
/* Asks and waits: the answer's data. The test fails if it is an error. */
json_t *ask(struct peer *peer, const struct as *as, const char *action, const char *data);
/* Asks and waits for an error whose message begins with `class` and has `words` in it (NULL: any).
   Returns the message. */
const char *ask_error(struct peer *peer, const struct as *as, const char *action, const char *data,
                      const char *class, const char *words);
void assert_error(const json_t *answer, const char *class, const char *words);

#define assert_text(object, key, text) \
    assert_string_equal(json_string_value(json_object_get(object, key)), text)
#define assert_number(object, key, number) \
    assert_int_equal(json_integer_value(json_object_get(object, key)), number)
