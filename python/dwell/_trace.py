"""dwell.trace."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from ._arrays import default_runtime
from ._dwell import Runtime


@contextlib.contextmanager
def trace(path: str | os.PathLike[str], runtime: Runtime | None = None) -> Iterator[None]:
    """Takes a timeline of what a runtime (the default one) and its threads do inside of the block, and writes it to a file:

        with dwell.trace("work.pftrace"):
            work()

    A file whose name ends in .json opens in chrome://tracing, any other in https://ui.perfetto.dev. Raises dwell.Error when the file
    cannot be written, dwell.InvalidArgument when a trace of the runtime is being taken already.
    """
    traced = default_runtime() if runtime is None else runtime
    traced.start_trace(path)
    try:
        yield
    finally:
        traced.stop_trace()
