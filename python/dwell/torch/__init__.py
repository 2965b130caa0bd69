"""PyTorch's small operations without launches.

    with dwell.torch.eager():
        y = torch.relu(a * x + b)     # three operations, one task of dwell's, no launch each

Inside a context, small operations on strided tensors are collected and run together; what dwell does not do goes to PyTorch, behind
what was collected on its tensors. Results, errors, views, gradients and the order on streams are PyTorch's. A context in a loop leaves
its operations to PyTorch where that is faster. docs/torch.md says what is taken, and where the limits are.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import os
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any, Protocol, TypeVar

import torch

from ._build import BuildError, build
from ._choice import Choice, Turns
from ._compile import backend
from ._dispatch import ByKey, ByMode, Dispatch
from ._steps import ResidentStep, make_step, step_type
from ._sync_points import on_capture, on_thread_start, wrap_sync_points

__all__ = [
    "BuildError",
    "Recorder",
    "Recording",
    "ResidentStep",
    "accelerate",
    "backend",
    "disable",
    "eager",
    "enable",
    "flush",
    "init",
    "record",
    "scheduler_context",
    "shutdown",
    "stats",
    "submit_add",
    "submit_mul",
]

_F = TypeVar("_F", bound=Callable[..., Any])
_MODE = os.environ.get("DWELL_TORCH", "").lower()
_OFF = _MODE in ("off", "0", "no")
_ALWAYS = _MODE == "always"
_SIZE_THRESHOLD = 1 << 17
_CAPACITY = 1024
_frame_of = sys._getframe
_is_traced = torch.compiler.is_dynamo_compiling  # by torch.compile, which would trace a context's own code
_ANY_SIZE: int = torch.iinfo(torch.int64).max
_KEY = os.environ.get("DWELL_TORCH_KEY", "")
_loaded = False
_forked = False  # this is a forked child of a process that loaded it
_dispatch: Dispatch
_replay: Callable[[int, bool], None]  # past PyTorch's dispatcher, which would take longer than the call
_flush: Callable[[], None]  # likewise
_step_type: type[ResidentStep] | None  # None: it was built without Python's headers
_loading = threading.Lock()


def _ops() -> Any:
    global _loaded, _dispatch, _flush, _replay, _step_type
    if not _loaded:
        with _loading:
            if not _loaded:
                library = str(build())
                torch.ops.load_library(library)  # type: ignore[no-untyped-call]
                _replay = _function_of(library, "replay") or torch.ops.dwell.replay
                _flush = _function_of(library, "flush") or functools.partial(torch.ops.dwell.flush, False)
                _step_type = step_type(library)
                _dispatch = _opened(library)
                wrap_sync_points(_flush, _function_of(library, "rest") or torch.ops.dwell.rest, _taking_nothing)
                on_thread_start(_watch)
                os.register_at_fork(before=_before_fork, after_in_child=_after_fork)
                atexit.register(_close, os.getpid())
                if torch.cuda.is_available():
                    on_capture(_suspend, _resume)
                _loaded = True
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
    global _forked
    _forked = True
    torch.ops.dwell.begin_forked()


def _refuse_fork(what: str) -> None:
    if _forked:
        raise RuntimeError(f"{what}: the threads that would run it are the parent's: use it in a process that was started, not forked off")


def _close(process: int) -> None:
    if os.getpid() == process:  # a forked child must not close the parent's runtimes
        torch.ops.dwell.close()


def _watch() -> None:
    _thread.watches = True
    _dispatch.watch()


def _suspend() -> bool:
    """Takes nothing while a CUDA graph is captured, which must hold PyTorch's own kernels and memory, and programs of recordings."""
    torch.ops.dwell.set_capturing(True)
    if _thread.depth == 0:
        return False
    flush()
    _dispatch.take(False)
    return True


def _resume(suspended: bool) -> None:
    torch.ops.dwell.set_capturing(False)
    if suspended:
        _dispatch.take(True)


