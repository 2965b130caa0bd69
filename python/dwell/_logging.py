"""Where lines of operators go, and the way to ``logging``, which is imported when a logger is first asked for."""

from __future__ import annotations

import os
import sys
import time

from ._errors import InvalidArgument, SignatureMismatch

TYPE_CHECKING = False  # as in _arrays.py
if TYPE_CHECKING:
    import logging
    from collections.abc import Callable

    from ._dwell import LogRecord

    Target = logging.Logger | str | os.PathLike[str] | Callable[[LogRecord], object] | None

TRACE = 5
"""The level of ``logging`` that lines of severity "trace" have. It is named TRACE unless the program has named it before."""


class Logging:
    """Where lines of operators go, and how many: ``Runtime(log=dwell.Logging("simulation", level="debug"))``.

    to: a ``logging.Logger``, or the name of one; a callable that takes a ``dwell.LogRecord``; a path (``pathlib.Path``) of a file
        that lines are appended to; None: stderr
    level: lines that matter less are not written: "trace", "debug", "info", "warning", "error" or "off"
    per_site_per_second: lines of one format that one version of an operator may log in a second; others are counted and told as
        one. 0: no limit
    kept: so many of the last lines are kept for ``Runtime.logs``
    ring_lines: lines that wait for the host, a worker; a power of two from 16 to 65536. Others are dropped and counted
    file_bytes: a file of this size becomes "<file>.1", that one "<file>.2" and so on; 0: never
    files: so many files at most

    Loggers and callables are called on a thread of the runtime, with the GIL. They may use the runtime, but not close it. What they
    raise goes to ``sys.unraisablehook``.
    """

    __slots__ = ("file_bytes", "files", "kept", "level", "per_site_per_second", "ring_lines", "to")

    def __init__(
        self,
        to: Target = None,
        *,
        level: str = "info",
        per_site_per_second: int = 0,
        kept: int = 1024,
        ring_lines: int = 256,
        file_bytes: int = 64 << 20,
        files: int = 4,
    ) -> None:
        self.to = to
        self.level = level
        self.per_site_per_second = per_site_per_second
        self.kept = kept
        self.ring_lines = ring_lines
        self.file_bytes = file_bytes
        self.files = files

    def __repr__(self) -> str:
        plain = Logging()
        names = ("to", "level", "per_site_per_second", "kept", "ring_lines", "file_bytes", "files")
        given = [f"{name}={getattr(self, name)!r}" for name in names if getattr(self, name) != getattr(plain, name)]
        return f"dwell.Logging({', '.join(given)})"


def _whole(name: str, value: object, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise SignatureMismatch(f"argument {name} of dwell.Logging is an int, not {type(value).__name__}")
    if not 0 <= value <= most:
        raise InvalidArgument(f"argument {name} of dwell.Logging is {value}: it must be from 0 to {most}")
    return value


def _to_logger(logger: logging.Logger) -> Callable[[LogRecord], None]:
    import logging

    if logging.getLevelName(TRACE) == f"Level {TRACE}":
        logging.addLevelName(TRACE, "TRACE")
    levels = {"trace": TRACE, "debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}

    def take(line: LogRecord) -> None:
        level = levels[line.severity]
        if not logger.isEnabledFor(level):
            return
        extra = {
            "operator": line.operator,
            "version": line.version,
            "worker": line.worker,
            "ticket": line.ticket,
            "node": line.node,
            "graph": line.graph,
            "device_time": line.time,
        }
        record = logger.makeRecord(logger.name, level, "<dwell>", 0, line.text, (), None, line.operator, extra)
        # When the operator has logged it, not when it came here.
        age = time.monotonic() - line.time
        record.created -= age
        record.msecs = int(record.created % 1 * 1000) + 0.0
        record.relativeCreated -= age * 1000
        logger.handle(record)

    return take


def _target(to: object) -> tuple[object, str]:
    """A callable or None, and the name of a file or ""."""
    if to is None:
        return None, ""
    if isinstance(to, str):
        if os.sep in to:
            raise InvalidArgument(f"argument log of dwell.Runtime: {to!r} would be the name of a logger; a file is pathlib.Path({to!r})")
        import logging

        return _to_logger(logging.getLogger(to)), ""
    if isinstance(to, os.PathLike):
        return None, os.fsdecode(to)
    # A logger comes from the module, so who has one has imported it.
    known = sys.modules.get("logging")
    if known is not None and isinstance(to, known.Logger):
        return _to_logger(to), ""
    if callable(to):
        return to, ""
    raise SignatureMismatch(
        f"argument log of dwell.Runtime takes a logging.Logger or its name, a callable, a path (pathlib.Path), None, or a dwell.Logging, "
        f"not {type(to).__name__}"
    )


def checked(log: object) -> tuple[object, str, str, int, int, int, int, int]:
    """What the extension makes options of: callable, file, level, per_site_per_second, kept, ring_lines, file_bytes, files."""
    how = log if isinstance(log, Logging) else Logging(log)  # type: ignore[arg-type]  # the target is looked at below
    sink, file = _target(how.to)
    return (
        sink,
        file,
        str(how.level),
        _whole("per_site_per_second", how.per_site_per_second, 2**32 - 1),
        _whole("kept", how.kept, 2**63 - 1),
        _whole("ring_lines", how.ring_lines, 2**32 - 1),
        _whole("file_bytes", how.file_bytes, 2**64 - 1),
        _whole("files", how.files, 2**32 - 1),
    )
