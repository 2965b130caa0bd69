"""The published interface of this kind of scheduler."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch

from ._contexts import eager, flush
from ._extension import ANY_SIZE, OFF, extension, ops, set_limits
from ._thread_state import thread


def init(capacity: int = 4096, threads_per_block: int = 256) -> None:
    """Prepares submit_add and submit_mul. `capacity`: operations that are collected at most before a burst starts. `threads_per_block` is
    accepted and means nothing: dwell's groups have 128 threads."""
    if not OFF:
        set_limits(ANY_SIZE, capacity)


def _submit(operation: Callable[..., Any], a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
    if OFF:
        operation(a, b, out=out)
        return
    ops()
    outside = thread.depth == 0
    if outside:
        extension.dispatch.take(True)
    try:
        with torch.no_grad():
            operation(a, b, out=out)
    finally:
        if outside:
            extension.dispatch.take(False)  # the key stays on: reading the result flushes


def submit_add(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
    """out = a + b, collected."""
    _submit(torch.add, a, b, out)


def submit_mul(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
    """out = a * b, collected."""
    _submit(torch.mul, a, b, out)


def shutdown() -> None:
    """Runs what was collected, and waits for it."""
    flush(sync=True)


@contextlib.contextmanager
def scheduler_context(
    capacity: int = 8192, threads_per_block: int = 256, size_threshold: int = 1 << 15, auto_flush_ms: float = 2.0
) -> Iterator[None]:
    """`eager` by the names of the published interface. `capacity`: operations that are collected at most before a burst starts;
    `threads_per_block` means nothing here; `size_threshold`: elements of a tensor at most; `auto_flush_ms`: what was collected waits no
    longer before it runs, 0: until something else asks."""
    del threads_per_block
    if OFF:
        yield
        return
    over = threading.Event()

    def flush_now_and_then() -> None:
        while not over.wait(auto_flush_ms / 1000):
            flush()

    timer = threading.Thread(target=flush_now_and_then, name="dwell.torch flush", daemon=True) if auto_flush_ms > 0 else None
    with eager(size_threshold=size_threshold, capacity=capacity, always=True):
        if timer is not None:
            timer.start()
        try:
            yield
        finally:
            over.set()
            if timer is not None:
                timer.join()
