"""dwell.torch: numbers beside tensors, odd arguments, and types of given results, against PyTorch."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from test_torch_layouts import TABLE, aten, call, numbers, written_arguments
from torch_support import DEVICE, compare, copy_of, dt, made, outcome, outcomes, taken, tensors_in, torch

pytestmark = pytest.mark.filterwarnings("ignore")

_SHORT = [torch.float16, torch.bfloat16]
_TYPES = [
    torch.float32, torch.float64, *_SHORT, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool
]  # fmt: skip
# None is exact as a 16-bit float.
_NUMBERS = [0.1, -0.1, 1.1, -0.7, 1 / 3, 7.77, 2049]

Function = Callable[[Any, float], Any]
# Results depend on the precision of the number, on both of PyTorch's backends.
_OF_NUMBERS: dict[str, Function] = {
    "eq": lambda x, n: x == n,
    "ne": lambda x, n: x != n,
    "lt": lambda x, n: x < n,
    "le": lambda x, n: x <= n,
    "gt": lambda x, n: x > n,
    "ge": lambda x, n: x >= n,
    "remainder": lambda x, n: x % n,
    "remainder of a number": lambda x, n: n % x,
    "fmod": torch.fmod,
    "floor_divide": lambda x, n: x // n,
    "floor_divide of a number": lambda x, n: n // x,
    "div floor": lambda x, n: torch.div(x, n, rounding_mode="floor"),
    "div trunc": lambda x, n: torch.div(x, n, rounding_mode="trunc"),
    "add": lambda x, n: x + n,
    "sub": lambda x, n: x - n,
    "sub from a number": lambda x, n: n - x,
    "rsub": torch.rsub,
    "mul": lambda x, n: x * n,
    "in place": lambda x, n: x.clone().add_(n).mul_(n).sub_(n).remainder_(n),
    "threshold": lambda x, n: torch.nn.functional.threshold(x, n, 3 * n),
    "threshold_backward": lambda x, n: aten.threshold_backward(x.flip(0), x, n),
    "hardtanh_backward": lambda x, n: aten.hardtanh_backward(x.flip(0), x, -abs(n), abs(n)),
    "leaky_relu": torch.nn.functional.leaky_relu,
    "clamp": lambda x, n: x.clamp(-abs(n), abs(n)),
    "clamp_min": torch.clamp_min,
    "where": lambda x, n: torch.where(x > 0, x, n),
    "masked_fill": lambda x, n: x.masked_fill(x > 0, n),
    "gradient of clamp": lambda x, n: gradient(lambda t: t.clamp(min=n), x),
    "gradient of clamp_max": lambda x, n: gradient(lambda t: t.clamp_max(n), x),
}


def gradient(function: Callable[[Any], Any], x: Any) -> Any:
    at = x.detach().requires_grad_()
    return torch.autograd.grad(function(at).sum(), at)[0]


def check_all(runs: list[tuple[Any, Callable[[], Any]]]) -> None:
    """Runs all in one context: entering one takes longer than an operation."""
    expected = [outcome(run) for _, run in runs]
    with dt.eager():
        got = [outcome(run) for _, run in runs]
    for (what, _), one, other in zip(runs, expected, got, strict=True):
        compare(one, other, what)


def same(x: Any, y: Any) -> bool:
    return x.dtype == y.dtype and torch.equal(x.isnan(), y.isnan()) and torch.equal(x.nan_to_num(), y.nan_to_num())


@pytest.mark.parametrize("dtype", _SHORT)
@pytest.mark.parametrize("name", _OF_NUMBERS)
def test_digits_of_numbers_beside_16_bits(name: str, dtype: Any) -> None:
    torch.manual_seed(5)
    at = torch.cat([torch.randn(200) * 10, torch.tensor(_NUMBERS), torch.tensor([0.0, math.inf, -math.inf, math.nan])])
    for x in (at.to(DEVICE, dtype), at.to(DEVICE, dtype).repeat_interleave(2)[::2]):
        for number in _NUMBERS:
            expected, got = outcomes(lambda x=x, n=number: _OF_NUMBERS[name](x, n))
            assert same(expected, got), number


def test_numbers_are_rounded_to_the_tensors_type() -> None:
    h = torch.tensor([0.1], device=DEVICE).half()
    with dt.eager():
        before = taken()
        assert (h == 0.1).tolist() == [True]
        assert (torch.tensor([7.0], device=DEVICE).half() % 0.1).tolist() == [0.001708984375]
        assert taken() >= before + 2, "and the conversion"
        assert (0.1 // torch.tensor([-0.1], device=DEVICE).half()).tolist() == [-1]
        assert gradient(lambda x: x.clamp(min=0.1), h).tolist() == [1]


@pytest.mark.parametrize("dtype", _SHORT)
def test_digits_of_wider_tensors_beside_16_bits(dtype: Any) -> None:
    x = numbers(dtype, 40)
    wide = torch.tensor(1 / 3, device=DEVICE)
    whole = torch.arange(2030, 2070, device=DEVICE)
    calls: dict[str, Callable[[], Any]] = {
        "add": lambda: x + wide,
        "mul": lambda: x * wide,
        "mul of": lambda: wide * x,
        "div": lambda: x / wide,
        "div of": lambda: wide / x,
        "remainder": lambda: x % wide,
        "eq": lambda: x == wide,
        "add with alpha": lambda: torch.add(x, whole, alpha=2),
        "sub with alpha": lambda: torch.sub(x, wide, alpha=2),
        "addcmul": lambda: torch.addcmul(x, x, wide),
        "whole": lambda: [x + whole, x * whole, x / whole, x * whole[:1], whole[:1] * x],
    }
    for name, run in calls.items():
        expected, got = outcomes(run)
        for one, other in zip(tensors_in(expected), tensors_in(got), strict=True):
            if DEVICE == "cpu" or "div" not in name:
                assert same(one, other), name


def test_fractions_beside_whole_numbers_are_of_the_default_type() -> None:
    n = torch.arange(5, device=DEVICE)
    torch.set_default_dtype(torch.float64)
    try:
        for run in (lambda: n + 0.1, lambda: n * 0.1, lambda: n / 3, lambda: 0.1 - n, lambda: torch.where(n > 1, 0.1, n), lambda: n == 0.1):
            expected, got = outcomes(run)
            assert expected.dtype == got.dtype
            assert torch.equal(expected, got)
    finally:
        torch.set_default_dtype(torch.float32)


# ---- Numbers with special functions ------------------------------------------------------------------------------------------------------

_SPECIAL = [0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 0.5, -2.0, 3.0, 1e-40, 6e4, -1e30]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, *_SHORT])
def test_powers(dtype: Any) -> None:
    x = torch.tensor(_SPECIAL * 3, device=DEVICE).to(dtype)
    for power in (0.5, -0.5, -1, -2, 2, 3, 0, 1, 2.0, 0.1, 2.5, math.inf, -math.inf, math.nan, True):
        for run in (
            lambda n=power: x**n,
            lambda n=power: n**x,
            lambda n=power: x.clone().pow_(n),
            lambda n=power: x ** torch.full_like(x, n),
            lambda n=power: torch.pow(x[::2], n, out=torch.empty_like(x)[::2]),
        ):
            expected, got = outcomes(run)
            compare(expected, got, (dtype, power))
            assert torch.equal(expected.signbit(), got.signbit()) or expected.isnan().any(), (dtype, power)
    cubes = numbers(dtype, 300) * 1.3
    for power in (2, 3, -2):
        expected, got = outcomes(lambda n=power: cubes**n)
        assert same(expected, got), power


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, *_SHORT])
def test_nan_bounds(dtype: Any) -> None:
    x = torch.tensor(_SPECIAL, device=DEVICE).to(dtype)
    nothing = torch.full_like(x, math.nan)
    for run in (
        lambda: x.clamp(min=math.nan),
        lambda: x.clamp(max=math.nan),
        lambda: x.clamp(0, math.nan),
        lambda: x.clamp_min(math.nan),
        lambda: x.clamp_max(math.nan),
        lambda: x.clamp(nothing, x),
        lambda: x.clamp(x, nothing),
        lambda: x.clamp(max=nothing),
        lambda: torch.nn.functional.hardtanh(x, math.nan, 1),
        lambda: [f(x[:, None], x) for f in (torch.maximum, torch.minimum, torch.fmax, torch.fmin)],
    ):
        expected, got = outcomes(run)
        compare(expected, got, dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, *_SHORT])
def test_weights_between(dtype: Any) -> None:
    x, y = (made(2, 64) * 2 - 1).to(dtype)  # larger numbers cancel: their errors exceed the tolerance near 0
    # The difference rounds in f32: the result shows from which end it is interpolated.
    one, large = torch.ones(3, device=DEVICE), torch.full((3,), 2.0**25, device=DEVICE)
    for weight in (-3.0, -0.5, -0.4999, -0.1, 0.0, 0.4999, 0.5, 0.7, 1.0, 2.0, math.inf, math.nan):
        for given in (weight, torch.full_like(x, weight)):
            expected, got = outcomes(lambda w=given: torch.lerp(x, y, w))
            compare(expected, got, weight)
    for weight in (-0.5, -0.25):
        expected, got = outcomes(lambda w=weight: torch.lerp(one, large, w))
        assert same(expected, got), weight


# ---- Strides of results ------------------------------------------------------------------------------------------------------------------


def test_strides_follow_the_first_operand() -> None:
    rows, columns = made(3, 4), made(4, 3).t()
    ones = torch.empty_strided((3, 1), (1, 7), device=DEVICE).fill_(2)
    row = torch.empty_strided((1, 4), (9, 1), device=DEVICE).fill_(3)
    blocks = made(2, 3, 4).permute(2, 0, 1)
    for run in (
        lambda: torch.where(columns > 1, rows, rows),
        lambda: torch.where(rows > 1, columns, columns),
        lambda: torch.where(rows > 1, columns, 0.0),
        lambda: torch.where(columns > 1, 1.0, rows),
        lambda: torch.where(columns > 1, rows[0], columns[:, :1]),
        lambda: [rows + columns, columns + rows, ones + row, row + ones, ones * 2, ones + ones, row + rows, ones.t() + 1],
        lambda: [ones + blocks.new_ones(4, 3, 1), ones[None] + ones[:, None], ones.expand(3, 4) + row, row.expand(3, 4) + ones],
        lambda: [blocks + blocks[:1], blocks[:, :1] + blocks[:, :, :1], torch.where(blocks > 1, blocks[:1], 1.0)],
    ):
        expected, got = outcomes(run)
        compare(expected, got, "strides")


# ---- All operations, by their schemas ----------------------------------------------------------------------------------------------------


Runs = list[tuple[Any, Callable[[], Any]]]


def written(overload: Any, given: tuple[Any, ...], results: list[Any], wanted: Any) -> list[Any]:
    """Writes results to tensors of the type `wanted`, and returns them."""
    outs = [torch.zeros_like(result, dtype=wanted) for result in results]
    call(overload, copy_of(given), **dict(zip(written_arguments(overload), outs, strict=True)))
    return outs


@pytest.mark.parametrize("entry", TABLE)
def test_types_of_results_that_are_given(entry: str) -> None:
    """PyTorch's kernels refuse types that they do not convert."""
    name, arguments = TABLE[entry]
    packet = getattr(aten, name)
    runs: Runs = []
    for dtype in (torch.float32, torch.int32):
        x = numbers(dtype, 4, 6)
        try:
            given = arguments(x, x.flip(-1))
            results = list(tensors_in(call(packet, copy_of(given))))
        except (RuntimeError, NotImplementedError, IndexError):
            continue
        for overload in (getattr(packet, one) for one in packet.overloads()):
            if results and len(written_arguments(overload)) == len(results):
                runs += [((overload.name(), dtype, to), partial(written, overload, given, results, to)) for to in _TYPES]
    check_all(runs)


