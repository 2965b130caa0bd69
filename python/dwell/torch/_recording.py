"""Operations that are recorded once and replayed."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator, Sequence

import torch

from ._contexts import Collecting
from ._extension import ANY_SIZE, CAPACITY, OFF, extension, ops, refuse_fork
from ._steps import ResidentStep, make_step
from ._thread_state import thread


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
        refuse_fork("Recording.replay")
        extension.replay(self._number, thread.depth == 0)

    def compile(self) -> str:
        """Waits until it is compiled as one program. Returns an empty string, or why it stays tasks: docs/loops.md has the reasons."""
        refuse_fork("Recording.compile")
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
        refuse_fork("Recording.resident")
        if extension.step_type is None:
            raise RuntimeError("Recording.resident: dwell.torch was built without Python's headers, Python.h: install them, build anew")
        return make_step(extension.step_type, self._number, self._device, inputs, outputs, members, lease, idle)

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
    if OFF:
        raise RuntimeError("dwell.torch.record: DWELL_TORCH=off switches recordings off too: unset it")
    refuse_fork("dwell.torch.record")  # before CUDA is asked, which says it in other words
    device = _device_to_record(device)
    extension_ops = ops()
    with Collecting((ANY_SIZE, CAPACITY, False)):
        number = extension_ops.begin_recording(str(device))
        recorder = Recorder(number, steps, device)
        try:
            yield recorder
            recorder._is_open = False
            extension_ops.end_recording(number, (members or 0) if whole else -1, steps)
        except BaseException:
            recorder._is_open = False
            with contextlib.suppress(RuntimeError):
                extension_ops.end_recording(number, -1, 1)
            extension_ops.forget(number)
            raise
        recorder._recording = Recording(number, device)
