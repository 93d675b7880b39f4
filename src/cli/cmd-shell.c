/* SPDX-License-Identifier: Apache-2.0 */
/* `box shell`: a terminal in a session, over a WebSocket.

   Three things are waited for: keys, what the session's terminal shows, and signals (a new window
   size, or the wish that this process ends). A key is only read when the connection takes it: this
   side blocked in sending while boxd is blocked in sending to it would be the end of both. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/run-report.h"
#include "cli/session-exec.h"
#include "cli/terminal.h"
#include "core/fd.h"

#define KEYS_MAX       4096 /* read at once: less than any socket's buffer */
#define END_OF_FILE    "\004"
#define END_AGAIN_MS   200
#define LINE_MAX_BYTES (1024u * 1024)

struct shell {
    struct ws_client *ws;
    int signals;
    bool input;    /* there may be more of it */
    bool keys;     /* there are some, to be sent once the connection takes them */
    bool open;     /* the last line of the input has no end */
    unsigned ends; /* Ctrl-D, so often */
    bool over;
    int status;
};

/* --- the way there ------------------------------------------------------------------------------
 */

static void quote(struct buf *line, const char *word)
{
    buf_append(line, "'", 1);
    for (; *word; word++)
        buf_append(line, *word == '\'' ? "'\\''" : word, *word == '\'' ? 4 : 1);
    buf_append(line, "'", 1);
}

/* One word is a line for the shell; several are a command and its arguments, kept apart. */
static char *command_line(char **words)
{
    struct buf line = BUF_INIT(LINE_MAX_BYTES);
    if (words[0] && !words[1])
        buf_append(&line, words[0], strlen(words[0]));
    for (char **word = words; words[0] && words[1] && *word; word++) {
        if (word != words)
            buf_append(&line, " ", 1);
        quote(&line, *word);
    }
    buf_append(&line, "", 1);
    return line.data;
}

static char *make_target(const struct run_options *options, char **words)
{
    uint16_t rows = 24;
    uint16_t columns = 80;
    char row_text[8];
    char column_text[8];
    const char *term = getenv("TERM");
    cleanup_free char *line = command_line(words);
    if (!terminal_size(STDIN_FILENO, &rows, &columns))
        terminal_size(STDOUT_FILENO, &rows, &columns);
    snprintf(row_text, sizeof row_text, "%u", rows);
    snprintf(column_text, sizeof column_text, "%u", columns);
    cleanup_free char *command = line[0] ? client_target("&cmd=%s", line) : xstrdup("");
    cleanup_free char *workdir =
        options->workdir ? client_target("&workdir=%s", options->workdir) : xstrdup("");
    cleanup_free char *base =
        client_target("/v1/sessions/%s/pty/ws?rows=%s&cols=%s&term=%s", options->session, row_text,
                      column_text, term && term[0] ? term : "xterm-256color");
    return xasprintf("%s%s%s", base, command, workdir);
}

static int open_signals(struct shell *shell, struct error *err)
{
    static const int wanted[] = {SIGWINCH, SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < ARRAY_SIZE(wanted); i++)
        sigaddset(&set, wanted[i]);
    shell->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (shell->signals < 0 || sigprocmask(SIG_BLOCK, &set, NULL) < 0)
        return error_errno(err, errno, "cannot take signals");
    return 0;
}

/* --- what comes ---------------------------------------------------------------------------------
 */

static int on_signals(struct shell *shell, struct error *err)
{
    struct signalfd_siginfo info;
    uint16_t rows;
    uint16_t columns;
    char text[80];
    while (read(shell->signals, &info, sizeof info) == sizeof info) {
        if (info.ssi_signo != SIGWINCH) {
            shell->over = true;
            shell->status = EXIT_SIGNAL + (int)info.ssi_signo;
            return 0;
        }
        if (!terminal_size(STDIN_FILENO, &rows, &columns))
            continue;
        int size = snprintf(text, sizeof text, "{\"type\":\"resize\",\"rows\":%u,\"cols\":%u}",
                            rows, columns);
        if (ws_client_send(shell->ws, true, text, (size_t)size, err) < 0)
            return -1;
    }
    return 0;
}

/* No more keys (input from a file, or a terminal that hung up): Ctrl-D, and again whenever the
   terminal has been quiet for a while. One does not do: a shell that is still starting, or that has
   a command running, never sees it. Nor is it an end to a shell in the middle of a line, while to
   all others the second one is: so a line that is open is only closed after that. */
static int press_end(struct shell *shell, struct error *err)
{
    bool close = shell->open && shell->ends == 2;
    shell->ends++;
    return ws_client_send(shell->ws, false, close ? "\n" : END_OF_FILE, 1, err);
}

