"""What is said while somebody waits for a compiler; imported when somebody first does."""

from __future__ import annotations

import sys

from ._errors import SignatureMismatch

TYPE_CHECKING = False  # as in _arrays.py
if TYPE_CHECKING:
    from collections.abc import Callable

    Progress = Callable[[str, float, bool], object]

_LONGEST_NAME = 40  # a line that is cut by the terminal's edge could not be cleared


def _line(what: str, seconds: float, done: bool) -> None:
    """One line on stderr, which is gone at the end."""
    if sys.stderr is None:
        return
    name = what if len(what) <= _LONGEST_NAME else what[: _LONGEST_NAME - 1] + "…"
    text = f"dwell: compiling {name} … {seconds:.0f} s"
    sys.stderr.write(f"\r{' ' * len(text)}\r" if done else f"\r{text}")
    sys.stderr.flush()


def checked(progress: object) -> object:
    """What Runtime(progress=...) was given, or SignatureMismatch."""
    if progress is None or isinstance(progress, bool) or callable(progress):
        return progress
    raise SignatureMismatch(
        f"argument progress of dwell.Runtime takes a callable (name, seconds, done), True, False or None, not {type(progress).__name__}"
    )


def teller(progress: bool | Progress | None) -> Progress | None:
    """What a wait that begins now calls when it takes long: nothing where nobody would see it."""
    if progress is None:
        progress = sys.stderr is not None and sys.stderr.isatty()
    if isinstance(progress, bool):
        return _line if progress else None
    return progress
