"""Every way of calling an operation, on the samples of PyTorch's database of operations: what dwell.torch does against PyTorch alone.

A `Case` is one call of one operation: a sample, and a way of calling it. `check` does it with PyTorch and then with dwell, on the same
device and from the same inputs, and returns how they differ. operation_run.py goes through all cases in processes of their own;
test_torch_operations.py through some.
"""

from __future__ import annotations

import itertools
import math
import random
import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch_support import DEVICE, dt, tensors_in, torch

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.testing._internal.common_methods_invocations import op_db

torch.set_warn_always(True)  # a warning that comes once would come to PyTorch's call only

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
TYPES = (*FLOATS, *INTEGERS, torch.bool)
NUMBERS: tuple[Any, ...] = (0.1, -0.1, 7, -3, 0, True, 2.5, 1e6, 70000, 2**40, math.inf, math.nan, -0.0, 1e-8, -0.5)

# What is in memory that nobody has written.
_UNWRITTEN = frozenset(
    ("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided", "resize_", "resize_as_")
)
# Their kernels stop the device at numbers out of range.
_STOPS_AT = frozenset(("nn.functional.binary_cross_entropy", "multinomial", "bernoulli"))
# In PyTorch 2.13 they write out of the bounds of an `out` whose rows do not lie behind each other.
_OVERRUN = frozenset(("tril", "triu", "narrow_copy"))
# In PyTorch 2.13 they leave an `out` that is strided as it was, on a CPU.
_LEFT_AS_IT_WAS = frozenset(("nn.functional.gelu",))
# Reads its indices through a pointer, which only the call by attribute shows.
_BY_ATTRIBUTE = {"tensor_split": lambda *arguments, **keywords: torch.tensor_split(*arguments, **keywords)}


def name_of(op: Any) -> str:
    return f"{op.name}-{op.variant_test_name}" if op.variant_test_name else op.name


OPERATIONS = {name_of(op): op for op in op_db}


# ---- Inputs ---------------------------------------------------------------------------------------------------------------------------

Change = Callable[[Any], Any]


def same(tensor: Any) -> Any:
    return tensor


class Copier:
    """Copies trees of arguments, with tensors of their own: as many storages as there were, laid out as they were."""

    def __init__(self, change: Change = same, *, grad: bool = False):
        self._change = change
        self._grad = grad
        self._storages: dict[int, Any] = {}
        self.tensors: list[Any] = []

    def __call__(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*map(self, value))
        if isinstance(value, list | tuple):
            return type(value)(map(self, value))
        if isinstance(value, dict):
            return {name: self(one) for name, one in value.items()}
        if isinstance(value, torch.dtype) and self._change is not same:
            return self._change(torch.empty(0, dtype=value)).dtype
        return value

    def _tensor(self, tensor: Any) -> Any:
        copy = self._laid_out(tensor.detach())
        if self._change is not same:
            copy = self._change(copy)
        if self._grad and (copy.is_floating_point() or copy.is_complex()):
            copy = copy.requires_grad_()
        self.tensors.append(copy)
        return copy

    def _laid_out(self, tensor: Any) -> Any:
        if tensor.layout != torch.strided or type(tensor) is not torch.Tensor or tensor.is_neg() or tensor.is_conj():
            return tensor.clone()
        storage = tensor.untyped_storage()
        if storage.nbytes() > 1 << 20 and storage.nbytes() > 4 * tensor.nbytes:
            return tensor.clone()
        if storage._cdata not in self._storages:
            self._storages[storage._cdata] = storage.clone()
        made = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
        return made.set_(self._storages[storage._cdata], tensor.storage_offset(), tensor.shape, tensor.stride())


