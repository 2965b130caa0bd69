"""Lazy arrays: each operation against NumPy."""

import math
import operator

import dwell
import numpy as np
import pytest
from arrays_support import FLOATS, INTEGERS, TOLERANCE, check, layouts, of

# ---- Elements ----------------------------------------------------------------------------------------------------------------------

erf = np.vectorize(math.erf)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


UNARY = {  # on numbers between 0.1 and 0.9
    "abs": np.abs, "acos": np.arccos, "asin": np.arcsin, "asinh": np.arcsinh, "atan": np.arctan, "atanh": np.arctanh,
    "ceil": np.ceil, "cos": np.cos, "cosh": np.cosh, "erf": erf,
    "erfc": lambda x: 1 - erf(x), "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "floor": np.floor, "frac": lambda x: x - np.trunc(x),
    "gelu": lambda x: x * (1 + erf(x / np.sqrt(2))) / 2,
    "gelu_tanh": lambda x: x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
    "hardsigmoid": lambda x: np.clip(x / 6 + 0.5, 0, 1), "hardswish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "log": np.log, "log10": np.log10, "log1p": np.log1p, "log2": np.log2, "logit": lambda x: np.log(x / (1 - x)),
    "mish": lambda x: x * np.tanh(np.log1p(np.exp(x))), "negative": np.negative, "positive": np.positive,
    "reciprocal": lambda x: 1 / x, "relu": lambda x: np.maximum(x, 0),
    "round": np.round, "rsqrt": lambda x: 1 / np.sqrt(x), "selu": lambda x: 1.0507009873554805 * x, "sigmoid": sigmoid, "sign": np.sign,
    "silu": lambda x: x * sigmoid(x), "sin": np.sin, "sinh": np.sinh, "softsign": lambda x: x / (1 + np.abs(x)), "sqrt": np.sqrt,
    "square": np.square, "tan": np.tan, "tanh": np.tanh, "trunc": np.trunc, "elu": lambda x: x, "leaky_relu": lambda x: x,
    "softplus": lambda x: np.log1p(np.exp(x)),
}  # fmt: skip
BINARY = {
    "add": np.add, "atan2": np.arctan2, "clamp_max": np.minimum, "clamp_min": np.maximum, "divide": np.divide, "fmax": np.fmax,
    "fmin": np.fmin, "fmod": np.fmod, "hypot": np.hypot, "logaddexp": np.logaddexp, "maximum": np.maximum, "minimum": np.minimum,
    "multiply": np.multiply, "pow": np.power, "subtract": np.subtract, "trunc_divide": lambda x, y: np.trunc(x / y),
    "floor_divide": np.floor_divide, "remainder": np.remainder, "equal": np.equal, "not_equal": np.not_equal, "less": np.less,
    "less_equal": np.less_equal, "greater": np.greater, "greater_equal": np.greater_equal, "logical_and": np.logical_and,
    "logical_or": np.logical_or, "logical_xor": np.logical_xor,
}  # fmt: skip


@pytest.mark.parametrize("dtype", FLOATS)
def test_functions_of_floats(rt, dtype):
    rng = np.random.default_rng(1)
    tolerance = TOLERANCE[dtype]
    x = rng.uniform(0.1, 0.9, (5, 7)).astype(dtype)
    lazy = of(rt, x)
    results = {name: getattr(dwell, name)(lazy) for name in UNARY}  # all pending together: also tests their order
    for name, result in results.items():
        assert result.dtype == lazy.dtype, name
        check(result, UNARY[name](x.astype("f8")), tolerance)
    y = rng.uniform(1.1, 1.9, (7,)).astype(dtype)
    for name, expected in BINARY.items():
        check(getattr(dwell, name)(lazy, of(rt, y)), expected(x.astype("f8"), y.astype("f8")), 2 * tolerance)
    for one in (x - 0.5, np.array([np.nan, np.inf, -np.inf, 0], dtype)):
        for name in ("isnan", "isinf", "isfinite", "sign", "relu"):
            expected = np.maximum(one, 0) if name == "relu" else getattr(np, name)(one)
            seen = getattr(dwell, name)(of(rt, one)).numpy()
            keep = slice(None) if name != "sign" else ~np.isnan(one)
            np.testing.assert_array_equal(seen[keep], expected[keep])


