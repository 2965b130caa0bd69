"""dwell.torch.record: operations that are recorded once and replayed."""

import gc
import os
from collections.abc import Callable
from typing import Any

import pytest
from torch_support import DEVICE, dt, made, torch


def test_a_recording_runs_again() -> None:
    a, x = made(64), made(64)
    state = torch.zeros(64, device=DEVICE)
    with dt.record() as recorded:
        y = torch.relu(a * x + 1).sin()
        total = y.softmax(0).sum()
        state += y
    assert state.tolist() == [0.0] * 64, "it is recorded, not run"
    recording = recorded()
    for times in range(1, 4):
        a.fill_(times)
        recording.replay()
        torch.testing.assert_close(y, torch.relu(a * x + 1).sin())
        assert float(total) == pytest.approx(1.0)
    expected = sum(torch.relu(t * x + 1).sin() for t in (1, 2, 3))
    torch.testing.assert_close(state, expected)
    with dt.eager():
        a.fill_(5)
        z = a + 1
        recording.replay()
        z = z + y
        torch.testing.assert_close(z, 6 + torch.relu(5 * x + 1).sin())
    del recording, recorded
    gc.collect()


def test_replayed_results_are_visible() -> None:
    x = torch.ones(4, device=DEVICE)
    with dt.record() as recorded:
        y = x * 2
    recording = recorded()
    with dt.eager():
        for number in (5.0, 7.0):
            x.fill_(number)
            recording.replay()
            assert y[0].item() == 2 * number
            assert y.sort()[0][3].item() == 2 * number
            x.fill_(number + 1)
            recording.replay()
            assert y.sort()[0][0].item() == 2 * number + 2


def test_a_step_of_training_is_recorded_with_its_backward_pass() -> None:
    torch.manual_seed(3)
    start = [torch.randn(8, 4), torch.randn(8), torch.randn(1, 8)]
    x, y = made(16, 4), made(16, 1)

    def step(parameters: list[torch.Tensor]) -> None:
        for p in parameters:
            p.grad = None
        hidden = torch.relu(torch.nn.functional.linear(x, parameters[0], parameters[1]))
        torch.nn.functional.mse_loss(torch.nn.functional.linear(hidden, parameters[2]), y).backward()
        with torch.no_grad():
            for p in parameters:
                p.add_(p.grad, alpha=-0.01)  # type: ignore[arg-type]

    expected, trained = ([p.to(DEVICE).clone().requires_grad_() for p in start] for _ in range(2))
    with dt.record() as recorded:
        step(trained)
    for p, was in zip(trained, start, strict=True):
        assert torch.equal(p.detach().cpu(), was), "it is recorded, not run"
    for _ in range(5):
        step(expected)
        recorded().replay()
    for p, q in zip(expected, trained, strict=True):
        torch.testing.assert_close(p, q)


def test_a_recording_of_a_tensor_that_was_resized_is_not_replayed() -> None:
    a, c = made(64), torch.zeros(64, device=DEVICE)
    with dt.record() as recorded:
        torch.mul(a, 2, out=c)
    recording = recorded()
    recording.replay()
    torch.testing.assert_close(c, a * 2)
    c.resize_(10_000_000)
    with pytest.raises(RuntimeError, match="has been resized"):
        recording.replay()


def test_a_reduction_by_two_tasks_is_recorded() -> None:
    x = made(4, 100_000) - 1
    with dt.record() as recorded:
        means = x.mean(1)  # long rows are cut into parts, whose statistics lie in memory of the recording's own
        largest = x.t().softmax(0).amax(0)
    recording = recorded()
    for number in range(1, 4):
        x.mul_(number)
        recording.replay()
        torch.testing.assert_close(means, x.mean(1))
        torch.testing.assert_close(largest, x.softmax(1).amax(1))
    assert "long enough to be cut" in recording.compile()


def test_there_is_no_recording_before_the_block_has_ended() -> None:
    with pytest.raises(RuntimeError, match="before the block has ended"), dt.record() as recorded:
        recorded()
    with pytest.raises(RuntimeError, match="when it has raised"):
        recorded()


