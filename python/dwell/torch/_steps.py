"""Steps of recordings that stay on the device between calls."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import TYPE_CHECKING, Any

import torch

_DTYPES = {
    torch.float32: "float32",
    torch.float64: "float64",
    torch.float16: "float16",
    torch.int8: "int8",
    torch.int16: "int16",
    torch.int32: "int32",
    torch.int64: "int64",
    torch.uint8: "uint8",
    torch.bool: "bool",
}


_making = threading.Lock()  # executors


class ResidentStep:
    """What `Recording.resident` returns. It runs the operations once a call, on numbers of the host:

        y = step(x)                     # a new array of NumPy's, or a CPU tensor where the first input is a tensor; a tuple of several
        step(x, out=y)                  # into the caller's contiguous array or tensor, or a tuple of such; allocates nothing

    Inputs are arrays of NumPy's, or whatever has the buffer protocol or `__dlpack__` on the CPU, or CPU tensors, of the type and the number
    of elements of the recording's inputs. Arrays that are not contiguous are copied first. TypeError for another type, ValueError for
    another size; RuntimeError if the recording does not fit its tensors any more, if the device fails, and in a process that was forked
    off. Any thread may call it; calls of two threads follow each other.

    A call sees changes of weights and state that PyTorch has made since the last one, and then waits for the current stream and takes
    about as long as a launch. It cannot see changes past PyTorch's version counters (`.data`, another process, a CUDA graph):
    `invalidate` tells of them. Between the first call and `pause` the step has its state in memory of its own: the recording's tensors show
    it behind `pause`. If PyTorch changes a tensor that is state meanwhile, the new value wins, for all of the tensor's memory.

    As a context manager it pauses at the end."""

    if TYPE_CHECKING:  # by the extension's type, which derives from this one

        _executor: ThreadPoolExecutor | None

        def __call__(self, *inputs: Any, out: Any = None) -> Any: ...

        def pause(self) -> None:
            """Has the step leave the device, and waits for that and for the current stream: the recording's tensors hold the state. The
            next call reads weights and state anew."""

        def invalidate(self) -> None:
            """As `pause`: call it behind a change of weights that PyTorch's version counters do not show. `pause` before such a change of
            state."""

        def source(self) -> str:
            """The C++ text of the program."""

        @property
        def members(self) -> int:
            """Thread blocks that run it together."""

        @property
        def launches(self) -> int:
            """How often it was launched; 0 on a CPU."""

    else:
        __slots__ = ()

    def submit(self, *inputs: Any) -> Future[Any]:
        """Calls it in a thread of the step's, behind calls that were submitted before. Leave the inputs alone until it is done."""
        if self._executor is None:
            with _making:
                if self._executor is None:
                    self._executor = ThreadPoolExecutor(1, "dwell.torch step")
        return self._executor.submit(self, *inputs)

    async def acall(self, *inputs: Any) -> Any:
        """As `submit`, for coroutines."""
        return await asyncio.wrap_future(self.submit(*inputs))

    def __enter__(self) -> ResidentStep:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._executor is not None:
            self._executor.shutdown()
            self._executor = None
        self.pause()


def step_type(library: str) -> type[ResidentStep] | None:
    """The type of steps, in the extension; None if it was built without Python's headers."""
    make = getattr(ctypes.PyDLL(library), "dwell_torch_step_type", None)
    if make is None:
        return None
    make.argtypes, make.restype = [ctypes.py_object], ctypes.py_object
    return make(ResidentStep)  # type: ignore[no-any-return]


def make_step(
    kind: Any,
    number: int,
    device: torch.device,
    inputs: Sequence[torch.Tensor],
    outputs: Sequence[torch.Tensor],
    members: int | None,
    lease: float | None,
    idle: float | None,
) -> ResidentStep:
    if members is not None and members < 1:
        raise ValueError(f"Recording.resident: members={members}: pass 1 or more, or None for as many as dwell finds best")
    inputs, outputs = _tensors("inputs", inputs, device), _tensors("outputs", outputs, device)
    if not outputs:
        raise ValueError("Recording.resident: outputs: a step has one output at least")
    empty: Any = None
    dtypes: tuple[Any, ...] = (None,) * len(outputs)
    with contextlib.suppress(ImportError):
        import numpy as np

        empty, dtypes = np.empty, tuple(np.dtype(_DTYPES[one.dtype]) if one.dtype in _DTYPES else None for one in outputs)
    times = (_nanoseconds("lease", lease), _nanoseconds("idle", idle))
    return kind(number, str(device), inputs, outputs, members or 0, *times, empty, dtypes, _as_input)  # type: ignore[no-any-return]


def _tensors(name: str, given: Any, device: torch.device) -> tuple[torch.Tensor, ...]:
    if isinstance(given, torch.Tensor):
        raise ValueError(f"Recording.resident: {name}: a tensor: pass a list of tensors, {name}=[tensor]")
    tensors = tuple(given)
    for number, tensor in enumerate(tensors):
        what = f"Recording.resident: {name}[{number}]"
        if not isinstance(tensor, torch.Tensor):
            raise ValueError(f"{what} is a {type(tensor).__name__}: pass a tensor that the recording names")
        if tensor.device != device:
            raise ValueError(f"{what} is on {tensor.device}, the recording is of {device}: pass a tensor that the recording names")
        if not tensor.is_contiguous():
            raise ValueError(
                f"{what} is not contiguous, its strides are {tensor.stride()}: record on a contiguous tensor, or record its .contiguous()"
            )
        if tensor.numel() == 0:
            raise ValueError(f"{what} has no elements: leave it out")
    return tensors


def _nanoseconds(name: str, seconds: float | None) -> int:
    """0: the default."""
    if seconds is None:
        return 0
    if not 1e-6 <= seconds <= 3600:
        raise ValueError(f"Recording.resident: {name}={seconds}: pass seconds, from a microsecond to an hour, or None")
    return round(seconds * 1e9)


def _as_input(given: Any, number: int) -> Any:
    """Makes a contiguous array or CPU tensor of what is neither a tensor nor a contiguous buffer."""
    try:
        view = memoryview(given)
    except TypeError:
        if not hasattr(given, "__dlpack__"):
            raise TypeError(
                f"input {number} is a {type(given).__name__}: pass a NumPy array, a buffer, a CPU tensor, or an object with __dlpack__"
            ) from None
    else:
        import numpy as np

        return np.ascontiguousarray(view)
    kind, _ = given.__dlpack_device__()
    if int(kind) != 1:  # kDLCPU
        raise ValueError(f"input {number} is on another device (DLPack's {int(kind)}): a step's numbers come from the host: copy it there")
    return torch.utils.dlpack.from_dlpack(given)
