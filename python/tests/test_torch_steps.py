"""Recordings that stay on the device and run each time that the host calls: Recording.resident."""

import array
import asyncio
import gc
import os
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from torch_support import DEVICE, dt, outcome, torch


def recording_of(block: Callable[[], Any], **options: Any) -> tuple[Any, Any]:
    """Returns the block's recording, and its result."""
    with torch.no_grad(), dt.record(DEVICE, **options) as recorded:
        result = block()
    return recorded(), result


def plus_one(*sizes: int, dtype: Any = torch.float32) -> Any:
    """A step of y = x + 1."""
    x = torch.zeros(sizes or (8,), device=DEVICE, dtype=dtype)
    recording, y = recording_of(lambda: x + 1)
    return recording.resident([x], [y])


def refused(kind: type[Exception], text: str, call: Callable[[], Any]) -> None:
    error = outcome(call)
    assert type(error) is kind and text in str(error), repr(error)


class Cell:
    """h = tanh(w x + u h), y = v h, by a step; and the same in float64."""

    def __init__(self) -> None:
        torch.manual_seed(7)
        of = {"device": DEVICE}
        self.w, self.u, self.v = torch.randn(128, 16, **of) * 0.3, torch.randn(128, 128, **of) * 0.08, torch.randn(4, 128, **of) * 0.2
        self.x, self.h = torch.zeros(1, 16, **of), torch.zeros(1, 128, **of)

        def block() -> Any:
            self.h.copy_(torch.tanh(self.x @ self.w.t() + self.h @ self.u.t()))
            return self.h @ self.v.t()

        self.recording, self.y = recording_of(block)
        self.exact = np.zeros(128)
        self.random = np.random.default_rng(3)

    def resident(self, **options: Any) -> Any:
        return self.recording.resident([self.x], [self.y], **options)

    def weights(self) -> list[Any]:
        return [weight.detach().double().cpu().numpy() for weight in (self.w, self.u, self.v)]

    def check(self, step: Any, calls: int) -> None:
        w, u, v = self.weights()
        for _ in range(calls):
            x = self.random.standard_normal(16).astype(np.float32)
            self.exact = np.tanh(w @ x + u @ self.exact)
            np.testing.assert_allclose(step(x), [v @ self.exact], rtol=2e-4, atol=2e-4)

    def check_state(self) -> None:
        np.testing.assert_allclose(self.h.cpu().numpy()[0], self.exact, rtol=2e-4, atol=2e-4)


# ---- Arguments and results -------------------------------------------------------------------------------------------------------------


def test_arrays_of_numpy() -> None:
    step = plus_one(2, 4)
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    y = step(x)
    assert isinstance(y, np.ndarray) and y.dtype == np.float32 and y.shape == (2, 4)
    np.testing.assert_array_equal(y, x + 1)
    np.testing.assert_array_equal(step(x * 2), x * 2 + 1)
    np.testing.assert_array_equal(y, x + 1)  # it is the caller's


def test_tensors() -> None:
    step = plus_one(2, 4)
    x = torch.arange(8.0).reshape(2, 4)
    y = step(x)
    assert isinstance(y, torch.Tensor) and y.device.type == "cpu" and y.shape == (2, 4)
    assert torch.equal(y, x + 1)
    assert torch.equal(step(x.t().contiguous().t()), x + 1)
    assert torch.equal(step(torch.arange(16.0)[::2]), torch.arange(0, 16, 2).reshape(2, 4) + 1.0)
    weight = x.clone().requires_grad_()
    assert not step(weight).requires_grad
    assert torch.equal(step(torch.complex(x, x).conj().imag), 1 - x)


def test_buffers_and_dlpack() -> None:
    step = plus_one()
    x = np.arange(8, dtype=np.float32)
    for given in (array.array("f", x), memoryview(x), memoryview(x.tobytes()).cast("f"), x[::-1], memoryview(np.repeat(x, 2))[::2]):
        np.testing.assert_array_equal(step(given), np.asarray(given).reshape(-1) + 1)

    class Producer:
        def __dlpack__(self, **options: Any) -> Any:
            return torch.from_numpy(x).__dlpack__(**options)

        def __dlpack_device__(self) -> tuple[int, int]:
            return torch.from_numpy(x).__dlpack_device__()

    np.testing.assert_array_equal(step(Producer()), x + 1)
    frozen = x.copy()
    frozen.flags.writeable = False
    np.testing.assert_array_equal(step(frozen), x + 1)


