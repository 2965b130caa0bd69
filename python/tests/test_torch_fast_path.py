"""The fast path from Python to dwell: calls that take it, and calls that stay PyTorch's."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")
import dwell.torch  # noqa: E402
from torch_support import DEVICE, outcome  # noqa: E402


@pytest.fixture(autouse=True)
def _collected() -> Iterator[None]:
    with dwell.torch.eager():
        if not torch.ops.dwell.has_fast_paths():
            pytest.skip("the extension was built without Python's headers")
        yield


def fast(call: Callable[[], Any]) -> int:
    """Counts the operations of a call that took the fast path."""
    before = dwell.torch.stats()["fast"]
    call()
    return int(dwell.torch.stats()["fast"] - before)


@pytest.fixture
def x() -> Any:
    return torch.linspace(0.25, 4, 16, device=DEVICE)


def calls(x: Any) -> dict[str, Callable[[], Any]]:
    """Returns calls by name, all for the fast path. Those that write use a copy."""
    y = x + 1
    return {
        "add": lambda: torch.add(x, y),
        "add of a factor": lambda: torch.add(x, y, alpha=2),
        "add of a number": lambda: torch.add(x, 2),
        "add with out": lambda: torch.add(x, y, out=y.new_empty(16)),
        "operators": lambda: x + y,
        "a number at the left": lambda: 2.0 * x,
        "an integer": lambda: x * 2,
        "a truth": lambda: x * True,
        "a number less x": lambda: 1 - x,
        "a comparison": lambda: x < y,
        "relu": lambda: torch.relu(x),
        "a method": lambda: x.sqrt(),
        "in place": lambda: copy.copy(y).mul_(x),
        "in place, bare": lambda: y.sigmoid_(),
        "addcmul": lambda: torch.addcmul(x, x, y, value=0.5),
        "a string": lambda: torch.nn.functional.gelu(x, approximate="tanh"),
        "a string that is left out": lambda: torch.nn.functional.gelu(x),
        "a string, or none": lambda: torch.div(x, y, rounding_mode="floor"),
        "a copy": lambda: torch.empty_like(x).copy_(y),
        "clamp": lambda: x.clamp(0, 1),
        "clamp by name": lambda: x.clamp(min=1),
        "where": lambda: torch.where(x < y, x, y),
        "sum": lambda: x.sum(0),
        "sum of dimensions": lambda: x.view(4, 4).sum((0, 1), keepdim=True),
        "linear": lambda: torch.nn.functional.linear(x.view(4, 4), y.view(4, 4), x[:4]),
        "linear without bias": lambda: torch.nn.functional.linear(x.view(2, 8), y.view(2, 8)),
        "matmul": lambda: x.view(4, 4) @ y.view(4, 4),
        "a vector's matmul": lambda: x.view(4, 4) @ y[:4],
        "softmax": lambda: torch.softmax(x.view(4, 4), -1),
        "log_softmax": lambda: torch.nn.functional.log_softmax(x.view(4, 4), dim=0),
        "product": lambda: torch.mm(x.view(4, 4), y.view(4, 4)),
    }


@pytest.mark.parametrize("name", calls(torch.zeros(16)))
def test_a_call_goes_straight_and_gives_the_dispatchers_result(name: str, x: Any) -> None:
    made: list[Any] = []
    assert fast(lambda: made.append(calls(x)[name]())) >= 1
    torch.ops.dwell.use_fast_paths(False)
    try:
        assert fast(lambda: made.append(calls(x)[name]())) == 0
    finally:
        torch.ops.dwell.use_fast_paths(True)
    straight, dispatched = made
    assert straight.dtype == dispatched.dtype
    assert torch.equal(straight, dispatched)


def test_functions_keep_their_identity(x: Any) -> None:
    assert torch.add.__name__ == "add"
    assert "alpha" in torch.add.__doc__
    assert torch.add is torch._C._VariableFunctions.add
    assert pickle.loads(pickle.dumps(torch.add)) is torch.add
    assert torch.Tensor.add_.__name__ == "add_"


def test_older_tables_of_functions_find_them() -> None:
    """Keeps the hash of functions: compilers have tables of them."""
    program = """
import torch
def all_of(owner, kind):
    return {getattr(owner, name): name for name in dir(owner) if type(getattr(owner, name)) is kind}
functions = all_of(torch, type(torch.add))
methods = all_of(torch.Tensor, type(torch.Tensor.add))
import dwell.torch
with dwell.torch.eager():
    assert (torch.ones(3) * 2).sum().item() == 6
assert all(function in functions for function in all_of(torch, type(torch.add)))
assert all(method in methods for method in all_of(torch.Tensor, type(torch.Tensor.add)))
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)


