/* SPDX-License-Identifier: Apache-2.0 */
/* Whether this machine can give sessions a network, and what would help where it cannot. */
#include "sandbox/net-internal.h"

#include <unistd.h>

const char *net_unavailable(const char **ret_fix)
{
    /* Static, so that callers need not own what they print. */
    static struct error why;
    why = (struct error)ERROR_INIT;
    int rc = net_nft_available(&why);
    if (rc == 0)
        rc = geteuid() == 0 ? net_forwarding(&why) : net_pasta_available(&why);
    if (rc == 0)
        return NULL;
    *ret_fix = why.hint[0] ? why.hint : NULL;
    return why.message;
}
