"""What the package was built with."""

from __future__ import annotations

from . import _dwell, _tool


class BuildInfo:
    """What this package was built with.

    version   of the package
    cuda      whether it has the CUDA backend
    tool      whether it has the command line tool
    left_out  what it lacks of "cuda" and "tool": why, and how to get it
    """

    __slots__ = ("cuda", "left_out", "tool", "version")

    def __init__(self, version: str, left_out: dict[str, str]) -> None:
        self.version = version
        self.cuda = "cuda" not in left_out
        self.tool = "tool" not in left_out
        self.left_out = left_out

    def __repr__(self) -> str:
        return f"<dwell.BuildInfo {self.version}, cuda={self.cuda}, tool={self.tool}, left_out={self.left_out}>"


def build_info() -> BuildInfo:
    """Says what this package was built with, and what was left out. Looks at no device; `devices` does."""
    left_out = {name: why for name, why in (("cuda", _dwell.without_cuda()), ("tool", _tool.left_out())) if why}
    return BuildInfo(_dwell.version, left_out)
