"""Recordings that are compiled as a whole, in loops: weights that others change, shared state, many replays."""

import gc
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from torch_support import DEVICE, dt, torch


def compiled(step: Callable[[], Any]) -> tuple[Any, Any]:
    """Returns the step's recording, which is one program, and its result."""
    with torch.no_grad(), dt.record() as recorded:
        result = step()
    recording = recorded()
    assert recording.compile() == ""
    return recording, result


# ---- Weights that change between replays -----------------------------------------------------------------------------------------------


def by_an_optimizer(name: str, **options: Any) -> Callable[[Any], Callable[[], None]]:
    def prepare(weight: Any) -> Callable[[], None]:
        optimizer = getattr(torch.optim, name)([weight], lr=0.01, **options)

        def change() -> None:
            weight.grad = torch.randn_like(weight)
            optimizer.step()

        return change

    return prepare


def by_a_stream(weight: Any) -> Callable[[], None]:
    other = torch.cuda.Stream()

    def change() -> None:
        other.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(other), torch.no_grad():
            torch.cuda._sleep(1_000_000)  # the replay must wait for the change
            weight.mul_(0.9)
        torch.cuda.current_stream().wait_stream(other)

    return change


def by_numpy(weight: Any) -> Callable[[], None]:
    shared = weight.detach().numpy()

    def change() -> None:
        shared[3:70, ::2] *= -0.5

    return change


def in_place(change: Callable[[Any], Any]) -> Callable[[Any], Callable[[], None]]:
    def prepare(weight: Any) -> Callable[[], None]:
        def changed() -> None:
            with torch.no_grad():
                change(weight)

        return changed

    return prepare


def assigned(weight: Any) -> None:
    weight[5, 7:] = weight[5, 7:] + 0.25
    weight[torch.arange(10, device=DEVICE)] *= -1.1


def loaded(weight: Any) -> None:
    module = torch.nn.Linear(weight.shape[1], weight.shape[0], bias=False, device="meta")
    module.weight = weight
    module.load_state_dict({"weight": torch.randn(weight.shape) / 10})


def by_the_batch(weight: Any) -> None:
    with dt.eager():
        weight.mul_(0.7).add_(0.001)


WAYS: dict[str, Callable[[Any], Callable[[], None]]] = {
    "SGD": by_an_optimizer("SGD", momentum=0.9),
    "SGD, foreach": by_an_optimizer("SGD", foreach=True),
    "Adam": by_an_optimizer("Adam"),
    "AdamW, foreach": by_an_optimizer("AdamW", foreach=True),
    "copy_": in_place(lambda weight: weight.copy_(torch.randn(weight.shape) / 10)),
    "data.add_": in_place(lambda weight: weight.data.add_(0.01)),
    "data.copy_": in_place(lambda weight: weight.data.copy_(weight.data.flip(0))),
    "detach().mul_": in_place(lambda weight: weight.detach().mul_(0.5)),
    "in place": in_place(lambda weight: weight.mul_(-0.9).clamp_(-0.05, 0.05)),
    "init": in_place(lambda weight: torch.nn.init.orthogonal_(weight)),
    "assignment": in_place(assigned),
    "a view": in_place(lambda weight: weight.view(-1)[100:5000].neg_()),
    "load_state_dict": in_place(loaded),
    "a context": in_place(by_the_batch),
    "NumPy": by_numpy,
    "another stream": by_a_stream,
}


@pytest.mark.parametrize("way", WAYS)
def test_replays_see_weights_that_were_changed(way: str) -> None:
    if way == "NumPy" and DEVICE != "cpu":
        pytest.skip("NumPy shares no memory of a GPU")
    if way == "another stream" and DEVICE == "cpu":
        pytest.skip("needs streams")
    torch.manual_seed(5)
    net = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.Tanh(), torch.nn.Linear(256, 128)).to(DEVICE)
    x = torch.randn(1, 64, device=DEVICE)
    recording, y = compiled(lambda: net(x))
    changes = [WAYS[way](net[i].weight) for i in (0, 2)]
    for _ in range(4):
        for change in changes:
            before = y.clone()
            change()
            recording.replay()
            expected = net(x).detach()
            torch.testing.assert_close(y, expected)
            assert not torch.equal(y, before), "the change shows"


