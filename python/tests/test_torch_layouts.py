"""dwell.torch: every taken operation against PyTorch's, for every type and layout of its tensors."""

import os
import re
from collections.abc import Callable
from typing import Any

import pytest
from torch.utils._python_dispatch import TorchDispatchMode
from torch_support import DEVICE, compare, outcomes, taken, tensors_in, torch

pytestmark = pytest.mark.filterwarnings("ignore")

_FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
_TYPES = [*_FLOATS, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool]

aten = torch.ops.aten


def numbers(dtype: Any, *sizes: int) -> Any:
    """Returns the same numbers each time: not 0, between -2 and 2 for floats, -8 and 8 for integers."""
    count = torch.Size(sizes).numel()
    steps = (torch.arange(count, device=DEVICE) * 7 + 3) % 17 - 8
    steps += (steps == 0) * 5
    if dtype == torch.bool:
        return (steps > 0).view(sizes)
    return (steps / 4 if dtype.is_floating_point else steps.abs() if dtype == torch.uint8 else steps).to(dtype).view(sizes)


LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "contiguous": lambda dtype: numbers(dtype, 4, 6),
    "strided": lambda dtype: numbers(dtype, 4, 12)[:, ::2],
    "transposed": lambda dtype: numbers(dtype, 6, 4).t(),
    "permuted": lambda dtype: numbers(dtype, 3, 4, 2).permute(2, 0, 1),
    "expanded": lambda dtype: numbers(dtype, 1, 6).expand(4, 6),
    "offset": lambda dtype: numbers(dtype, 30)[5:29].view(4, 6),
    "overlapping": lambda dtype: numbers(dtype, 9).as_strided((4, 6), (1, 1)),
    "empty": lambda dtype: numbers(dtype, 0, 6),
    "one element": lambda dtype: numbers(dtype),
}

# ---- The table: operations by PyTorch's names, and their arguments, made of two tensors --------------------------------------------------

