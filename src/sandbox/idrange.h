/* SPDX-License-Identifier: Apache-2.0 */
/* Private ranges of 65,536 user and group ids, never held by two live sessions of the machine. */
#pragma once

#include <stdint.h>

#include "core/error.h"

/* From 0x70000000, where systemd-nspawn's ranges (0x80000 to 0x6fffffff) end and with them
   useradd's sub-ids (100,000 to 600,100,000), Docker's, LXD's and Incus' (1,000,000 and a billion
   on), up to 0x7ffdffff: systemd's ids for foreign images start at 0x7ffe0000, and from 0x80000000
   on ids are negative to some programs and, by its manual, Podman's for --userns=auto. What SSSD
   makes of Active Directory and FreeIPA accounts may reach up to 2,000,200,000 (0x77385840); so the
   ranges are counted from the top, and the first 2,245 stay clear of those too. */
#define IDRANGE_SIZE  65536u
#define IDRANGE_COUNT 4094u
#define IDRANGE_FIRST 0x70000000u

struct idrange {
    uint32_t index; /* 0 … IDRANGE_COUNT - 1; also picks a session's network addresses */
    uint32_t base;  /* first id */
    int lock_fd;    /* the range is taken for as long as any copy of this is open: init keeps one */
};

/* Takes a free range. `hint` is where to look first (the last one given up, for example).
   ERROR_LIMIT if none is free. */
int idrange_take(uint32_t hint, struct idrange *ret, struct error *err);

/* The same with the first `count` ranges only, and the locks in the directory behind `dir_fd`; for
   tests. */
int idrange_take_in(int dir_fd, uint32_t count, uint32_t hint, struct idrange *ret,
                    struct error *err);
