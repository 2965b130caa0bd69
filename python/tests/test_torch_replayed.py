"""torch.compile(backend="dwell"): graphs become programs, those of forward and backward passes too."""

import threading
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest
from dwell.torch import _replayed
from torch_support import DEVICE, dt, made, torch


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """The graphs that are compiled meanwhile."""
    all: list[Any] = []
    begin = _replayed.Replayed.__init__

    def noted(self: Any, part: Any, moving: Any = ()) -> None:
        begin(self, part, moving)
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

    # PyTorch compiles anew in other threads, and up to 2.11 in no two of them at once.
    turn = threading.Lock()
    compiled_by_all = threading.Barrier(4, timeout=300)

    def work(number: int) -> None:
        with torch.no_grad():
            with turn:
                compiled(made(2, 16))
            compiled_by_all.wait()
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


# ---- Graphs with gradients -------------------------------------------------------------------------------------------------------------


def settle_all(graphs: list[Any]) -> list[Callable[[], int]]:
    """Waits for the compiler. Returns the counts of replays from now on."""
    for graph in graphs:
        settle(graph)
    return [counted(graph) for graph in graphs]


class Training:
    """A network of several kinds of layers, compiled with its loss; the same in eager PyTorch, and in float64 on the CPU."""

    def __init__(self, optimizer: Callable[[Any], Any] = lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9)) -> None:
        def make(device: str, dtype: Any) -> Any:
            torch.manual_seed(2)
            layers = (torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.LayerNorm(32), torch.nn.Linear(32, 8), torch.nn.GELU())
            return torch.nn.Sequential(*layers, torch.nn.Linear(8, 4)).to(device, dtype)

        self.models = [make(DEVICE, torch.float32), make(DEVICE, torch.float32), make("cpu", torch.float64)]
        self.optimizers = [optimizer(model.parameters()) for model in self.models]
        self.losses = [self._loss_of(model) for model in self.models]
        self.losses[0] = torch.compile(self.losses[0], backend="dwell")
        self.kept: dict[Any, Any] = {}  # the memory of batches

    @staticmethod
    def _loss_of(model: Any) -> Callable[[Any, Any], Any]:
        return lambda x, y: torch.nn.functional.mse_loss(model(x), y)

    def batch(self, number: int, rows: int, device: Any, dtype: Any, at: int) -> list[Any]:
        """The batch of this number, as the pass `at` of a step gets it: in the same memory in each step. Else the allocator decides whether
        a graph is recorded anew, and replays stop until it is compiled."""
        torch.manual_seed(100 + number)
        batch = [torch.randn(rows, 16).to(device, dtype), torch.randn(rows, 4).to(device, dtype)]
        kept = self.kept.setdefault((rows, device, dtype, at), [torch.empty_like(one) for one in batch])
        return [to.copy_(one) for to, one in zip(kept, batch, strict=True)]

    def step(self, number: int, rows: int = 3, passes: int = 1) -> None:
        """Trains all of them: `passes` forward passes, then as many backward ones, in the same order."""
        got = []
        for model, optimizer, loss in zip(self.models, self.optimizers, self.losses, strict=True):
            optimizer.zero_grad()
            of = next(model.parameters())
            losses = [loss(*self.batch(number + at, rows, of.device, of.dtype, at)) for at in range(passes)]
            for one in losses:
                one.backward()
            got.append([one.detach() for one in losses] + [p.grad.clone() for p in model.parameters()])
            optimizer.step()
        for ours, eager, wide in zip(*got, strict=True):
            torch.testing.assert_close(ours, eager, rtol=1e-3, atol=1e-5)
            torch.testing.assert_close(ours.double().cpu(), wide, rtol=1e-3, atol=1e-5)


def test_steps_of_training_are_replayed(graphs: list[Any]) -> None:
    training = Training()
    for number in range(2):
        training.step(number)
    assert len(graphs) == 2, "forward and backward"
    replays = settle_all(graphs)
    for number in range(2, 12):
        training.step(number)
    assert [count() for count in replays] == [10, 10]
    assert all(graph._recordings == 1 for graph in graphs)


@pytest.mark.parametrize("optimizer", ["Adam", "SGD, foreach", "Adam, foreach"])
def test_replays_of_training_see_what_optimizers_change(graphs: list[Any], optimizer: str) -> None:
    name, _, foreach = optimizer.partition(", ")
    training = Training(lambda parameters: getattr(torch.optim, name)(parameters, lr=0.01, foreach=bool(foreach)))
    for number in range(2):
        training.step(number)
    replays = settle_all(graphs)
    for number in range(2, 10):
        training.step(number)
    assert [count() for count in replays] == [8, 8]


def test_several_forward_passes_before_their_backward_passes(graphs: list[Any]) -> None:
    training = Training()
    for number in range(2):
        training.step(number, passes=3)
    replays = settle_all(graphs)
    for number in range(2, 6):
        training.step(number, passes=3)
    assert [count() for count in replays] == [12, 12], "each pass has saved tensors of its own"


def test_gradients_of_inputs_and_of_several_results(graphs: list[Any]) -> None:
    w = made(16, 16).requires_grad_()

    def function(x: "torch.Tensor", y: "torch.Tensor") -> Any:
        h = torch.tanh(x @ w)
        return h, (h * y).sum(), x.t(), h.view(-1)[2:7], y

    compiled = torch.compile(function, backend="dwell")
    for call in range(6):
        x, y = (made(4, 16) + 0.1 * call).requires_grad_(), (made(4, 16) * 0.3 * call).requires_grad_()
        for which in ((0,), (1, 3), (0, 1, 2, 3, 4)):
            got, expected = (
                torch.autograd.grad(sum((of[at] * (at + 1)).sum() for at in which), (x, y, w), allow_unused=True, materialize_grads=True)
                for of in (compiled(x, y), function(x, y))
            )
            torch.testing.assert_close(got, expected, rtol=1e-3, atol=1e-5)
        settle_all(graphs)
    assert all(graph._is_compiled for graph in graphs)


