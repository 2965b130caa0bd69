"""The extension: loaded with the first use, and what Python calls of it."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import os
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch

from ._build import build
from ._dispatch import ByKey, ByMode, Dispatch
from ._steps import ResidentStep, step_type
from ._sync_points import on_capture, on_thread_start, wrap_sync_points
from ._thread_state import thread

_MODE = os.environ.get("DWELL_TORCH", "").lower()
OFF = _MODE in ("off", "0", "no")
ALWAYS = _MODE == "always"
SIZE_THRESHOLD = 1 << 17
CAPACITY = 1024
ANY_SIZE: int = torch.iinfo(torch.int64).max
_KEY = os.environ.get("DWELL_TORCH_KEY", "")


class Extension:
    """What the extension offers past PyTorch's dispatcher, which would take longer than some of the calls. There is one."""

    dispatch: Dispatch
    replay: Callable[[int, bool], None]
    flush: Callable[[], None]
    step_type: type[ResidentStep] | None  # None: it was built without Python's headers
    is_loaded = False
    is_forked = False  # this is a forked child of a process that loaded it


extension = Extension()
_loading = threading.Lock()


def ops() -> Any:
    """The operations of the extension. Loads it first, and builds it where there is none."""
    if not extension.is_loaded:
        with _loading:
            if not extension.is_loaded:
                library = str(build())
                torch.ops.load_library(library)  # type: ignore[no-untyped-call]
                extension.replay = _function_of(library, "replay") or torch.ops.dwell.replay
                extension.flush = _function_of(library, "flush") or functools.partial(torch.ops.dwell.flush, False)
                extension.step_type = step_type(library)
                extension.dispatch = _opened(library)
                wrap_sync_points(extension.flush, _function_of(library, "rest") or torch.ops.dwell.rest, _taking_nothing)
                on_thread_start(_watch)
                os.register_at_fork(before=_before_fork, after_in_child=_after_fork)
                atexit.register(_close, os.getpid())
                if torch.cuda.is_available():
                    on_capture(_suspend, _resume)
                extension.is_loaded = True
    return torch.ops.dwell


def _function_of(library: str, name: str) -> Any:
    """A function of the extension's that Python calls past the dispatcher. None if it was built without Python's headers."""
    made = getattr(ctypes.PyDLL(library), f"dwell_torch_{name}", None)
    if made is None:
        return None
    made.restype = ctypes.py_object
    return made()


def _opened(library: str) -> Dispatch:
    why = torch.ops.dwell.open(_KEY)
    if not why:
        return ByKey(_function_of(library, "enter"), _function_of(library, "leave"))
    warnings.warn(
        f"dwell.torch takes operations by a mode of Python's, which is slow: no key of the dispatcher of PyTorch {torch.__version__} "
        f"fits ({why})",
        RuntimeWarning,
        stacklevel=2,
    )
    return ByMode()


def _before_fork() -> None:
    """Flushes: the child has the memory of collected operations, but no threads to run them."""
    torch.ops.dwell.flush(True)


def _after_fork() -> None:
    extension.is_forked = True
    torch.ops.dwell.begin_forked()


def refuse_fork(what: str) -> None:
    """RuntimeError in a forked child."""
    if extension.is_forked:
        raise RuntimeError(f"{what}: the threads that would run it are the parent's: use it in a process that was started, not forked off")


def _close(process: int) -> None:
    if os.getpid() == process:  # a forked child must not close the parent's runtimes
        torch.ops.dwell.close()


def _watch() -> None:
    thread.watches = True
    extension.dispatch.watch()


def _suspend() -> bool:
    """Takes nothing while a CUDA graph is captured, which must hold PyTorch's own kernels and memory, and programs of recordings."""
    torch.ops.dwell.set_capturing(True)
    if thread.depth == 0:
        return False
    extension.flush()
    extension.dispatch.take(False)
    return True


def _resume(suspended: bool) -> None:
    torch.ops.dwell.set_capturing(False)
    if suspended:
        extension.dispatch.take(True)


@contextlib.contextmanager
def _taking_nothing() -> Iterator[None]:
    """Flushes first, and takes no operations inside of the block."""
    extension.flush()
    before = torch.ops.dwell.pause_taking()
    try:
        yield
    finally:
        torch.ops.dwell.resume_taking(before)


# Limits of the newest context of any thread: elements, operations, whether the loop is resident.
_limits = (SIZE_THRESHOLD, CAPACITY, False)


def set_limits(elements: int, operations: int, resident: bool = False) -> tuple[int, int, bool]:
    """Returns the limits before."""
    global _limits
    before, _limits = _limits, (elements, operations, resident)
    ops().set_limits(elements, operations, resident)
    return before


def enter(limits: tuple[int, int, bool]) -> tuple[int, int, bool]:
    """Takes operations of this thread from now on, until `leave`. Returns the limits before, which `leave` gets. Calls nest."""
    global _limits
    if not extension.is_loaded:
        ops()
    before, _limits = _limits, limits
    thread.depth += 1
    extension.dispatch.begin(*limits)
    return before


def leave(before: tuple[int, int, bool]) -> None:
    global _limits
    _limits = before
    thread.depth -= 1
    extension.dispatch.end(*before, thread.depth == 0, thread.watches)
