"""Sync points: functions that read tensor memory without being operations. What was collected runs before them.

A sync point that is missing here is no wrong result on a CPU: PyTorch raises an error when it touches elements that are not computed yet
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

_TENSOR = [
    "data_ptr",
    "numpy",
    "tolist",
    "untyped_storage",
    "storage",
    "__dlpack__",
    "__array__",
    "is_set_to",
]
# They call operations and read or replace memory themselves: nothing is taken meanwhile.
_TENSOR_ALONE = [
    "__reduce_ex__",
    "share_memory_",
    "tensor_split",
    "apply_",
    "map_",
    "map2_",
    "__repr__",  # switches modes off
]
_READ_ON_THE_HOST = ["tensor_split", "ctc_loss", "sparse_coo_tensor", "sparse_csr_tensor", "sparse_compressed_tensor"]
_JITERATOR = ["_cuda_jiterator_compile_and_launch_kernel", "_cuda_jiterator_compile_and_launch_kernel_multiple_outputs"]
# Of storages: they touch no memory.
_STORAGE_AS_IT_IS = {
    *("nbytes", "element_size", "resizable", "_weak_ref", "_fix_weakref", "_set_cdata"),
    *("__new__", "__init__", "__len__"),
}
_METHODS = (types.MethodDescriptorType, types.WrapperDescriptorType)
_CUDA_STREAM = ["synchronize", "wait_stream", "wait_event", "record_event", "query"]
_CUDA_EVENT = ["record", "synchronize", "wait", "query", "elapsed_time"]


def _before(of: Any, name: str, look: Callable[[], None]) -> None:
    original = getattr(of, name, None)
    if original is None:
        return

    @functools.wraps(original)
    def looks(*arguments: Any, **keywords: Any) -> Any:
        look()
        return original(*arguments, **keywords)

    setattr(of, name, looks)


def _alone(of: Any, name: str, apart: Callable[[], contextlib.AbstractContextManager[None]]) -> None:
    original = getattr(of, name, None)
    if original is None:
        return

    @functools.wraps(original)
    def looks(*arguments: Any, **keywords: Any) -> Any:
        with apart():
            return original(*arguments, **keywords)

    setattr(of, name, looks)


def _holds_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor) or (isinstance(value, (list, tuple)) and any(map(_holds_tensor, value)))


def _before_making(of: Any, name: str, look: Callable[[], None]) -> None:
    """Tensors are made of lists by reading the tensors there, one after the other."""
    original = getattr(of, name)

    @functools.wraps(original)
    def makes(*arguments: Any, **keywords: Any) -> Any:
        if any(map(_holds_tensor, arguments)) or (keywords and any(map(_holds_tensor, keywords.values()))):
            look()
        return original(*arguments, **keywords)

    setattr(of, name, makes)


def watch_sync_points(look: Callable[[], None], apart: Callable[[], contextlib.AbstractContextManager[None]]) -> None:
    """Calls `look` before each of them, from now on, or has them run inside of `apart`. Without anything collected it costs what a call of
    Python's does."""
    for name in _TENSOR:
        _before(torch.Tensor, name, look)
    for name in _TENSOR_ALONE:
        _alone(torch.Tensor, name, apart)
    for name in _READ_ON_THE_HOST:
        _alone(torch, name, apart)
    # All methods: they read, write and replace memory, and call operations on memory that they replace next.
    for name, method in vars(torch._C.StorageBase).items():
        if isinstance(method, _METHODS) and name not in _STORAGE_AS_IT_IS:
            _alone(torch.UntypedStorage, name, apart)
    for name in ("tensor", "as_tensor", "asarray"):
        _before_making(torch, name, look)
    _before_making(torch.Tensor, "new_tensor", look)
    for module in (torch, torch.utils.dlpack):
        _before(module, "to_dlpack", look)  # which is not Tensor.__dlpack__
    if torch.cuda.is_available():
        for name in _CUDA_STREAM:
            _before(torch.cuda.Stream, name, look)
        for name in _CUDA_EVENT:
            _before(torch.cuda.Event, name, look)
        _before(torch.cuda, "synchronize", look)
        _before(torch.cuda.CUDAGraph, "replay", look)
        for name in _JITERATOR:
            _alone(torch._C, name, apart)


def watch_threads(begin: Callable[[], None]) -> None:
    """Calls `begin` in each thread of Python's that starts from now on, ahead of all else."""
    original = threading.Thread._bootstrap_inner  # type: ignore[attr-defined]

    @functools.wraps(original)
    def bootstrap(self: threading.Thread) -> None:
        begin()
        original(self)

    threading.Thread._bootstrap_inner = bootstrap  # type: ignore[attr-defined]


def watch_captures(begin: Callable[[], Any], end: Callable[[Any], None]) -> None:
    """Calls `begin` before a capture of a CUDA graph, and `end` with its result behind it, in the thread that captures."""
    graph = torch.cuda.CUDAGraph
    capture_begin, capture_end = graph.capture_begin, graph.capture_end
    kept: dict[int, Any] = {}

    @functools.wraps(capture_begin)
    def begins(self: Any, *arguments: Any, **keywords: Any) -> Any:
        kept[id(self)] = begin()
        return capture_begin(self, *arguments, **keywords)

    @functools.wraps(capture_end)
    def ends(self: Any) -> Any:
        try:
            return capture_end(self)
        finally:
            if id(self) in kept:
                end(kept.pop(id(self)))

    graph.capture_begin, graph.capture_end = begins, ends  # type: ignore[method-assign]
