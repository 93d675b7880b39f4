/* SPDX-License-Identifier: Apache-2.0 */
/* `box top`: what sessions use, live.

   On a terminal the table is drawn over the last one, on the terminal's second screen, so that what
   was there comes back at the end. Elsewhere there is one table, or with --json one object a
   second. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/client.h"
#include "cli/run-report.h"
#include "cli/terminal.h"
#include "cli/top-table.h"
#include "core/clock.h"
#include "core/fd.h"

#define INTERVAL_MS 1000

#define SCREEN_ENTER "\033[?1049h\033[?25l"
#define SCREEN_LEAVE "\033[?25h\033[?1049l"
#define SCREEN_HOME  "\033[H"
#define LINE_END     "\033[K\n"
#define SCREEN_REST  "\033[J"

struct top_options {
    struct client_options client;
    bool once;
};

struct top {
    struct client *client;
    const struct top_options *options;
    int signals; /* -1: no screen of our own */
    json_t *before;
    uint64_t before_us;
    json_t *ranked;
    bool over;
};

OPTION_SWITCH(apply_once, struct top_options, once)

static const struct option top_options[] = {
    {"once", 0, NULL, "look twice, a second apart, print one table and end", apply_once},
    CLIENT_OPTION_JSON,
    CLIENT_OPTIONS,
    {0},
};

static int look(struct top *top, struct error *err)
{
    cleanup_json json_t *answer = NULL;
    if (client_get(top->client, "/v1/usage", &answer, err) < 0)
        return -1;
    uint64_t at = clock_monotonic_us();
    json_t *sessions = json_incref(json_object_get(answer, "sessions"));
    json_decref(top->ranked);
    top->ranked = top_rank(top->before, sessions, top->before_us ? at - top->before_us : 0);
    json_decref(top->before);
    top->before = sessions;
    top->before_us = at;
    return 0;
}

/* --- the screen ---------------------------------------------------------------------------------
 */

static void draw(const struct top *top)
{
    cleanup_table struct table table;
    uint16_t rows = 24;
    uint16_t columns = 80;
    char clock[16] = "";
    time_t now = time(NULL);
    struct tm parts;
    terminal_size(STDOUT_FILENO, &rows, &columns);
    if (localtime_r(&now, &parts))
        strftime(clock, sizeof clock, "%H:%M:%S", &parts);
    top_table(top->ranked, &table);
    fputs(SCREEN_HOME, stdout);
    if (columns >= 40) {
        size_t count = json_array_size(top->ranked);
        printf("%zu session%s  %s  q: quit%s%s", count, count == 1 ? "" : "s", clock, LINE_END,
               LINE_END);
    }
    /* The last line stays empty: a newline there would scroll the rest away. */
    table_print(&table, columns, rows > 5 ? rows - 4u : 1, LINE_END, stdout);
    fputs(SCREEN_REST, stdout);
    fflush(stdout);
}

static int enter(struct top *top, struct error *err)
{
    static const int wanted[] = {SIGWINCH, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP};
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < ARRAY_SIZE(wanted); i++)
        sigaddset(&set, wanted[i]);
    top->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (top->signals < 0 || sigprocmask(SIG_BLOCK, &set, NULL) < 0)
        return error_errno(err, errno, "cannot take signals");
    if (isatty(STDIN_FILENO) && terminal_keys(STDIN_FILENO, err) < 0)
        return -1;
    fputs(SCREEN_ENTER, stdout);
    return 0;
}

static void leave(struct top *top)
{
    if (top->signals < 0)
        return;
    fputs(SCREEN_LEAVE, stdout);
    fflush(stdout);
    terminal_restore();
    fd_clear(&top->signals);
}

static void on_signals(struct top *top)
{
    struct signalfd_siginfo info;
    while (read(top->signals, &info, sizeof info) == sizeof info) {
        if (info.ssi_signo == SIGWINCH)
            draw(top);
        else
            top->over = true;
    }
}

/* Waits for the next second, a key or a signal. */
static void wait_a_second(struct top *top)
{
    uint64_t until = clock_monotonic_us() + INTERVAL_MS * 1000ULL;
    while (!top->over) {
        uint64_t now = clock_monotonic_us();
        struct pollfd fds[] = {
            {.fd = top->signals, .events = POLLIN},
            {.fd = top->signals < 0 || !isatty(STDIN_FILENO) ? -1 : STDIN_FILENO, .events = POLLIN},
        };
        if (now >= until)
            return;
        int rc = poll(fds, ARRAY_SIZE(fds), (int)((until - now) / 1000 + 1));
        char key = 0;
        if (rc > 0 && fds[0].revents)
            on_signals(top);
        if (rc > 0 && fds[1].revents && (read(STDIN_FILENO, &key, 1) <= 0 || key == 'q'))
            top->over = true;
    }
}

/* --- the verb -----------------------------------------------------------------------------------
 */

static void print(const struct top *top)
{
    cleanup_table struct table table = {0};
    if (top->options->client.json) {
        run_print_json(json_pack("{s:O}", "sessions", top->ranked), JSON_COMPACT);
        fflush(stdout);
        return;
    }
    top_table(top->ranked, &table);
    table_print(&table, table_width(STDOUT_FILENO), 0, "\n", stdout);
}

static int watch(struct top *top, struct error *err)
{
    bool screen = !top->options->once && !top->options->client.json && isatty(STDOUT_FILENO);
    bool once = top->options->once || (!screen && !top->options->client.json);
    if (look(top, err) < 0 || (screen && enter(top, err) < 0))
        return -1;
    while (!top->over) {
        if (screen)
            draw(top);
        wait_a_second(top);
        if (top->over)
            break;
        if (look(top, err) < 0)
            return -1;
        if (!screen)
            print(top);
        if (once || ferror(stdout))
            break;
    }
    return 0;
}

static int top_body(struct client *client, void *options, const struct operands *words,
                    struct error *err)
{
    struct top top = {.client = client, .options = options, .signals = -1};
    (void)words;
    int rc = watch(&top, err);
    leave(&top);
    json_decref(top.before);
    json_decref(top.ranked);
    return rc;
}

static int top_main(const struct verb *verb, int argc, char **argv)
{
    struct top_options options = {0};
    return client_main(verb, argc, argv, &options, (struct verb_words){0}, top_body);
}

const struct verb verb_top = {
    .name = "top",
    .arguments = "[--once] [--json]",
    .help = "Show what sessions use, live.",
    .options = top_options,
    .run = top_main,
};
