"""Contexts that collect operations, or leave them to PyTorch."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any, Protocol, TypeVar

import torch

from . import _extension
from ._choice import Choice
from ._extension import CAPACITY, OFF, SIZE_THRESHOLD, enter, extension, leave, set_limits
from ._thread_state import thread

_F = TypeVar("_F", bound=Callable[..., Any])
_frame_of = sys._getframe
_is_traced = torch.compiler.is_dynamo_compiling  # by torch.compile, which would trace a context's own code

_MOST_SITES = 4096  # of a thread: programs that are generated have ever new ones
_has_sites = False  # that choose: PyTorch may have got the operations of a context
_found: dict[Any, bool] = {}  # by the key of a choice: whether it collects, as the last thread has found


def _choice_of(key: Any, where: str, limits: tuple[int, int, bool], kept: object = None) -> Choice:
    """The choice of a site that this thread has not seen. `kept`: what `key` names, alive as long as the choice."""
    global _has_sites
    _has_sites = True
    choices = thread.choices
    if len(choices) >= _MOST_SITES:
        choices.clear()
        _found.clear()
    made = choices[key] = Choice(thread.turns, where, _found.get(key), functools.partial(_found.__setitem__, key))
    made.kept = kept
    made.hands_on = _HandedOn(limits)
    return made


class Context(Protocol):
    """What `eager` returns: a context, and a decorator."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None: ...

    def __call__(self, function: _F) -> _F: ...


class _HandedOn:
    """A context that does nothing. A site has one for all its contexts that leave operations to PyTorch."""

    __slots__ = ("_limits",)

    def __init__(self, limits: tuple[int, int, bool]) -> None:
        self._limits = limits

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        pass

    def __call__(self, function: _F) -> _F:
        return _decorated(function, self._limits)


class Collecting:
    """A context that collects."""

    __slots__ = ("_before", "_choice", "_limits", "_was_entered")

    def __init__(self, limits: tuple[int, int, bool], choice: Choice | None = None) -> None:
        """`choice`: decides when the context is entered again. None: it collects again."""
        self._limits = limits
        self._choice = choice
        self._before: tuple[int, int, bool] | None = None  # the limits before, while it collects
        self._was_entered = False

    def __enter__(self) -> None:
        if self._before is not None:
            raise RuntimeError("dwell.torch.eager: a context inside of itself: call eager() for each `with`")
        if self._was_entered and self._choice is not None and thread.depth == 0 and not self._choice.next():
            return
        self._was_entered = True
        self._before = enter(self._limits)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._before is not None:
            before, self._before = self._before, None
            leave(before)

    def __call__(self, function: _F) -> _F:
        return _decorated(function, self._limits, always=self._choice is None)


def _decorated(function: _F, limits: tuple[int, int, bool], always: bool = False) -> _F:
    """A function that runs inside a context. It is a call site of its own."""
    key = object()
    where = getattr(function, "__qualname__", repr(function))

    @functools.wraps(function)
    def inside(*arguments: Any, **keywords: Any) -> Any:
        if OFF or _is_traced():
            return function(*arguments, **keywords)
        if not (always or _extension.ALWAYS) and thread.depth == 0:
            choice = thread.choices.get(key) or _choice_of(key, where, limits)
            if not choice.next():
                return function(*arguments, **keywords)
        with Collecting(limits):
            return function(*arguments, **keywords)

    return inside  # type: ignore[return-value]


def eager(*, size_threshold: int = SIZE_THRESHOLD, capacity: int = CAPACITY, resident: bool = False, always: bool = False) -> Context:
    """Takes operations of this thread, and of the backward passes that it starts, on tensors of up to `size_threshold` elements. A burst
    starts when the device has nothing to do and the host has collected for a while, after `capacity` of them, and at the end.

    Each call site, or function that it decorates, times the program from one context to the next. Its contexts collect, or leave their
    operations to PyTorch, whichever is faster: the first three collect, then both ways are tried. `always`: the context collects anyway,
    as do those inside of one that collects. DWELL_TORCH=always has that effect for the whole process. In a function that torch.compile
    traces a context does nothing.

    `resident`: the loop stays on the device and works while operations are collected. No stream orders it: the host waits for the stream
    before the first operation and behind each that PyTorch runs, and for all operations at the end and where something looks at a result.
    For programs that hardly do. It holds for all threads as long as the block lasts."""
    if always or _extension.ALWAYS or OFF or _is_traced():
        limits = (size_threshold, capacity, resident)
        return _HandedOn(limits) if OFF or _is_traced() else Collecting(limits)
    frame = _frame_of(1)
    key = (id(frame.f_code), frame.f_lasti, size_threshold, capacity, resident)
    choice = thread.choices.get(key)
    if choice is None:
        where = f"{frame.f_code.co_filename}:{frame.f_lineno}"
        choice = _choice_of(key, where, (size_threshold, capacity, resident), frame.f_code)
    if thread.depth == 0 and not choice.next():
        return choice.hands_on  # type: ignore[no-any-return]
    return Collecting((size_threshold, capacity, resident), choice)


def enable(*, size_threshold: int = SIZE_THRESHOLD, capacity: int = CAPACITY, resident: bool = False) -> None:
    """As `eager(always=True)`, for this thread until `disable`."""
    if OFF:
        return
    limits = (size_threshold, capacity, resident)
    if thread.enabled is None:
        thread.enabled = enter(limits)
    else:
        set_limits(*limits)


def disable() -> None:
    """The end of `enable`."""
    if thread.enabled is not None:
        before, thread.enabled = thread.enabled, None
        leave(before)


def accelerate(function: _F) -> _F:
    """A function that runs inside `eager`: a call site of its own."""
    return _decorated(function, (SIZE_THRESHOLD, CAPACITY, False))


def flush(sync: bool = False) -> None:
    """Runs all collected operations, on the streams on which they were collected. Waits for them with `sync`, and on a CPU always. Outside
    of contexts that collect `sync` waits for the current stream too: PyTorch may have got the operations."""
    if not extension.is_loaded:
        return
    if not sync:
        extension.flush()
        return
    torch.ops.dwell.flush(True)
    if _has_sites and thread.depth == 0 and torch.cuda.is_available() and not torch.cuda.is_current_stream_capturing():
        torch.cuda.current_stream().synchronize()
