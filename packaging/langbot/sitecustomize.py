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
if _words[:3] == ["-m", "langbot_plugin.cli.__init__", "box"] and shutil.which("boxd"):
    os.execvp("boxd", ["boxd", *_words[2:]])