def test_out_is_written_and_returned() -> None:
    step = plus_one()
    x = np.arange(8, dtype=np.float32)
    for out in (np.empty(8, np.float32), torch.empty(8), array.array("f", bytes(32)), np.empty((2, 4), np.float32)):
        assert step(x, out=out) is out
        np.testing.assert_array_equal(np.asarray(out).reshape(-1), x + 1)
    out = torch.empty(8)
    version = out._version
    assert step(torch.from_numpy(x), out=out) is out and out._version > version
    assert step(x, out=x) is x  # input and result at once
    np.testing.assert_array_equal(x, np.arange(8) + 1.0)
    np.testing.assert_array_equal(step(x, out=None), x + 1)


def test_arguments_that_a_context_has_collected() -> None:
    step = plus_one()
    with dt.eager():
        x = torch.zeros(8).add_(2)
        y = step(x * 3)
        assert torch.equal(y + 1, torch.full((8,), 8.0))
        assert torch.equal(step(y, out=x) * 1, torch.full((8,), 8.0))


def test_several_inputs_and_outputs() -> None:
    a, b = torch.zeros(4, device=DEVICE), torch.zeros(2, 2, device=DEVICE)
    recording, (total, product) = recording_of(lambda: (a + b.view(4), a.view(2, 2) * b))
    step = recording.resident(inputs=(a, b), outputs=(total, product))
    x, y = np.arange(4, dtype=np.float32), np.full((2, 2), 3, np.float32)
    results = step(x, y)
    assert type(results) is tuple and [result.shape for result in results] == [(4,), (2, 2)]
    np.testing.assert_array_equal(results[0], x + 3)
    np.testing.assert_array_equal(results[1], x.reshape(2, 2) * 3)
    out = (np.empty(4, np.float32), torch.empty(2, 2))
    assert step(x, y, out=out) is out
    np.testing.assert_array_equal(out[0], x + 3)
    np.testing.assert_array_equal(out[1].numpy(), x.reshape(2, 2) * 3)
    first, second = step(torch.from_numpy(x), y)
    assert isinstance(first, torch.Tensor) and torch.equal(second, torch.from_numpy(x).view(2, 2) * 3)


def test_no_inputs() -> None:
    count = torch.zeros(1, device=DEVICE)
    recording, _ = recording_of(lambda: count.add_(1))
    step = recording.resident([], [count])
    assert [float(step()[0]) for _ in range(5)] == [1, 2, 3, 4, 5]
    out = torch.empty(1)
    assert step(out=out).item() == 6
    step.pause()
    assert count.item() == 6


@pytest.mark.parametrize("dtype", ["float64", "int32", "int64", "float16", "int16"])
def test_other_types(dtype: str) -> None:
    step = plus_one(16, dtype=getattr(torch, dtype))
    x = np.arange(-8, 8).astype(dtype)
    y = step(x)
    assert y.dtype == x.dtype
    np.testing.assert_array_equal(y, x + 1)


def test_types_that_numpy_lacks_travel_as_tensors() -> None:
    step = plus_one(dtype=torch.bfloat16)
    x = torch.arange(8).bfloat16()
    assert torch.equal(step(x), x + 1)
    refused(TypeError, "'f' and 4 bytes, the step's are BFloat16", lambda: step(np.zeros(8, np.float32), out=torch.empty(8).bfloat16()))
    nothing = torch.zeros(2, device=DEVICE, dtype=torch.bfloat16)
    recording, _ = recording_of(lambda: nothing.add_(1))
    refused(TypeError, "output 0 is of type BFloat16, which NumPy does not have", recording.resident([], [nothing]))