_ODD: dict[str, list[Any]] = {
    "number": [True, False, 0, 1, 1.0, -3, 2.5, 300, 70000, 2**40, 1e6, 1e300, math.nan, math.inf, -math.inf, 1j, 2**63, "asdf", None],
    "str": ["none", "tanh", "floor", "trunc", "asdf", "", "None", 1, None],
    "int": [0, 1, -1, 2, 5, -7, 2**40, True, 1.0, None],
    "float": [0.0, 0.3, -1.0, math.nan, math.inf, True, 1, None],
    "bool": [True, False, 1, None],
}


def kind_of(parameter: Any) -> str:
    if "dtype" in parameter.name:
        return "type"  # a number in schemas; PyTorch crashes on numbers of no type
    return str(parameter.type).removeprefix("Optional[").removesuffix("]").replace("Scalar", "number")


def with_argument(overload: Any, positional: tuple[Any, ...], keywords: dict[str, Any], at: int, odd: Any) -> Any:
    """Calls with another argument at position `at`."""
    by_place, named = list(copy_of(positional)), dict(keywords)
    if at < len(by_place):
        by_place[at] = odd
    else:
        named[overload._schema.arguments[at].name] = odd
    return overload(*by_place, **named)


@pytest.mark.parametrize("entry", TABLE)
def test_odd_arguments(entry: str) -> None:
    """Takes or refuses each non-tensor argument as PyTorch does."""
    name, arguments = TABLE[entry]
    packet = getattr(aten, name)
    runs: Runs = []
    for dtype in (torch.float32, torch.float16, torch.int8):
        x = numbers(dtype, 4, 6)
        try:
            given = arguments(x, x.flip(-1))
        except (RuntimeError, NotImplementedError):
            continue
        keywords = given[-1] if isinstance(given[-1], dict) else {}
        positional = given[: len(given) - bool(keywords)]
        for overload in (getattr(packet, one) for one in packet.overloads()):
            if written_arguments(overload) or not fits(overload, positional):
                continue
            for at, parameter in enumerate(overload._schema.arguments):
                for odd in _ODD.get(kind_of(parameter), ()):
                    what = (overload.name(), parameter.name, odd, dtype)
                    runs.append((what, partial(with_argument, overload, positional, keywords, at, odd)))
    check_all(runs)