static int on_input(struct shell *shell, struct error *err)
{
    char keys[KEYS_MAX];
    ssize_t n = shell->input ? read(STDIN_FILENO, keys, sizeof keys) : 0;
    shell->keys = false;
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return 0;
    if (n > 0) {
        shell->open = keys[n - 1] != '\n';
        return ws_client_send(shell->ws, false, keys, (size_t)n, err);
    }
    shell->input = false;
    return press_end(shell, err);
}

/* {"type":"exit",…}, or why there is no terminal. */
static int on_word(struct shell *shell, const struct ws_message *message, struct error *err)
{
    cleanup_json json_t *word = json_loadb(message->data, message->size, 0, NULL);
    const char *type = client_text(word, "type");
    if (strcmp(type, "error") == 0)
        return client_take_error(0, message->data, message->size, err);
    if (strcmp(type, "exit") == 0) {
        struct capture_result result;
        exec_result_from_json(word, &result);
        shell->status = run_exit_status(&result);
        shell->over = true;
    }
    return 0;
}

static int on_message(struct shell *shell, struct error *err)
{
    struct ws_message message = {0};
    int rc = ws_client_receive(shell->ws, &message, err);
    if (rc < 0)
        return -1;
    if (rc == 0)
        return error_set(err, ERROR_GONE, "boxd closed the terminal (%d)", message.close_code);
    if (message.text)
        return on_word(shell, &message, err);
    int errnum = -fd_write_all(STDOUT_FILENO, message.data, message.size);
    return errnum ? error_errno(err, errnum, "cannot write to standard output") : 0;
}

static int converse(struct shell *shell, struct error *err)
{
    while (!shell->over) {
        struct pollfd fds[] = {
            {.fd = shell->input && !shell->keys ? STDIN_FILENO : -1, .events = POLLIN},
            {.fd = ws_client_fd(shell->ws), .events = shell->keys ? POLLIN | POLLOUT : POLLIN},
            {.fd = shell->signals, .events = POLLIN},
        };
        bool waiting = ws_client_buffered(shell->ws);
        int patience = shell->input || shell->keys ? -1 : END_AGAIN_MS;
        int count = poll(fds, ARRAY_SIZE(fds), waiting ? 0 : patience);
        if (count < 0) {
            if (errno == EINTR)
                continue;
            return error_errno(err, errno, "poll");
        }
        if (fds[0].revents || (count == 0 && !waiting))
            shell->keys = true;
        if (fds[2].revents && on_signals(shell, err) < 0)
            return -1;
        if ((waiting || fds[1].revents & ~POLLOUT) && on_message(shell, err) < 0)
            return -1;
        if (fds[1].revents & POLLOUT && !shell->over && on_input(shell, err) < 0)
            return -1;
    }
    return 0;
}

/* --- the verb -----------------------------------------------------------------------------------
 */

/* Asked first over plain HTTP, whose refusals say what is wrong. */
static int find_session(struct client *client, const struct run_options *options, struct error *err)
{
    cleanup_free char *target = client_target("/v1/sessions/%s", options->session);
    if (options->create)
        return client_ensure_session(client, options->session, NULL, err);
    if (client_get(client, target, NULL, err) == 0)
        return 0;
    if (err->code == ERROR_NO_SESSION)
        error_hint(err, "box shell --create makes it; box ps lists those there are");
    return -1;
}

/* What boxd said instead of opening a WebSocket stands in the message, as it came. */
static int refused(struct error *err)
{
    const char *said = strchr(err->message, '{');
    struct error inner = ERROR_INIT;
    if (!said)
        return -1;
    client_take_error(400, said, strlen(said), &inner);
    if (inner.code != ERROR_PROTOCOL)
        *err = inner;
    return -1;
}

static int shell_body(struct client *client, void *data, const struct operands *words,
                      struct error *err)
{
    struct run_options *options = data;
    struct shell shell = {.signals = -1, .input = true};
    options->session = words->words[0];
    cleanup_free char *target = make_target(options, words->rest);
    if (find_session(client, options, err) < 0)
        return -1;
    if (ws_client_connect(client->address, client->token, target, NULL, &shell.ws, err) < 0)
        return refused(err);
    int rc = open_signals(&shell, err);
    if (rc == 0 && isatty(STDIN_FILENO))
        rc = terminal_raw(STDIN_FILENO, err);
    if (rc == 0)
        rc = converse(&shell, err);
    terminal_restore();
    ws_client_free(shell.ws);
    fd_clear(&shell.signals);
    return rc < 0 ? -1 : shell.status;
}

static int shell_main(const struct verb *verb, int argc, char **argv)
{
    const struct verb_words want = {.min = 1, .max = 1, .command = COMMAND_OPTIONAL};
    struct run_options options;
    run_options_init(&options);
    int status = client_main(verb, argc, argv, &options, want, shell_body);
    run_options_release(&options);
    return status;
}

const struct verb verb_shell = {
    .name = "shell",
    .arguments = "SESSION [OPTION]... [COMMAND [ARG]...]",
    .help = "Open a terminal in a session.",
    .options = shell_option_table,
    .run = shell_main,
};
