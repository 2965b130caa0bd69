"""dwell.torch.record: operations that are recorded once and replayed."""

import gc
import os

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


def test_what_was_replayed_is_there_when_it_is_looked_at() -> None:
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


def test_what_cannot_be_recorded_is_an_error() -> None:
    x = made(64)
    with pytest.raises(RuntimeError, match="aten::sort cannot be recorded: dwell does not do it"), dt.record():
        (x + 1).sort()
    with dt.record() as recorded:
        y = x * 2
    with pytest.raises(RuntimeError, match="inside of a recording"), dt.record(), dt.record():
        pass
    recorded().replay()
    assert torch.equal(y, x * 2)
