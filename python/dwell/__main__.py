"""``python -m dwell doctor|run|bench|cache|...``: the command line tool ``dwell``.

Its own executable lies in the package where the wheel was built with it; else it is looked for on PATH.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path


def find() -> str | None:
    """The tool's file, or None."""
    beside = Path(__file__).parent / "bin" / "dwell"
    if os.access(beside, os.X_OK):
        return str(beside)
    # Not this module under another name: an executable of the package's own environment would be a script.
    return shutil.which("dwell")


def main() -> int:
    """Becomes the tool."""
    tool = find()
    if tool is None:
        print(
            "dwell: the command line tool is neither in this package nor on PATH: build it from source (cmake --build build/release "
            "--target dwell_cli) and put it on PATH, or build the wheel with script/wheel --tool",
            file=sys.stderr,
        )
        return 2
    sys.stdout.flush()
    os.execv(tool, ["dwell", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
