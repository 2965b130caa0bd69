"""Weights in memory that another process changes: shared memory of the host, CUDA IPC on a GPU."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from torch_support import DEVICE, dt, torch

torch_multiprocessing = pytest.importorskip("torch.multiprocessing")


def change_weights(pipe: Any) -> None:
    """In the other process: gets tensors, then multiplies all of their elements by each number that comes."""
    sys.path.insert(0, str(Path(__file__).parent))
    try:
        weights = pipe.recv()
        pipe.send("")
        while (factor := pipe.recv()) is not None:
            for weight in weights:
                weight.mul_(factor)
            if weights[0].is_cuda:
                torch.cuda.synchronize()
            pipe.send("")
    except Exception as error:  # the test reports it
        pipe.send(f"{type(error).__name__}: {error}")


@pytest.fixture
def change() -> Iterator[Callable[[Any], None]]:
    """Gives another process the weights with the first call; has it change them with the next ones."""
    context = torch_multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=change_weights, args=(theirs,), daemon=True)
    process.start()

    def tell(what: Any) -> None:
        ours.send(what)
        assert ours.poll(120), "the other process does not answer"
        if error := ours.recv():
            if DEVICE == "cuda" and "not supported" in error:
                pytest.skip(f"this machine has no CUDA IPC: {error}")
            pytest.fail(error)

    yield tell
    if process.is_alive():
        ours.send(None)
    process.join(60)


def shared(*sizes: int) -> Any:
    torch.manual_seed(5)
    weight = torch.randn(*sizes, device=DEVICE) / 10
    return weight if DEVICE == "cuda" else weight.share_memory_()


def test_replays_see_weights_that_another_process_changes(change: Callable[[Any], None]) -> None:
    w, u, x = shared(128, 64), shared(128, 128), torch.randn(1, 64, device=DEVICE)
    with torch.no_grad(), dt.record(DEVICE) as recorded:
        y = torch.tanh(x @ w.t()) @ u.t()
    recording = recorded()
    assert recording.compile() == ""
    change([w, u])
    for factor in (0.5, -1.5, 0.7):
        recording.replay()
        before = y.clone()
        change(factor)
        recording.replay()
        torch.testing.assert_close(y, torch.tanh(x @ w.t()) @ u.t(), rtol=2e-4, atol=2e-5)
        assert not torch.allclose(y, before), "the change shows"


def test_replays_as_tasks_see_weights_that_another_process_changes(change: Callable[[Any], None]) -> None:
    w, x = shared(64, 64), torch.randn(2, 64, device=DEVICE)
    with torch.no_grad(), dt.record(DEVICE, whole=False) as recorded:
        y = torch.relu(x @ w)
    recording = recorded()
    change([w])
    for factor in (0.5, -1.5):
        change(factor)
        recording.replay()
        torch.testing.assert_close(y, torch.relu(x @ w), rtol=2e-4, atol=2e-5)


def test_resident_steps_see_them_behind_invalidate(change: Callable[[Any], None]) -> None:
    """Version counters are of a process. A change of the same weights by this one still needs nothing."""
    w, u, x = shared(128, 64), shared(8, 128), torch.zeros(1, 64, device=DEVICE)
    with torch.no_grad(), dt.record(DEVICE, whole=False) as recorded:
        y = torch.tanh(x @ w.t()) @ u.t()
    step = recorded().resident([x], [y])
    change([w, u])
    given = torch.randn(1, 64)

    def expected() -> Any:
        return (torch.tanh(given.to(DEVICE) @ w.t()) @ u.t()).cpu()

    for factor in (0.5, -1.5, 0.7):
        torch.testing.assert_close(step(given), expected(), rtol=2e-4, atol=2e-5)
        change(factor)
        step.invalidate()
        torch.testing.assert_close(step(given), expected(), rtol=2e-4, atol=2e-5)
        w.mul_(1.25)
        torch.testing.assert_close(step(given), expected(), rtol=2e-4, atol=2e-5)
    step.pause()


def test_graphs_of_torch_compile_see_them(change: Callable[[Any], None]) -> None:
    w, x = shared(64, 64), torch.randn(2, 64, device=DEVICE)
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: torch.tanh(x @ w), backend="dwell")
    change([w])
    with torch.no_grad():
        for factor in (0.5, -1.5, 0.9, 0.8, 0.7):
            change(factor)
            torch.testing.assert_close(compiled(x), torch.tanh(x @ w), rtol=2e-4, atol=2e-5)
    torch._dynamo.reset()