def test_wrong_arguments_of_calls_are_refused() -> None:
    a, b = torch.zeros(4, device=DEVICE), torch.zeros(4, device=DEVICE)
    recording, y = recording_of(lambda: a + b)
    step = recording.resident([a, b], [y])
    x = np.ones(4, np.float32)
    refused(TypeError, "a step has 2 inputs, 1 were given", lambda: step(x))
    refused(TypeError, "a step has 2 inputs, 3 were given", lambda: step(x, x, x))
    refused(TypeError, "a step has no argument 'result': out= is its only name", lambda: step(x, x, result=x))
    refused(TypeError, "input 1 has elements of format 'd' and 8 bytes, the step's are Float", lambda: step(x, x.astype(float)))
    refused(TypeError, "input 1 has elements of format 'i' and 4 bytes, the step's are Float", lambda: step(x, x.astype(np.int32)))
    refused(ValueError, "input 1 has 5 elements, the step's has 4", lambda: step(x, np.ones(5, np.float32)))
    refused(TypeError, "input 0 is a list: pass a NumPy array", lambda: step([1, 2, 3, 4], x))
    refused(TypeError, "input 0 is of type Double, the step's is Float", lambda: step(torch.ones(4).double(), x))
    refused(ValueError, "input 0 has 3 elements, the step's has 4", lambda: step(torch.ones(3), x))
    refused(ValueError, "input 0 is a tensor on meta", lambda: step(torch.ones(4, device="meta"), x))
    refused(ValueError, "out 0 is not contiguous", lambda: step(x, x, out=np.ones(8, np.float32)[::2]))
    refused(ValueError, "out 0 is not contiguous, or cannot be written", lambda: step(x, x, out=bytes(16)))
    refused(ValueError, "out 0 is not contiguous, no plain tensor", lambda: step(x, x, out=torch.ones(8)[::2]))
    refused(ValueError, "requires a gradient", lambda: step(x, x, out=torch.ones(4, requires_grad=True)))
    refused(TypeError, "out 0 has elements of format 'd'", lambda: step(x, x, out=np.ones(4)))
    refused(ValueError, "out 0 has 5 elements", lambda: step(x, x, out=np.ones(5, np.float32)))
    refused(TypeError, "out 0 is a int", lambda: step(x, x, out=3))
    refused(TypeError, "out: a step with 1 outputs writes a tuple", lambda: step(x, x, out=(x, x)))

    class Elsewhere:
        def __dlpack__(self, **_: Any) -> Any:
            raise AssertionError("not asked")

        def __dlpack_device__(self) -> tuple[int, int]:
            return 2, 0

    refused(ValueError, "input 0 is on another device", lambda: step(Elsewhere(), x))
    if DEVICE == "cuda":
        refused(ValueError, "input 0 is a tensor on cuda", lambda: step(a, x))
    np.testing.assert_array_equal(step(x, x), x + x)


def test_wrong_tensors_of_steps_are_refused() -> None:
    x, large = torch.zeros(4, 4, device=DEVICE), torch.zeros(64, 256, device=DEVICE)
    small = torch.zeros(3, device=DEVICE, dtype=torch.float16)

    def block() -> Any:
        half = x + 1
        return half, half.t() * 2, large + 1, small + 1

    recording, (y, _, whole, odd) = recording_of(block)
    other = torch.zeros(4, 4, device=DEVICE)
    where = "Recording.resident: "
    refused(ValueError, where + "outputs: a step has one output", lambda: recording.resident([x], []))
    refused(ValueError, where + "inputs: a tensor: pass a list", lambda: recording.resident(x, [y]))
    refused(ValueError, where + "inputs[0] is a ndarray: pass a tensor", lambda: recording.resident([np.zeros(3)], [y]))
    refused(ValueError, where + "inputs[0] is on meta", lambda: recording.resident([torch.zeros(3, device="meta")], [y]))
    refused(ValueError, where + "outputs[0] is not contiguous", lambda: recording.resident([x], [y.t()]))
    refused(ValueError, where + "inputs[0] has no elements", lambda: recording.resident([x[:0]], [y]))
    refused(ValueError, where + "members=0", lambda: recording.resident([x], [y], members=0))
    refused(ValueError, where + "lease=-1: pass seconds", lambda: recording.resident([x], [y], lease=-1))
    refused(ValueError, where + "idle=nan: pass seconds", lambda: recording.resident([x], [y], idle=float("nan")))
    refused(RuntimeError, "inputs[0] is no tensor that the recording names", lambda: recording.resident([other], [y]))
    refused(RuntimeError, "inputs[1] is a result of the recording", lambda: recording.resident([x, y], [y]))
    refused(RuntimeError, "outputs[1] is not written by the recording", lambda: recording.resident([], [y, x]))
    refused(RuntimeError, "inputs[0] has 65536 bytes, 49152 at most", lambda: recording.resident([large], [whole]))
    refused(RuntimeError, "inputs[0] does not begin and end at a multiple of 4 bytes", lambda: recording.resident([small], [odd]))
    refused(RuntimeError, "two inputs overlap", lambda: recording.resident([x, x], [y]))


