/* SPDX-License-Identifier: Apache-2.0 */
/* A warm command as LangBot sees it: by its own client, over its own protocol, in a session that
   lives; boxd behind it, and the Python runtime that it would have instead, with nsjail if that is
   installed and else with docker.

   Most of the time with boxd is the client's own. The same message by a client that does nothing
   else shows how much is boxd's. */
#include <string.h>

#include "common.h"
#include "core/mem.h"
#include "parts.h"
#include "peer.h"
#include "rivals.h"
#include "rows.h"
#include "sessions.h"

#define OF(index) .against = (index) + 1
/* As in part_docker(). */
#define AFTER_DOCKER 10
#define ROUNDS       20
/* What LangBot's specs name if they name none. */
#define IMAGE "rockchin/langbot-sandbox:latest"

static const char request[] = "{\"seq_id\":1,\"action\":\"box_exec\",\"data\":{\"session_id\":"
                              "\"bench\",\"cmd\":\"true\"}}";

static struct daemon boxd;
static struct client rpc;
static struct peer with_boxd, with_python;

static void by_bare_client(void)
{
    client_send_text(&rpc, request, sizeof request - 1);
    client_read_text(&rpc);
    if (!strstr(rpc.body, "\"code\":0"))
        bench_fail("box_exec: %.200s", rpc.body);
}

static void by_langbot(void)
{
    peer_call(&with_boxd);
}

static void by_langbot_alone(void)
{
    peer_call(&with_python);
}

static const char *start_boxd(const char *python)
{
    daemon_start(&boxd);
    client_open(&rpc, &boxd, true);
    client_upgrade(&rpc, "/rpc/ws");
    cleanup_free char *port = xasprintf("%u", boxd.port);
    return peer_start(&with_boxd, python, "boxd", port);
}

static const char *start_python(const char *python, struct row *row)
{
    if (rival_find("nsjail")) {
        row->name = "the same, the Python runtime, nsjail";
        return peer_start(&with_python, python, "nsjail", NULL);
    }
    const char *reason = rival_docker_start();
    if (!reason)
        reason = rival_docker_tag(IMAGE);
    return reason ? reason : peer_start(&with_python, python, "docker", rival_docker_host());
}

static void stop(void)
{
    if (with_python.pid)
        peer_stop(&with_python);
    rival_docker_stop();
    if (with_boxd.pid)
        peer_stop(&with_boxd);
    if (boxd.pid) {
        client_close(&rpc);
        daemon_stop(&boxd);
    }
}

void part_langbot(void)
{
    enum { CLIENT, BARE, PYTHON, COUNT };
    static struct row rows[COUNT] = {
        [CLIENT] = {"LangBot's client, boxd", by_langbot, 1, .repeat = AFTER_DOCKER},
        [BARE] = {"the same message by a bare client", by_bare_client, 1, .repeat = AFTER_DOCKER,
                  .ratios = {{OF(CLIENT),
                              .name = "boxd and the command, of LangBot's warm box_exec"}}},
        [PYTHON] = {"the same, the Python runtime, docker", by_langbot_alone, 1,
                    .ratios = {{OF(CLIENT), AT_LEAST(5),
                                "LangBot's Python runtime, against boxd, warm"}}},
    };
    const char *why = "boxd was not built";
    const char *python = bench.boxd ? peer_python(&why) : NULL;
    if (python)
        why = start_boxd(python);
    for (int i = 0; i < COUNT; i++)
        rows[i].missing = why;
    if (!why)
        rows[PYTHON].missing = start_python(python, &rows[PYTHON]);
    rows_measure(rows, COUNT, bench.rounds < ROUNDS ? bench.rounds : ROUNDS);
    stop();
    rows_print("box_exec of true, warm, milliseconds", rows, COUNT);
}