def test_results_of_training_are_the_callers(graphs: list[Any]) -> None:
    """They may be changed, and kept, and their graphs run backward twice."""
    w = made(16, 16).requires_grad_()
    function: Any = lambda x: torch.sigmoid(x @ w)  # noqa: E731
    compiled = torch.compile(function, backend="dwell")
    kept = []
    for call in range(6):
        x = made(4, 16) + 0.1 * call
        y = compiled(x)
        for _ in range(2):
            (gradient,) = torch.autograd.grad(y.sum(), w, retain_graph=True)
            kept.append((x, y, gradient))
        settle_all(graphs)
        compiled(x).detach().zero_()
    for x, y, gradient in kept:
        torch.testing.assert_close(y, function(x), rtol=1e-3, atol=1e-5)
        torch.testing.assert_close(gradient, torch.autograd.grad(function(x).sum(), w)[0], rtol=1e-3, atol=1e-5)


def test_a_weight_that_is_changed_between_the_passes_is_an_error(graphs: list[Any]) -> None:
    w = made(16, 16).requires_grad_()
    compiled = torch.compile(lambda x: torch.tanh(x @ w) @ w, backend="dwell")
    for _ in range(4):
        compiled(made(4, 16)).sum().backward()
        settle_all(graphs)
    y = compiled(made(4, 16))
    with torch.no_grad():
        w.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_state_that_a_forward_pass_changes(graphs: list[Any]) -> None:
    class Smoothed(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(16, 4)
            self.register_buffer("mean", torch.zeros(4))
            self.register_buffer("count", torch.zeros((), dtype=torch.int64))

        def forward(self, x: "torch.Tensor") -> "torch.Tensor":
            y = self.linear(x)
            with torch.no_grad():
                self.mean.mul_(0.9).add_(y.mean(0), alpha=0.1)
                self.count.add_(1)
            return torch.tanh(y - self.mean)

    models = []
    for _ in range(2):
        torch.manual_seed(4)
        models.append(Smoothed().to(DEVICE))
    ours, theirs = torch.compile(models[0], backend="dwell"), models[1]
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in models]
    for call in range(8):
        x = made(3, 16) + 0.1 * call
        for model, optimizer in zip((ours, theirs), optimizers, strict=True):
            optimizer.zero_grad()
            model(x).square().sum().backward()
            optimizer.step()
        for got, expected in zip(models[0].state_dict().values(), models[1].state_dict().values(), strict=True):
            torch.testing.assert_close(got, expected, rtol=1e-3, atol=1e-5)
        settle_all(graphs)
    assert all(graph._is_compiled for graph in graphs)


def test_training_with_shapes_that_change(graphs: list[Any]) -> None:
    training = Training()
    for number, rows in enumerate((3, 3, 3, 5, 5, 5, 2, 3, 7, 3, 5, 4)):
        training.step(number, rows)
        for graph in graphs:
            settle(graph)
    assert len(graphs) == 2, "PyTorch makes the second graph dynamic, which is not recorded"


def test_a_double_backward_pass_is_refused(graphs: list[Any]) -> None:
    w = made(16, 16).requires_grad_()
    compiled = torch.compile(lambda x: torch.tanh(x @ w).sum(), backend="dwell")
    for _ in range(4):
        (gradient,) = torch.autograd.grad(compiled(made(4, 16)), w, create_graph=True)
        with pytest.raises(RuntimeError, match=r"double backward|does not require grad"):  # as PyTorch 2.11 says it
            gradient.sum().backward()
        settle_all(graphs)


def test_training_inside_a_context_joins_it(graphs: list[Any]) -> None:
    training = Training()
    for number in range(3):
        training.step(number)
    replays = settle_all(graphs)
    with dt.eager():
        for number in range(3, 6):
            training.step(number)
    assert [count() for count in replays] == [0, 0]
    training.step(6)
    assert [count() for count in replays] == [1, 1]


def test_random_numbers_in_training_are_new_in_each_call(graphs: list[Any]) -> None:
    w, x = made(64, 64).requires_grad_(), made(4, 64)
    compiled = torch.compile(lambda x: torch.nn.functional.dropout(x @ w, 0.5), backend="dwell")
    results = []
    for _ in range(6):
        y = compiled(x)
        y.sum().backward()
        results.append(y.detach() == 0)
        settle_all(graphs)
    assert all(not torch.equal(a, b) for a, b in pairwise(results))


def test_parameters_with_other_memory(graphs: list[Any]) -> None:
    training = Training()
    for number in range(9):
        training.step(number)
        for graph in graphs:
            settle(graph)
        if number in (3, 5):
            for model in training.models:
                model[0].weight.data = model[0].weight.data * 0.5
    assert all(graph._is_compiled for graph in graphs)


def test_threads_train_with_gradients_of_their_own(graphs: list[Any]) -> None:
    model = network()
    compiled = torch.compile(model, backend="dwell")
    wrong: list[int] = []

    def work(number: int) -> None:
        for call in range(30):
            x = torch.full((2, 16), 0.01 * number + 0.001 * call, device=DEVICE, requires_grad=True)
            got, expected = (torch.autograd.grad(of(x).square().sum(), x)[0] for of in (compiled, model))
            if not torch.allclose(got, expected, rtol=1e-3, atol=1e-5):
                wrong.append(number)

    for _ in range(3):
        compiled(made(2, 16).requires_grad_()).square().sum().backward()
        settle_all(graphs)
    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
