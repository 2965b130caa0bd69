"""Every operation against PyTorch's own, on the samples of PyTorch's database of operations: values, types, strides and errors."""

import itertools
import os
import zlib
from collections.abc import Iterator
from typing import Any

import pytest
from torch_support import DEVICE, compare, dt, fallbacks, made, outcomes, taken, torch

pytest.importorskip("torch.testing._internal.common_methods_invocations")
import operation_comparison as comparison
import operation_database as database
from known_differences import sorted_out

_FLOATS = database.FLOATS
# Another seed chooses other cases.
_SEED = int(os.environ.get("DWELL_TORCH_DATABASE", "0"))
_CASES = 8
pytestmark = pytest.mark.filterwarnings("ignore")


def drawn(*what: object) -> int:
    return zlib.crc32(repr((*what, _SEED)).encode())


def some_cases(name: str) -> Iterator[database.Case]:
    """Yields cases of two types, and of errors."""
    types = database.types_of(name)
    kinds = [[t for t in types if t.is_floating_point], [t for t in types if not t.is_floating_point]]
    chosen = [min(kind, key=lambda t: drawn(name, t)) for kind in kinds if kind]
    for dtype in chosen:
        taken = database.is_taken(database.OPERATIONS[name], dtype)
        samples, most = (3, _CASES) if taken else (1, 2)
        cases = itertools.takewhile(lambda case, most=samples: case.sample < most, database.cases_of(name, dtype, taken))
        yield from sorted(cases, key=lambda case: drawn(str(case)))[:most]
    yield from itertools.islice(database.error_cases_of(name), 2)


@pytest.mark.parametrize("name", database.OPERATIONS)
def test_some_cases(name: str) -> None:
    """operation_run.py runs all cases."""
    found = []
    for case in some_cases(name):
        kind, detail = comparison.check(case)
        if kind not in ("", "unstable", "impossible"):
            found.append({"case": str(case), "kind": kind, "detail": detail})
    _, new = sorted_out(found, DEVICE)
    assert not new, "\n".join(f"{one['case']}: {one['detail']}" for one in new)


ACTIVATIONS = [
    torch.nn.functional.relu,
    torch.nn.functional.relu6,
    torch.nn.functional.leaky_relu,
    torch.nn.functional.elu,
    torch.nn.functional.celu,
    torch.nn.functional.selu,
    torch.nn.functional.gelu,
    torch.nn.functional.silu,
    torch.nn.functional.mish,
    torch.nn.functional.softplus,
    torch.nn.functional.hardswish,
    torch.nn.functional.hardsigmoid,
    torch.nn.functional.hardtanh,
]


def gradients_of_layers(x: Any, y: Any) -> Any:
    """Returns gradients through each activation and a normalisation of rows."""
    at, weight, bias = (t.detach().clone().requires_grad_() for t in (x - 1, y[0], y[1]))
    rows = torch.nn.functional.layer_norm(at, (16,), weight, bias)
    return torch.autograd.grad(sum(f(rows) for f in ACTIVATIONS), (at, weight, bias), y)


def norms_of(x: Any, y: Any) -> list[Any]:
    at, weight = x.detach().requires_grad_(), y[0].detach().requires_grad_()
    rows = torch.nn.functional.layer_norm(at, (16,), weight)
    return [rows, torch.nn.functional.rms_norm(x, (16,), y[1]), *torch.autograd.grad(rows, (at, weight), y)]


def results_given(x: Any) -> list[Any]:
    values, places, rows = x.new_empty(8), x.new_empty(8, dtype=torch.int64), torch.empty_like(x)
    truths = torch.empty(16, dtype=torch.bool, device=DEVICE)
    return [
        torch.sum(x, 1, out=torch.empty_like(values)),
        torch.mean(x, 1, out=torch.empty_like(values)),
        *torch.max(x, 1, out=(values, places)),
        torch.argmin(x, 1, out=torch.empty_like(places)),
        torch.any(x > 1, 0, out=truths),
        torch.cumsum(x, 1, out=rows),
        torch.softmax(x, 1, out=torch.empty_like(x)),
        torch.linalg.vector_norm(x, dim=1, out=torch.empty_like(values)),
        torch.std(x, dim=1, correction=0, out=torch.empty_like(values)),
    ]