def whole(tensor: Any) -> Any:
    """All that lies in its storage."""
    storage = tensor.untyped_storage()
    return torch.empty(0, dtype=tensor.dtype, device=tensor.device).set_(storage, 0, (storage.nbytes() // tensor.element_size(),))


def transposed(tensor: Any) -> Any:
    if tensor.dim() < 2:
        return stepped(tensor)
    made = torch.empty(tuple(reversed(tensor.shape)), dtype=tensor.dtype, device=tensor.device)
    return made.permute(*reversed(range(tensor.dim()))).copy_(tensor)


def stepped(tensor: Any) -> Any:
    """Every second element, from the second on, of memory that is otherwise full of ones."""
    if tensor.dim() == 0:
        return torch.ones(3, dtype=tensor.dtype, device=tensor.device)[1].copy_(tensor)
    base = torch.ones((*tensor.shape[:-1], 2 * tensor.shape[-1] + 1), dtype=tensor.dtype, device=tensor.device)
    return base[..., 1::2].copy_(tensor)


def shifted(tensor: Any) -> Any:
    """Not where memory is aligned."""
    return torch.ones(tensor.numel() + 5, dtype=tensor.dtype, device=tensor.device)[3 : tensor.numel() + 3].view(tensor.shape).copy_(tensor)


def expanded(tensor: Any) -> Any:
    """Its first row, again and again."""
    if tensor.dim() == 0 or tensor.shape[0] == 0:
        return tensor
    return tensor[:1].clone().expand(tensor.shape)


def lasting(tensor: Any) -> Any:
    """Its last column, again and again."""
    if tensor.dim() < 2 or tensor.shape[-1] == 0:
        return expanded(tensor)
    return tensor[..., -1:].clone().expand(tensor.shape)


def overlapped(tensor: Any) -> Any:
    """Rows that share elements with the next ones."""
    if tensor.dim() == 0 or tensor.numel() == 0:
        return tensor
    flat = tensor.clone(memory_format=torch.contiguous_format)
    return flat.as_strided(tensor.shape, (1,) * tensor.dim())


LAYOUTS = {f.__name__: f for f in (transposed, stepped, shifted, expanded, lasting, overlapped)}


def strided(change: Change) -> Change:
    return lambda t: change(t) if t.layout == torch.strided and t.numel() != 0 else t


def every_second(change: Change) -> Change:
    """Of the tensors of a call."""
    count = itertools.count()
    return lambda t: change(t) if next(count) % 2 else t


def special_of(dtype: Any) -> list[Any]:
    if dtype.is_floating_point:
        info = torch.finfo(dtype)
        finite = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, -7.0, info.max, info.min, info.tiny, info.tiny * info.eps]
        return [*finite, -info.tiny / 2, math.inf, -math.inf, math.nan, 1 + info.eps, 0.1, 100.0, -1000.0]
    if dtype == torch.bool:
        return [False, True]
    info = torch.iinfo(dtype)
    return [0, 1, 2, 3, info.max, info.max - 1, info.min, info.min + 1, 7, 100, *([-1, -2, -3, -7] if info.min < 0 else [])]


def special(dtype: Any, seed: int) -> Change:
    """Fills tensors of that type with special values, in another order for each."""
    values, drawn = special_of(dtype), random.Random(seed)

    def fill(tensor: Any) -> Any:
        if tensor.dtype != dtype or tensor.layout != torch.strided:
            return tensor
        chosen = [drawn.choice(values) for _ in range(tensor.numel())]
        # Laid out as it is, unless elements share memory.
        target = tensor if torch._debug_has_internal_overlap(tensor) != 1 else tensor.clone()
        return target.copy_(torch.tensor(chosen, dtype=dtype).view(tensor.shape))

    return fill


# ---- Calls ----------------------------------------------------------------------------------------------------------------------------


@dataclass
class Attempt:
    """A call that is ready, with inputs of its own."""

    call: Callable[[], Any]
    inputs: list[Any] = field(default_factory=list)
    written: list[Any] = field(default_factory=list)  # whose contents afterwards count, with all that lies around them


Prepare = Callable[[Change], Attempt]


@dataclass
class Case:
    operation: str
    dtype: str
    way: str
    sample: int
    prepare: Prepare

    def __str__(self) -> str:
        return f"{self.operation} {self.dtype} {self.way} {self.sample}"


@dataclass
class Sample:
    """One of the database's, with what calls it."""

    op: Any
    dtype: Any
    number: int
    input: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def function(self) -> Any:
        return _BY_ATTRIBUTE.get(self.op.name, self.op.op)

    def copied(self, change: Change, **options: Any) -> tuple[tuple[Any, ...], dict[str, Any], Copier]:
        copier = Copier(change, **options)
        return copier((self.input, *self.args)), copier(self.kwargs), copier

    def with_input(self, number: int, value: Any) -> Sample:
        values = [self.input, *self.args]
        values[number] = value
        return Sample(self.op, self.dtype, self.number, values[0], tuple(values[1:]), self.kwargs)


def prepare_call(sample: Sample, function: Any = None, laid_out: Callable[[], Change] | None = None) -> Prepare:
    def prepare(change: Change) -> Attempt:
        arrange = laid_out() if laid_out is not None else same
        arguments, keywords, copier = sample.copied(same if change is same and arrange is same else lambda t: arrange(change(t)))
        called = function or sample.function()
        return Attempt(lambda: called(*arguments, **keywords), copier.tensors)

    return prepare


def prepare_in_place(sample: Sample, layout: Change = same) -> Prepare:
    def prepare(change: Change) -> Attempt:
        arguments, keywords, copier = sample.copied(change)
        x, rest = layout(arguments[0]), arguments[1:]

        def call() -> Any:
            return sample.op.inplace_variant(x, *rest, **keywords) is x

        return Attempt(call, [x, *copier.tensors], [x])

    return prepare


def prepare_out(sample: Sample, results: Any, make: Callable[[Any, list[Any]], Any], change_type: Change = same) -> Prepare:
    """`results`: those of the call, of which `make` makes what they are written to, given a result and the inputs."""

    def prepare(change: Change) -> Attempt:
        arguments, keywords, copier = sample.copied(change)
        made = [make(change_type(change(one)), copier.tensors) for one in tensors_in(results)]
        out = made[0] if isinstance(results, torch.Tensor) else tuple(made)

        def call() -> Any:
            got = sample.function()(*arguments, **keywords, out=out)
            return [x is y for x, y in zip(tensors_in(got), made, strict=True)]

        return Attempt(call, [*made, *copier.tensors], made)

    return prepare


def prepare_gradients(sample: Sample, *, twice: bool = False, layout: Callable[[], Change] | None = None) -> Prepare:
    def prepare(change: Change) -> Attempt:
        arrange = layout() if layout is not None else same
        arguments, keywords, copier = sample.copied(lambda t: arrange(change(t)), grad=True)
        inputs = [t for t in copier.tensors if t.requires_grad]

        def call() -> Any:
            made = sample.function()(*arguments, **keywords)
            if sample.op.output_process_fn_grad is not None:
                made = sample.op.output_process_fn_grad(made)
            results = [r for r in tensors_in(made) if r.requires_grad]
            if not results or not inputs:
                return []
            weights = [weights_like(r) for r in results]
            gradients = torch.autograd.grad(results, inputs, weights, allow_unused=True, create_graph=twice)
            if not twice:
                return [r.detach() for r in results], list(gradients)
            firsts = [g for g in gradients if g is not None and g.requires_grad]
            if not firsts:
                return []
            return list(torch.autograd.grad(firsts, inputs, [weights_like(g) for g in firsts], allow_unused=True))

        return Attempt(call, copier.tensors)

    return prepare


def weights_like(result: Any) -> Any:
    """Gradients that are not all the same, made the same each time."""
    if result.layout != torch.strided:
        return torch.ones_like(result)
    steps = torch.arange(result.numel(), dtype=torch.float64) % 7 * 0.25 - 0.6
    return steps.view(result.shape).to(result.device, result.dtype)


# ---- Ways -----------------------------------------------------------------------------------------------------------------------------


def samples_of(op: Any, dtype: Any, device: str = DEVICE) -> Iterator[Sample]:
    """The database's samples, the same each time."""
    torch.manual_seed(1)
    random.seed(1)
    np.random.seed(1)
    # Not by op.sample_inputs, which looks through the stack of its callers for each sample.
    for number, sample in enumerate(op.sample_inputs_func(op, device, dtype, False)):
        yield Sample(op, dtype, number, sample.input, tuple(sample.args), dict(sample.kwargs))


def results_of(sample: Sample) -> Any:
    """Of PyTorch, None where it refuses."""
    try:
        torch.manual_seed(5)
        arguments, keywords, _ = sample.copied(same)
        return sample.function()(*arguments, **keywords)
    except Exception:
        return None


def is_taken(op: Any, dtype: Any) -> bool:
    """Whether dwell takes any part of it, at this type."""
    before = dt.stats()["taken"]
    for sample in itertools.islice(samples_of(op, dtype), 3):
        attempt = prepare_call(sample)(same)
        with dt.eager():
            try:
                attempt.call()
            except Exception:
                continue
    return dt.stats()["taken"] != before


def other_type(dtype: Any) -> list[Any]:
    if dtype.is_complex:
        return [torch.float32]
    if dtype == torch.bool:
        return [torch.int32, torch.float32]
    return [torch.float64, torch.int32] if dtype == torch.float32 else [torch.float32, torch.int64 if dtype != torch.int64 else torch.int8]


def result_ways(sample: Sample) -> Iterator[tuple[str, Prepare]]:
    """`out=`, into what is right, of another type, of another size, and into what it reads."""
    if not sample.op.supports_out or "out" in sample.kwargs:
        return
    results = results_of(sample)
    if not isinstance(results, torch.Tensor | tuple) or not all(isinstance(r, torch.Tensor) for r in tensors_in(results)):
        return
    if any(r.layout != torch.strided for r in tensors_in(results)):
        return
    results = [r.detach() for r in tensors_in(results)] if isinstance(results, tuple) else results.detach()

    def like(result: Any, _: Any) -> Any:
        return torch.ones_like(result)

    def permuted(result: Any, _: Any) -> Any:
        return transposed(torch.ones_like(result))

    def gap(result: Any, _: Any) -> Any:
        return stepped(torch.ones_like(result))

    def empty(result: Any, _: Any) -> Any:
        return torch.empty(0, dtype=result.dtype, device=result.device)

    def larger(result: Any, _: Any) -> Any:
        return torch.ones((2, *result.shape), dtype=result.dtype, device=result.device)

    def smaller(result: Any, _: Any) -> Any:
        return torch.ones(max(result.numel() - 1, 1), dtype=result.dtype, device=result.device)

    def shared(result: Any, inputs: list[Any]) -> Any:
        return next((x for x in inputs if x.shape == result.shape and x.dtype == result.dtype), torch.ones_like(result))

    def overlapping(result: Any, inputs: list[Any]) -> Any:
        for x in inputs:
            if x.dtype == result.dtype and 1 < result.numel() == x.numel() and x.is_contiguous():
                base = torch.ones(x.numel() + 1, dtype=x.dtype, device=x.device)
                base[: x.numel()] = x.reshape(-1)
                x.set_(base.untyped_storage(), 0, x.shape, x.stride())
                return base[1:].view(result.shape)
        return torch.ones_like(result)

    def repeated(result: Any, _: Any) -> Any:
        return expanded(torch.ones_like(result))

    given = {x.dtype for x in tensors_in((sample.input, sample.args))}
    makes = (like, permuted, gap, empty, larger, smaller, shared, overlapping, repeated)
    for make in makes:
        if sample.op.name in _OVERRUN and make in (permuted, gap, repeated, overlapping):
            continue
        if sample.op.name in _LEFT_AS_IT_WAS and make in (permuted, gap):
            continue
        if make in (shared, overlapping) and not given & {r.dtype for r in tensors_in(results)}:
            continue
        yield f"out {make.__name__}", prepare_out(sample, results, make)
    first = next(tensors_in(results), None)
    if first is not None:
        for dtype in other_type(first.dtype):
            name = str(dtype).removeprefix("torch.")
            yield f"out as {name}", prepare_out(sample, results, like, lambda t, d=dtype: t.to(d))


def is_number(value: Any) -> bool:
    return isinstance(value, bool | int | float)


def number_ways(sample: Sample) -> Iterator[tuple[str, Prepare]]:
    """A number of Python's where the sample has a tensor, and others where it has a number."""
    if sample.args and isinstance(sample.args[0], torch.Tensor):
        for number in NUMBERS:
            changed = sample.with_input(1, number)
            yield f"number {number}", prepare_call(changed)
            if sample.op.inplace_variant is not None and isinstance(sample.input, torch.Tensor) and not isinstance(number, bool):
                yield f"in place, number {number}", prepare_in_place(changed)
        for number in (0.1, -3, True):
            yield f"number {number} first", prepare_call(sample.with_input(0, number))
    for at, value in enumerate(sample.args):
        if is_number(value):
            for number in (0.1, -0.5, 2, -3, True, math.nan, 1e6):
                yield f"argument {at} {number}", prepare_call(sample.with_input(at + 1, number))
    for name, value in sample.kwargs.items():
        if is_number(value):
            for number in (0.1, -0.5, 2, -3, True, math.nan, 1e6):
                keywords = {**sample.kwargs, name: number}
                changed = Sample(sample.op, sample.dtype, sample.number, sample.input, sample.args, keywords)
                yield f"{name}={number}", prepare_call(changed)


def type_ways(sample: Sample) -> Iterator[tuple[str, Prepare]]:
    """Tensors of two types, the second one with dimensions or without."""
    if not sample.args or not isinstance(sample.args[0], torch.Tensor) or not isinstance(sample.input, torch.Tensor):
        return
    other = sample.args[0]
    if other.layout != torch.strided or other.dtype.is_complex:
        return
    for dtype in TYPES:
        if dtype == other.dtype:
            continue
        name = str(dtype).removeprefix("torch.")
        yield f"beside {name}", prepare_call(sample.with_input(1, other.to(dtype)))
        if other.numel() != 0:
            yield f"beside one {name}", prepare_call(sample.with_input(1, other.reshape(-1)[0].to(dtype)))
        if sample.op.inplace_variant is not None:
            yield f"in place, beside {name}", prepare_in_place(sample.with_input(1, other.to(dtype)))


def without_fast_paths(function: Any) -> Any:
    def call(*arguments: Any, **keywords: Any) -> Any:
        if not torch.ops.dwell.has_fast_paths():
            return function(*arguments, **keywords)
        torch.ops.dwell.use_fast_paths(False)
        try:
            return function(*arguments, **keywords)
        finally:
            torch.ops.dwell.use_fast_paths(True)

    return call


def ways_of(sample: Sample, taken: bool) -> Iterator[tuple[str, Prepare]]:
    """All ways of calling a sample, each with its name: the later ones of a type for few of its samples."""
    op, number = sample.op, sample.number
    yield "value", prepare_call(sample)
    if not taken:
        if number < 2:
            yield from itertools.islice(result_ways(sample), 5)
            if op.inplace_variant is not None and isinstance(sample.input, torch.Tensor):
                yield "in place", prepare_in_place(sample)
        return
    if isinstance(sample.input, torch.Tensor):
        if op.method_variant is not None and number % 3 == 0:
            yield "method", prepare_call(sample, op.method_variant)
        if op.inplace_variant is not None:
            yield "in place", prepare_in_place(sample)
            for name in ("stepped", "transposed", "expanded"):
                if number < 6:
                    yield f"in place, {name}", prepare_in_place(sample, strided(LAYOUTS[name]))
    if number % 3 == 1:
        yield "dispatched", prepare_call(sample, without_fast_paths(sample.function()))
    for at, (name, layout) in enumerate(LAYOUTS.items()):
        if number < 4 or number % len(LAYOUTS) == at:
            yield name, prepare_call(sample, laid_out=lambda f=layout: strided(f))
        if number < 2:
            yield f"{name} in part", prepare_call(sample, laid_out=lambda f=layout: strided(every_second(f)))
    if number < 4:
        yield from result_ways(sample)
    if number < 2:
        yield from number_ways(sample)
        yield from type_ways(sample)
    if number < 6 and op.name not in _STOPS_AT and is_safe(sample):
        for seed in range(2):
            yield f"special {seed}", prepare_call(sample, laid_out=lambda s=seed: special(sample.dtype, s))
        if op.inplace_variant is not None and isinstance(sample.input, torch.Tensor):
            yield "special in place", prepare_in_place(sample, lambda t: special(sample.dtype, 2)(t))
    if op.supports_autograd and sample.dtype in (torch.float64, torch.float16):
        if number < 8 or number % 4 == 0:
            yield "gradients", prepare_gradients(sample)
        if number < 3 and sample.dtype == torch.float64:
            yield "gradients, transposed", prepare_gradients(sample, layout=lambda: strided(transposed))
            if op.supports_gradgrad:
                yield "gradients of gradients", prepare_gradients(sample, twice=True)
        if number < 3 and op.name not in _STOPS_AT:
            yield "gradients, special", prepare_gradients(sample, layout=lambda: special(sample.dtype, 3))


def is_safe(sample: Sample) -> bool:
    """Whether its integers are numbers and not indices, at which a device stops when they are out of range; and no division ends the
    process, as that of the smallest integer by -1 does."""
    if sample.dtype.is_floating_point:
        return True
    if not type(sample.op).__name__.endswith(("UfuncInfo", "ReductionOpInfo")):
        return False
    return sample.op.name not in ("remainder", "fmod", "floor_divide", "div", "gcd", "lcm", "true_divide") or sample.dtype == torch.bool


def cases_of(name: str, dtype: Any, taken: bool | None = None) -> Iterator[Case]:
    """All cases of an operation at a type; `taken`: whether dwell takes part of it, None: to be seen."""
    op = OPERATIONS[name]
    if taken is None:
        taken = is_taken(op, dtype)
    short = str(dtype).removeprefix("torch.")
    for sample in samples_of(op, dtype):
        for way, prepare in ways_of(sample, taken):
            yield Case(name, short, way, sample.number, prepare)


def error_cases_of(name: str) -> Iterator[Case]:
    op = OPERATIONS[name]
    if op.error_inputs_func is None:
        return
    torch.manual_seed(1)
    for number, error in enumerate(op.error_inputs_func(op, DEVICE)):
        given = error.sample_input
        sample = Sample(op, None, number, given.input, tuple(given.args), dict(given.kwargs))
        yield Case(name, "-", "error", number, prepare_call(sample))


def types_of(name: str, device: str = DEVICE) -> list[Any]:
    supported = OPERATIONS[name].supported_dtypes(device)
    return [dtype for dtype in TYPES if dtype in supported]


# ---- Comparison -----------------------------------------------------------------------------------------------------------------------


@dataclass
class Outcome:
    value: Any
    error: Exception | None
    inputs: list[Any]
    written: list[Any]
    warned: list[str]


def run(attempt: Attempt, within: Any = None) -> Outcome:
    torch.manual_seed(7)
    random.seed(7)
    np.random.seed(7)
    value, error = None, None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            if within is None:
                value = attempt.call()
            else:
                with within:
                    value = attempt.call()
            if DEVICE == "cuda":
                torch.cuda.synchronize()  # what fails there is this call's
        except Exception as raised:
            error = raised
    return Outcome(value, error, attempt.inputs, attempt.written, sorted({str(w.message) for w in caught}))


def text_of(error: Exception) -> str:
    return re.sub(r"0x[0-9a-f]+", "0x", str(error))


def aliases(outcome: Outcome) -> list[Any]:
    """Of each result: the first input in whose storage it lies."""
    storages = [x.untyped_storage().data_ptr() if x.layout == torch.strided and x.numel() != 0 else None for x in outcome.inputs]
    found: list[Any] = []
    for result in tensors_in(outcome.value):
        if result.layout != torch.strided or result.numel() == 0:
            found.append(None)
            continue
        pointer = result.untyped_storage().data_ptr()
        found.append(storages.index(pointer) if pointer in storages else None)
    return found


def shape_of(value: Any) -> Any:
    """A tree's form: tensors are left out, other values stand for themselves."""
    if isinstance(value, torch.Tensor):
        return "tensor"
    if isinstance(value, list | tuple):
        return type(value).__name__, [shape_of(one) for one in value]
    if isinstance(value, dict):
        return {name: shape_of(one) for name, one in value.items()}
    return repr(value)


def strides_of(tensor: Any) -> list[int]:
    return [stride for stride, size in zip(tensor.stride(), tensor.shape, strict=True) if size > 1] if tensor.numel() > 1 else []


def in_common(a: Any, b: Any) -> tuple[Any, Any]:
    """As numbers of 64 bits."""
    return (torch.view_as_real(t.resolve_conj()).double() if t.is_complex() else t.double() for t in (a, b))  # type: ignore[return-value]


def units(exact: Any, dtype: Any) -> Any:
    """What one unit in the last place is at these numbers."""
    info = torch.finfo(dtype)
    _, exponent = torch.frexp(exact.abs().nan_to_num(0, 0, 0).clamp(min=info.tiny))
    return torch.ldexp(torch.full_like(exact, info.eps), exponent - 1).clamp(min=info.tiny * info.eps)


def differs(expected: Any, got: Any, exacts: Callable[[], list[Any]], computed: Any = None) -> str:
    """How one tensor differs from that of PyTorch; "" if it does not. `exacts`: of the same, as wide_tree has them. `computed`: the type in
    which it may have been computed, where that is less than it has."""
    for what in ("dtype", "shape", "layout", "device", "requires_grad"):
        if getattr(expected, what) != getattr(got, what):
            return f"{what}: {getattr(got, what)} for {getattr(expected, what)}"
    if expected.layout != torch.strided:
        if torch.equal(*(t.detach().to_dense().nan_to_num() for t in (expected, got))):
            return ""
        return "values"
    if strides_of(expected) != strides_of(got):
        return f"strides: {got.stride()} for {expected.stride()}"
    if expected.is_neg() != got.is_neg() or expected.is_conj() != got.is_conj():
        return "bits of the view"
    x, y = (t.detach().to(torch.complex64) if t.dtype == torch.complex32 else t.detach() for t in (expected, got))
    if x.numel() == 0:
        return ""
    if not (x.is_floating_point() or x.is_complex()):
        return "" if torch.equal(x, y) else f"values: {first_that_differs(x, y)}"
    same_bits = x.dtype in _BITS and torch.equal(x.contiguous().view(_BITS[x.dtype]), y.contiguous().view(_BITS[x.dtype]))
    if same_bits:
        return ""
    dtype = torch.float32 if x.dtype == torch.complex64 else torch.float64 if x.dtype == torch.complex128 else x.dtype
    if dtype not in FLOATS:
        return "" if torch.equal(x, y) else "values"
    x, y = in_common(x, y)
    if not torch.equal(x.isnan(), y.isnan()):
        return f"NaN: {first_that_differs(x, y)}"
    x, y = x.nan_to_num(0, math.inf, -math.inf), y.nan_to_num(0, math.inf, -math.inf)
    other_sign = (x == 0) & (y == 0) & (x.signbit() != y.signbit())
    if other_sign.any() and not is_rounded_to_zero(other_sign, y, exacts()):
        return f"sign of zero: {first_that_differs(x.signbit(), y.signbit())}"
    infinite = x.isinf() | y.isinf()
    if not torch.equal(x[infinite], y[infinite]):
        return f"infinity: {first_that_differs(x, y)}"
    if computed is not None and torch.finfo(computed).eps > torch.finfo(dtype).eps:
        dtype = computed
    most = 1 if dtype in (torch.float16, torch.bfloat16) else 2
    x, y = x.masked_fill(infinite, 0), y.masked_fill(infinite, 0)
    if ((x - y).abs() <= most * units(x, dtype)).all():
        return ""
    if within(x, y, exacts(), infinite, dtype, most):
        return ""
    worst = ((x - y).abs() / units(x, dtype)).max().item()
    return f"values: {worst:.3g} units; {first_that_differs(x, y, most * units(x, dtype))}"


def is_rounded_to_zero(where: Any, y: Any, exacts: list[Any]) -> bool:
    """Whether there, with 64 bits, are numbers that are too small for the type, or zeros of the sign of `y`."""
    if not exacts or exacts[0].shape != y.shape:
        return False
    exact = exacts[0].to(y.device)
    return bool(((exact != 0) | (exact.signbit() == y.signbit()))[where].all())


def within(x: Any, y: Any, exacts: list[Any], infinite: Any, dtype: Any, most: int) -> bool:
    """Whether `y` is as good as PyTorch's `x`: no farther than that from the results with 64 bits, or no farther than these move when what
    is given moves by a few units. Where a function jumps they move as much for less: then that allows nothing. With 64 bits PyTorch's
    error is taken to be what it is with 32, but for the size of a unit."""

    def plain(t: Any) -> Any:
        real = torch.view_as_real(t.resolve_conj()) if t.is_complex() else t
        return real.double().to(x.device).masked_fill(infinite, 0).nan_to_num(0, 0, 0) if real.shape == x.shape else None

    wide = [plain(t) for t in exacts]
    if len(wide) != 2 + 2 * _MOVES or any(t is None for t in wide):
        return False
    exact, narrow, *moved = wide
    error = (x - exact).abs().max() * 1.01
    if dtype == torch.float64:
        error = (narrow - exact).abs().max() * 2 * torch.finfo(torch.float64).eps / torch.finfo(torch.float32).eps
    # With 64 bits nothing tells which of two orders of adding is the better one.
    allowed = torch.maximum((8 if dtype == torch.float64 else most) * units(exact, dtype), error)
    far = sum((t - exact).abs() for t in moved[::2]) / _MOVES
    near = sum((t - exact).abs() for t in moved[1::2]) / _MOVES
    share = (2 if dtype in (torch.float16, torch.bfloat16) else 8) / _FAR
    allowed = torch.maximum(allowed, torch.where(near * 3 < far, far * share, 0.0))
    return bool(((y - exact).abs() <= allowed).all())


# How often what is given is moved, by how many units and by one.
_MOVES, _FAR = 5, 16
_BITS = {torch.float32: torch.int32, torch.float64: torch.int64, torch.float16: torch.int16, torch.bfloat16: torch.int16}


def first_that_differs(x: Any, y: Any, tolerance: Any = None) -> str:
    apart = (x != y) & ~((x != x) & (y != y)) if tolerance is None else (x - y).abs() > tolerance
    at = int(apart.reshape(-1).byte().argmax())
    return f"{y.reshape(-1)[at].item()!r} for {x.reshape(-1)[at].item()!r} at {at}, {int(apart.sum())} of {apart.numel()}"


def wide_tree(case: Case) -> list[list[Any]]:
    """Results with 64 bits and with 32 of what was given, and with 64 of what is some units away from it, and about one."""
    dtype = getattr(torch, case.dtype) if case.dtype != "-" else torch.float32
    eps = torch.finfo(dtype).eps if dtype.is_floating_point else torch.finfo(torch.float32).eps

    def moved(seed: int, by: float) -> Change:
        generator = torch.Generator()
        generator.manual_seed(seed)

        def move(t: Any) -> Any:
            if not t.is_floating_point() or t.layout != torch.strided:
                return t
            wide = strides_kept(t, torch.float64)
            if by == 0 or t.numel() == 0:
                return wide
            there = wide * (1 + by * (torch.rand(t.shape, generator=generator, dtype=torch.float64).to(t.device) * 3 - 1.5))
            there = torch.where(there.isfinite(), there, wide)
            return wide.copy_(there) if is_dense(wide) else there

        return move

    def narrow(t: Any) -> Any:
        return strides_kept(t, torch.float32) if t.is_floating_point() and t.layout == torch.strided else t

    changes = [moved(0, 0), narrow, *(moved(seed, by * eps) for seed in range(_MOVES) for by in (_FAR, 1))]
    made: list[list[Any]] = []
    for change in changes:
        outcome = run(case.prepare(change))
        if outcome.error is not None:
            break
        made.append([t.detach() for t in (*tensors_in(outcome.value), *outcome.written)])
    return made


def strides_kept(tensor: Any, dtype: Any) -> Any:
    if not is_dense(tensor):
        return tensor.to(dtype)
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=dtype, device=tensor.device).copy_(tensor)