@pytest.mark.skipif(DEVICE != "cpu", reason="PyTorch does not use a GPU in a process that was forked off")
def test_a_forked_process_records_and_replays_nothing() -> None:
    x = made(4)
    with dt.record() as recorded:
        x * 2
    recording = recorded()
    child = os.fork()
    if child == 0:
        refused = 0
        for call in (recording.replay, lambda: dt.record().__enter__()):
            try:
                call()
            except RuntimeError as error:
                refused += "forked off" in str(error)
        os._exit(refused)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
    recording.replay()


def adam(steps: Any, capturable: bool) -> Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], None]:
    """Returns Adam's step as in PyTorch's loop over tensors. The count is a tensor if `capturable`, else a host number."""

    def step(p: torch.Tensor, grad: torch.Tensor, average: torch.Tensor, squares: torch.Tensor) -> None:
        nonlocal steps
        steps += 1
        count = steps if capturable else steps.item().real
        average.lerp_(grad, 0.1)
        squares.mul_(0.999).addcmul_(grad, grad, value=0.001)
        p.sub_(average / (1 - 0.9**count) / ((squares / (1 - 0.999**count)).sqrt() + 1e-8) * 0.01)

    return step


def test_an_optimizer_that_reads_its_count_on_the_host_is_an_error() -> None:
    # dwell leaves this type to PyTorch, as it leaves host tensors beside a GPU.
    step = adam(torch.zeros((), dtype=torch.complex64), capturable=False)
    tensors = [made(8) for _ in range(4)]
    what = r"reads a tensor of ComplexFloat \[\] on cpu, which aten::add_ has changed.*capturable=True"
    with pytest.raises(RuntimeError, match=what), dt.record():
        step(*tensors)
    step = adam(torch.zeros((), device=DEVICE), capturable=False)
    with pytest.raises(RuntimeError, match=r"item\(\) of a tensor that was recorded.*capturable=True"), dt.record():
        step(*tensors)


def test_an_optimizer_that_keeps_its_count_in_a_tensor_is_replayed() -> None:
    start = [made(8) for _ in range(2)] + [torch.zeros(8, device=DEVICE) for _ in range(2)]
    expected, got = ([t.clone() for t in start] for _ in range(2))
    ours, theirs = (adam(torch.zeros((), device=DEVICE), capturable=True) for _ in range(2))
    with dt.record() as recorded:
        ours(*got)
    for _ in range(5):
        theirs(*expected)
        recorded().replay()
    torch.testing.assert_close(got, expected)


@pytest.mark.parametrize("optimizer", ["Adam", "AdamW", "NAdam", "RAdam", "Adamax"])
@pytest.mark.parametrize("foreach", [False, True])
@pytest.mark.parametrize("capturable", [False, True])
def test_an_optimizer_is_replayed_or_an_error(optimizer: str, foreach: bool, capturable: bool) -> None:
    """Never gives another result."""
    if capturable and DEVICE == "cpu":
        pytest.skip("PyTorch has capturable optimizers on a GPU alone")
    x = made(16, 4)
    expected, got = (made(8, 4).requires_grad_() for _ in range(2))
    options = {"lr": 0.01, "foreach": foreach, "capturable": capturable}
    ours, theirs = (getattr(torch.optim, optimizer)([p], **options) for p in (got, expected))

    def step(p: torch.Tensor, by: Any) -> None:
        p.grad = None
        torch.nn.functional.linear(x, p).square().mean().backward()
        by.step()

    for p, by in ((expected, theirs), (got, ours)):
        step(p, by)  # creates the state
    try:
        with dt.record() as recorded:
            step(got, ours)
    except RuntimeError as error:
        assert "capturable" in str(error) or "cannot be recorded" in str(error)
        return
    for _ in range(5):
        step(expected, theirs)
        recorded().replay()
    torch.testing.assert_close(got, expected)


def test_a_number_that_was_read_may_not_change() -> None:
    x, rate = made(8), torch.tensor([0.5])
    with dt.record() as recorded:
        y = x * rate.item()
    recording = recorded()
    recording.replay()
    assert torch.equal(y, x * 0.5)
    rate.fill_(0.25)
    what = r"a tensor of Float \[1\] on cpu, which item\(\) has read beside the recording, has been changed"
    with pytest.raises(RuntimeError, match=what):
        recording.replay()


