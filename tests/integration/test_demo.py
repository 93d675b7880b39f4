# SPDX-License-Identifier: Apache-2.0
"""`make run`: the daemon that was just built, at work."""

import signal
import subprocess

import conftest
import hostview
from conftest import PATIENCE

SCRIPT = conftest.HERE.parent.parent / "tools" / "demo.sh"


def begin(boxd, out, err):
    """With boxd's own directories, and not where a real one may run."""
    env = boxd.box.environment({"BOX__RUN_DIR": str(boxd.run_dir), "BOX__STATE_DIR": str(boxd.state_dir),
                                "BOX__LISTEN": "127.0.0.1:0", "BOX_URL": "http://127.0.0.1:1"})
    return subprocess.Popen([SCRIPT, boxd.box.programs.boxd.parent], env=env, cwd=boxd.directory, stdin=subprocess.DEVNULL,
                            stdout=out, stderr=err, start_new_session=True)


def test_demo(start_boxd):
    boxd = start_boxd(start=False)
    out = boxd.directory / "demo"
    with open(out, "wb") as shown, open(boxd.log_file, "wb") as log:
        demo = begin(boxd, shown, log)
        try:
            assert hostview.wait_until(lambda: "^C ends it" in out.read_text() or demo.poll() is not None, PATIENCE)
        finally:
            demo.send_signal(signal.SIGTERM)
            status = demo.wait(PATIENCE)
    text = out.read_text()
    assert status == 143 and text.count("Hello from box") == 2, text + boxd.log()
    assert "\033" not in text, "colours are for terminals"
    assert "info stopped" in boxd.log()


def test_demo_beside_another(start_boxd):
    """Nothing is shown of a boxd that is not the one just built."""
    boxd = start_boxd()
    demo = begin(boxd, subprocess.PIPE, subprocess.PIPE)
    out, err = demo.communicate(timeout=PATIENCE)
    assert demo.returncode == 1 and out == b""
    assert f"running already, at {boxd.socket};" in err.decode()
    assert boxd.get("/v1/sessions").ok()["sessions"] == []
