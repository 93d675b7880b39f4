/* SPDX-License-Identifier: Apache-2.0 */
/* Names of signals. */
#include "api/signals.h"

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "core/parse.h"

const char *signal_text(int number, char ret[SIGNAL_TEXT_SIZE])
{
    if (number <= 0 || number > SIGNAL_MAX)
        return NULL;
    const char *name = sigabbrev_np(number);
    if (name)
        snprintf(ret, SIGNAL_TEXT_SIZE, "SIG%s", name);
    else
        snprintf(ret, SIGNAL_TEXT_SIZE, "SIG%d", number);
    return ret;
}

int signal_number(const char *text)
{
    uint64_t number;
    if (parse_u64(text, SIGNAL_MAX, &number) == 0)
        return number > 0 ? (int)number : -1;
    if (strncasecmp(text, "SIG", 3) == 0)
        text += 3;
    for (int i = 1; i <= SIGNAL_MAX; i++) {
        const char *name = sigabbrev_np(i);
        if (name && strcasecmp(name, text) == 0)
            return i;
    }
    return -1;
}