def test_recordings_that_make_no_step_are_refused() -> None:
    x = torch.ones(4, device=DEVICE)
    recording, _ = recording_of(lambda: x.mul_(2), steps=3)
    refused(RuntimeError, "a resident step runs its operations once a call", lambda: recording.resident([], [x]))
    with torch.no_grad(), dt.record(DEVICE, steps=1) as recorded:
        y = recorded.each(x.view(1, 4)) + 1
    refused(RuntimeError, "a resident step runs its operations once a call", lambda: recorded().resident([], [y]))
    recording, y = recording_of(lambda: torch.cumsum(x, 0))
    refused(RuntimeError, "has no form for", lambda: recording.resident([x], [y]))
    recording, y = recording_of(lambda: x + 1)
    x.resize_(400_000)
    refused(RuntimeError, "has been resized", lambda: recording.resident([], [y]))


# ---- State and weights -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("members", [None, 1, 8])
def test_a_recurrent_cell(members: int | None) -> None:
    cell = Cell()
    step = cell.resident(members=members)
    cell.check(step, 1000)
    step.pause()
    cell.check_state()
    cell.check(step, 10)
    step.pause()
    cell.check_state()
    assert step.members >= 1 and (DEVICE == "cpu" or step.launches >= 2)
    assert "//" in step.source()


def test_calls_go_on_as_leases_end() -> None:
    cell = Cell()
    with cell.resident(lease=3e-4, idle=5e-5) as step:
        for call in range(300):
            cell.check(step, 1)
            if call % 10 == 0:
                time.sleep(call % 3 * 1e-4)
    cell.check_state()
    assert DEVICE == "cpu" or step.launches > 5


def by_optimizer(weight: Any) -> Callable[[], None]:
    weight.requires_grad_()
    optimizer = torch.optim.SGD([weight], lr=0.1)

    def change() -> None:
        weight.grad = torch.randn_like(weight)
        optimizer.step()

    return change


def in_a_context(weight: Any) -> None:
    with dt.eager():
        weight.mul_(0.5).add_(0.01)


def by_a_stream(weight: Any) -> None:
    if DEVICE == "cuda":
        torch.cuda._sleep(1_000_000)  # the call must wait for the change
    weight.mul_(0.9)


WAYS: dict[str, Callable[[Any], Callable[[], Any]]] = {
    "optimizer": by_optimizer,
    "copy_": lambda weight: lambda: weight.copy_(torch.randn(weight.shape) / 5),
    "a view": lambda weight: weight.view(-1)[3:100].neg_,
    "detach": lambda weight: lambda: weight.detach().mul_(0.5),
    "a context": lambda weight: lambda: in_a_context(weight),
    "behind other work": lambda weight: lambda: by_a_stream(weight),
    "init": lambda weight: lambda: torch.nn.init.orthogonal_(weight),
}


@pytest.mark.parametrize("way", WAYS)
def test_calls_see_weights_that_were_changed(way: str) -> None:
    cell = Cell()
    changes = [WAYS[way](weight) for weight in (cell.w, cell.v)]
    step = cell.resident()
    for _ in range(5):
        cell.check(step, 3)
        for change in changes:
            with torch.no_grad():
                change()
            cell.check(step, 2)
    step.pause()
    cell.check_state()


def test_changes_past_version_counters_need_invalidate() -> None:
    cell = Cell()
    step = cell.resident()
    for _ in range(3):
        cell.check(step, 3)
        cell.v.data.mul_(-0.7)
        step.invalidate()
    cell.check(step, 3)


def test_state_that_is_changed_wins() -> None:
    cell = Cell()
    step = cell.resident(idle=1e-3)
    for rest in (0, 0, 0.003):  # while a kernel is there, and when it has left
        cell.check(step, 5)
        with torch.no_grad():
            cell.h.fill_(0.25)
        cell.exact[:] = 0.25
        time.sleep(rest)
        cell.check(step, 5)
    with torch.no_grad():
        cell.h.zero_()
    step.pause()
    assert not cell.h.any(), "the new value wins in a pause too"
    cell.exact[:] = 0
    cell.check(step, 5)
    step.pause()
    cell.h.data.fill_(0.5)  # behind a pause it is PyTorch's
    cell.exact[:] = 0.5
    cell.check(step, 5)


