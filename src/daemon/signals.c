/* SPDX-License-Identifier: Apache-2.0 */
/* Signals, and the way to the end.

     SIGTERM   gently; sessions wait for the next boxd, if the configuration lets them
     SIGINT    the same, but sessions are ended: whoever started it by hand ends it by hand
     SIGHUP    the configuration is read again
     a second SIGTERM or SIGINT: at once

   With --stdio the end of standard input is as good as SIGTERM, and LangBot may do both: there is
   no second one then. It ends soon in any case. */
#include <signal.h>
#include <unistd.h>

#include "core/log.h"
#include "daemon/daemon.h"

#define DRAIN_MS 10000 /* for requests under way */
#define END_MS   10000 /* for sessions to end, or records to be written */
#define LOST_MS  1000  /* for those records, when there is no spawner any more */
/* The same where LangBot has started it, which waits for two seconds in all. Sessions that are not
   gone by then end with the process. */
#define STDIO_DRAIN_MS 300
#define STDIO_END_MS   1400

static void leave(struct daemon *daemon)
{
    daemon->state = DAEMON_GONE;
    uv_timer_stop(&daemon->deadline);
    uv_stop(&daemon->loop);
}

static void on_stopped(void *data)
{
    struct daemon *daemon = data;
    if (daemon->state == DAEMON_ENDING)
        leave(daemon);
}

/* Whatever still hangs, it is not waited for: a service manager would kill us in a worse moment. */
static void on_end_deadline(uv_timer_t *timer)
{
    struct daemon *daemon = timer->data;
    log_event(LOG_ERROR, "stop_timed_out");
    _exit(daemon->exit_code ? daemon->exit_code : 1);
}

static void end_runtime(struct daemon *daemon, unsigned within_ms)
{
    daemon->state = DAEMON_ENDING;
    uv_timer_start(&daemon->deadline, on_end_deadline, within_ms, 0);
    runtime_stop(daemon->runtime, daemon->keep, on_stopped, daemon);
}

static void on_drained(void *data)
{
    struct daemon *daemon = data;
    if (daemon->state == DAEMON_DRAINING)
        end_runtime(daemon, daemon->config->stdio ? STDIO_END_MS : END_MS);
}

static void on_drain_deadline(uv_timer_t *timer)
{
    struct daemon *daemon = timer->data;
    log_event(LOG_WARN, "drain_timed_out");
    end_runtime(daemon, daemon->config->stdio ? STDIO_END_MS : END_MS);
}

void daemon_stop(struct daemon *daemon, const char *why)
{
    daemon->state = DAEMON_DRAINING;
    log_event(LOG_INFO, "stopping", LOG_TEXT("signal", why),
              LOG_TEXT("sessions", daemon->keep ? "kept" : "ended"));
    notify_send("STOPPING=1");
    uv_timer_start(&daemon->deadline, on_drain_deadline,
                   daemon->config->stdio ? STDIO_DRAIN_MS : DRAIN_MS, 0);
    api_stop(daemon->api);
    http_server_drain(daemon->server, on_drained, daemon);
}

void daemon_lost(void *data, const struct error *err)
{
    struct daemon *daemon = data;
    if (daemon->state == DAEMON_ENDING || daemon->state == DAEMON_GONE)
        return;
    log_error(LOG_ERROR, "backend_lost", err);
    daemon->exit_code = 1;
    daemon->keep = true;
    end_runtime(daemon, LOST_MS);
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct daemon *daemon = handle->data;
    if (number == SIGHUP) {
        if (daemon->state == DAEMON_SERVING)
            daemon_reload(daemon);
        return;
    }
    if (daemon->state > DAEMON_SERVING && daemon->config->stdio)
        return;
    if (daemon->state > DAEMON_SERVING) {
        log_event(LOG_WARN, "stopped_at_once");
        _exit(1);
    }
    daemon->keep = number == SIGTERM && daemon->config->adopt && daemon->config->outlive_ms > 0;
    daemon_stop(daemon, number == SIGTERM ? "TERM" : "INT");
}

void daemon_watch_signals(struct daemon *daemon)
{
    static const int numbers[] = {SIGTERM, SIGINT, SIGHUP};
    _Static_assert(ARRAY_SIZE(numbers) == ARRAY_SIZE(daemon->signals), "one handle each");
    uv_timer_init(&daemon->loop, &daemon->deadline);
    daemon->deadline.data = daemon;
    for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
        uv_signal_init(&daemon->loop, &daemon->signals[i]);
        daemon->signals[i].data = daemon;
        uv_signal_start(&daemon->signals[i], on_signal, numbers[i]);
    }
}
