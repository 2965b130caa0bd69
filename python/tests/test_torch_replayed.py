"""torch.compile(backend="dwell"): graphs without gradients become programs."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from dwell.torch import _replayed
from torch_support import DEVICE, made, torch


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """The graphs that are compiled meanwhile."""
    all: list[Any] = []
    begin = _replayed.Replayed.__init__

    def noted(self: Any, part: Any) -> None:
        begin(self, part)
        all.append(self)

    monkeypatch.setattr(_replayed.Replayed, "__init__", noted)
    torch._dynamo.reset()
    yield all
    torch._dynamo.reset()


def settle(graph: Any) -> None:
    """Waits for the compiler."""
    if graph._recording is not None:
        graph._recording.compile()


def counted(graph: Any) -> Callable[[], int]:
    """The replays of a graph from now on."""
    replays = 0
    replay = graph._replay

    def count(arguments: Any) -> Any:
        nonlocal replays
        replays += 1
        return replay(arguments)

    graph._replay = count
    return lambda: replays


def network() -> "torch.nn.Module":
    torch.manual_seed(2)
    return torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.Linear(32, 4)).to(DEVICE)


def test_a_network_is_replayed(graphs: list[Any]) -> None:
    model = network()
    compiled = torch.compile(model, backend="dwell")
    kept = []
    with torch.no_grad():
        for call in range(6):
            x = made(2, 16) + call
            y = compiled(x)
            torch.testing.assert_close(y, model(x), rtol=2e-4, atol=2e-5)
            kept.append((x, y))
            (graph,) = graphs
            if call == 1:
                settle(graph)
                replays = counted(graph)
        assert replays() == 4
        for x, y in kept:
            torch.testing.assert_close(y, model(x), rtol=2e-4, atol=2e-5, msg=lambda m: f"a result is the caller's: {m}")


def test_a_replayed_network_sees_its_weights_change(graphs: list[Any]) -> None:
    model = network()
    compiled = torch.compile(model, backend="dwell")
    x = made(2, 16)
    with torch.no_grad():
        compiled(x), compiled(x)
        settle(graphs[0])
        replays = counted(graphs[0])
        for change in (lambda w: w.mul_(0.5), lambda w: w.copy_(w + 1), lambda w: setattr(w, "data", w.data * 2)):
            change(model[0].weight)
            for _ in range(3):
                torch.testing.assert_close(compiled(x), model(x), rtol=2e-4, atol=2e-5)
                settle(graphs[0])
        assert replays() >= 8, "other memory costs a recording, and no copies"
        assert not graphs[0]._moving


def test_operations_that_dwell_lacks_run_by_pytorch(graphs: list[Any]) -> None:
    compiled = torch.compile(lambda x: torch.cumprod(x, 0) + 1, backend="dwell")
    x = made(8)
    with torch.no_grad():
        for _ in range(4):
            torch.testing.assert_close(compiled(x), torch.cumprod(x, 0) + 1)
    assert graphs[0]._recording is None


def test_results_that_are_arguments_or_views_of_them_are_right(graphs: list[Any]) -> None:
    def function(x: "torch.Tensor", y: "torch.Tensor") -> Any:
        return x.view(-1), y, (x + y).t(), 3

    compiled = torch.compile(function, backend="dwell")
    with torch.no_grad():
        for call in range(5):
            x, y = made(4, 4) + call, made(4, 4) * call
            view, same, total, number = compiled(x, y)
            assert view.data_ptr() == x.data_ptr() and same is y and number == 3
            torch.testing.assert_close(total, (x + y).t())
            if graphs:
                settle(graphs[0])


def test_a_function_that_writes_its_argument_is_right(graphs: list[Any]) -> None:
    def function(x: "torch.Tensor", y: "torch.Tensor") -> "torch.Tensor":
        x.add_(y)
        return torch.relu(x) * 2

    compiled = torch.compile(function, backend="dwell")
    x, expected = made(16), made(16)
    with torch.no_grad():
        for _ in range(6):
            y = made(16)
            torch.testing.assert_close(compiled(x, y), function(expected, y))
            torch.testing.assert_close(x, expected)
            settle(graphs[0])


def test_threads_may_call_a_replayed_network(graphs: list[Any]) -> None:
    model = network()
    compiled = torch.compile(model, backend="dwell")
    wrong: list[int] = []

    def work(number: int) -> None:
        with torch.no_grad():
            for call in range(50):
                x = torch.full((2, 16), 0.01 * number + 0.001 * call, device=DEVICE)
                if not torch.allclose(compiled(x), model(x), rtol=2e-4, atol=2e-5):
                    wrong.append(number)

    with torch.no_grad():
        for _ in range(3):
            compiled(made(2, 16))
            settle(graphs[0])
    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_graph_may_be_kept_from_being_recorded(graphs: list[Any]) -> None:
    compiled = torch.compile(network(), backend="dwell", options={"whole": False})
    with torch.no_grad():
        compiled(made(2, 16))
    assert graphs == []


def test_results_of_pytorch_are_never_stale(graphs: list[Any]) -> None:
    compiled = torch.compile(lambda x: torch.cumprod(x, 0) + 1, backend="dwell")
    x = made(8)
    with torch.no_grad():
        for _ in range(4):
            x.add_(0.1)  # in place: the argument lies where it was
            torch.testing.assert_close(compiled(x), torch.cumprod(x, 0) + 1)