def test_replays_see_what_operators_of_dwell_write(rt: Any, ops: Any) -> None:
    torch.manual_seed(5)
    weight, x = torch.randn(256, 64, device=DEVICE), torch.randn(1, 64, device=DEVICE)
    recording, y = compiled(lambda: torch.nn.functional.linear(x, weight))
    wrapped, change = rt.wrap(weight), rt.array(np.full(256 * 64, 0.125, "f4"))
    for _ in range(5):
        recording.replay()
        before = y.sum().item()  # the replay has ended
        ops.axpy(2, change, wrapped).wait()
        recording.replay()
        torch.testing.assert_close(y, torch.nn.functional.linear(x, weight))
        assert y.sum().item() != before


def test_a_bias_and_an_input_of_other_types_may_change() -> None:
    x, count = torch.randn(1, 128, device=DEVICE), torch.zeros(1, dtype=torch.int64, device=DEVICE)
    on = torch.zeros(1, 128, dtype=torch.bool, device=DEVICE)
    weight, bias = torch.randn(128, 128, device=DEVICE) / 10, torch.zeros(128, device=DEVICE)

    def step() -> Any:
        count.add_(1)
        return torch.where(on, torch.nn.functional.linear(x, weight, bias), x) * count

    recording, y = compiled(step)
    for number in range(1, 6):
        bias.fill_(number)
        on[:, ::number] = True
        recording.replay()
        expected = torch.where(on, torch.nn.functional.linear(x, weight, bias), x) * number
        torch.testing.assert_close(y, expected)
    assert count.item() == 5


# ---- State ------------------------------------------------------------------------------------------------------------------------------