def flush(sync: bool = False) -> None:
    """Runs all collected operations, on the streams on which they were collected. Waits for them with `sync`, and on a CPU always. Outside
    of contexts that collect `sync` waits for the current stream too: PyTorch may have got the operations."""
    if not _loaded:
        return
    if not sync:
        _flush()
        return
    torch.ops.dwell.flush(True)
    if _has_sites and _thread.depth == 0 and torch.cuda.is_available() and not torch.cuda.is_current_stream_capturing():
        torch.cuda.current_stream().synchronize()


@contextlib.contextmanager
def _taking_nothing() -> Iterator[None]:
    """Flushes first, and takes no operations inside of the block."""
    _flush()
    before = torch.ops.dwell.pause_taking()
    try:
        yield
    finally:
        torch.ops.dwell.resume_taking(before)


# Limits of the newest context of any thread: elements, operations, whether the loop is resident.
_limits = (_SIZE_THRESHOLD, _CAPACITY, False)


def _set_limits(elements: int, operations: int, resident: bool = False) -> tuple[int, int, bool]:
    """Returns the limits before."""
    global _limits
    before, _limits = _limits, (elements, operations, resident)
    _ops().set_limits(elements, operations, resident)
    return before


class _Thread(threading.local):
    """State of a thread."""

    depth = 0  # contexts that it is in
    watches = False  # flushes before it reads tensors: it is not the thread that loaded the extension
    enabled: tuple[int, int, bool] | None = None  # the limits before `enable`

    def __init__(self) -> None:
        self.turns = Turns()
        self.choices: dict[Any, Choice] = {}  # by call site and limits


_thread = _Thread()


def _enter(limits: tuple[int, int, bool]) -> tuple[int, int, bool]:
    """Returns the limits before."""
    global _limits
    if not _loaded:
        _ops()
    before, _limits = _limits, limits
    _thread.depth += 1
    _dispatch.begin(*limits)
    return before


def _leave(before: tuple[int, int, bool]) -> None:
    global _limits
    _limits = before
    _thread.depth -= 1
    _dispatch.end(*before, _thread.depth == 0, _thread.watches)


# ---- Contexts --------------------------------------------------------------------------------------------------------------------------

_MOST_SITES = 4096  # of a thread: programs that are generated have ever new ones
_has_sites = False  # that choose: PyTorch may have got the operations of a context
_found: dict[Any, bool] = {}  # by the key of a choice: whether it collects, as the last thread has found


def _choice_of(key: Any, where: str, limits: tuple[int, int, bool], kept: object = None) -> Choice:
    """The choice of a site that this thread has not seen. `kept`: what `key` names, alive as long as the choice."""
    global _has_sites
    _has_sites = True
    choices = _thread.choices
    if len(choices) >= _MOST_SITES:
        choices.clear()
        _found.clear()
    made = choices[key] = Choice(_thread.turns, where, _found.get(key), functools.partial(_found.__setitem__, key))
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


class _Collecting:
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
        if self._was_entered and self._choice is not None and _thread.depth == 0 and not self._choice.next():
            return
        self._was_entered = True
        self._before = _enter(self._limits)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._before is not None:
            before, self._before = self._before, None
            _leave(before)

    def __call__(self, function: _F) -> _F:
        return _decorated(function, self._limits, always=self._choice is None)


def _decorated(function: _F, limits: tuple[int, int, bool], always: bool = False) -> _F:
    """A function that runs inside a context. It is a call site of its own."""
    key = object()
    where = getattr(function, "__qualname__", repr(function))

    @functools.wraps(function)
    def inside(*arguments: Any, **keywords: Any) -> Any:
        if _OFF or _is_traced():
            return function(*arguments, **keywords)
        if not (always or _ALWAYS) and _thread.depth == 0:
            choice = _thread.choices.get(key) or _choice_of(key, where, limits)
            if not choice.next():
                return function(*arguments, **keywords)
        with _Collecting(limits):
            return function(*arguments, **keywords)

    return inside  # type: ignore[return-value]


