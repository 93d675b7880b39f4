# SPDX-License-Identifier: Apache-2.0
"""How long and how much. LOAD_SHORT=1 is the form for CI; each number can be given by itself."""

import os
import random

SHORT = os.environ.get("LOAD_SHORT", "") not in ("", "0")


def number(name, long, short):
    return int(os.environ.get(name, short if SHORT else long))


SECONDS = number("LOAD_SECONDS", 60, 15)  # mixed
CLIENTS = number("LOAD_CLIENTS", 64, 64)
CHURN = number("LOAD_CHURN", 10000, 2000)
CROWD = number("LOAD_CROWD", 2000, 500)
KILLS = number("LOAD_KILLS", 200, 20)
ATTACHES = number("LOAD_ATTACHES", 10000, 1000)
SEED = int(os.environ.get("LOAD_SEED", random.SystemRandom().randrange(1 << 32)))