def is_dense(tensor: Any) -> bool:
    """Whether its elements fill their memory, each once."""
    reach = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size > 1 and stride != reach:
            return False
        reach *= size if size > 1 else 1
    return True


def compare(case: Case, expected: Outcome, got: Outcome) -> str:
    """How dwell's outcome differs from PyTorch's; "" if it does not."""
    if expected.error is not None or got.error is not None:
        if expected.error is None:
            return f"error: {type(got.error).__name__}: {text_of(got.error)[:300]}"  # type: ignore[arg-type]
        if got.error is None:
            return f"no error: {type(expected.error).__name__}: {text_of(expected.error)[:300]}"
        if type(expected.error) is not type(got.error):
            return f"class of error: {type(got.error).__name__} for {type(expected.error).__name__}: {text_of(expected.error)[:200]}"
        if text_of(expected.error) != text_of(got.error):
            return f"text of error: {text_of(got.error)[:200]} for {text_of(expected.error)[:200]}"
    if expected.warned != got.warned:
        return f"warnings: {got.warned} for {expected.warned}"
    if shape_of(expected.value) != shape_of(got.value):
        return f"results: {shape_of(got.value)} for {shape_of(expected.value)}"
    versions = [[x._version for x in one.inputs if not x.is_inference()] for one in (expected, got)]
    if versions[0] != versions[1]:
        return f"versions: {versions[1]} for {versions[0]}"
    if OPERATIONS[case.operation].name in _UNWRITTEN:
        return ""
    wide: list[list[Any]] = []

    def exacts(at: int) -> list[Any]:
        if not wide:
            try:
                wide.extend(wide_tree(case))
            except Exception:
                wide.append([])
        return [one[at] for one in wide if at < len(one)]

    results = [(*tensors_in(one.value), *one.written) for one in (expected, got)]
    for at, (x, y) in enumerate(zip(*results, strict=True)):
        problem = differs(x, y, lambda at=at: exacts(at), computed_in(case))
        if problem:
            return problem
    for x, y in zip(expected.written, got.written, strict=True):
        if x.layout == torch.strided and x.storage_offset() != y.storage_offset():
            return f"offset: {y.storage_offset()} for {x.storage_offset()}"
        if x.layout == torch.strided and x.untyped_storage().nbytes() > x.nbytes and around(x, y):
            return "what lies around the result was written"
    if expected.error is None and aliases(expected) != aliases(got):
        return f"aliases: {aliases(got)} for {aliases(expected)}"
    return ""


