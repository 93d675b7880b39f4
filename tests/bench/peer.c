/* SPDX-License-Identifier: Apache-2.0 */
/* LangBot's client in a process of its own. Its virtual environment is that of the conformance
   tests. */
#include "peer.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common.h"
#include "core/fd.h"
#include "core/mem.h"

#define VERSION   "0.5.5"
#define READY_SEC 60
#define LINE_MAX  512

char *peer_tools(void)
{
    cleanup_free char *box = realpath(bench.box, NULL);
    if (!box)
        bench_fail("%s: %s", bench.box, strerror(errno));
    return xasprintf("%s/conformance", dirname(box));
}

const char *peer_python(const char **ret_why)
{
    static char text[LINE_MAX + 64];
    cleanup_free char *tools = peer_tools();
    cleanup_free char *copy = xstrdup(tools);
    const char *build = dirname(copy);
    cleanup_free char *log = xasprintf("%s/langbot-install.log", bench.directory);
    char *python = xasprintf("%s/langbot-" VERSION "/bin/python", tools);
    char *install[] = {(char *)"/usr/bin/env",
                       (char *)"LANGBOT_VERSIONS=" VERSION,
                       (char *)SOURCE_DIR "/conformance/langbot/run.sh",
                       (char *)build,
                       tools,
                       (char *)"install",
                       NULL};
    mkdir(tools, 0755);
    if (spawn_logged(install, log) && access(python, X_OK) == 0)
        return python;
    free(python);
    snprintf(text, sizeof text, "no virtual environment of LangBot's: %s", last_line(log));
    *ret_why = text;
    return NULL;
}

/* A line without its end; false if there is none. */
static bool read_line(struct peer *peer, int within_sec, char line[LINE_MAX])
{
    size_t size = 0;
    while (size < LINE_MAX - 1) {
        struct pollfd wait = {.fd = peer->out, .events = POLLIN};
        if (poll(&wait, 1, within_sec * 1000) <= 0 || read(peer->out, line + size, 1) != 1)
            return false;
        if (line[size] == '\n')
            break;
        size++;
    }
    line[size] = '\0';
    return true;
}

const char *peer_start(struct peer *peer, const char *python, const char *backend,
                       const char *where)
{
    static char line[LINE_MAX];
    cleanup_free char *log = xasprintf("%s/langbot-%s.log", bench.directory, backend);
    char *argv[] = {(char *)python,
                    (char *)"-B",
                    (char *)SOURCE_DIR "/bench/langbot.py",
                    (char *)bench.directory,
                    (char *)backend,
                    (char *)where,
                    NULL};
    int to[2], from[2];
    cleanup_close int err = open(log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (err < 0 || pipe2(to, O_CLOEXEC) < 0 || pipe2(from, O_CLOEXEC) < 0)
        bench_fail("%s: %s", log, strerror(errno));
    *peer = (struct peer){spawn_with(argv, to[0], from[1], err), to[1], from[0]};
    close(to[0]);
    close(from[1]);
    if (!read_line(peer, READY_SEC, line))
        snprintf(line, sizeof line, "LangBot's client says nothing: %.400s", last_line(log));
    if (strcmp(line, "ready") == 0)
        return NULL;
    peer_stop(peer);
    return line;
}

void peer_call(struct peer *peer)
{
    char line[LINE_MAX];
    if (write(peer->in, "\n", 1) != 1 || !read_line(peer, READY_SEC, line) ||
        strcmp(line, "done") != 0)
        bench_fail("LangBot's client failed");
}

void peer_stop(struct peer *peer)
{
    close(peer->in);
    wait_for(peer->pid);
    close(peer->out);
    *peer = (struct peer){0};
}