def test_state_is_that_of_the_last_pause_meanwhile() -> None:
    cell = Cell()
    with cell.resident() as step:
        cell.check(step, 3)
        version = cell.h._version
        assert not cell.h.any()
    cell.check_state()
    assert cell.h._version > version, "others that use it see the change"


def test_a_state_in_several_views() -> None:
    state = torch.tensor([[1.0, 2, 3, 4]], device=DEVICE)

    def block() -> Any:
        left, right = state.split(2, dim=1)
        left.add_(right)
        right.mul_(2)
        return left * 1

    recording, y = recording_of(block)
    step = recording.resident([], [y])
    expected = np.array([1.0, 2, 3, 4])
    for _ in range(5):
        expected[:2] += expected[2:]
        expected[2:] *= 2
        np.testing.assert_array_equal(step()[0], expected[:2])
    step.pause()
    np.testing.assert_array_equal(state.cpu().numpy()[0], expected)


def test_an_input_that_the_recording_writes() -> None:
    x = torch.zeros(4, device=DEVICE)
    recording, _ = recording_of(lambda: x.mul_(3))
    step = recording.resident([x], [x])
    for number in range(4):
        given = np.arange(4, dtype=np.float32) + number
        np.testing.assert_array_equal(step(given), given * 3)


def test_replays_and_calls_take_turns() -> None:
    cell = Cell()
    step = cell.resident()
    for _ in range(3):
        cell.check(step, 4)
        x = cell.random.standard_normal(16).astype(np.float32)
        cell.x.copy_(torch.from_numpy(x))
        cell.recording.replay()
        w, u, _ = cell.weights()
        cell.exact = np.tanh(w @ x + u @ cell.exact)
        cell.check_state()
    cell.check(step, 4)


def test_replays_of_others_on_the_weights_are_seen() -> None:
    cell = Cell()
    training, _ = recording_of(lambda: cell.v.mul_(-1.01))
    assert training.compile() == ""
    step = cell.resident()
    for _ in range(5):
        cell.check(step, 3)
        training.replay()
    cell.check(step, 3)


def test_two_steps_at_once() -> None:
    cell = Cell()
    other = plus_one()
    with cell.resident() as step:
        for number in range(100):
            cell.check(step, 1)
            np.testing.assert_array_equal(other(np.full(8, number, np.float32)), np.full(8, number + 1))
    cell.check_state()


def test_one_step_hands_its_state_to_another_in_a_pause() -> None:
    w = torch.ones(4, device=DEVICE)
    growing, _ = recording_of(lambda: w.add_(1))
    grow = growing.resident([], [w])
    reading, y = recording_of(lambda: w * 10)
    read = reading.resident([], [y])
    for number in range(2, 6):
        grow()
        grow.pause()
        np.testing.assert_array_equal(read(), np.full(4, number * 10))


def test_a_tensor_that_is_resized_is_an_error() -> None:
    w, x = torch.ones(8, device=DEVICE), torch.zeros(8, device=DEVICE)
    recording, y = recording_of(lambda: x * w)
    step = recording.resident([x], [y])
    step(np.ones(8, np.float32))
    w.data = torch.ones(8, device=DEVICE)
    refused(RuntimeError, "given other memory", lambda: step(np.ones(8, np.float32)))
    w, x = torch.ones(8, device=DEVICE), torch.zeros(8, device=DEVICE)
    recording, y = recording_of(lambda: x * w)
    step = recording.resident([x], [y])
    step(np.ones(8, np.float32))
    w.resize_(400_000)
    refused(RuntimeError, "has been resized", lambda: step(np.ones(8, np.float32)))


# ---- Threads and coroutines ------------------------------------------------------------------------------------------------------------


def test_submitted_calls_have_futures() -> None:
    step = plus_one()
    called = threading.Event()
    futures = [step.submit(np.full(8, number, np.float32)) for number in range(20)]
    futures[-1].add_done_callback(lambda _: called.set())
    for number, future in enumerate(futures):
        np.testing.assert_array_equal(future.result(20), np.full(8, number + 1))
    assert called.wait(20)
    refused(ValueError, "input 0 has 3 elements", lambda: step.submit(np.zeros(3, np.float32)).result(20))


def test_coroutines_wait_for_calls() -> None:
    async def program() -> Any:
        with plus_one() as step:
            results = await asyncio.gather(*(step.acall(np.full(8, number, np.float32)) for number in range(5)))
            return [*results, await asyncio.wrap_future(step.submit(torch.ones(8)))]

    *arrays, tensor = asyncio.run(program())
    np.testing.assert_array_equal(arrays, [[number + 1] * 8 for number in range(5)])
    assert torch.equal(tensor, torch.full((8,), 2.0))