def test_a_number_is_not_read_from_what_the_recording_changes() -> None:
    x, count = made(8), torch.zeros(1, device=DEVICE)
    with pytest.raises(RuntimeError, match=r"item\(\) has read beside the recording, has been changed"), dt.record():
        x * count.item()
        count += 1


def test_a_tensor_of_the_host_beside_the_recording_may_not_change() -> None:
    x, host = made(8), torch.ones(8, dtype=torch.complex64)
    with dt.record() as recorded:
        there = torch.view_as_real(host.cumsum(0))[:, 0].to(DEVICE)
        y = x * there
    recording = recorded()
    recording.replay()
    expected = x * torch.arange(1.0, 9, device=DEVICE)
    torch.testing.assert_close(y, expected)
    host += 1
    with pytest.raises(RuntimeError, match=r"aten::cumsum has read beside the recording, has been changed"):
        recording.replay()


def test_results_of_operations_beside_the_recording_may_not_become_others() -> None:
    x, z = made(8), made(8)
    with dt.record() as recorded:
        y = x.sort()[0] * z
    recording = recorded()
    z.fill_(2)
    recording.replay()
    torch.testing.assert_close(y, x.sort()[0] * 2)
    x.fill_(1)
    with pytest.raises(RuntimeError, match=r"a tensor of Float \[8\].*aten::sort has read beside the recording, has been changed"):
        recording.replay()


@pytest.mark.parametrize("operation", ["sort", "bernoulli"])  # an operation that draws, as cuDNN's LSTM is one
def test_a_kept_result_of_an_operation_beside_the_recording_is_never_stale(operation: str) -> None:
    x, count = torch.rand(8, device=DEVICE), torch.zeros(8, device=DEVICE)
    with dt.record() as recorded:
        count += 1
        kept = getattr(x, operation)()  # no recorded operation reads it, but the program may
    recording = recorded()
    recording.replay()
    x.fill_(1)
    what = rf"a tensor of .* \[8\].*aten::{operation} has made beside the recording, is not made anew by a replay"
    with pytest.raises(RuntimeError, match=what):
        recording.replay()
    del kept
    recording.replay()
    assert count.tolist() == [2.0] * 8


def test_random_numbers_are_not_recorded() -> None:
    x = made(8)
    for draw in (lambda: torch.rand(8, device=DEVICE), lambda: torch.empty(8, device=DEVICE).bernoulli_(0.5).div_(0.5)):
        with pytest.raises(RuntimeError, match="cannot be recorded: it draws random numbers"), dt.record():
            x * draw()


def test_tensors_made_once_cannot_be_changed() -> None:
    x = made(8)
    what = r"the recording changes a tensor of Float .8.*aten::arange has made beside it, once"
    with pytest.raises(RuntimeError, match=what), dt.record():
        total = torch.arange(8.0, device=DEVICE)
        total += x


@pytest.mark.skipif("DWELL_TORCH_KEY" in os.environ, reason="of the key: a mode sees factories as operations of PyTorch's")
def test_constants_are_read_and_fills_run_in_each_replay() -> None:
    x = made(8)
    with dt.record() as recorded:
        y = x * torch.arange(8.0, device=DEVICE) + torch.tensor([3.0], device=DEVICE)
        total = torch.zeros(8, device=DEVICE)
        total += x
    for value in (1.0, 2.0):
        x.fill_(value)
        recorded().replay()
        torch.testing.assert_close(y, value * torch.arange(8.0, device=DEVICE) + 3)
        torch.testing.assert_close(total, x)


def test_unrecordable_operations_are_errors() -> None:
    x = made(64)
    with pytest.raises(RuntimeError, match="aten::sort cannot be recorded: dwell does not do it"), dt.record():
        (x + 1).sort()
    with dt.record() as recorded:
        y = x * 2
    with pytest.raises(RuntimeError, match="inside of a recording"), dt.record(), dt.record():
        pass
    recorded().replay()
    assert torch.equal(y, x * 2)


# ---- Compiled as a whole ---------------------------------------------------------------------------------------------------------------


