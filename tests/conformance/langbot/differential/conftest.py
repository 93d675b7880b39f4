# SPDX-License-Identifier: Apache-2.0
import contextlib
import itertools
import tempfile
from pathlib import Path

import pytest

import listed
import sides
from pair import Pair, Tally

TALLY = Tally()


def pytest_configure(config):
    # Debian's Python 3.11 fails now and then at parsing sources for the other styles.
    config.option.tbstyle = "native"


@pytest.fixture(scope="session")
def tally():
    return TALLY


@pytest.fixture(scope="session")
def base():
    with tempfile.TemporaryDirectory(prefix="boxd-differential-") as name:
        path = Path(name)
        path.chmod(0o711)
        # LangBot's client makes directories where it is started.
        with contextlib.chdir(path):
            yield path


@pytest.fixture(scope="session")
def start_pair(base, tally):
    """start_pair(config): two servers, which run until the end of the session or `stop()`."""
    pairs = []
    numbers = itertools.count()

    def start(config):
        directory = base / f"pair-{next(numbers)}"
        directory.mkdir(mode=0o711)
        share = directory / "share"
        share.mkdir()
        # The sandboxes' users are not root.
        share.chmod(0o777)
        config = config(share) if callable(config) else config
        pair = Pair(*(side(directory / side.name, config, share) for side in (sides.Boxd, sides.Python)), share, tally)
        pairs.append(pair)
        return pair

    yield start
    for pair in pairs:
        pair.stop()


@pytest.fixture(scope="session")
def shared_pair(start_pair):
    return start_pair({})


def pytest_terminal_summary(terminalreporter):
    met = sum(count for key, count in TALLY.seen.items() if key != "more-keys")
    terminalreporter.write_line(
        f"differential, langbot-plugin {listed.VERSION}: {TALLY.steps} steps compared, {met} of them differ as listed")