def fits(overload: Any, positional: tuple[Any, ...]) -> bool:
    """Whether tensors are given exactly for tensor parameters."""
    parameters = overload._schema.arguments
    return len(positional) <= len(parameters) and all(
        isinstance(value, torch.Tensor) == (str(one.type) == "Tensor") for value, one in zip(positional, parameters, strict=False)
    )


def test_numbers_out_of_the_types_range() -> None:
    half, whole = made(8).half(), torch.arange(8, device=DEVICE, dtype=torch.int8)
    for run in (
        lambda: [made(8) + 2**63, made(8) * 2**63, made(8).clamp(max=2**63), made(8) > 2**63],
        lambda: half.clamp(max=1e6),
        lambda: half.clamp(-1e6, 1),
        lambda: half + 1e6,
        lambda: half * 70000,
        lambda: half == 1e6,
        lambda: half.masked_fill(half > 1, -1e9),
        lambda: half.fill_(1e5),
        lambda: made(8).clamp(max=1e300),
        lambda: made(8).fill_(1e300),
        lambda: half.bfloat16().clamp(max=1e39),
        lambda: whole.clone().fill_(300.5),
        lambda: whole.clone().fill_(math.nan),
        lambda: whole.clone().fill_(127.5),
        lambda: whole.clone().fill_(-3.7),
        lambda: whole.long().fill_(2.0**63),
    ):
        expected, got = outcomes(run)
        compare(expected, got, "a number")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("to", [torch.int8, torch.int16, torch.int32, torch.int64])