def eager(*, size_threshold: int = _SIZE_THRESHOLD, capacity: int = _CAPACITY, resident: bool = False, always: bool = False) -> Context:
    """Takes operations of this thread, and of the backward passes that it starts, on tensors of up to `size_threshold` elements. A burst
    starts when the device has nothing to do and the host has collected for a while, after `capacity` of them, and at the end.

    Each call site, or function that it decorates, times the program from one context to the next. Its contexts collect, or leave their
    operations to PyTorch, whichever is faster: the first three collect, then both ways are tried. `always`: the context collects anyway,
    as do those inside of one that collects. DWELL_TORCH=always has that effect for the whole process. In a function that torch.compile
    traces a context does nothing.

    `resident`: the loop stays on the device and works while operations are collected. No stream orders it: the host waits for the stream
    before the first operation and behind each that PyTorch runs, and for all operations at the end and where something looks at a result.
    For programs that hardly do. It holds for all threads as long as the block lasts."""
    if always or _ALWAYS or _OFF or _is_traced():
        limits = (size_threshold, capacity, resident)
        return _HandedOn(limits) if _OFF or _is_traced() else _Collecting(limits)
    frame = _frame_of(1)
    key = (id(frame.f_code), frame.f_lasti, size_threshold, capacity, resident)
    choice = _thread.choices.get(key)
    if choice is None:
        where = f"{frame.f_code.co_filename}:{frame.f_lineno}"
        choice = _choice_of(key, where, (size_threshold, capacity, resident), frame.f_code)
    if _thread.depth == 0 and not choice.next():
        return choice.hands_on  # type: ignore[no-any-return]
    return _Collecting((size_threshold, capacity, resident), choice)


def enable(*, size_threshold: int = _SIZE_THRESHOLD, capacity: int = _CAPACITY, resident: bool = False) -> None:
    """As `eager(always=True)`, for this thread until `disable`."""
    if _OFF:
        return
    limits = (size_threshold, capacity, resident)
    if _thread.enabled is None:
        _thread.enabled = _enter(limits)
    else:
        _set_limits(*limits)


def disable() -> None:
    """The end of `enable`."""
    if _thread.enabled is not None:
        before, _thread.enabled = _thread.enabled, None
        _leave(before)


def accelerate(function: _F) -> _F:
    """A function that runs inside `eager`: a call site of its own."""
    return _decorated(function, (_SIZE_THRESHOLD, _CAPACITY, False))


class Recording:
    """Operations that were recorded, with the memory that they name. `replay` runs them again: as tasks of dwell's at first, and as one
    program as soon as that is compiled, in the background."""

    def __init__(self, number: int, device: torch.device) -> None:
        self._number = number
        self._device = device
        self._finalize = weakref.finalize(self, torch.ops.dwell.forget, number)
        self._finalize.atexit = False

    def replay(self) -> None:
        """Runs them, behind what is on the current stream, before what comes there later. Results are where they were recorded.
        RuntimeError when one of the tensors has been resized since, and in a process that was forked off."""
        _refuse_fork("Recording.replay")
        _replay(self._number, _thread.depth == 0)

    def compile(self) -> str:
        """Waits until it is compiled as one program. Returns an empty string, or why it stays tasks: docs/loops.md has the reasons."""
        _refuse_fork("Recording.compile")
        return torch.ops.dwell.wait_compiled(self._number)  # type: ignore[no-any-return]

    def resident(
        self,
        inputs: Sequence[torch.Tensor],
        outputs: Sequence[torch.Tensor],
        *,
        members: int | None = None,
        lease: float | None = None,
        idle: float | None = None,
    ) -> ResidentStep:
        """Compiles the operations as a step that stays on the device and runs each time that it is called, host memory in, host memory out:

            step = recording.resident([x], [y])
            action = step(state)            # arrays of NumPy's, buffers, or CPU tensors

        `inputs`, `outputs`: contiguous tensors of the recording. Each call brings new elements of the inputs, and returns those of the
        outputs; the others are weights and state. `members`: as in `record`. `lease`: seconds that other CUDA calls (cudaFree,
        cudaDeviceSynchronize) wait at most for the step to leave the device, 10 ms by default. `idle`: it leaves after so many seconds
        without a call, 2 ms by default; the next call brings it back, which takes some 10 us more.

        ValueError for other tensors, and for numbers that make no sense. RuntimeError if the operations do not fit one program
        (docs/loops.md has the reasons), for a recording with steps, `each` or `collect`, and as `replay`."""
        _refuse_fork("Recording.resident")
        if _step_type is None:
            raise RuntimeError("Recording.resident: dwell.torch was built without Python's headers, Python.h: install them, build anew")
        return make_step(_step_type, self._number, self._device, inputs, outputs, members, lease, idle)

    def source(self) -> str:
        """The C++ text of the program; empty while there is none."""
        return torch.ops.dwell.source_of(self._number)  # type: ignore[no-any-return]

    @property
    def members(self) -> int:
        """Thread blocks that run the program together; 0 while there is none."""
        return torch.ops.dwell.members_of(self._number)  # type: ignore[no-any-return]