def computed_in(case: Case) -> Any:
    """Where the call's types do not say it: PyTorch computes in the common type of tensors with dimensions, or in its default type."""
    if not case.way.startswith(("out as", "beside", "in place, beside", "number", "in place, number", "argument")):
        return None
    dtype = getattr(torch, case.dtype) if case.dtype != "-" else torch.float32
    return dtype if dtype.is_floating_point else torch.float32


def around(x: Any, y: Any) -> bool:
    """Whether what lies around them is another."""
    hidden = []
    for one in (x, y):
        everything = whole(one.detach()).clone()
        everything.as_strided(one.shape, one.stride(), one.storage_offset()).zero_()
        hidden.append(everything)
    return hidden[0].shape != hidden[1].shape or not torch.equal(*(h.nan_to_num() if h.is_floating_point() else h for h in hidden))


def is_unstable(case: Case, expected: Outcome) -> bool:
    """Whether PyTorch differs from itself."""
    return any(compare(case, expected, run(case.prepare(same))) != "" for _ in range(3))


class Stopped(Exception):
    """The device does nothing more in this process."""


def check(case: Case, tell: Callable[[str], None] = lambda phase: None) -> tuple[str, str]:
    """How dwell differs: the kind, and more. "": it does not; "unstable": PyTorch differs from itself, when it is called again or from one
    element to another; "impossible": there is no such call, as its inputs cannot be made."""
    tell("prepare")
    try:
        theirs, ours = case.prepare(same), case.prepare(same)
    except Exception:
        return "impossible", ""
    tell("PyTorch")
    expected = run(theirs)
    _look_for_stop(expected)
    tell("dwell")
    got = run(ours, dt.eager())
    _look_for_stop(got)
    tell("compare")
    problem = compare(case, expected, got)
    if problem and (is_unstable(case, expected) or is_pytorchs_elsewhere(case, expected, got, problem)):
        return "unstable", problem
    return problem.partition(":")[0], problem