@pytest.mark.parametrize("dtype", INTEGERS)
def test_functions_of_integers(rt, dtype):
    low = 0 if dtype == "uint8" else -50
    rng = np.random.default_rng(2)
    x, y = rng.integers(low, 60, (4, 6)).astype(dtype), rng.integers(1, 7, (4, 1)).astype(dtype)
    a, b = of(rt, x), of(rt, y)
    for name in ("add", "subtract", "multiply", "maximum", "minimum", "floor_divide", "remainder", "fmod", "bitwise_and", "bitwise_or"):
        check(getattr(dwell, name)(a, b), getattr(np, name)(x, y))
    check(a ^ b, x ^ y)
    check(~a, ~x)
    check(dwell.bitwise_left_shift(a, 1), x << 1)
    check(a >> 1, x >> 1)
    check(a / b, x / y, 1e-6)
    check(-a, -x)
    check(abs(a), abs(x))
    check(a == b, x == y)
    assert (a / b).dtype == dwell.ElementType.f32 and (a + b).dtype == a.dtype and (a < b).dtype == dwell.ElementType.boolean


def test_functions_of_bools(rt):
    x, y = np.array([True, True, False, False]), np.array([True, False, True, False])
    a, b = of(rt, x), of(rt, y)
    for made, expected in ((a & b, x & y), (a | b, x | y), (a ^ b, x ^ y), (~a, ~x), (dwell.logical_not(a), ~x)):
        check(made, expected)
    check(dwell.where(a, of(rt, [1.0, 2, 3, 4]), 0.0), np.where(x, [1, 2, 3, 4], 0))


def test_three_operands(rt):
    x = np.linspace(-2, 2, 9, dtype="f4")
    a = of(rt, x)
    check(dwell.clip(a, -1, 1), np.clip(x, -1, 1))
    check(dwell.clip(a, max=0.5), np.minimum(x, 0.5))
    check(dwell.clip(a, 0.5), np.maximum(x, 0.5))
    check(dwell.clamp(a, of(rt, x - 1), 0.0), np.clip(x, x - 1, 0))
    check(dwell.lerp(a, a * 2, 0.25), x * 1.25, 1e-6)
    check(dwell.threshold(a, 0.0, -7.0), np.where(x <= 0, -7, x))
    check(dwell.elu(a, 2.0), np.where(x > 0, x, 2 * np.expm1(x)), 1e-6)
    check(dwell.leaky_relu(a, 0.1), np.where(x > 0, x, 0.1 * x), 1e-6)
    check(dwell.softplus(a, 2.0), np.log1p(np.exp(2 * x)) / 2, 1e-6)


@pytest.mark.parametrize("dtype", ["float32", "int16", "bool"])
def test_layouts(rt, dtype):
    base = (np.arange(12).reshape(4, 3) * 5 % 7).astype(dtype)
    for left in layouts(base).values():
        for right in layouts(base[::-1]).values():
            check(of(rt, left) * of(rt, right), left * right)
            check(dwell.sum(of(rt, left), 0), left.sum(0))
            check(of(rt, left), left)


