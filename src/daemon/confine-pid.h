/* SPDX-License-Identifier: Apache-2.0 */
/* Stands in the compiled filter where the process's own id belongs, which is put there when it is
   installed. No process can have it: ids end at 2^22. */
#pragma once

#define CONFINE_PID 0x7e57b0bdu