def test_in_place_returns_the_object_and_counts_the_version(x: Any) -> None:
    view = x[:8]
    version = x._version
    assert view.add_(1) is view
    assert view.relu_() is view
    assert torch.add(view, 1, out=view) is view
    assert x._version == version + 3


def test_a_tensor_saved_for_the_backward_pass_must_not_change(x: Any) -> None:
    w = torch.ones_like(x, requires_grad=True)
    y = w * x
    assert fast(lambda: x.add_(1)) == 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_gradients_take_the_dispatcher(x: Any) -> None:
    w = x.clone().requires_grad_()
    assert fast(lambda: torch.mul(w, x)) == 0
    assert torch.mul(w, x).requires_grad
    with torch.no_grad():
        assert fast(lambda: torch.mul(w, x)) == 1
        assert fast(lambda: w.mul_(0.5)) == 1
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        w.mul_(0.5)
    parameter = torch.nn.Parameter(x.clone())
    with torch.no_grad():
        assert fast(lambda: parameter.mul_(0.5)) == 1


def test_forward_gradients_take_the_dispatcher(x: Any) -> None:
    import torch.autograd.forward_ad as forward

    with torch.no_grad(), forward.dual_level():
        dual = forward.make_dual(x, torch.ones_like(x))
        assert fast(lambda: torch.mul(dual, x)) == 0
    with forward.dual_level():
        made = torch.mul(forward.make_dual(x, torch.ones_like(x)), 3.0)
        assert torch.equal(forward.unpack_dual(made).tangent, torch.full_like(x, 3))


def test_modes_take_the_dispatcher(x: Any) -> None:
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode

    seen: list[str] = []

    class Functions(TorchFunctionMode):
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(function.__name__)
            return function(*args, **(kwargs or {}))

    class Operations(TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(str(function))
            return function(*args, **(kwargs or {}))

    with Functions():
        torch.mul(x, x)
    with Operations():
        torch.mul(x, x)
    assert seen == ["mul", "aten.mul.Tensor"]


def test_inference_mode_takes_the_dispatcher(x: Any) -> None:
    with torch.inference_mode():
        assert fast(lambda: torch.mul(x, x)) == 0
        made = torch.mul(x, x)
        assert made.is_inference()
    assert fast(lambda: torch.mul(made, 2)) == 0  # an inference tensor counts no versions


def test_autocast_chooses_types(x: Any) -> None:
    with torch.autocast(x.device.type, dtype=torch.bfloat16):
        assert torch.mm(x.view(4, 4), x.view(4, 4)).dtype == torch.bfloat16


def test_vmap_and_traces_see_operations(x: Any) -> None:
    assert torch.equal(torch.func.vmap(lambda row: row * 2)(x.view(4, 4)), x.view(4, 4) * 2)
    traced = torch.jit.trace(lambda t: torch.mul(t, t) + 1, x)
    assert "aten::mul" in str(traced.graph)


def test_classes_of_tensors_take_their_own_way(x: Any) -> None:
    class Named(torch.Tensor):
        pass

    named = x.as_subclass(Named)
    assert fast(lambda: torch.mul(named, x)) == 0
    assert type(torch.mul(named, x)) is Named


def test_a_tensor_that_is_negative_by_a_bit_takes_the_dispatcher(x: Any) -> None:
    negative = torch.complex(x, x).conj().imag
    assert negative.is_neg()
    assert fast(lambda: torch.mul(negative, 2.0)) == 0
    assert (torch.mul(negative, 2.0) + x * 2.0).abs().max().item() == 0


def test_a_method_of_where_has_its_condition_behind_the_tensor() -> None:
    x, y, condition = (torch.tensor(values, device=DEVICE) for values in ([True, True, False], [False, False, True], [True, False, False]))
    assert x.where(condition, y).tolist() == [True, False, True]
    assert torch.where(condition, x, y).tolist() == [True, False, True]


def test_alpha_by_place_means_the_older_order(x: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert fast(lambda: torch.add(x, 2, x)) == 0
    straight = outcome(lambda: torch.sub(x, 2, 3))
    torch.ops.dwell.use_fast_paths(False)
    dispatched = outcome(lambda: torch.sub(x, 2, 3))
    torch.ops.dwell.use_fast_paths(True)
    assert type(straight) is type(dispatched)
    assert str(straight) == str(dispatched)


def test_a_profiler_sees_the_operations(x: Any) -> None:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        torch.mul(x, x)
    assert any(event.key == "aten::mul" for event in profile.key_averages())
    assert fast(lambda: torch.mul(x, x)) == 1


def test_compilers_see_pytorchs_functions(x: Any) -> None:
    from torch.fx.experimental.proxy_tensor import make_fx

    graph = make_fx(lambda t: torch.relu(t.mul(2)))(x).graph
    assert [node.target for node in graph.nodes if node.op == "call_function"] == [torch.ops.aten.mul.Tensor, torch.ops.aten.relu.default]
    assert torch.equal(torch.compile(lambda t: torch.add(t, 1), backend="eager", fullgraph=True)(x), x + 1)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: torch.add(x, x[:7]),
        lambda x: torch.add(x, "one"),
        lambda x: torch.add(x, x, beta=1),
        lambda x: torch.add(x, x, alpha="one"),
        lambda x: torch.relu(),
        lambda x: torch.mul(x, x, x, x, x, x, x, x),
        lambda x: x.mul_(torch.ones(2, 16, device=x.device)),
        lambda x: torch.add(x, 1 << 80),
        lambda x: x.sum(3),
        lambda x: x.sum((0, 0)),
        lambda x: x.relu_(1),
    ],
)
def test_errors_are_pytorchs(call: Callable[[Any], Any], x: Any) -> None:
    straight = outcome(lambda: call(x))
    torch.ops.dwell.use_fast_paths(False)
    try:
        dispatched = outcome(lambda: call(x))
    finally:
        torch.ops.dwell.use_fast_paths(True)
    assert isinstance(straight, Exception)
    assert (type(straight), str(straight)) == (type(dispatched), str(dispatched))