class Recorder:
    """What `record` yields: called behind the block, it returns the recording."""

    def __init__(self, number: int, steps: int, device: torch.device) -> None:
        self._number = number
        self._steps = steps
        self._device = device
        self._recording: Recording | None = None
        self._is_open = True

    def __call__(self) -> Recording:
        if self._recording is None:
            raise RuntimeError("dwell.torch.record: there is no recording before the block has ended, or when it has raised")
        return self._recording

    def each(self, whole: torch.Tensor) -> torch.Tensor:
        """Returns a new tensor that holds whole[i] in step i. Operations of the block use it, and not `whole`, which the recording keeps.
        Each replay reads `whole` anew. ValueError if its first dimension is not the number of steps, if a slice is not contiguous, and for
        another device; RuntimeError behind the block."""
        self._check("each", whole)
        memory = torch.empty(whole.shape[1:], dtype=whole.dtype, device=whole.device)
        torch.ops.dwell.add_slices(self._number, memory, whole, False)
        return memory

    def collect(self, result: torch.Tensor, whole: torch.Tensor) -> None:
        """Stores `result` in whole[i] behind step i. No operation of the block uses `whole`, which the recording keeps. ValueError if
        shape, type or device of the result are not those of a slice, if it is not contiguous, and as `each`; RuntimeError behind the
        block."""
        self._check("collect", whole)
        for what, of_result, of_whole in (
            ("shape", tuple(result.shape), tuple(whole.shape[1:])),
            ("type", result.dtype, whole.dtype),
            ("device", result.device, whole.device),
        ):
            if of_result != of_whole:
                raise ValueError(f"Recorder.collect: the result's {what} is {of_result}, that of a slice {of_whole}")
        if not result.is_contiguous():
            raise ValueError("Recorder.collect: the result is not contiguous: record result.contiguous()")
        torch.ops.dwell.add_slices(self._number, result, whole, True)

    def _check(self, method: str, whole: torch.Tensor) -> None:
        if not self._is_open:
            raise RuntimeError(f"Recorder.{method}: the block has ended")
        if whole.device.type != self._device.type or self._device.index not in (None, whole.device.index):
            raise ValueError(f"Recorder.{method}: the recording is of {self._device}, the tensor is on {whole.device}")
        if whole.dim() == 0 or whole.shape[0] != self._steps:
            raise ValueError(
                f"Recorder.{method}: a tensor of shape {tuple(whole.shape)} has no slice for each of {self._steps} steps: "
                f"its first dimension is {self._steps}"
            )
        if not whole[0].is_contiguous():
            raise ValueError(f"Recorder.{method}: slices are contiguous, the tensor's strides are {whole.stride()}")


def _device_to_record(device: torch.device | str | None) -> torch.device:
    """The device with its index: the current one, where `device` names no other."""
    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    device = torch.device(device)
    if device.type not in ("cuda", "cpu"):
        raise ValueError(f"dwell.torch.record: device {str(device)!r}: pass 'cpu', 'cuda', 'cuda:0', ...")
    if device.type == "cuda" and device.index is None:
        device = torch.device("cuda", torch.cuda.current_device())
    return device


