/* SPDX-License-Identifier: Apache-2.0 */
/* Telling systemd how we are: datagrams to NOTIFY_SOCKET; see sd_notify(3). The socket is connected
   early, because once the front is confined it can reach no other. */
#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/clock.h"
#include "daemon/systemd.h"

static int manager = -1;

void notify_open(void)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = path ? strlen(path) : 0;
    if (length >= 2 && length < sizeof address.sun_path && (path[0] == '/' || path[0] == '@')) {
        memcpy(address.sun_path, path, length);
        if (path[0] == '@') /* an abstract name begins with a NUL */
            address.sun_path[0] = '\0';
        socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
        manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (manager >= 0 && connect(manager, (struct sockaddr *)&address, size) < 0) {
            close(manager);
            manager = -1;
        }
    }
    unsetenv("NOTIFY_SOCKET");
}

/* A manager that cannot be told is no reason to do anything differently. */
void notify_send(const char *text)
{
    if (manager >= 0)
        (void)!send(manager, text, strlen(text), MSG_NOSIGNAL);
}

void notify_reloading(void)
{
    char text[80];
    snprintf(text, sizeof text, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64, clock_monotonic_us());
    notify_send(text);
}