Arguments = Callable[[Any, Any], tuple[Any, ...]]
_ONE = """
neg abs sign sgn relu floor ceil round trunc frac reciprocal sqrt rsqrt exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh
cosh tanh asinh acosh atanh erf erfc sigmoid silu mish hardsigmoid hardswish logical_not bitwise_not celu selu logit gelu elu leaky_relu
hardtanh softplus zero_ prod amax amin max min argmax argmin any all tril triu linalg_vector_norm
"""
_TWO = """
add sub rsub mul div floor_divide remainder fmod pow maximum minimum fmax fmin atan2 hypot eq ne lt le gt ge logical_and logical_or
logical_xor bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift __lshift__ __rshift__ __ilshift__ __irshift__
clamp_min clamp_max copy_ sigmoid_backward tanh_backward silu_backward mish_backward hardsigmoid_backward hardswish_backward logit_backward
"""
_WITH_NUMBER = """
floor_divide remainder fmod pow eq ne lt le gt ge bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift __lshift__
__rshift__ __ilshift__ __irshift__ clamp_min clamp_max add sub rsub mul div fill_
"""
_OF_NUMBER = "pow remainder bitwise_left_shift bitwise_right_shift"
_OTHERS: list[tuple[str, Arguments]] = [
    ("add", lambda x, y: (x, y, {"alpha": 2})),
    ("sub", lambda x, y: (x, y, {"alpha": 2})),
    ("rsub", lambda x, y: (x, 3, 2)),
    ("div", lambda x, y: (x, y, {"rounding_mode": "floor"})),
    ("div", lambda x, y: (x, 3, {"rounding_mode": "trunc"})),
    ("round", lambda x, y: (x, {"decimals": 1})),
    ("round", lambda x, y: (x, {"decimals": -1})),
    ("clamp", lambda x, y: (x, -1, 3)),
    ("clamp", lambda x, y: (x, y, None)),
    ("threshold", lambda x, y: (x, 1, 3)),
    ("gelu", lambda x, y: (x, {"approximate": "tanh"})),
    ("logit", lambda x, y: (x, 0.1)),
    ("lerp", lambda x, y: (x, y, 0.3)),
    ("lerp", lambda x, y: (x, y, x)),
    ("where", lambda x, y: (x > y, x, y)),
    ("masked_fill_", lambda x, y: (x, y > 0, 2.0)),
    ("addcmul", lambda x, y: (x, y, x, {"value": 2})),
    ("addcdiv", lambda x, y: (x, y, y, {"value": 2})),
    ("threshold_backward", lambda x, y: (x, y, 0.5)),
    ("gelu_backward", lambda x, y: (x, y)),
    ("gelu_backward", lambda x, y: (x, y, {"approximate": "tanh"})),
    ("leaky_relu_backward", lambda x, y: (x, y, 0.1, False)),
    ("hardtanh_backward", lambda x, y: (x, y, -1, 1)),
    ("softplus_backward", lambda x, y: (x, y, 1, 20)),
    ("elu_backward", lambda x, y: (x, 1, 1, 1, False, y)),
    ("logit_backward", lambda x, y: (x, y, 0.1)),
    ("sum", lambda x, y: (x, [-1])),
    ("sum", lambda x, y: (x, [0], True)),
    ("sum", lambda x, y: (x,)),
    ("mean", lambda x, y: (x, [0])),
    ("prod", lambda x, y: (x, -1)),
    ("amax", lambda x, y: (x, [0])),
    ("amin", lambda x, y: (x, [-1], True)),
    ("max", lambda x, y: (x, -1)),
    ("min", lambda x, y: (x, 0)),
    ("argmax", lambda x, y: (x, 0)),
    ("argmin", lambda x, y: (x, -1, True)),
    ("any", lambda x, y: (x, 0)),
    ("all", lambda x, y: (x, -1, True)),
    ("any", lambda x, y: (x, [0, -1])),
    ("all", lambda x, y: (x, [0])),
    ("var", lambda x, y: (x, [0], {"correction": 1})),
    ("std", lambda x, y: (x, [-1], {"correction": 0, "keepdim": True})),
    ("logsumexp", lambda x, y: (x, [0])),
    ("linalg_vector_norm", lambda x, y: (x, 2, [-1])),
    ("linalg_vector_norm", lambda x, y: (x, 1, [0], True)),
    ("_softmax", lambda x, y: (x, -1, False)),
    ("_softmax", lambda x, y: (x, 0, False)),
    ("_log_softmax", lambda x, y: (x, 0, False)),
    ("_softmax_backward_data", lambda x, y: (x, y, 0, x.dtype)),
    ("_log_softmax_backward_data", lambda x, y: (x, y, -1, x.dtype)),
    ("cumsum", lambda x, y: (x, 0)),
    ("cumsum", lambda x, y: (x, -1)),
    ("tril", lambda x, y: (x, 1)),
    ("triu", lambda x, y: (x, -1)),
    ("mse_loss", lambda x, y: (x, y)),
    ("mse_loss", lambda x, y: (x, y, 0)),
    ("mse_loss_backward", lambda x, y: (x.sum(), x, y, 1)),
    ("native_layer_norm", lambda x, y: (x, x.shape[-1:], y[0], None, 1e-5)),
    ("native_layer_norm_backward", lambda x, y: (x, y, y.shape[-1:], *statistics(y), None, None, [True, False, False])),
    ("cat", lambda x, y: ([x, y],)),
    ("cat", lambda x, y: ([x, y, x], -1)),
    ("stack", lambda x, y: ([x, y], 1)),
    ("mm", lambda x, y: (x, y.mT)),
    ("addmm", lambda x, y: (x[:, :4].clone(), x, y.mT, {"beta": 0.5})),
    ("bmm", lambda x, y: (x[None], y[None].mT)),
    ("baddbmm", lambda x, y: (x[None, :, :4].clone(), x[None], y[None].mT, {"alpha": 2})),
    ("mv", lambda x, y: (x, y[0])),
    ("dot", lambda x, y: (x[0], y[-1])),
]
TABLE: dict[str, tuple[str, Arguments]] = {}
for kind, names, arguments in [
    ("", _ONE, lambda x, y: (x,)),
    ("", _TWO, lambda x, y: (x, y)),
    (" by a number", _WITH_NUMBER, lambda x, y: (x, 3)),
    (" of a number", _OF_NUMBER, lambda x, y: (2, x)),
]:
    TABLE |= {f"{name}{kind}": (name, arguments) for name in names.split()}
TABLE |= {f"{name} {number}": (name, arguments) for number, (name, arguments) in enumerate(_OTHERS)}


def statistics(x: Any) -> Any:
    return aten.native_layer_norm(x, x.shape[-1:], None, None, 1e-5)[1:]


def call(operation: Any, arguments: tuple[Any, ...], **more: Any) -> Any:
    keywords = arguments[-1] if isinstance(arguments[-1], dict) else {}
    return operation(*arguments[: len(arguments) - bool(keywords)], **keywords, **more)


# PyTorch 2.13 writes results of these as if contiguous, some out of bounds.
_ONLY_BEHIND_EACH_OTHER = ("gelu", "_softmax", "_log_softmax", "tril", "triu")


