"""dwell.torch: training, the program's threads and those of the autograd engine."""

import _thread
import os
import queue
import threading
from typing import Any, ClassVar

import pytest
from torch_support import DEVICE, dt, fallbacks, made, outcomes, taken, torch

# ---- Training --------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("optimizer", ["SGD", "Adam", "AdamW", "RMSprop"])
def test_training_matches_pytorch(optimizer: str) -> None:
    def train() -> list[float]:
        torch.manual_seed(5)
        nn = torch.nn
        layers = [nn.Linear(8, 32), nn.Tanh(), nn.LayerNorm(32), nn.Linear(32, 16), nn.GELU(), nn.Linear(16, 3)]
        model = nn.Sequential(*layers).to(DEVICE, torch.float64)
        steps = getattr(torch.optim, optimizer)(model.parameters(), lr=0.01, foreach=False)
        x = torch.randn(32, 8, device=DEVICE, dtype=torch.float64)
        y = torch.randn(32, 3, device=DEVICE, dtype=torch.float64)
        losses = []
        for _ in range(12):
            steps.zero_grad()
            loss = torch.nn.functional.mse_loss(model(x), y)
            loss.backward()
            steps.step()
            losses.append(loss.detach())
        return [float(loss) for loss in losses]

    before = taken()
    expected, got = outcomes(train)
    assert taken() > before + 250
    assert got == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_model_without_sums_is_trained_bit_for_bit(dtype: Any) -> None:
    """Sums nothing: each element has its own parameter and loss, and each operation rounds once. Leaves out sqrt: PyTorch's is off by one
    unit at times."""

    def train() -> list[list[float]]:
        torch.manual_seed(5)
        x, y, *parameters = (torch.rand(16, 8, dtype=dtype).to(DEVICE) + 0.5 for _ in range(5))
        w, b, v = (parameter.requires_grad_() for parameter in parameters)
        losses = []
        for _ in range(12):
            hidden = torch.relu(w * x - b)
            loss = ((hidden + v / x).maximum(b) - y).abs()
            loss = loss * loss
            gradients = torch.autograd.grad(loss, (w, b, v), torch.ones_like(loss))
            with torch.no_grad():
                for parameter, gradient in zip((w, b, v), gradients, strict=True):
                    parameter.sub_(gradient.clamp(-1, 1).mul(0.01))
            losses.append(loss.detach())
        return [loss.flatten().tolist() for loss in losses]

    before = taken()
    expected, got = outcomes(train)
    assert taken() > before + 250
    assert got == expected
    assert len({max(losses) for losses in got}) == 12, "it learns"


def test_a_backward_pass_sees_what_was_collected() -> None:
    x = made(16).requires_grad_()
    with dt.eager():
        (x * x).exp().sum().backward()
        gradient = x.grad.tolist()
    assert gradient == pytest.approx((2 * x * (x * x).exp()).tolist(), rel=1e-5)


class Noting(torch.autograd.Function):
    """The identity; notes the thread of its backward pass."""

    threads: ClassVar[list[int]] = []

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
        Noting.threads.append(threading.get_ident())
        return gradients[0] * 2


def test_backward_passes_stay_in_their_thread() -> None:
    x = made(16).requires_grad_()
    Noting.threads.clear()
    with dt.eager():
        (Noting.apply(x) * 3).sum().backward()
    assert Noting.threads == [threading.get_ident()]
    assert torch.equal(x.grad, torch.full((16,), 6.0, device=DEVICE))


def test_backward_passes_outside_keep_their_threads() -> None:
    has_threads = torch._C._is_multithreading_enabled
    assert has_threads()
    with dt.eager():
        assert not has_threads()
        with dt.scheduler_context(auto_flush_ms=0):
            assert not has_threads()
        assert not has_threads()
        with torch.autograd.set_multithreading_enabled(True):
            assert has_threads()
        assert not has_threads()
    assert has_threads()
    with pytest.raises(ZeroDivisionError), dt.eager():
        raise ZeroDivisionError
    assert has_threads()
    with torch.autograd.set_multithreading_enabled(False):
        with dt.eager():
            assert not has_threads()
        assert not has_threads()
    assert has_threads()


# ---- Threads ---------------------------------------------------------------------------------------------------------------------------


def test_other_threads_see_results() -> None:
    given: queue.SimpleQueue = queue.SimpleQueue()
    seen: list[float] = []

    def consume() -> None:
        while (x := given.get()) is not None:
            seen.append(float(x.sum()))

    thread = threading.Thread(target=consume)
    with dt.eager():
        thread.start()
        for i in range(200):
            given.put(torch.full((16,), float(i), device=DEVICE) * 2 + 1)
        given.put(None)
        thread.join()
    assert seen == [16.0 * (2 * i + 1) for i in range(200)]


def test_a_flush_of_another_thread_is_waited_for() -> None:
    over = threading.Event()

    def flush_all_the_time() -> None:
        while not over.is_set():
            dt.flush()

    thread = threading.Thread(target=flush_all_the_time)
    with dt.eager():
        thread.start()
        try:
            for i in range(2000):
                x = torch.zeros(4096, device=DEVICE)
                x.add_(i).mul_(2)
                assert float(x[-1]) == 2 * i
        finally:
            over.set()
            thread.join()


def test_threads_have_contexts_of_their_own() -> None:
    results: dict[int, float] = {}

    def work(number: int) -> None:
        with dt.eager(capacity=50):
            x = torch.full((64,), float(number), device=DEVICE)
            for _ in range(300):
                x = x * 0.5 + number
            results[number] = float(x[0])

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {n: pytest.approx(2.0 * n) for n in range(6)}


@pytest.mark.skipif("DWELL_TORCH_KEY" in os.environ, reason="of the key")
def test_engine_threads_work_after_their_own_context() -> None:
    """Imitates an engine thread: not created by `threading`, with the dispatch keys of the thread that started the backward pass."""
    x = made(16)
    over = threading.Lock()
    over.acquire()
    results: list[Any] = []

    def work() -> None:
        with dt.eager():
            results.append(x + 1)
        before = taken()
        torch._C._dispatch_tls_set_dispatch_key_included("Fake", True)
        results.append(x * 2)
        results.append(taken() - before)
        dt.flush()
        over.release()

    _thread.start_new_thread(work, ())
    assert over.acquire(timeout=60)
    y, z, count = results
    assert torch.equal(y, x + 1)
    assert torch.equal(z, x * 2)
    assert count == 1


def test_a_hook_may_have_a_context_of_its_own() -> None:
    x = made(16).requires_grad_()

    def hook(gradient: Any) -> Any:
        with dt.eager():
            return gradient * 2

    for times in range(1, 4):
        with dt.eager():
            y = x * 3
            y.register_hook(hook)
            before = fallbacks()
            y.sum().backward()
        assert x.grad.tolist() == [6.0 * times] * 16
        names = {name for name, _ in fallbacks() - before}
        assert not names & {"aten::mul.Tensor", "aten::add_.Tensor", "aten::add.Tensor", "aten::fill_.Scalar"}, names
