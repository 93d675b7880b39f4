#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The load and fault tests: `run.py [LANE…]`, all lanes without one. docs/testing.md tells about them."""

import asyncio
import importlib
import os
import resource
import signal
import sys
import traceback

from boxd import clear_remains
from report import Report

LANES = ["mixed", "churn", "crowd", "faults", "hostile", "kill9"]


def main():
    wanted = sys.argv[1:] or os.environ.get("LOAD", "").split() or LANES
    unknown = [name for name in wanted if name not in LANES]
    if unknown:
        sys.exit(f"no lane {', '.join(unknown)}; there are {', '.join(LANES)}")
    if os.geteuid() != 0:
        sys.exit("the load tests need root")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # by way of all that clears up
    clear_remains()
    failed = []
    for name in wanted:
        print(f"{name}: {importlib.import_module(name).__doc__.splitlines()[0]}", flush=True)
        report = Report(name)
        try:
            asyncio.run(importlib.import_module(name).run(report))
        except Exception:
            report.fail(traceback.format_exc())
        verdict = f"{len(report.failures)} FAILURES" if report.failures else "ok"
        print(f"{name}: {verdict} ({report.seconds():.0f} s)\n", flush=True)
        if report.failures:
            failed.append(name)
    sys.exit(f"load: failed: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
