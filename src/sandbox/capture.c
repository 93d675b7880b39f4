/* SPDX-License-Identifier: Apache-2.0 */
/* Seeing a command through.

   One poll() over everything that can happen. While the command lives: bytes either way, its end,
   its deadline, memory running out, the caller's own descriptor. Once it has ended: only what was
   in its pipes at that moment is still carried to its readers. */
#include "sandbox/capture.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/fd.h"
#include "sandbox/pump.h"

/* A reader that takes nothing for so long does not get the rest of what a killed command wrote. */
#define LAST_WORDS_MS 1000
/* See command_check_memory(). */
#define MEMORY_AGAIN_MS 2

enum {
    STREAM_OUTPUT,
    STREAM_ERRORS,
    STREAM_INPUT,
    STREAM_MAX,
};

enum {
    POLL_STREAMS,
    POLL_COMMAND = STREAM_MAX,
    POLL_MEMORY,
    POLL_ENGINE,
    POLL_WATCH,
    POLL_MAX,
};

struct capture {
    struct command *command;
    const struct capture_options *options;
    struct pump pumps[STREAM_MAX];
    uint64_t deadline; /* UINT64_MAX: none */
};

int capture_pipes_open(struct capture_pipes *ret, bool input, struct error *err)
{
    struct capture_pipes pipes = {.command = {-1, -1, -1}, .own = {-1, -1, -1}};
    if (!input)
        pipes.command[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (!input && pipes.command[0] < 0)
        return error_errno(err, errno, "cannot open /dev/null");
    for (int i = input ? 0 : 1; i < 3; i++) {
        int ends[2];
        if (pipe2(ends, O_CLOEXEC) < 0) {
            error_errno(err, errno, "cannot make a pipe");
            capture_pipes_close(&pipes);
            return -1;
        }
        pipes.command[i] = ends[i != 0];
        pipes.own[i] = ends[i == 0];
        /* Our end only: the command's is what programs expect. */
        fcntl(pipes.own[i], F_SETFL, O_NONBLOCK);
    }
    *ret = pipes;
    return 0;
}

void capture_pipes_close(struct capture_pipes *pipes)
{
    for (int i = 0; i < 3; i++) {
        fd_clear(&pipes->command[i]);
        fd_clear(&pipes->own[i]);
    }
}

/* Rounded up, so that poll() does not come back a moment too early, again and again. */
static int wait_ms(uint64_t deadline, uint64_t now)
{
    if (deadline == UINT64_MAX)
        return -1;
    if (deadline <= now)
        return 0;
    return deadline - now >= INT_MAX ? INT_MAX : (int)(deadline - now) + 1;
}

static void open_output(struct pump *pump, int from, int to, size_t keep)
{
    if (to >= 0)
        pump_to_fd(pump, from, to);
    else
        pump_to_memory(pump, from, keep);
}

/* Descriptors of the pumps' own, so that whatever one closes is nobody else's. */
static void open_pumps(struct capture *capture)
{
    const struct capture_options *options = capture->options;
    struct pump *pumps = capture->pumps;
    int from[2] = {-1, -1};
    int to = -1;
    int terminal = capture->command->terminal;
    if (terminal >= 0) {
        fcntl(terminal, F_SETFL, O_RDWR | O_NONBLOCK);
        from[0] = fcntl(terminal, F_DUPFD_CLOEXEC, 3);
        to = fcntl(terminal, F_DUPFD_CLOEXEC, 3);
    }
    if (options->pipes) {
        for (int i = 0; i < 3; i++)
            fd_clear(&options->pipes->command[i]);
        from[0] = steal_fd(&options->pipes->own[1]);
        from[1] = steal_fd(&options->pipes->own[2]);
        to = steal_fd(&options->pipes->own[0]);
    }
    open_output(&pumps[STREAM_OUTPUT], from[0], options->output_fd, options->keep);
    open_output(&pumps[STREAM_ERRORS], from[1], options->error_fd, options->keep);
    pump_from(&pumps[STREAM_INPUT], options->input, options->input_size, options->input_fd, to);
}

static bool call_watch(const struct capture *capture, struct command *command)
{
    return capture->options->on_watch(command, capture->options->data);
}

/* A terminal has no pipe whose end the command would notice: when ours ends, either way, its own
 * hangs up. */
static void step_streams(struct capture *capture, const struct pollfd *polled)
{
    for (int i = 0; i < STREAM_MAX; i++) {
        if (!polled[i].revents)
            continue;
        pump_step(&capture->pumps[i]);
        bool over = i == STREAM_INPUT ? pump_done(&capture->pumps[i]) : capture->pumps[i].errnum;
        if (over && capture->command->terminal >= 0)
            command_signal(capture->command, SIGHUP);
    }
}

static void fill_polled(const struct capture *capture, struct pollfd *polled)
{
    const struct command *command = capture->command;
    for (int i = 0; i < STREAM_MAX; i++)
        polled[i] = pump_wanted(&capture->pumps[i]);
    polled[POLL_COMMAND] = (struct pollfd){.fd = command_fd(command), .events = POLLIN};
    polled[POLL_MEMORY] = (struct pollfd){.fd = command_memory_fd(command), .events = POLLIN};
    polled[POLL_ENGINE] = (struct pollfd){.fd = command_engine_fd(command), .events = POLLIN};
    polled[POLL_WATCH] = (struct pollfd){.fd = capture->options->watch_fd, .events = POLLIN};
}

/* Until the command has ended by itself or was killed; true: by its deadline. */
static bool wait_for_end(struct capture *capture)
{
    struct command *command = capture->command;
    struct pollfd polled[POLL_MAX];
    bool memory_again = false;
    while (!command->killed) {
        fill_polled(capture, polled);
        uint64_t now = clock_monotonic_ms();
        uint64_t again = memory_again ? now + MEMORY_AGAIN_MS : UINT64_MAX;
        int wait = wait_ms(again < capture->deadline ? again : capture->deadline, now);
        int ready = poll(polled, POLL_MAX, wait);
        if (ready < 0)
            continue;
        if (polled[POLL_COMMAND].revents) {
            step_streams(capture, polled);
            break;
        }
        /* Looked at each time: a command that never stops writing must not outrun its deadline. */
        if (capture->deadline <= clock_monotonic_ms()) {
            command_kill(command);
            return true;
        }
        if (memory_again || polled[POLL_MEMORY].revents)
            memory_again = command_check_memory(command);
        if (polled[POLL_ENGINE].revents)
            command_check_engine(command);
        if (polled[POLL_WATCH].revents && call_watch(capture, command) && !command->killed)
            command_kill(command);
        step_streams(capture, polled);
    }
    return false;
}

/* Moves what needs no waiting; false when all is delivered. */
static bool step_last(struct capture *capture, struct pollfd *polled)
{
    bool unfinished = false;
    for (int i = STREAM_OUTPUT; i <= STREAM_ERRORS; i++) {
        struct pump *pump = &capture->pumps[i];
        while (!pump_done(pump)) {
            uint64_t before = pump->bytes;
            pump_step(pump);
            polled[i] = pump_wanted(pump);
            if (polled[i].events == POLLOUT)
                break;
            if (pump->bytes == before) /* the source has no more after all */
                pump->left = 0;
        }
        unfinished |= !pump_done(pump);
    }
    return unfinished;
}

/* Brings what the command left in its pipes to where it belongs. */
static void deliver_rest(struct capture *capture, bool hurried)
{
    struct pollfd polled[STREAM_MAX + 1];
    uint64_t deadline = hurried ? clock_monotonic_ms() + LAST_WORDS_MS : UINT64_MAX;
    for (int i = 0; i <= STREAM_MAX; i++)
        polled[i] = (struct pollfd){.fd = -1};
    polled[STREAM_MAX] = (struct pollfd){.fd = capture->options->watch_fd, .events = POLLIN};
    while (step_last(capture, polled)) {
        int ready = poll(polled, STREAM_MAX + 1, wait_ms(deadline, clock_monotonic_ms()));
        if (ready == 0 || (polled[STREAM_MAX].revents && call_watch(capture, NULL)))
            return;
        if (hurried)
            deadline = clock_monotonic_ms() + LAST_WORDS_MS;
        polled[STREAM_OUTPUT].fd = polled[STREAM_ERRORS].fd = -1;
    }
}

static void take_stream(struct pump *pump, struct capture_stream *ret)
{
    *ret =
        (struct capture_stream){.kept = pump->kept, .bytes = pump->bytes, .errnum = pump->errnum};
    pump->kept = (struct buf){0};
}

int capture_run(struct command *command, const struct capture_options *options,
                struct capture_result *ret, struct error *err)
{
    struct capture capture = {.command = command, .options = options, .deadline = UINT64_MAX};
    struct outcome outcome;
    if (options->timeout_ms > 0)
        capture.deadline = command->started_ns / 1000000 + options->timeout_ms;
    open_pumps(&capture);
    bool timed_out = wait_for_end(&capture);
    pump_release(&capture.pumps[STREAM_INPUT]);
    pump_last(&capture.pumps[STREAM_OUTPUT]);
    pump_last(&capture.pumps[STREAM_ERRORS]);
    /* First the end, so that a slow reader is not billed to the command. */
    int rc = command_finish(command, timed_out, &outcome, err);
    deliver_rest(&capture, command->killed);
    if (rc == 0) {
        ret->outcome = outcome;
        take_stream(&capture.pumps[STREAM_OUTPUT], &ret->output);
        take_stream(&capture.pumps[STREAM_ERRORS], &ret->errors);
    }
    pump_release(&capture.pumps[STREAM_OUTPUT]);
    pump_release(&capture.pumps[STREAM_ERRORS]);
    return rc;
}

void capture_result_release(struct capture_result *result)
{
    buf_release(&result->output.kept);
    buf_release(&result->errors.kept);
}
