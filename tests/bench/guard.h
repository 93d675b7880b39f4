/* SPDX-License-Identifier: Apache-2.0 */
/* Ends what the benchmark started, whatever becomes of the benchmark. */
#pragma once

/* Goes on in a child with directories of its own, `bench.directory` and `bench.run_directory`. The
   process it was called in stays behind, and once the child is over ends whatever that has left
   running, removes the directories, and exits as the child did. */
void guard_start(void);