def test_threads_share_a_step() -> None:
    step = plus_one()
    wrong: list[Any] = []

    def work(number: int) -> None:
        for call in range(200):
            x = np.full(8, number * 1000 + call, np.float32)
            if not np.array_equal(step(x), x + 1):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for call in range(20):
        step.pause()
        np.testing.assert_array_equal(step(np.full(8, call, np.float32)), np.full(8, call + 1))
    for thread in threads:
        thread.join()
    assert not wrong


def test_long_calls_leave_the_interpreter_to_others() -> None:
    x = torch.zeros(64, 256, device=DEVICE)
    w, first = torch.eye(256, device=DEVICE), torch.zeros(16, device=DEVICE)

    def block() -> Any:
        y = x + first[:1]
        for _ in range(60):
            y = y @ w
        return y[:1, :16] * 1

    recording, y = recording_of(block)
    step = recording.resident([first], [y])
    np.testing.assert_array_equal(step(np.ones(16, np.float32)), np.ones((1, 16)))
    counted = 0
    over = threading.Event()

    def count() -> None:
        nonlocal counted
        while not over.is_set():
            counted += 1

    thread = threading.Thread(target=count)
    thread.start()
    for _ in range(50):
        step(np.ones(16, np.float32))
    over.set()
    thread.join()
    assert counted > 50


# ---- Lifetimes -------------------------------------------------------------------------------------------------------------------------


def test_a_step_outlives_its_recording_and_tensors() -> None:
    x, w = torch.zeros(8, device=DEVICE), torch.full((8,), 3.0, device=DEVICE)
    recording, y = recording_of(lambda x=x, w=w: x * w)
    step = recording.resident([x], [y])
    del recording, x, w, y
    gc.collect()
    [torch.zeros(8, device=DEVICE) for _ in range(100)]
    for number in range(3):
        np.testing.assert_array_equal(step(np.full(8, number, np.float32)), np.full(8, number * 3))


def test_steps_and_recordings_are_dropped_in_any_order() -> None:
    for step_first in (True, False):
        for calls in (0, 3):
            x = torch.zeros(8, device=DEVICE)
            recording, y = recording_of(lambda x=x: x + 1)
            step = recording.resident([x], [y])
            gone = weakref.ref(step)
            for _ in range(calls):
                step(np.zeros(8, np.float32))
            if calls:
                step.submit(np.zeros(8, np.float32)).result(20)
            if step_first:
                del step
                recording.replay()
            else:
                del recording
                step(np.zeros(8, np.float32))
                del step
            assert gone() is None


def test_a_step_is_used_again_behind_its_block() -> None:
    with plus_one() as step:
        future = step.submit(np.zeros(8, np.float32))
    assert future.done()
    np.testing.assert_array_equal(step(np.zeros(8, np.float32)), np.ones(8))
    np.testing.assert_array_equal(step.submit(np.zeros(8, np.float32)).result(20), np.ones(8))


@pytest.mark.filterwarnings("ignore")
def test_a_forked_child_is_refused() -> None:
    step = plus_one()
    step(np.zeros(8, np.float32))
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            told = [str(outcome(call)) for call in (lambda: step(np.zeros(8, np.float32)), step.pause)]
            del step
            gc.collect()
            os.write(write, "|".join(told).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as answers:
        told = answers.read().split("|")
    os.waitpid(pid, 0)
    assert len(told) == 2 and all("forked off" in text for text in told), told
    np.testing.assert_array_equal(step(np.zeros(8, np.float32)), np.ones(8))


def test_a_process_ends_with_a_step_on_the_device() -> None:
    from conftest import run_python

    run_python(
        """
        import numpy as np, torch, dwell.torch as dt
        from torch_support import DEVICE
        x = torch.zeros(8, device=DEVICE)
        with torch.no_grad(), dt.record(DEVICE) as recorded:
            y = x + 1
        step = recorded().resident([x], [y], idle=10)
        assert (step(np.zeros(8, np.float32)) == 1).all()
        step.submit(np.zeros(8, np.float32))
        """,
        PYTHONPATH=os.pathsep.join([os.path.dirname(__file__), os.environ.get("PYTHONPATH", "")]),
    )
