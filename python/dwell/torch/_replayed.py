"""Graphs of torch.compile that are recorded, and replayed as one program."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Collection
from typing import Any

import torch

from ._contexts import accelerate
from ._recording import Recording, record
from ._results import Results
from ._thread_state import thread

_MOST_RECORDINGS = 5  # then too much moves


class Replayed:
    """A graph without side effects. Threads may call it; while one replays it, others run it inside `eager`."""

    def __init__(self, part: torch.fx.GraphModule, moving: Collection[int] = ()) -> None:
        """`moving`: arguments that are known to lie elsewhere in each call."""
        self._part = part
        self._inside = accelerate(part.forward)
        self._address_of = inspect.unwrap(torch.Tensor.data_ptr)  # not dwell.torch's, which flushes first: nobody reads the memory here
        self._lock = threading.Lock()
        self._recording: Recording | None = None
        self._recordings = 0  # made so far
        self._is_compiled = False
        self._stream: int | None = None
        self._addresses: list[int | None] | None = None  # of the arguments of the last call that was looked at; None: a number
        self._known_to_move = moving
        self._has_moved: set[int] = set()  # arguments that lay elsewhere once
        self._moving: dict[int, torch.Tensor] = {}  # copies of those that do in each call
        self._results: Results | None = None

    def __call__(self, *arguments: Any) -> Any:
        # Inside of a context its operations join those around it.
        if self._recordings <= _MOST_RECORDINGS and thread.depth == 0 and self._lock.acquire(blocking=False):
            try:
                if self._is_ready(arguments):
                    return self._replay(arguments)
            except RuntimeError:  # the recording does not hold any more
                self._give_up()
            finally:
                self._lock.release()
        return self._inside(*arguments)

    def _is_ready(self, arguments: tuple[Any, ...]) -> bool:
        """Takes the next step to a program of the graph. Returns whether it is there, and fits the arguments."""
        try:
            addresses = [self._address_of(one) if isinstance(one, torch.Tensor) else None for one in arguments]
        except RuntimeError:  # another thread has collected operations on it, which have not run
            return False
        before, self._addresses = self._addresses, addresses
        if before is None:
            return False
        moved = [at for at, (old, new) in enumerate(zip(before, addresses, strict=True)) if old != new and at not in self._moving]
        if self._recording is None:
            moved = sorted({*moved, *self._known_to_move} - self._moving.keys())
        if self._recording is None or moved:
            self._record_anew(arguments, moved)
            return False
        if self._stream != _stream_of(arguments):
            return False
        if not self._is_compiled:
            if torch.ops.dwell.refusal_of(self._recording._number):
                self._give_up()
                return False
            self._is_compiled = self._recording.members != 0
        return self._is_compiled

    def _record_anew(self, arguments: tuple[Any, ...], moved: list[int]) -> None:
        self._recordings += 1
        devices = {one.device for one in arguments if isinstance(one, torch.Tensor)}
        if self._recordings > _MOST_RECORDINGS or len(devices) != 1:
            return self._give_up()
        # An input moves at once, a weight that got other memory stays there.
        for at in moved:
            if self._recording is None or at in self._has_moved:
                self._moving[at] = torch.empty_like(arguments[at])
        self._has_moved.update(moved)
        self._recording, self._is_compiled = None, False
        given = [self._moving.get(at, one) for at, one in enumerate(arguments)]
        try:
            with torch.no_grad(), record(devices.pop()) as recorded:
                results = list(self._part.forward(*given))
            recording = recorded()
        except RuntimeError:  # an operation that dwell does not do
            return self._give_up()
        if torch.ops.dwell.has_run_beside(recording._number):
            return self._give_up()
        self._recording, self._results = recording, Results(results, given, arguments)
        self._stream = _stream_of(arguments)

    def _give_up(self) -> None:
        self._recordings = _MOST_RECORDINGS + 1
        self._recording, self._moving, self._results = None, {}, None

    def _replay(self, arguments: tuple[Any, ...]) -> list[Any]:
        assert self._recording is not None and self._results is not None
        with torch.no_grad():
            if self._moving:
                torch._foreach_copy_(list(self._moving.values()), [arguments[at] for at in self._moving])
            self._recording.replay()
            return self._results.of(arguments)


def _stream_of(arguments: tuple[Any, ...]) -> int | None:
    """The current stream, which orders the copies and the replay. None on a CPU."""
    device = next(one.device for one in arguments if isinstance(one, torch.Tensor))
    return torch.cuda.current_stream(device).cuda_stream if device.type == "cuda" else None