def is_pytorchs_elsewhere(case: Case, expected: Outcome, got: Outcome, problem: str) -> bool:
    """Whether PyTorch has dwell's values too, of the same elements in other memory: it has functions for vectors of elements behind each
    other, which differ from those for the rest at infinities, zeros and large numbers."""
    if not problem.startswith(("values", "NaN", "infinity", "sign of zero")):
        return False
    try:
        other = run(case.prepare(strided(stepped)))
        merged = [
            elementwise(x, y, z)
            for x, y, z in zip(*((*tensors_in(one.value), *one.written) for one in (expected, got, other)), strict=True)
        ]
    except (RuntimeError, ValueError):
        return False
    results = (*tensors_in(got.value), *got.written)
    return all(differs(x, y, list) == "" for x, y in zip(merged, results, strict=True))


def elementwise(x: Any, y: Any, z: Any) -> Any:
    """`x`, and `z` where `y` is something else."""
    if x.layout != torch.strided or not x.is_floating_point() or x.shape != z.shape or x.dtype != z.dtype:
        return x
    x, y, z = x.detach(), y.detach(), z.detach()
    is_same = ((x == y) & (x.signbit() == y.signbit())) | (x.isnan() & y.isnan())
    return x.clone().copy_(torch.where(is_same, x, z))


def _look_for_stop(outcome: Outcome) -> None:
    if outcome.error is not None and is_stopped():
        raise Stopped(str(outcome.error).splitlines()[0]) from None


def is_stopped() -> bool:
    """Whether the device does nothing more in this process, as behind a kernel that has failed."""
    if DEVICE != "cuda":
        return False
    try:
        torch.ones(1, device=DEVICE).item()
    except Exception:
        return True
    return False


def types_and_errors(name: str) -> list[str]:
    """What an operation's cases are asked for by: types, and "-" for its errors."""
    return [*(str(dtype).removeprefix("torch.") for dtype in types_of(name)), *(["-"] if OPERATIONS[name].error_inputs_func else [])]


def cases(name: str, dtype: str, taken: bool | None = None) -> Iterator[Case]:
    if dtype == "-":
        yield from error_cases_of(name)
    else:
        yield from cases_of(name, getattr(torch, dtype), taken)
