/* SPDX-License-Identifier: Apache-2.0 */
/* A call of a tool, there and back: Python's own MCP server in a session behind the relay, and the
   same server on two pipes, in turns. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common.h"
#include "core/mem.h"
#include "parts.h"
#include "peer.h"
#include "rows.h"
#include "sessions.h"

#define SERVERS    SOURCE_DIR "/conformance/langbot"
#define SERVER     SERVERS "/mcp_server.py"
#define ANSWER_MAX 4096

static const char hello[] =
    "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":"
    "\"2025-06-18\",\"capabilities\":{},\"clientInfo\":{\"name\":\"bench\",\"version\":\"1\"}}}\n";
static const char ready[] = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n";
static const char call[] =
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"echo\","
    "\"arguments\":{\"text\":\"/workspace/src/main.c\"}}}\n";

static struct daemon boxd;
static struct client relay;
static struct peer bare;

static void check(const char *answer)
{
    if (!strstr(answer, "\"result\""))
        bench_fail("the MCP server says %.200s", answer);
}

/* --- on two pipes --- */

static void say(const char *line)
{
    if (write(bare.in, line, strlen(line)) != (ssize_t)strlen(line))
        bench_fail("the MCP server: %s", strerror(errno));
}

static void ask(const char *line)
{
    char answer[ANSWER_MAX];
    size_t size = 0;
    say(line);
    do {
        ssize_t got = read(bare.out, answer + size, sizeof answer - 1 - size);
        if (got <= 0)
            bench_fail("the MCP server ended or says too much");
        size += (size_t)got;
    } while (answer[size - 1] != '\n');
    answer[size] = '\0';
    check(answer);
}

static void by_pipe(void)
{
    ask(call);
}

static void start_bare(const char *python)
{
    char *argv[] = {(char *)python, (char *)"-B", (char *)SERVER, NULL};
    int to[2], from[2];
    if (pipe2(to, O_CLOEXEC) < 0 || pipe2(from, O_CLOEXEC) < 0)
        bench_fail("pipe: %s", strerror(errno));
    bare = (struct peer){spawn_with(argv, to[0], from[1], null_fd), to[1], from[0]};
    close(to[0]);
    close(from[1]);
    ask(hello);
    say(ready);
}

/* --- behind the relay: lines are frames there --- */

static void relay_say(const char *line)
{
    client_send_text(&relay, line, strlen(line) - 1);
}

static void relay_ask(const char *line)
{
    relay_say(line);
    client_read_text(&relay);
    check(relay.body);
}

static void by_relay(void)
{
    relay_ask(call);
}

static void start_relayed(const char *python)
{
    struct client client;
    cleanup_free char *tools = peer_tools();
    cleanup_free char *roots = xasprintf("[%s, %s]", tools, SERVERS);
    cleanup_free char *session =
        xasprintf("{\"session_id\":\"mcp\",\"extra_mounts\":["
                  "{\"host_path\":\"%s\",\"mount_path\":\"%s\",\"mode\":\"ro\"},"
                  "{\"host_path\":\"%s\",\"mount_path\":\"%s\",\"mode\":\"ro\"}]}",
                  tools, tools, SERVERS, SERVERS);
    cleanup_free char *process = xasprintf(
        "{\"process_id\":\"mcp\",\"command\":\"%s\",\"args\":[\"-B\",\"%s\"]}", python, SERVER);
    boxd.mount_roots = roots;
    daemon_start(&boxd);
    client_open(&client, &boxd, true);
    client_expect(&client, 201, "POST", "/v1/sessions", session);
    client_expect(&client, 201, "POST", "/v1/sessions/mcp/processes", process);
    client_close(&client);
    client_open(&relay, &boxd, true);
    client_upgrade(&relay, "/v1/sessions/mcp/managed-process/mcp/ws");
    relay_ask(hello);
    relay_say(ready);
}

void part_mcp(void)
{
    enum { PIPES, RELAY, COUNT };
    static struct row rows[COUNT] = {
        [PIPES] = {"an MCP server on two pipes", by_pipe, 1},
        [RELAY] = {"the same behind boxd's relay", by_relay, 1,
                   .ratios = {{PIPES + 1, AT_MOST(2),
                               "a relayed MCP round trip, against bare pipes"}}},
    };
    const char *why = "boxd was not built";
    const char *python = bench.boxd ? peer_python(&why) : NULL;
    for (int i = 0; i < COUNT; i++)
        rows[i].missing = python ? NULL : why;
    if (python) {
        start_bare(python);
        start_relayed(python);
    }
    rows_measure(rows, COUNT, bench.rounds);
    if (python) {
        peer_stop(&bare);
        client_close(&relay);
        daemon_stop(&boxd);
    }
    rows_print("a call of an MCP server's tool, milliseconds", rows, COUNT);
}