def apart(name: str, result: Any) -> Any:
    """Returns non-contiguous memory for a result."""
    if result.dim() == 0 or name in _ONLY_BEHIND_EACH_OTHER:
        return torch.empty_like(result)
    return result.new_zeros(*result.shape[:-1], result.shape[-1] * 2)[..., ::2]


def written_arguments(overload: Any) -> list[str]:
    return [one.name for one in overload._schema.arguments if one.kwarg_only and one.alias_info is not None and one.alias_info.is_write]


def forms(name: str, arguments: Arguments, dtype: Any, layout: str, other: str) -> dict[str, Callable[[bool], Any]]:
    """Returns the forms of a call: by itself, in place, with given results. Each creates its tensors, in float64 if `wide`."""

    def given(wide: bool) -> tuple[Any, ...]:
        x = LAYOUTS[layout](dtype)
        y = x.flip(-1) if other == "contiguous" and x.dim() else LAYOUTS[layout](dtype)
        return arguments(*(t.double() if wide and t.is_floating_point() else t for t in (x, y)))

    def in_place(wide: bool) -> Any:
        all_given = given(wide)
        call(getattr(aten, f"{name}_"), all_given)
        return all_given[0]

    packet = getattr(aten, name)
    made: dict[str, Callable[[bool], Any]] = {"by itself": lambda wide: call(packet, given(wide))}
    try:
        results = {wide: list(tensors_in(call(packet, given(wide)))) for wide in (False, True)}
        first = given(False)[0]
    except (RuntimeError, NotImplementedError, IndexError):
        return made
    if hasattr(aten, f"{name}_") and isinstance(first, torch.Tensor):
        made["in place"] = in_place
    for overload_name in packet.overloads():
        if not re.search("out|grad_input|dim_max|dim_min", overload_name):
            continue
        overload = getattr(packet, overload_name)
        names = written_arguments(overload)
        if names and len(names) == len(results[False]):

            def written(wide: bool, overload: Any = overload, names: Any = names) -> Any:
                outs = [apart(packet.__name__, result) for result in results[wide]]
                return call(overload, given(wide), **dict(zip(names, outs, strict=True)))

            made[overload.name()] = written
    return made


@pytest.mark.parametrize("entry", TABLE)
def test_types_and_layouts(entry: str) -> None:
    name, arguments = TABLE[entry]
    before = taken()
    for dtype in _TYPES:
        for layout in LAYOUTS:
            for other in ("the same", "contiguous") if entry in _TWO.split() else ("the same",):
                for form, run in forms(name, arguments, dtype, layout, other).items():
                    expected, got = outcomes(lambda r=run: r(False))
                    compare(expected, got, (entry, form, dtype, layout, other), lambda r=run: r(True))
    assert taken() - before > len(_FLOATS), "it is not taken"


# PyTorch composes these of other operations under autograd.
_MADE_OF_OTHERS: dict[str, Arguments] = {
    "selu": lambda x, y: (x,),
    "selu_": lambda x, y: (x,),
    "_fused_rms_norm": lambda x, y: (x, x.shape[-1:], y[0], 1e-5),
}


@pytest.mark.parametrize("name", _MADE_OF_OTHERS)
@pytest.mark.parametrize("layout", ["contiguous", "strided", "transposed"])
def test_operations_whole_without_autograd(name: str, layout: str) -> None:
    with torch.inference_mode():
        for dtype in _FLOATS:
            run = forms(name, _MADE_OF_OTHERS[name], dtype, layout, "the same")["by itself"]
            before = taken()
            expected, got = outcomes(lambda r=run: r(False))
            compare(expected, got, (name, dtype, layout), lambda r=run: r(True))
            assert taken() > before


@pytest.mark.skipif("DWELL_TORCH_KEY" in os.environ, reason="of the key")
def test_the_table_has_every_operation_that_is_taken() -> None:
    class Seen(TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, types: Any, arguments: Any = (), keywords: Any = None) -> Any:
            names.add(function.name())
            return function(*arguments, **(keywords or {}))

    names: set[str] = set()
    with Seen():
        for name, arguments in TABLE.values():
            for dtype in (torch.float32, torch.int32):
                for run in forms(name, arguments, dtype, "contiguous", "the same").values():
                    outcomes(lambda r=run: r(False))
    key = re.compile(r"^Fake: registered at .*unboxed \]$", re.MULTILINE)  # others fall through
    all_names = [name for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::")]
    kept = {name for name in all_names if key.search(torch._C._dispatch_dump(name))}
    assert len(kept) > 300
    assert kept - names == {f"aten::{name}" for name in _MADE_OF_OTHERS}
