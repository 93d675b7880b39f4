/* SPDX-License-Identifier: Apache-2.0 */
/* The engine in the benchmark's own process, without a daemon. */
#pragma once

void engine_start(void);
void engine_stop(void);
void engine_warm(void); /* sh -c true in a sandbox that is there */
void engine_cold(void); /* in one made for it */
