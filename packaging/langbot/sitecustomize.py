# SPDX-License-Identifier: Apache-2.0
"""Has a LangBot that starts its own Box runtime start boxd instead: see docs/langbot.md.

Python imports this from PYTHONPATH before anything else. LangBot starts its runtime as
`python -m langbot_plugin.cli.__init__ box -s …`; that process becomes boxd, which takes the same options. All
others are left alone, and where there is no boxd, so is that one.
"""

import os
import shutil
import sys

_words = sys.orig_argv[1:]
if _words[:3] == ["-m", "langbot_plugin.cli.__init__", "box"]:
    # Where it is installed, ordinary users often do not look.
    _places = [os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin"]
    if _boxd := shutil.which("boxd", path=os.pathsep.join(_places)):
        os.execv(_boxd, ["boxd", *_words[2:]])