def test_operators_and_numbers(rt):
    x = np.arange(1, 7, dtype="f4")
    a = of(rt, x)
    check((2 - a) / 4 + 3 * a**2 - a // 2 + 7 % a, (2 - x) / 4 + 3 * x**2 - x // 2 + 7 % x, 1e-6)
    check(2.0**a, 2**x)
    check(x + a, x * 2)  # a NumPy array on the left
    check(a + rt.array(x), x * 2)
    check(np.float32(2) * a, x * 2)
    n = of(rt, np.arange(6))
    assert (n + 1).dtype == n.dtype and (n + 0.5).dtype == dwell.ElementType.f32 and (a + 1).dtype == a.dtype
    assert dwell.result_type(n, a) == dwell.ElementType.f32 and dwell.result_type(n, 1.0) == dwell.ElementType.f32
    check(1 << n, 1 << np.arange(6))
    check(n & 3 | 8, np.arange(6) & 3 | 8)


def test_in_place(rt):
    x = np.arange(6, dtype="f4")
    a = of(rt, x, copy=True)
    same, view = a, a[1:4]
    a += 1
    a *= a
    a -= view.sum()
    expected = (x + 1) ** 2
    expected -= expected[1:4].sum()
    assert same is a
    check(a, expected)
    check(view, expected[1:4])
    view /= 2
    expected[1:4] /= 2
    check(a, expected)
    lazy = a + 1
    lazy += 1
    assert lazy.lazy
    check(lazy, expected + 2)
    n = of(rt, np.arange(3))
    n **= 2
    n |= 8
    n <<= 1
    check(n, (np.arange(3) ** 2 | 8) << 1)
    with pytest.raises(dwell.InvalidArgument, match=r"divide in place: an array of int64 cannot hold a result of float32"):
        n /= 2
    with pytest.raises(dwell.InvalidArgument, match=r"shape \(3,\) cannot hold a result of shape \(2, 3\)"):
        n += of(rt, np.ones((2, 3), "i8"))


# ---- Whole arrays ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8"])
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2)])
def test_reductions(rt, dtype, axis):
    x = (np.random.default_rng(3).uniform(1, 3, (3, 4, 5)) * (1 if dtype[0] == "f" else 3)).astype(dtype)
    a, wide = of(rt, x), x.astype("f8")
    check(dwell.prod(of(rt, x[:2, :2, :3]), axis), wide[:2, :2, :3].prod(axis), 1.3e-6)
    for keep in (False, True):
        for name in ("sum", "mean", "max", "min", "any", "all", "var", "std"):
            check(getattr(dwell, name)(a, axis, keepdims=keep), getattr(np, name)(wide, axis=axis, keepdims=keep), 1.3e-6)
    check(a.std(axis, correction=1), wide.std(axis, ddof=1), 1.3e-6)
    check(dwell.vector_norm(a, axis=axis), np.sqrt((wide**2).sum(axis)), 1.3e-6)
    check(dwell.vector_norm(a, axis=axis, ord=math.inf), wide.max(axis), 1.3e-6)
    check(dwell.logsumexp(a, axis), np.log(np.exp(wide).sum(axis)), 1.3e-6)
    if not isinstance(axis, tuple):
        check(a.argmax(axis), x.argmax(axis))
        check(a.argmin(axis), x.argmin(axis))
    assert dwell.sum(a).dtype == (a.dtype if dtype[0] == "f" else dwell.ElementType.i64)
    check(a.sum(axis, dtype="float64"), wide.sum(axis), 1e-12 if dtype != "float32" else 1e-6)


def test_reductions_along_no_axis(rt):
    x = np.array([[-1.5, 2.0], [0.0, math.inf]], "f4")
    a = of(rt, x)
    for name in ("sum", "mean", "max", "any", "all"):
        check(getattr(dwell, name)(a, axis=()), getattr(np, name)(x, axis=()))
    check(dwell.vector_norm(a, axis=()), abs(x))
    for result in (dwell.var(a, axis=()), dwell.std(a, axis=())):
        assert result.tolist()[0] == [0.0, 0.0]
        assert result.tolist()[1][0] == 0.0
        assert math.isnan(result.tolist()[1][1]), "as NumPy has it"
    assert math.isnan(dwell.var(a, axis=(), correction=1).tolist()[0][0])


