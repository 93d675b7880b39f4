/* SPDX-License-Identifier: Apache-2.0 */
/* What the WebSocket client needs of net/websocket-frames.c, which would bring wslay along. Weak,
   so that the real one wins once it lives among what both ends share (net/websocket-text.c); then
   this file can go. */
#include "net/websocket-frames.h"

__attribute__((weak)) bool websocket_close_code_valid(int code)
{
    return (code >= 1000 && code <= 1014 && code != 1004 && code != 1005 && code != 1006) ||
           (code >= 3000 && code <= 4999);
}