def test_tensors_beyond_a_members_memory() -> None:
    """Each is larger than what a member keeps, and all together are larger than its memory."""
    torch.manual_seed(5)
    states = [torch.randn(256, 256, device=DEVICE) for _ in range(6)]
    weight, row = torch.randn(256, 256, device=DEVICE) / 20, torch.randn(1, 256, device=DEVICE)

    def step(states: list[Any], row: Any) -> Any:
        for i, state in enumerate(states):
            state.mul_(0.75).add_(torch.sin(states[i - 1]) * 0.25)
            row.copy_(torch.tanh(torch.nn.functional.linear(row, weight) + state[i : i + 1]))
            state[7:8].copy_(row)
        return sum(states).softmax(1).mean(1)

    expected, expected_row = [state.clone() for state in states], row.clone()
    recording, total = compiled(lambda: step(states, row))
    for _ in range(5):
        recording.replay()
        expected_total = step(expected, expected_row)
        torch.testing.assert_close(states, expected, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(row, expected_row, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(total, expected_total, rtol=1e-4, atol=1e-6)


def test_two_recordings_share_their_state() -> None:
    torch.manual_seed(5)
    weight = torch.randn(256, 256, device=DEVICE) / 20
    ours = {"h": torch.randn(1, 256, device=DEVICE), "sum": torch.zeros(256, device=DEVICE)}
    theirs = {name: tensor.clone() for name, tensor in ours.items()}

    def move(of: dict[str, Any]) -> None:
        of["h"].copy_(torch.tanh(torch.nn.functional.linear(of["h"], weight) + of["sum"] * 0.1))

    def count(of: dict[str, Any]) -> None:
        of["sum"].mul_(0.5).add_(of["h"][0])
        of["h"][:, :100].neg_()

    steps = [move, count]
    recordings = [compiled(lambda step=step: step(ours))[0] for step in steps]
    draw = random.Random(5)
    for _ in range(200):
        which = draw.randrange(2)
        recordings[which].replay()
        steps[which](theirs)
    for name, tensor in ours.items():
        torch.testing.assert_close(tensor, theirs[name], rtol=1e-4, atol=1e-5)


def test_a_loop_of_ten_thousand_replays() -> None:
    """An oscillator with a controller, whose result is what float64 gives, and a count that is exact."""
    torch.manual_seed(5)
    first, second = torch.randn(64, 4) / 2, torch.randn(1, 64) / 8
    state, count = torch.tensor([[1.0, 0.0, 0.5, 0.0]]), torch.zeros(1)
    here = [tensor.to(DEVICE) for tensor in (first, second, state, count)]
    wide = [tensor.double() for tensor in (first, second, state, count)]

    def step(first: Any, second: Any, state: Any, count: Any) -> None:
        force = torch.nn.functional.linear(torch.tanh(torch.nn.functional.linear(state, first)), second)
        x, v, y, w = state.split(1, dim=1)
        v.add_(0.01 * (force - 4 * x - 0.5 * v))
        w.add_(0.01 * (x - 9 * y - 0.5 * w + torch.cos(count * 0.01)))  # driven
        x.add_(0.01 * v)
        y.add_(0.01 * w)
        count.add_(1)

    recording, _ = compiled(lambda: step(*here))
    for _ in range(10):
        for _ in range(1000):
            recording.replay()
            step(*wide)
        torch.testing.assert_close(here[2].double().cpu(), wide[2], rtol=2e-3, atol=2e-4)
    assert here[3].item() == 10_000


# ---- Memory -----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["storage", "set_", "data"])
def test_a_recording_whose_tensors_have_other_memory_is_refused(what: str) -> None:
    state, other = torch.zeros(1000, device=DEVICE), torch.full((1000,), 7.0, device=DEVICE)
    recording, _ = compiled(lambda: state.add_(1))
    recording.replay()
    assert state.tolist() == [1.0] * 1000
    if what == "storage":
        state.untyped_storage().resize_(0)
        noise = [torch.full((1000,), 3.0, device=DEVICE) for _ in range(10)]  # may lie where the tensor lay
    elif what == "set_":
        state.set_(other)  # type: ignore[call-overload]
    else:
        state.data = other
    with pytest.raises(RuntimeError, match=r"has been resized|has been given other memory"):
        recording.replay()
    assert other.tolist() == [7.0] * 1000
    if what == "storage":
        assert all(tensor.tolist() == [3.0] * 1000 for tensor in noise)


def test_a_recording_keeps_the_memory_of_tensors_that_are_gone() -> None:
    def recorded_step() -> tuple[Any, Any]:
        state, step = torch.zeros(1000, device=DEVICE), torch.ones(1000, device=DEVICE)
        return compiled(lambda: state.add_(step) * 2)

    recording, result = recorded_step()
    gc.collect()
    noise = [torch.full((1000,), 3.0, device=DEVICE) for _ in range(20)]
    for number in range(1, 5):
        recording.replay()
        assert result.tolist() == [2.0 * number] * 1000
    assert all(tensor.tolist() == [3.0] * 1000 for tensor in noise)


# ---- Bits -------------------------------------------------------------------------------------------------------------------------------


def test_every_bit_pattern_passes_between_members() -> None:
    """Numbers that some members compute, and all others read: NaN of any payload, infinities, denormals, -0."""
    torch.manual_seed(5)
    patterns = torch.randint(-(2**31), 2**31, (256,), dtype=torch.int64)
    nans, others = (
        [0x7F800001, 0x7FFFFFFF, 0xFFC12345, 0xFF800001, 0x7FC00000, 0x7FBFFFFF],
        [0x80000000, 0x00000001, 0x807FFFFF, 0x7F7FFFFF],
    )
    patterns[:12] = torch.tensor([*nans, 0x7F800000, 0xFF800000, *others])
    patterns[12:80] = 0x7F800000 | torch.arange(1, 69) * 0x1E7B1
    special = patterns.to(torch.int32).view(torch.float32).view(1, 256).to(DEVICE)
    chosen = torch.arange(256, device=DEVICE).remainder(3).ne(1).view(1, 256)
    x, w = torch.randn(1, 256, device=DEVICE), torch.randn(256, 256, device=DEVICE) / 16

    def step() -> Any:
        y = torch.where(chosen, special, torch.nn.functional.linear(x, w))  # a member has some elements
        return y, y.view(16, 16).t().contiguous(), torch.nn.functional.linear(torch.where(chosen, x, y), w)  # and here all

    def bits(tensor: Any) -> Any:
        return tensor.cpu().contiguous().view(torch.int32)

    for members in (None, 32) if DEVICE == "cuda" else (None,):
        with torch.no_grad(), dt.record(DEVICE, members=members) as recorded:
            y, turned, z = step()
        recording = recorded()
        assert recording.compile() == ""
        for _ in range(3):
            x.normal_()
            special.copy_(special.roll(1))
            recording.replay()
            expected_y, _, expected_z = step()
            assert torch.equal(bits(y)[bits(chosen.int()) == 1], bits(special)[bits(chosen.int()) == 1])
            assert torch.equal(bits(turned), bits(y).view(16, 16).t())
            torch.testing.assert_close(y[~chosen], expected_y[~chosen])
            torch.testing.assert_close(z, expected_z, rtol=2e-4, atol=2e-4)


def test_every_bit_pattern_stays_in_a_state_of_many_steps() -> None:
    patterns = (torch.arange(1024, dtype=torch.int64) * 0x3FF7F3 + 0x7F7FFFF0) % 2**32
    special = torch.where(patterns >= 2**31, patterns - 2**32, patterns).to(torch.int32).view(torch.float32).view(8, 128).to(DEVICE)
    rows, state = special.clone(), torch.zeros(128, device=DEVICE)
    collected = torch.empty(8, 128, device=DEVICE)
    with torch.no_grad(), dt.record(DEVICE, steps=8) as recorded:
        state.copy_(recorded.each(rows))
        recorded.collect(state, collected)
    recording = recorded()
    assert recording.compile() == ""
    recording.replay()
    assert torch.equal(collected.view(torch.int32), special.view(torch.int32))
    assert torch.equal(state.view(torch.int32), special[-1].view(torch.int32))


# ---- Captures ---------------------------------------------------------------------------------------------------------------------------

needs_gpu = pytest.mark.skipif(DEVICE == "cpu", reason="needs CUDA graphs")


class Counter:
    """A recording with weights, an input, a state and results."""

    def __init__(self, members: int | None = None) -> None:
        torch.manual_seed(5)
        self.w, self.x = torch.randn(256, 64, device=DEVICE) / 8, torch.randn(1, 64, device=DEVICE)
        self.state = torch.zeros(1, 256, device=DEVICE)
        self.expected_state = self.state.clone()
        with torch.no_grad(), dt.record(DEVICE, members=members) as recorded:
            self.state.mul_(0.5).add_(torch.tanh(self.x @ self.w.t()))
            self.y = self.state.sum(1) * 2
        self.recording = recorded()
        assert self.recording.compile() == ""

    def check(self, runs: int = 1) -> None:
        for _ in range(runs):
            self.expected_state = self.expected_state * 0.5 + torch.tanh(self.x @ self.w.t())
        torch.testing.assert_close(self.state, self.expected_state, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(self.y, self.expected_state.sum(1) * 2, rtol=1e-4, atol=1e-4)


@needs_gpu
@pytest.mark.parametrize("members", [None, 1, 16])
@pytest.mark.parametrize("was_replayed", [False, True])
def test_replays_are_captured_into_a_cuda_graph(members: int | None, was_replayed: bool) -> None:
    of = Counter(members)
    if was_replayed:  # in another stream than that of the capture
        of.recording.replay()
        of.check()
    doubled = torch.empty(1, device=DEVICE)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        of.x.add_(0.01)  # PyTorch's kernels before and behind
        of.recording.replay()
        torch.mul(of.y, 2, out=doubled)
    for call in range(5):
        of.x.copy_(torch.randn(1, 64))  # inputs change between the runs
        if call == 3:
            of.w.mul_(0.5)
        graph.replay()
        of.check()
        torch.testing.assert_close(doubled, of.y * 2)
        of.recording.replay()  # both ways take turns
        of.check()


@needs_gpu
def test_several_replays_in_one_capture() -> None:
    first, second = Counter(), Counter(8)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(3):
            first.recording.replay()
            second.x.copy_(first.state[:, :64])
            second.recording.replay()
    for _ in range(4):
        first.x.normal_()
        expected = first.expected_state
        graph.replay()
        for _ in range(3):
            expected = expected * 0.5 + torch.tanh(first.x @ first.w.t())
            second.expected_state = second.expected_state * 0.5 + torch.tanh(expected[:, :64] @ second.w.t())
        first.expected_state = expected
        torch.testing.assert_close(first.state, expected, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(second.state, second.expected_state, rtol=1e-4, atol=1e-5)


@needs_gpu
def test_a_recording_inside_a_context_is_captured() -> None:
    of = Counter()
    with dt.eager():
        graph = torch.cuda.CUDAGraph()
        of.x.mul_(2)  # collected: it comes before
        with torch.cuda.graph(graph):
            of.recording.replay()
        for _ in range(3):
            graph.replay()
            of.x.add_(0.1)
            of.x.sub_(0.1)
    of.check(3)


@needs_gpu
def test_a_capture_of_a_recording_that_stays_tasks_is_an_error() -> None:
    x = torch.randn(64, device=DEVICE)
    with torch.no_grad(), dt.record(DEVICE, whole=False) as recorded:
        x.add_(1)
    recording = recorded()
    before = x.clone()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph), pytest.raises(RuntimeError, match=r"cannot be captured into a CUDA graph.*whole=False"):
        recording.replay()
    recording.replay()
    torch.testing.assert_close(x, before + 1)