def test_a_recording_is_compiled_as_one_program() -> None:
    layers = [torch.nn.Linear(64, 256), torch.nn.Tanh(), torch.nn.Linear(256, 8)]
    net = torch.nn.Sequential(*layers).to(DEVICE).requires_grad_(False)
    x = torch.zeros(1, 64, device=DEVICE)
    with dt.record() as recorded:
        y = net(x)
    recording = recorded()
    assert recording.compile() == ""
    assert recording.members >= 1
    assert "product of 1 x 64 by 64 x 256" in recording.source()
    for _ in range(3):
        x.normal_()
        recording.replay()
        torch.testing.assert_close(y, net(x))
        net[0].weight.mul_(0.5)  # each replay reads them anew


def test_members_may_be_asked_for() -> None:
    x, w = torch.rand(1, 64, device=DEVICE), torch.rand(256, 64, device=DEVICE)
    with dt.record(members=3) as recorded:
        y = torch.nn.functional.linear(x, w)
    recording = recorded()
    assert recording.compile() == ""
    assert recording.members == (1 if DEVICE == "cpu" else 3)
    recording.replay()
    torch.testing.assert_close(y, torch.nn.functional.linear(x, w))
    with pytest.raises(ValueError, match="members=0: pass 1 or more"), dt.record(members=0):
        pass


def test_recordings_that_stay_tasks_say_why() -> None:
    x = made(8)
    with dt.record(whole=False) as recorded:
        y = x + 1
    recording = recorded()
    assert recording.compile() == "it was recorded with whole=False"
    assert recording.source() == ""
    assert recording.members == 0
    recording.replay()
    torch.testing.assert_close(y, x + 1)
    with dt.record() as recorded:
        place = x.argmax(0)
    recording = recorded()
    assert "to places" in recording.compile()
    recording.replay()
    assert int(place) == int(x.argmax(0))


def test_state_is_passed_on_from_replay_to_replay() -> None:
    state, step = torch.zeros(100, device=DEVICE), made(100)
    with dt.record() as recorded:
        for _ in range(3):
            state += step
    recording = recorded()
    assert recording.compile() == ""
    for _ in range(5):
        recording.replay()
    torch.testing.assert_close(state, step * 15)


@pytest.mark.parametrize("whole", [True, False])
def test_a_replay_runs_several_steps(whole: bool) -> None:
    cell = torch.nn.LSTMCell(16, 32).to(DEVICE)
    x = torch.randn(1, 16, device=DEVICE)
    h = torch.zeros(1, 32, device=DEVICE)
    c = torch.zeros(1, 32, device=DEVICE)
    total = torch.zeros(1, device=DEVICE)
    with torch.no_grad(), dt.record(steps=10, whole=whole) as recorded:
        gates = torch.addmm(cell.bias_ih, x, cell.weight_ih.t()) + torch.addmm(cell.bias_hh, h, cell.weight_hh.t())
        i, f, g, o = gates.split(32, dim=1)
        c.copy_(torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g))
        h.copy_(torch.sigmoid(o) * torch.tanh(c))
        total.add_(h.sum())
    recording = recorded()
    assert bool(recording.compile()) != whole
    expected = [torch.zeros(1, 32, device=DEVICE) for _ in range(2)]
    expected_total = 0.0
    for _ in range(3):
        recording.replay()
        for _ in range(10):
            with torch.no_grad():
                expected = list(cell(x, (expected[0], expected[1])))
            expected_total += expected[0].sum().item()
        torch.testing.assert_close(h, expected[0], rtol=2e-4, atol=2e-5)
        torch.testing.assert_close(c, expected[1], rtol=2e-4, atol=2e-5)
        assert total.item() == pytest.approx(expected_total, rel=1e-3, abs=1e-3)


