# SPDX-License-Identifier: Apache-2.0
"""What a lane found: figures for people, failures for machines."""

import time


class Report:
    def __init__(self, name):
        self.name = name
        self.failures = []
        self.began = time.monotonic()

    def say(self, text):
        print(f"  {text}", flush=True)

    def fail(self, text):
        self.failures.append(text)
        print(f"  FAILED: {text}", flush=True)

    def all(self, texts):
        for text in texts:
            self.fail(text)

    def check(self, condition, text):
        if not condition:
            self.fail(text)
        return condition

    def seconds(self):
        return time.monotonic() - self.began


def percentile(values, part):
    """Of a sorted list."""
    return values[min(len(values) - 1, int(len(values) * part))]


class Timings:
    """How long each kind of operation took."""

    def __init__(self):
        self.samples = {}

    def add(self, kind, seconds):
        self.samples.setdefault(kind, []).append(seconds)

    def count(self):
        return sum(map(len, self.samples.values()))

    def clear(self):
        self.samples.clear()

    def table(self):
        yield f"{'operation':<16}{'count':>8}{'p50 ms':>10}{'p99 ms':>10}{'max ms':>10}"
        for kind, values in sorted(self.samples.items()):
            values = sorted(values)
            cells = (percentile(values, 0.5), percentile(values, 0.99), values[-1])
            yield f"{kind:<16}{len(values):>8}" + "".join(f"{1000 * cell:>10.2f}" for cell in cells)