@contextlib.contextmanager
def record(
    device: torch.device | str | None = None, *, steps: int = 1, whole: bool = True, members: int | None = None
) -> Iterator[Recorder]:
    """Records the operations of the block on tensors of a device, any size, and does not run them:

        with dwell.torch.record() as recorded:
            y = torch.relu(a * x + b)
        recording = recorded()
        recording.replay()          # y has the result, of what a, x and b hold now

    An operation that dwell does not do raises RuntimeError where it touches what was recorded, and runs at once elsewhere. `device`: by
    default the current CUDA device, where there is one.

    `steps`: a replay runs the block so many times, each time on what the time before has left:

        with dwell.torch.record(steps=50) as recorded:
            x.add_(h * f(x))        # 50 steps of Euler's method a replay

    A program keeps such a state where it is computed, and loads what the block only reads once. Inputs and results of each step are
    slices: Recorder.each and Recorder.collect.

        with dwell.torch.record(steps=len(xs)) as recorded:
            h.copy_(torch.tanh(recorded.each(xs) @ w + h @ u))
            recorded.collect(h, hs)

    `whole`: the recording is compiled as one program behind the block, in the background. Elementwise operations give the same bits then;
    sums are added in another order, the same in each replay. `members`: thread blocks that run it, by default as many as dwell finds
    best."""
    if steps < 1:
        raise ValueError(f"dwell.torch.record: steps={steps}: a replay runs the block once at least")
    if members is not None and members < 1:
        raise ValueError(f"dwell.torch.record: members={members}: pass 1 or more, or None for as many as dwell finds best")
    if _OFF:
        raise RuntimeError("dwell.torch.record: DWELL_TORCH=off switches recordings off too: unset it")
    _refuse_fork("dwell.torch.record")  # before CUDA is asked, which says it in other words
    device = _device_to_record(device)
    ops = _ops()
    with _Collecting((_ANY_SIZE, _CAPACITY, False)):
        number = ops.begin_recording(str(device))
        recorder = Recorder(number, steps, device)
        try:
            yield recorder
            recorder._is_open = False
            ops.end_recording(number, (members or 0) if whole else -1, steps)
        except BaseException:
            recorder._is_open = False
            with contextlib.suppress(RuntimeError):
                ops.end_recording(number, -1, 1)
            ops.forget(number)
            raise
        recorder._recording = Recording(number, device)


def stats() -> dict[str, Any]:
    """What happened so far: operations taken, and calls from Python that went straight to dwell; tasks that the operations became, fewer as
    far as neighbours were fused, how many of these run programs over elements, and how many of those an operator that was compiled for the
    program; flushes by their reason; what PyTorch ran, by operation, with how often and why: docs/torch.md has the reasons; call sites of
    this thread that choose, with whether they collect, and the seconds from one context to the next both ways, once they were compared."""
    counts = {"taken": 0, "fast": 0, "tasks": 0, "programs": 0, "compiled": 0}
    flushed: dict[str, int] = {}
    fallback: dict[str, dict[str, int]] = {}
    for line in torch.ops.dwell.stats() if _loaded else ():
        name, _, count = line.rpartition("=")
        if name in counts:
            counts[name] = int(count)
        elif name.startswith("flushed."):
            flushed[name.removeprefix("flushed.")] = int(count)
        else:
            operation, _, why = name.removeprefix("fallback.").rpartition(".")
            fallback.setdefault(operation, {})[why] = int(count)
    sites = {
        choice.where: {"collects": choice.collects, **({"collected": times[True], "handed_on": times[False]} if times else {})}
        for choice in _thread.choices.values()
        for times in [choice.seconds]
    }
    return {**counts, "flushed": flushed, "fallback": fallback, "sites": sites}


# ---- The published interface ----------------------------------------------------------------------------------------------------------


def init(capacity: int = 4096, threads_per_block: int = 256) -> None:
    """Prepares submit_add and submit_mul. `capacity`: operations that are collected at most before a burst starts. `threads_per_block` is
    accepted and means nothing: dwell's groups have 128 threads."""
    if not _OFF:
        _set_limits(_ANY_SIZE, capacity)


def _submit(operation: Callable[..., Any], a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
    if _OFF:
        operation(a, b, out=out)
        return
    _ops()
    outside = _thread.depth == 0
    if outside:
        _dispatch.take(True)
    try:
        with torch.no_grad():
            operation(a, b, out=out)
    finally:
        if outside:
            _dispatch.take(False)  # the key stays on: reading the result flushes


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
    if _OFF:
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