@pytest.mark.parametrize("whole", [True, False])
def test_steps_have_slices_as_inputs_and_results(whole: bool) -> None:
    steps = 12
    xs, hs, sums = torch.randn(steps, 1, 24, device=DEVICE), made(steps, 1, 40), torch.zeros(steps, 40, 1, device=DEVICE)
    w, u = torch.randn(24, 40, device=DEVICE) * 0.3, torch.randn(40, 40, device=DEVICE) * 0.1
    h = torch.zeros(1, 40, device=DEVICE)
    with dt.record(steps=steps, whole=whole) as recorded:
        h.copy_(torch.tanh(recorded.each(xs) @ w + h @ u))
        recorded.collect(h, hs)
        recorded.collect((h * h).reshape(40, 1), sums)
    recording = recorded()
    assert bool(recording.compile()) != whole
    state = torch.zeros(1, 40, device=DEVICE)
    for replay in range(3):
        xs.mul_(0.9)  # read by each replay
        recording.replay()
        expected = []
        for x in xs:
            state = torch.tanh(x @ w + state @ u)
            expected.append(state)
        torch.testing.assert_close(hs, torch.stack(expected), rtol=2e-4, atol=2e-5, msg=lambda m, replay=replay: f"replay {replay}: {m}")
        torch.testing.assert_close(sums, torch.stack(expected).square().reshape(steps, 40, 1), rtol=2e-4, atol=2e-5)
        torch.testing.assert_close(h, expected[-1], rtol=2e-4, atol=2e-5)


def test_slices_that_do_not_fit_are_errors() -> None:
    xs, y = torch.zeros(4, 3, device=DEVICE), torch.zeros(3, device=DEVICE)
    with dt.record(steps=4) as recorded:
        with pytest.raises(ValueError, match="its first dimension is 4"):
            recorded.each(torch.zeros(3, 4, device=DEVICE))
        with pytest.raises(ValueError, match="slices are contiguous"):
            recorded.each(torch.zeros(4, 5, 3, device=DEVICE).transpose(1, 2))
        y.add_(recorded.each(xs))
        with pytest.raises(ValueError, match=r"the result's shape is \(3,\), that of a slice \(2,\)"):
            recorded.collect(y, torch.zeros(4, 2, device=DEVICE))
        with pytest.raises(ValueError, match="the result's type"):
            recorded.collect(y, torch.zeros(4, 3, device=DEVICE, dtype=torch.int32))
    with pytest.raises(RuntimeError, match="the block has ended"):
        recorded.each(xs)
    recorded().replay()


def test_slices_of_a_tensor_that_the_block_names_stay_tasks() -> None:
    xs, total = made(4, 8), torch.zeros(8, device=DEVICE)
    with dt.record(steps=4) as recorded:
        total.add_(recorded.each(xs) + xs[0])
    recording = recorded()
    assert "memory of the whole tensor" in recording.compile()
    recording.replay()
    torch.testing.assert_close(total, xs.sum(0) + 4 * xs[0])


def test_a_replay_of_no_steps_is_an_error() -> None:
    with pytest.raises(ValueError, match="steps=0"), dt.record(steps=0):
        pass


def test_a_device_without_an_index_is_the_current_one() -> None:
    x = torch.ones(8, device=DEVICE)
    with dt.record(torch.device(DEVICE).type) as recorded:
        y = x + 1
    recorded().replay()
    torch.testing.assert_close(y, x + 1)


def test_a_device_of_another_kind_is_an_error() -> None:
    with pytest.raises(ValueError, match="device 'meta': pass 'cpu', 'cuda', 'cuda:0'"), dt.record("meta"):
        pass


def test_recordings_may_be_dropped_while_they_are_compiled() -> None:
    x = made(8)
    for number in range(3):
        with dt.record() as recorded:
            y = x * number + 0.25
        recorded().replay()
        torch.testing.assert_close(y, x * number + 0.25)


@pytest.mark.skipif(DEVICE == "cpu", reason="needs streams")
def test_replays_in_two_streams_follow_each_other() -> None:
    count, w = torch.zeros(1, 256, device=DEVICE), torch.eye(256, device=DEVICE)
    with dt.record() as recorded:
        count.copy_(torch.nn.functional.linear(count, w) + 1)
    recording = recorded()
    assert recording.compile() == ""
    other = torch.cuda.Stream()
    for _ in range(50):
        recording.replay()
        with torch.cuda.stream(other):
            recording.replay()
    torch.cuda.synchronize()
    torch.testing.assert_close(count, torch.full_like(count, 100))
