"""The command ``dwell``, also ``python -m dwell``: the command line tool.

Its executable lies in the package, unless the package was built without it; else it is looked for on PATH.
"""

from __future__ import annotations

import os
import sys

BIN = os.path.join(os.path.dirname(__file__), "bin")


def find() -> str | None:
    """The tool's file, or None."""
    for folder in (BIN, *os.get_exec_path()):
        file = os.path.join(folder, "dwell")
        if _is_executable(file) and not _is_entry_point(file):
            return file
    return None


def left_out() -> str:
    """Why the package has no tool, and how to get it; empty where it has it."""
    if _is_executable(os.path.join(BIN, "dwell")):
        return ""
    try:
        with open(os.path.join(BIN, "left_out.txt"), encoding="utf-8") as text:
            return text.read().strip()
    except OSError:
        return "the package of a build folder has none; put the tool that is built there on PATH"


def _is_executable(file: str) -> bool:
    return os.path.isfile(file) and os.access(file, os.X_OK)


def _is_entry_point(file: str) -> bool:
    """Whether it is a script that calls ``main``, of this environment or another."""
    try:
        with open(file, "rb") as script:
            return b"dwell._tool" in script.read(4096)
    except OSError:
        return False


def main() -> int:
    """Becomes the tool."""
    tool = find()
    if tool is None:
        print(f"dwell: the command line tool is neither in this package nor on PATH: {left_out()}", file=sys.stderr)
        return 2
    sys.stdout.flush()
    os.execv(tool, ["dwell", *sys.argv[1:]])
