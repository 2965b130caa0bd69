"""Sync points: functions that read tensor memory without being operations. Wraps them, so that collected operations run first.

A sync point that is missing here gives no wrong result on a CPU: PyTorch raises an error when it reads elements that are not computed yet
(csrc/memory.hpp)."""

from __future__ import annotations

import contextlib
import functools
import threading
import types
from collections.abc import Callable
from typing import Any

import torch
import torch.utils.dlpack

_FLUSH_FIRST = [
    "data_ptr",
    "numpy",
    "tolist",
    "untyped_storage",
    "storage",
    "__dlpack__",
    "__array__",
    "is_set_to",
]
# They call operations and read or replace memory themselves: nothing may be taken while they run.
_TAKE_NOTHING = [
    "__reduce_ex__",
    "share_memory_",
    "tensor_split",
    "apply_",
    "map_",
    "map2_",
    "__repr__",  # disables modes
]
# Functions of torch that do the same.
_TAKE_NOTHING_IN_TORCH = ["tensor_split", "ctc_loss", "sparse_coo_tensor", "sparse_csr_tensor", "sparse_compressed_tensor"]
_JITERATOR = ["_cuda_jiterator_compile_and_launch_kernel", "_cuda_jiterator_compile_and_launch_kernel_multiple_outputs"]
# Methods of storages that access no memory.
_STORAGE_UNWRAPPED = {
    *("nbytes", "element_size", "resizable", "_weak_ref", "_fix_weakref", "_set_cdata"),
    *("__new__", "__init__", "__len__"),
}
_METHODS = (types.MethodDescriptorType, types.WrapperDescriptorType)
_CUDA_STREAM = ["synchronize", "wait_stream", "wait_event", "record_event", "query"]
_CUDA_EVENT = ["record", "synchronize", "wait", "query", "elapsed_time"]


def _wrap_flushing(of: Any, name: str, flush: Callable[[], None]) -> None:
    """Has `of.name`, if there is one, call `flush` first."""
    original = getattr(of, name, None)
    if original is None:
        return

    @functools.wraps(original)
    def wrapped(*arguments: Any, **keywords: Any) -> Any:
        flush()
        return original(*arguments, **keywords)

    setattr(of, name, wrapped)


def _wrap_in(of: Any, name: str, context: Callable[[], contextlib.AbstractContextManager[None]]) -> None:
    """Has `of.name`, if there is one, run inside of `context()`."""
    original = getattr(of, name, None)
    if original is None:
        return

    @functools.wraps(original)
    def wrapped(*arguments: Any, **keywords: Any) -> Any:
        with context():
            return original(*arguments, **keywords)

    setattr(of, name, wrapped)


def _holds_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor) or (isinstance(value, (list, tuple)) and any(map(_holds_tensor, value)))


def _wrap_constructor(of: Any, name: str, flush: Callable[[], None]) -> None:
    """Has a constructor call `flush` first if it is given a tensor: it reads tensors in lists one by one."""
    original = getattr(of, name)

    @functools.wraps(original)
    def wrapped(*arguments: Any, **keywords: Any) -> Any:
        if any(map(_holds_tensor, arguments)) or (keywords and any(map(_holds_tensor, keywords.values()))):
            flush()
        return original(*arguments, **keywords)

    setattr(of, name, wrapped)


def wrap_sync_points(
    flush: Callable[[], None], rest: Callable[[], None], taking_nothing: Callable[[], contextlib.AbstractContextManager[None]]
) -> None:
    """Has sync points call `flush` first, or run inside of `taking_nothing()`; has calls that wait for the whole device call `rest`.
    Costs a Python call each if nothing is collected."""
    for name in _FLUSH_FIRST:
        _wrap_flushing(torch.Tensor, name, flush)
    for name in _TAKE_NOTHING:
        _wrap_in(torch.Tensor, name, taking_nothing)
    for name in _TAKE_NOTHING_IN_TORCH:
        _wrap_in(torch, name, taking_nothing)
    # All methods of storages: they read, write and replace memory, and call operations on memory that they then replace.
    for name, method in vars(torch._C.StorageBase).items():
        if isinstance(method, _METHODS) and name not in _STORAGE_UNWRAPPED:
            _wrap_in(torch.UntypedStorage, name, taking_nothing)
    for name in ("tensor", "as_tensor", "asarray"):
        _wrap_constructor(torch, name, flush)
    _wrap_constructor(torch.Tensor, "new_tensor", flush)
    for module in (torch, torch.utils.dlpack):
        _wrap_flushing(module, "to_dlpack", flush)  # which is not Tensor.__dlpack__
    if torch.cuda.is_available():
        for name in _CUDA_STREAM:
            _wrap_flushing(torch.cuda.Stream, name, flush)
        for name in _CUDA_EVENT:
            _wrap_flushing(torch.cuda.Event, name, flush)
        for name in ("synchronize", "empty_cache"):
            _wrap_flushing(torch.cuda, name, rest)
        _wrap_flushing(torch.cuda.CUDAGraph, "replay", flush)
        for name in _JITERATOR:
            _wrap_in(torch._C, name, taking_nothing)


def on_thread_start(begin: Callable[[], None]) -> None:
    """Calls `begin` first in each Python thread that starts from now on."""
    original = threading.Thread._bootstrap_inner  # type: ignore[attr-defined]

    @functools.wraps(original)
    def bootstrap(self: threading.Thread) -> None:
        begin()
        original(self)

    threading.Thread._bootstrap_inner = bootstrap  # type: ignore[attr-defined]


def on_capture(begin: Callable[[], Any], end: Callable[[Any], None]) -> None:
    """Calls `begin` before a capture of a CUDA graph, and `end` with its result after it, in the thread that captures."""
    graph = torch.cuda.CUDAGraph
    capture_begin, capture_end = graph.capture_begin, graph.capture_end
    kept: dict[int, Any] = {}

    @functools.wraps(capture_begin)
    def begins(self: Any, *arguments: Any, **keywords: Any) -> Any:
        kept[id(self)] = begin()
        try:
            return capture_begin(self, *arguments, **keywords)
        except BaseException:
            end(kept.pop(id(self)))
            raise

    @functools.wraps(capture_end)
    def ends(self: Any) -> Any:
        try:
            return capture_end(self)
        finally:
            if id(self) in kept:
                end(kept.pop(id(self)))

    graph.capture_begin, graph.capture_end = begins, ends  # type: ignore[method-assign]
