/* SPDX-License-Identifier: Apache-2.0 */
/* The front, from the moment the spawner is there until it ends. */
#pragma once

#include <stdbool.h>
#include <uv.h>

#include "api/api.h"
#include "backend/native.h"
#include "daemon/config.h"
#include "daemon/options.h"
#include "daemon/places.h"
#include "daemon/systemd.h"
#include "net/http-server.h"
#include "runtime/runtime.h"

#define DAEMON_LISTENERS 32

/* SERVING ──signal──► DRAINING ──no request left, or 10 s──► ENDING ──runtime stopped──► GONE
                                                                  (a second signal: at once) */
enum daemon_state {
    DAEMON_STARTING,
    DAEMON_SERVING,
    DAEMON_DRAINING,
    DAEMON_ENDING,
    DAEMON_GONE,
};

struct daemon {
    const struct options *options;
    struct config *config;
    struct account account;
    char *token;            /* NULL: none */
    char *control_token;    /* LangBot's; NULL: none */
    struct strings ceiling; /* the spawner's allowed roots: box_init can choose within them */

    int listeners[DAEMON_LISTENERS];
    size_t listener_count;
    char *own_socket; /* that is to go with this process; NULL: none, or a service manager's */
    bool on_network;  /* one of them is beyond loopback */

    uv_loop_t loop;
    int spawner;            /* its pidfd; -1: none to be had */
    struct backend *native; /* always there, because its spawner was forked at the start; the
                               runtime may use another */
    struct runtime *runtime;
    struct api *api;
    struct http_server *server;
    bool recovered;

    int stdio_in; /* -1: none */
    int stdio_out;
    struct rpc_stdio *stdio; /* NULL: none */

    bool *from_tree; /* keys, as in the table, that box_init has set: SIGHUP leaves them alone */
    struct strings told; /* what the log has been told about trees */

    enum daemon_state state;
    uint64_t init_told_ms; /* when box_init last had something to tell; 0: never */
    bool keep;             /* sessions */
    int exit_code;
    uv_signal_t signals[3];
    uv_timer_t deadline;
};

/* Sockets as configured, or those of the service manager. */
int daemon_bind(struct daemon *daemon, const struct activation *activation, struct error *err);
/* Everything on the loop, on the spawner's socket; takes it and the sockets over. */
int daemon_open(struct daemon *daemon, int spawner, const struct native_options *native,
                struct error *err);
/* Confines this process; tells people and the service manager; serves until the end. Returns the
   exit status. */
int daemon_run(struct daemon *daemon);

/* signals.c */
void daemon_watch_signals(struct daemon *daemon);
/* Gently, as SIGTERM does it. `why` is for the log. */
void daemon_stop(struct daemon *daemon, const char *why);
void daemon_lost(void *daemon, const struct error *err); /* the backend is gone */

/* The configuration of the interfaces, with what they ask of us. To be released. */
void daemon_api_config(struct daemon *daemon, struct api_config *ret);

/* reload.c */
void daemon_reload(struct daemon *daemon);
/* The configuration as it is now, to all who have a copy of some of it. */
void daemon_apply(struct daemon *daemon);

/* init.c */
/* box_init; `daemon` is a struct daemon. */
int daemon_init(void *daemon, const json_t *tree, struct error *err);
/* A warning, once in a life: LangBot sends the same tree at each connect. */
void daemon_tell_once(struct daemon *daemon, const char *event, const char *message);

/* stdio.c */
/* Before anything is done that needs an end: whether they can be served. */
int stdio_check(struct error *err);
/* Directories of its own, also beside another one with the same port; as places_prepare() and
   places_lock(). */
int stdio_places(struct config *config, const struct account *account, struct error *err);
/* Once the spawner is there: from now on nothing else writes to standard output. */
int stdio_take(struct daemon *daemon, struct error *err);
void stdio_serve(struct daemon *daemon);