def test_normalisations(rt):
    x = np.random.default_rng(4).normal(size=(3, 8)).astype("f4")
    w, b = np.linspace(1, 2, 8, dtype="f4"), np.linspace(-1, 1, 8, dtype="f4")
    a = of(rt, x)
    e = np.exp(x - x.max(1, keepdims=True))
    check(dwell.softmax(a), e / e.sum(1, keepdims=True), 1e-5)
    check(dwell.log_softmax(a, 0), x - np.log(np.exp(x).sum(0)), 1e-5)
    check(dwell.cumulative_sum(a, 1), x.cumsum(1), 1e-5)
    assert dwell.cumulative_sum(of(rt, np.ones(3, "u1"))).tolist() == [1, 2, 3]
    normal = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
    check(dwell.layer_norm(a, 8, of(rt, w), of(rt, b)), normal * w + b, 1e-5)
    check(dwell.layer_norm(a, 8, bias=of(rt, b)), normal + b, 1e-5)
    check(dwell.rms_norm(a, (8,), w), x / np.sqrt((x**2).mean(1, keepdims=True) + 1e-5) * w, 1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_products(rt, dtype):
    rng = np.random.default_rng(5)
    for left, right in (((3, 4), (4, 5)), ((4,), (4, 5)), ((3, 4), (4,)), ((4,), (4,)), ((2, 1, 3, 4), (5, 4, 2))):
        x, y = rng.integers(-5, 5, left).astype(dtype), rng.integers(-5, 5, right).astype(dtype)
        check(of(rt, x) @ of(rt, y), x @ y)
    x, w = rng.integers(-5, 5, (3, 4)).astype(dtype), rng.integers(-5, 5, (6, 4)).astype(dtype)
    check(dwell.linear(of(rt, x), of(rt, w), of(rt, np.arange(6).astype(dtype))), x @ w.T + np.arange(6))
    check(dwell.outer(of(rt, x[0]), of(rt, w[0])), np.outer(x[0], w[0]))
    check(dwell.vecdot(of(rt, x), of(rt, w[0])), x @ w[0])
    check(of(rt, x) @ of(rt, w.astype("f8")).T, x @ w.T)


def test_selections(rt):
    x = np.arange(24, dtype="f4").reshape(4, 6)
    a = of(rt, x)
    index = np.array([3, 0, 0, 2])
    check(dwell.take(a, of(rt, index)), x[index])
    check(dwell.take(a, of(rt, index.astype("i4")), axis=-1), x[:, index])
    check(a[of(rt, index)], x[index])
    check(dwell.embedding(a, of(rt, index.reshape(2, 2))), x[index.reshape(2, 2)])
    along = np.array([[0, 5], [1, 1], [2, 0], [3, 4]])
    check(dwell.take_along_axis(a, of(rt, along)), np.take_along_axis(x, along, 1))
    added = x.copy()
    np.add.at(added, (np.arange(4)[:, None], along), 1)
    check(dwell.scatter_add(a, of(rt, along), of(rt, np.ones((4, 2), "f4")), axis=1), added)
    check(a, x)
    for k in (-1, 0, 2):
        check(dwell.tril(a, k=k), np.tril(x, k))
        check(dwell.triu(a, k=k), np.triu(x, k))


def test_failures_do_not_spread(rt):
    x = np.arange(24, dtype="f4").reshape(4, 6)
    a = of(rt, x)
    for wait in (lambda one: one.numpy(), lambda one: one.flush().wait()):
        missing = dwell.take(a, of(rt, np.array([0, 9])))
        with pytest.raises(dwell.TaskFailed):
            wait(missing)
        del missing
        again = [dwell.take(a, of(rt, np.array([i, 3]))) * 2 for i in range(4)]  # reuses its memory
        for i, one in enumerate(again):
            check(one, x[[i, 3]] * 2)


def test_concat_stack_and_repeat(rt):
    x, y = np.arange(6, dtype="f4").reshape(2, 3), np.arange(6).reshape(2, 3)
    a, b = of(rt, x), of(rt, y)
    check(dwell.concat([a, b]), np.concatenate([x, y]))
    check(dwell.concat([a * 2, b, a], axis=-1), np.concatenate([x * 2, y, x], 1))
    for axis in (0, 1, 2, -1):
        check(dwell.stack([a, b], axis=axis), np.stack([x, y], axis))
    assert dwell.stack([a, b]).dtype == dwell.ElementType.f32
    check(dwell.roll(a, 2), np.roll(x, 2))
    check(dwell.roll(a, -4, axis=1), np.roll(x, -4, 1))
    check(dwell.repeat(a, 3, axis=1), np.repeat(x, 3, 1))
    for seen, expected in zip(dwell.unstack(a, axis=1), x.T, strict=True):
        check(seen, expected)
    for seen, expected in zip(dwell.meshgrid(a[0], b[1]), np.meshgrid(x[0], y[1]), strict=True):
        check(seen, expected)


VIEWS = [
    np.s_[1], np.s_[-1, 2], np.s_[:, 1:], np.s_[::-1], np.s_[::2, ::-2], np.s_[3:0:-2, ..., 1], np.s_[..., None, 0], np.s_[None, 1:3],
    np.s_[5:], np.s_[()], np.s_[..., ::-1], np.s_[-2:, :, -3::2], np.s_[np.int64(1)],
]  # fmt: skip


@pytest.mark.parametrize("key", VIEWS, ids=str)
def test_indexing(rt, key):
    x = np.arange(60, dtype="i4").reshape(4, 3, 5)
    a = of(rt, x, copy=True)
    check(a[key], x[key])
    check((a * 2)[key], x[key] * 2)
    x = x.copy()
    a[key] = a[key] * 10
    x[key] = x[key] * 10
    check(a, x)
    a[key] = 1.75
    x[key] = 1
    check(a, x)


def test_views(rt):
    x = np.arange(24, dtype="f4").reshape(2, 3, 4)
    a = of(rt, x, copy=True)
    check(dwell.permute_dims(a, (2, 0, -2)), x.transpose(2, 0, 1))
    check(dwell.moveaxis(a, 0, -1), np.moveaxis(x, 0, -1))
    check(a.mT, x.swapaxes(1, 2))
    check(a[0].T, x[0].T)
    check(dwell.reshape(a, (4, -1)), x.reshape(4, -1))
    check(a.mT.reshape(-1), x.swapaxes(1, 2).reshape(-1))
    check(dwell.flip(a), np.flip(x))
    check(dwell.flip(a, (0, -1)), np.flip(x, (0, -1)))
    check(dwell.expand_dims(a, -1), x[..., None])
    check(dwell.squeeze(dwell.expand_dims(a, 1)), x)
    check(dwell.broadcast_to(a[0, 0], (2, 3, 4)), np.broadcast_to(x[0, 0], (2, 3, 4)))
    check(dwell.broadcast_arrays(a, a[0, 0, :1])[1], np.broadcast_to(x[0, 0, :1], x.shape))
    a.reshape(-1)[5] = -1  # a view of a view
    assert a[0, 1, 1].item() == -1
    assert [row.tolist() for row in a[0, :, 0]] == [0, 4, 8]
    assert len(a) == 2


def test_making(rt):
    assert dwell.zeros((2, 2), runtime=rt).tolist() == [[0, 0], [0, 0]]
    assert dwell.ones(3, dtype="uint8", runtime=rt).tolist() == [1, 1, 1]
    assert dwell.full((), 7, runtime=rt).item() == 7
    assert [dwell.full(1, v, runtime=rt).dtype.name for v in (True, 1, 1.0)] == ["boolean", "i64", "f32"]
    for given in ((5,), (2, 9, 3), (9, 2, -2), (3, 3)):
        check(dwell.arange(*given, runtime=rt), np.arange(*given))
    check(dwell.arange(0, 1, 0.25, runtime=rt), np.arange(0, 1, 0.25))
    check(dwell.linspace(-1, 1, 7, runtime=rt), np.linspace(-1, 1, 7), 1e-6)
    check(dwell.linspace(0, 1, 4, endpoint=False, runtime=rt), np.linspace(0, 1, 4, endpoint=False))
    check(dwell.eye(3, 4, k=1, runtime=rt), np.eye(3, 4, 1))
    a = dwell.full_like(dwell.ones((2, 3), dtype="int16", runtime=rt), 5)
    assert a.tolist() == [[5] * 3] * 2 and a.dtype == dwell.ElementType.i16
    assert dwell.empty_like(a).shape == (2, 3) and dwell.zeros_like(a).sum().item() == 0 and dwell.ones_like(a).sum().item() == 6
    assert dwell.asarray([1.5], runtime=rt).dtype == dwell.ElementType.f32
    assert dwell.asarray([[1, 2]], runtime=rt).dtype == dwell.ElementType.i64
    assert dwell.asarray(3, dtype="float64", runtime=rt).item() == 3
    assert dwell.astype(dwell.asarray([1.75, -2.5], runtime=rt), "int8").tolist() == [1, -2]
    half = dwell.asarray([1.0, 2.5], dtype="bfloat16", runtime=rt)
    assert half.dtype == dwell.ElementType.bf16 and (half * 2).astype("float32").tolist() == [2, 5]
    large = dwell.arange(200_000, dtype="float64", runtime=rt)
    assert large.sum().item() == 199_999 * 100_000


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("number", [0.1, -0.7, 1 / 3, 7.77, 2049, True])
def test_a_number_has_the_type_of_an_array_of_16_bits(rt, number):
    x = np.array([0.1, -0.7, 1 / 3, 7.0, -2.5, 100.0, 2048.0], "f2")
    a = of(rt, x)
    for operation in (
        operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge, operator.add, operator.sub, operator.mul,
        operator.truediv, operator.mod,
    ):  # fmt: skip
        np.testing.assert_array_equal(operation(a, number).numpy(), operation(x, number))
        np.testing.assert_array_equal(operation(number, a).numpy(), operation(number, x))
        np.testing.assert_array_equal(operation(a * 1, number).numpy(), operation(x, number))
    np.testing.assert_array_equal(dwell.where(a > 0, a, number).numpy(), np.where(x > 0, x, np.float16(number)))
    changed, expected = of(rt, x, copy=True), x.copy()
    changed *= number
    expected *= number
    np.testing.assert_array_equal(changed.numpy(), expected)
    assert (of(rt, np.float16([0.1])) == 0.1).tolist() == [True]
    assert (of(rt, [0.1], dtype="bfloat16") == 0.1).tolist() == [True]
    assert (0.1 // of(rt, np.float16([-0.1]))).tolist() == [-1]
