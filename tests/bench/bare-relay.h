/* SPDX-License-Identifier: Apache-2.0 */
/* The least a relay can do: what comes from a socket goes into a pipe, and the other way round. */
#pragma once

/* Starts one in a process of its own before a `cat`; returns the client's end of its TCP socket.
   Both end when that is closed. */
int bare_relay_start(void);
