/* SPDX-License-Identifier: Apache-2.0 */
/* A line to a process and back: `cat` in a session behind the relay, and a bare `cat` on two pipes,
   in turns. Between them, for scale, a relay that does nothing else. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bare-relay.h"
#include "common.h"
#include "core/mem.h"
#include "parts.h"
#include "rows.h"
#include "sessions.h"

/* As large as a call of a tool usually is. */
static const char line[] =
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"read\","
    "\"arguments\":{\"path\":\"/workspace/src/main.c\",\"offset\":0,\"limit\":200}}}\n";
#define LINE_SIZE (sizeof line - 1)

static struct daemon boxd;
static struct client tcp, local;
static int to_cat[2], from_cat[2];
static int bare_relay;

static void round_trip(struct client *relay)
{
    client_send_text(relay, line, LINE_SIZE - 1);
    client_read_text(relay);
    if (relay->body_size != LINE_SIZE - 1 || memcmp(relay->body, line, LINE_SIZE - 1) != 0)
        bench_fail("the relay gave back something else: %.200s", relay->body);
}

static void by_relay(void)
{
    round_trip(&tcp);
}

static void by_local_relay(void)
{
    round_trip(&local);
}

static void through(int in, int out)
{
    char back[LINE_SIZE];
    size_t size = 0;
    if (write(in, line, LINE_SIZE) != (ssize_t)LINE_SIZE)
        bench_fail("write: %s", strerror(errno));
    while (size < LINE_SIZE) {
        ssize_t got = read(out, back + size, LINE_SIZE - size);
        if (got <= 0)
            bench_fail("read: %s", strerror(errno));
        size += (size_t)got;
    }
}

static void by_pipe(void)
{
    through(to_cat[1], from_cat[0]);
}

static void by_bare_relay(void)
{
    through(bare_relay, bare_relay);
}

static pid_t start_cat(void)
{
    static char *const cat[] = {(char *)"/bin/cat", NULL};
    if (pipe2(to_cat, O_CLOEXEC) < 0 || pipe2(from_cat, O_CLOEXEC) < 0)
        bench_fail("pipe: %s", strerror(errno));
    pid_t pid = spawn_with(cat, to_cat[0], from_cat[1], null_fd);
    close(to_cat[0]);
    close(from_cat[1]);
    return pid;
}

static void start_relay(void)
{
    struct client client;
    daemon_start(&boxd);
    client_open(&client, &boxd, true);
    session_create(&client, 0);
    client_expect(&client, 201, "POST", "/v1/sessions/bench-0/processes",
                  "{\"process_id\":\"tcp\",\"command\":\"cat\"}");
    client_expect(&client, 201, "POST", "/v1/sessions/bench-0/processes",
                  "{\"process_id\":\"local\",\"command\":\"cat\"}");
    client_close(&client);
    client_open(&tcp, &boxd, true);
    client_upgrade(&tcp, "/v1/sessions/bench-0/managed-process/tcp/ws");
    client_open(&local, &boxd, false);
    client_upgrade(&local, "/v1/sessions/bench-0/managed-process/local/ws");
}

void part_relay(void)
{
    static struct row rows[] = {
        {"cat on two pipes", by_pipe, 1},
        {"cat behind a bare relay on TCP", by_bare_relay, 1, .ratios = {{.against = 1}}},
        {"cat behind boxd's relay", by_relay, 1,
         .ratios = {{.against = 1, .name = "a relayed line to cat, against bare pipes"},
                    {.against = 2, .name = "the same, against a bare relay"}}},
        {"the same, Unix socket", by_local_relay, 1, .ratios = {{.against = 1}}},
    };
    if (!bench.boxd)
        return;
    bare_relay = bare_relay_start(); /* first: it is a fork, and would hold the other's pipes */
    pid_t cat = start_cat();
    start_relay();
    rows_measure(rows, ARRAY_SIZE(rows), bench.rounds * 5);
    close(to_cat[1]);
    close(from_cat[0]);
    wait_for(cat);
    close(bare_relay);
    client_close(&tcp);
    client_close(&local);
    daemon_stop(&boxd);
    rows_print("a line there and back, milliseconds", rows, ARRAY_SIZE(rows));
}