def test_most_operations_are_taken() -> None:
    """No common operation falls back to PyTorch unseen."""
    x, y = made(2, 8, 16)
    n = (x * 5).int()
    calls = {
        "arithmetic": lambda: (x + y) * x - y / x + 2.0 - (1 - x) + x**2 + x.pow(y) + torch.sub(x, y, alpha=2),
        "broadcast": lambda: x + y[0] + y[:, :1] + y.t().contiguous().t(),
        "functions": lambda: x.exp() + x.log() + x.sqrt() + x.rsqrt() + x.sin() + x.tanh() + x.sigmoid() + torch.nn.functional.gelu(x),
        "clamp": lambda: x.clamp(0.6, 0.9) + x.clamp_min(0.7) + torch.nn.functional.leaky_relu(x) + torch.nn.functional.elu(x),
        "activations": lambda: sum(f(x - 1) for f in ACTIVATIONS) + x.clamp(0.01, 0.99).logit() + x.logit(0.1),
        "tensors as bounds": lambda: x.clamp(y * 0.5, y) + x.clamp_min(y) + x.clone().clamp_(max=y),
        "bits": lambda: ((x * 9).int() & (y * 9).int()).bitwise_or_((x * 5).int()).bitwise_xor_(3) & 6,
        "put together": lambda: [torch.cat([x, y, x + y], 1), torch.cat([x, y]), torch.stack([x, y], -1), torch.stack([x[0], y[1]])],
        "gradients": lambda: gradients_of_layers(x, y),
        "select": lambda: torch.where(x > y, x, y) + torch.maximum(x, y) + torch.lerp(x, y, 0.3),
        "in place": lambda: x.clone().add_(y, alpha=0.5).mul_(2).addcmul_(x, y, value=0.1).addcdiv_(x, y).sqrt_().neg_(),
        "fill": lambda: torch.zeros_like(x).fill_(3).add_(torch.ones_like(x)),
        "convert": lambda: x.half().float() + (x > 0.7).float() + x.double().float(),
        "reduce": lambda: x.sum() + x.mean(1).sum() + x.amax() + x.std() + x.norm() + x.argmax(1).float().sum(),
        "rows": lambda: x.softmax(-1) + x.log_softmax(0) + torch.nn.functional.layer_norm(x, (16,)) + x.cumsum(1),
        "integers": lambda: [n % 5 // 2 + torch.fmod(n, -3) + n**2, 2**n, n.pow(n), n.clone().floor_divide_(3), n.round() % 2.5],
        "shifts": lambda: [n << 1 >> 2, n >> n],
        "rounded": lambda: x.round(decimals=2) + x.mul(100).round(decimals=-1) + x.round(decimals=0),
        "triangles": lambda: [x.tril() + x.triu(-1), x.clone().tril_(2), torch.triu(x, out=torch.empty_like(x))],
        "strided rows": lambda: [x.t().sum(0), x[:, ::2].softmax(-1), x.expand(2, 8, 16).amax(0), x.t().max(0), torch.cat([x.t(), y.t()])],
        "16 bits": lambda: norms_of(x.half(), y.half()) + norms_of(x.bfloat16(), y.bfloat16()),
        "into": lambda: results_given(x),
        "products": lambda: (x @ y.t()) @ x + torch.nn.functional.linear(x, torch.eye(16, device=DEVICE), y[0]),
    }
    for name, computed in calls.items():
        before = fallbacks()
        expected, got = outcomes(computed)
        compare(expected, got, name, lambda: [t for dtype in _FLOATS[2:] for t in norms_of(*(v.to(dtype).double() for v in (x, y)))])
        fallback = fallbacks() - before
        assert {operation for operation, _ in fallback} <= {"aten::eye.m_out", "aten::eye"}, f"{name}: {fallback}"


def test_nothing_is_taken_outside() -> None:
    before = taken()
    torch.ones(3, device=DEVICE).add_(1)
    assert taken() == before


def test_fractions_are_true_beside_integers() -> None:
    i = torch.arange(4, device=DEVICE)
    calls = [
        lambda: ((i > 0) * 0.5).bool(),
        lambda: torch.where(i > 1, 0.5, 0.0).bool(),
        lambda: torch.sigmoid(i - 2).bool(),
        lambda: ((i > 0).float() * 0.25).bool(),
        lambda: (i == i).copy_(torch.tensor(0.5, device=DEVICE)),
        lambda: (i > 5).fill_(0.5),
        lambda: ((i > 0).half() * 0.5).bool(),
    ]
    expected = [call() for call in calls]
    with dt.eager():
        got = [call() for call in calls]
    for one, other in zip(got, expected, strict=True):
        assert one.tolist() == other.tolist()


def test_large_integers_are_as_they_are() -> None:
    for number in (2**53 + 1, 2**63 - 1, -(2**63), 2**24 + 1):
        with dt.eager():
            filled = torch.full((2,), number, device=DEVICE)
            changed = torch.zeros(2, dtype=torch.int64, device=DEVICE).fill_(number)
            copied = torch.zeros(2, dtype=torch.int64, device=DEVICE).copy_(torch.tensor(number))
        assert filled.tolist() == changed.tolist() == copied.tolist() == [number] * 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_intermediate_overflow_matches_the_backend(dtype: Any) -> None:
    x, y, z = (torch.tensor([1.0, float(value)], dtype=dtype, device=DEVICE) for value in (2, torch.finfo(dtype).max, 8))
    for call in (torch.addcdiv, torch.addcmul):
        expected, got = outcomes(lambda call=call: [call(x, y, z, value=value) for value in (4, 0.125, -3)])
        assert [t.tolist() for t in got] == [t.tolist() for t in expected]


def test_limits_of_logit_may_be_any_numbers() -> None:
    x = torch.tensor([0.0, 0.25, 0.5, 0.75, 1.0, float("nan"), float("inf"), -1.0], device=DEVICE)
    for eps in (0.1, 0.5, 0.75, 1.0, 2.0, float("nan"), float("inf")):
        expected, got = outcomes(lambda eps=eps: torch.logit(x, eps))
        assert torch.equal(got.nan_to_num(nan=7.0), expected.nan_to_num(nan=7.0)), eps
