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
    const char *config_file; /* NULL: none */
    struct account account;
    char *token; /* NULL: none */

    int listeners[DAEMON_LISTENERS];
    size_t listener_count;
    const char
        *own_socket; /* that is to go with this process; NULL: none, or a service manager's */
    bool on_network; /* one of them is beyond loopback */

    uv_loop_t loop;
    struct backend *backend;
    struct runtime *runtime;
    struct api *api;
    struct http_server *server;
    bool recovered;

    enum daemon_state state;
    bool keep; /* sessions */
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
void daemon_lost(void *daemon, const struct error *err); /* the backend is gone */

/* What GET /readyz asks of us; for each new api_config. */
void daemon_ready_checks(struct daemon *daemon, struct api_config *config);

/* reload.c */
void daemon_reload(struct daemon *daemon);
