# SPDX-License-Identifier: Apache-2.0
"""Ports for servers that must be told theirs: no other test has the same, and the kernel gives them to nobody."""

import random
import socket

FIRST, LAST = 20000, 32000  # below net.ipv4.ip_local_port_range

claims = []  # as long as this process lives


def free_port():
    for _ in range(1000):
        port = random.randrange(FIRST, LAST)
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0boxd-test-port-{port}")
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", port))
        except OSError:
            claim.close()
            continue
        claims.append(claim)
        return port
    raise RuntimeError("no free port")
