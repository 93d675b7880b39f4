/* SPDX-License-Identifier: Apache-2.0 */
/* The number of a request, which goes back to the peer as it came: it may have more digits than any
   type here holds. No I/O. */
#pragma once

#include <jansson.h>
#include <stddef.h>

#define RPC_SEQ_DIGITS 4300 /* what Python itself reads */

/* `message` is what was made of `text`. NULL: there is no seq_id, or it is no integer. The caller
   frees. */
char *rpc_seq_text(const json_t *message, const char *text, size_t size);
