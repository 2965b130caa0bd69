"""Every operation against PyTorch's own, on the samples of PyTorch's database of operations: values, types, strides and errors."""

import itertools
import os
import random
import warnings
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
import pytest
from torch_support import DEVICE, compare, copy_of, dt, fallbacks, made, outcomes, taken, tensors_in, torch

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    database = pytest.importorskip("torch.testing._internal.common_methods_invocations").op_db

# Whole names, as patterns. Random numbers, decompositions, convolutions and the like: nothing is taken there, or two runs differ.
_LEFT_OUT = """
*attention* *dropout* *grid_sample* *pool* *unfold* *upsample* bernoulli cauchy cdist cholesky* empty* exponential fft.* geometric
geqrf histogram* istft jiterator* linalg.cholesky* linalg.cond linalg.det linalg.eig* linalg.householder_product linalg.inv*
linalg.ldl* linalg.lstsq linalg.lu* linalg.matrix_rank linalg.pinv linalg.qr linalg.slogdet linalg.solve* linalg.svd*
linalg.tensor* log_normal lu lu_* multinomial new_empty* nn.functional.conv* nn.functional.ctc_loss nn.functional.interpolate
nn.functional.rrelu normal ormqr pca_lowrank qr rand* resize_* signal.* sparse.* special.* stft svd* to_sparse triangular_solve
uniform
"""
# Writes out of bounds in PyTorch 2.13 where the batch of `out` is permuted.
_WITHOUT_OUT = ("tril", "triu")
# Leaves a permuted `out` as it was in PyTorch 2.13 on the CPU.
_WITHOUT_PERMUTED_OUT = ("nn.functional.gelu",)
# Reads its indices through a pointer, which only the call by attribute shows.
_BY_ATTRIBUTE = {"tensor_split": lambda *arguments, **keywords: torch.tensor_split(*arguments, **keywords)}
_FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
_TYPES = [*_FLOATS, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool]
_SAMPLES = int(os.environ.get("DWELL_TORCH_SAMPLES", "8"))

_OPERATIONS = [op for op in database if not any(fnmatchcase(op.name, pattern) for pattern in _LEFT_OUT.split())]
_NAMES = [f"{op.name}-{op.variant_test_name}" if op.variant_test_name else op.name for op in _OPERATIONS]
every_operation = pytest.mark.parametrize("op", _OPERATIONS, ids=_NAMES)
pytestmark = pytest.mark.filterwarnings("ignore")


def samples_of(op: Any, types: list[Any], most: int = _SAMPLES) -> Any:
    for dtype in types:
        if dtype not in op.supported_dtypes(DEVICE):
            continue
        # PyTorch's samples have numbers of all three.
        torch.manual_seed(1)
        random.seed(1)
        np.random.seed(1)
        # Not by op.sample_inputs, which looks through the stack of its callers for each sample.
        for sample in itertools.islice(op.sample_inputs_func(op, DEVICE, dtype, False), most):
            yield dtype, sample


def function_of(op: Any) -> Any:
    return _BY_ATTRIBUTE.get(op.name, op.op)


def call(op: Any, sample: Any, **more: Any) -> Any:
    return function_of(op)(copy_of(sample.input), *copy_of(tuple(sample.args)), **sample.kwargs, **more)


def widened(op: Any, sample: Any) -> Any:
    """The result with 64 bits."""

    def wide(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return value.double() if value.is_floating_point() else value
        if isinstance(value, torch.dtype):
            return torch.float64 if value.is_floating_point else value
        return type(value)(map(wide, value)) if isinstance(value, list | tuple) else value

    keywords = {name: wide(value) for name, value in sample.kwargs.items()}
    return function_of(op)(wide(sample.input), *wide(tuple(sample.args)), **keywords)


@every_operation
def test_results(op: Any) -> None:
    for dtype, sample in samples_of(op, _TYPES):
        expected, got = outcomes(lambda s=sample: call(op, s))
        compare(expected, got, (dtype, sample), lambda s=sample: widened(op, s))


@every_operation
def test_in_place(op: Any) -> None:
    if op.inplace_variant is None:
        pytest.skip("it has no such form")

    def change(sample: Any) -> Any:
        x = copy_of(sample.input)
        op.inplace_variant(x, *copy_of(tuple(sample.args)), **sample.kwargs)
        return x, x._version

    for dtype, sample in samples_of(op, [torch.float32, torch.float64, torch.int32, torch.bool]):
        if not isinstance(sample.input, torch.Tensor):
            continue
        expected, got = outcomes(lambda s=sample: change(s))
        if isinstance(expected, tuple) and isinstance(got, tuple):
            assert got[1] == expected[1], f"versions: {sample}"
        compare(expected, got, (dtype, sample))


@every_operation
def test_out(op: Any) -> None:
    if not op.supports_out or op.name in _WITHOUT_OUT:
        pytest.skip("it has no such form")

    def permuted(result: Any) -> Any:
        if result.dim() == 1:
            return torch.empty(result.numel() * 2, dtype=result.dtype, device=DEVICE)[::2]
        made = torch.empty(tuple(reversed(result.shape)), dtype=result.dtype, device=DEVICE)
        return made.permute(*reversed(range(result.dim())))

    for dtype, sample in samples_of(op, [torch.float32, torch.float64, torch.int32, torch.bool]):
        try:
            result = call(op, sample)
        except Exception:
            continue
        if not isinstance(result, torch.Tensor):
            continue
        for make in (torch.empty_like,) if op.name in _WITHOUT_PERMUTED_OUT else (torch.empty_like, permuted):

            def write(s: Any = sample, m: Any = make, r: Any = result) -> Any:
                out = m(r)
                call(op, s, out=out)
                return out

            expected, got = outcomes(write)
            compare(expected, got, (dtype, sample))


@every_operation
def test_gradients(op: Any) -> None:
    if not op.supports_autograd:
        pytest.skip("it has none")

    def gradients(sample: Any) -> Any:
        arguments = copy_of((sample.input, *sample.args), grad=True)
        results = [r for r in tensors_in(function_of(op)(*arguments, **sample.kwargs)) if r.is_floating_point() and r.requires_grad]
        inputs = [t for t in tensors_in(arguments) if t.requires_grad]
        if not results:
            return []
        ones = [torch.full_like(r, 0.7) for r in results]
        return [g for g in torch.autograd.grad(results, inputs, ones, allow_unused=True) if g is not None]

    for _, sample in samples_of(op, [torch.float64]):
        expected, got = outcomes(lambda s=sample: gradients(s))
        compare(expected, got, sample)


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
    """Through each activation, and a normalisation of rows."""
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
    """Of those that everyone uses, none goes to PyTorch unseen."""
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
