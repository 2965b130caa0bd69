"""What the package was built with."""

from __future__ import annotations

from typing import NamedTuple

from . import _dwell, _tool


class BuildInfo(NamedTuple):
    """What this package was built with."""

    version: str
    cuda: bool
    """It has the CUDA backend."""
    tool: bool
    """It has the command line tool."""
    left_out: dict[str, str]
    """What it lacks of "cuda" and "tool": why, and how to get it."""


def build_info() -> BuildInfo:
    """Says what this package was built with, and what was left out. Looks at no device; `devices` does."""
    left_out = {name: why for name, why in (("cuda", _dwell.without_cuda()), ("tool", _tool.left_out())) if why}
    return BuildInfo(_dwell.version, "cuda" not in left_out, "tool" not in left_out, left_out)
