/* SPDX-License-Identifier: Apache-2.0 */
/* Raw mode and the way back from it. */
#include "cli/terminal.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>

#include "core/mem.h"

static struct termios saved;
static int saved_fd = -1;

void terminal_restore(void)
{
    if (saved_fd >= 0)
        tcsetattr(saved_fd, TCSADRAIN, &saved);
    saved_fd = -1;
}

/* Signals that ask for an end come through signalfd; these are our own faults. A shell left in raw
   mode would be the user's to repair. */
static void on_fault(int number)
{
    terminal_restore();
    raise(number);
}

static void guard(void)
{
    static const int faults[] = {SIGABRT, SIGSEGV, SIGBUS, SIGILL, SIGFPE};
    const struct sigaction action = {.sa_handler = on_fault, .sa_flags = (int)SA_RESETHAND};
    for (size_t i = 0; i < ARRAY_SIZE(faults); i++)
        sigaction(faults[i], &action, NULL);
    atexit(terminal_restore);
}

static int change(int fd, void (*alter)(struct termios *settings), struct error *err)
{
    struct termios changed;
    if (tcgetattr(fd, &saved) < 0)
        return error_errno(err, errno, "cannot read the terminal's settings");
    changed = saved;
    alter(&changed);
    saved_fd = fd;
    guard();
    if (tcsetattr(fd, TCSADRAIN, &changed) < 0)
        return error_errno(err, errno, "cannot change the terminal's settings");
    return 0;
}

static void alter_keys(struct termios *settings)
{
    settings->c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    settings->c_cc[VMIN] = 1;
    settings->c_cc[VTIME] = 0;
}

int terminal_raw(int fd, struct error *err)
{
    return change(fd, cfmakeraw, err);
}

int terminal_keys(int fd, struct error *err)
{
    return change(fd, alter_keys, err);
}

void terminal_resize(int from, int to)
{
    struct winsize size;
    if (ioctl(from, TIOCGWINSZ, &size) == 0)
        ioctl(to, TIOCSWINSZ, &size);
}

bool terminal_size(int fd, uint16_t *ret_rows, uint16_t *ret_columns)
{
    struct winsize size;
    if (ioctl(fd, TIOCGWINSZ, &size) < 0 || size.ws_row == 0 || size.ws_col == 0)
        return false;
    *ret_rows = size.ws_row;
    *ret_columns = size.ws_col;
    return true;
}