def test_arguments_may_have_names_and_other_kinds(x: Any) -> None:
    assert torch.equal(torch.add(input=x, other=x), x + x)
    assert torch.equal(x.add(other=x), x + x)
    assert torch.equal(x.add(torch.tensor(2.0)), x + 2)
    numpy = pytest.importorskip("numpy")
    assert torch.equal(x * numpy.float32(2), x * 2)
    whole = torch.arange(4, device=x.device)
    assert (whole * 2).dtype == torch.int64
    assert (whole * 2.0).dtype == torch.float32
    assert (whole * True).dtype == torch.int64
    assert torch.equal(whole.sum(dim=0), torch.tensor(6, device=x.device))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_host_numbers_are_computed_at_once(dtype: str, x: Any) -> None:
    """Optimizers count and read their steps this way: this must not flush collected operations."""
    count = torch.tensor(0, dtype=getattr(torch, dtype))
    dwell.torch.flush()
    x.mul_(2)
    before = dwell.torch.stats()
    for _ in range(3):
        count += 1
    count.add_(other=2)
    number = count.item()
    assert (number, type(number)) == (5, int if dtype == "int64" else float)
    assert count._version == 4
    after = dwell.torch.stats()
    assert after["taken"] == before["taken"]
    assert after["flushed"] == before["flushed"]
    assert after["fallback"] == before["fallback"]


def test_collected_host_numbers_keep_their_order() -> None:
    count = torch.tensor(1.5)
    count.mul_(4)  # collected on a CPU
    count += 1
    assert count.item() == 7
    other = torch.tensor([2, 3])
    other += 1
    assert other.tolist() == [3, 4]
    small = torch.tensor(250, dtype=torch.uint8)
    small += 3
    assert small.item() == 253
    truth = torch.tensor(True)
    assert truth.item() is True


def test_host_numbers_keep_their_rules() -> None:
    count = torch.tensor(3)
    with pytest.raises(RuntimeError, match="can't be cast"):
        count += 0.5
    with pytest.raises(RuntimeError, match="alpha"):
        count.add_(1, alpha=2.0)
    count.add_(1, alpha=2)
    assert count.item() == 5
    with pytest.raises(RuntimeError, match="cannot be converted to Scalar"):
        torch.ones(2).item()
    wanted = torch.tensor(1.0, requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf Variable"):
        wanted += 1
    assert wanted.item() == 1
    if DEVICE == "cpu":
        with dwell.torch.record() as recorded:
            count += 1
        assert count.item() == 5
        recorded().replay()
        assert count.item() == 6


def test_only_contexts_change_calls(x: Any) -> None:
    from threading import Thread

    counted: list[int] = []
    thread = Thread(target=lambda: counted.append(fast(lambda: torch.mul(x, x))))
    thread.start()
    thread.join()
    assert counted == [0]


def test_threads_that_share_a_collector_end() -> None:
    """Releases tensors under the collector's lock: releasing them takes the GIL."""
    from threading import Thread

    numpy = pytest.importorskip("numpy")

    def work() -> None:
        with dwell.torch.eager(capacity=16):
            a = torch.ones(8, device=DEVICE)
            for _ in range(2000):
                a = torch.add(a, 1).mul_(0.5)
                torch.add(torch.from_numpy(numpy.ones(8, dtype=numpy.float32)), 1)  # Python frees its memory
            assert torch.allclose(a, torch.ones_like(a))

    threads = [Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