def test_nan_as_an_integer(dtype: Any, to: Any) -> None:
    """PyTorch's result depends on the device, and on CUDA on the types."""
    x = torch.tensor([math.nan, 1.5, -2.5], dtype=dtype, device=DEVICE)
    compare(*outcomes(lambda: x.to(to)), (dtype, to))


@pytest.mark.parametrize("elements", [1, 6, 8])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_rows_with_an_infinity_over_their_root_mean_square(dtype: Any, elements: int) -> None:
    """On CUDA PyTorch fills such a row with NaN, unless it reads elements by four."""
    x = torch.linspace(-2, 3, 3 * elements, dtype=dtype, device=DEVICE).view(3, elements)
    x[1, 0] = -math.inf
    compare(*outcomes(lambda: torch.nn.functional.rms_norm(x, (elements,))), (dtype, elements))


@pytest.mark.skipif(DEVICE != "cpu", reason="of PyTorch's kernels for a CPU")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_moments_that_overflow_are_those_of_pytorch(dtype: Any) -> None:
    """Expects NaN, infinities and zeros in the same places if sums or squares overflow."""
    large = torch.finfo(dtype).max * 0.9
    rows = [[math.inf], [1.0, math.inf], [-math.inf, math.inf], [large**0.6, -(large**0.6), large**0.9], [large, -large, 1.0], [1.0, large]]
    for row in rows:
        x = torch.tensor([row, [1.0] * len(row)], dtype=dtype)

        def normed(x: Any = x) -> Any:
            return torch.native_layer_norm(x, (x.shape[1],), None, None, 1e-5)

        if row[:1] != [large]:  # excludes a finite mean and deviation that PyTorch computes with an overflow
            compare(*outcomes(normed), ("layer norm", dtype, row))
        compare(*outcomes(lambda x=x: (x.var(1), x.std(1))), ("variance", dtype, row))  # type: ignore[misc]


@pytest.mark.skipif(DEVICE != "cpu", reason="of PyTorch's kernels for a CPU")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_four_terms_that_cancel_are_added_in_order(dtype: Any) -> None:
    x = torch.tensor([0.3635819, -0.4891775, 0.1365995, -0.0106411], dtype=dtype)
    for shaped in (x, x.view(4, 1), x.view(1, 4), x.view(4, 1).expand(4, 2).contiguous()):
        rows = shaped.reshape(-1, 4) if shaped.numel() == 4 else shaped.t()
        with dt.eager():
            sums = rows.sum(1)
        assert sums.equal(rows.sum(1)), shaped


@pytest.mark.parametrize("order", [0, 1, 2, 1e6, -1e6, 0.1, math.inf])
def test_norms_of_one_number_are_its_magnitude(order: float) -> None:
    """Takes no power, which may overflow."""
    x = torch.tensor([[-3e38], [7.02], [0.0]], device=DEVICE)
    for dims in (1, -1):
        compare(*outcomes(lambda dims=dims: torch.linalg.vector_norm(x, order, dim=dims)), order)  # type: ignore[misc]
    compare(*outcomes(lambda: torch.linalg.vector_norm(x[0, 0], order)), order)
