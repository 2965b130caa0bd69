"""Every way of calling an operation, on the samples of PyTorch's database of operations.

A `Case` is one call of one operation: a sample, and a way of calling it. operation_comparison.py calls PyTorch and then dwell.
operation_run.py runs all cases in processes of their own; test_torch_operations.py runs some.
"""

from __future__ import annotations

import itertools
import math
import random
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch_support import DEVICE, dt, tensors_in, torch

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.testing._internal.common_methods_invocations import op_db

torch.set_warn_always(True)  # a warning that is given once would reach PyTorch's call only

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
TYPES = (*FLOATS, *INTEGERS, torch.bool)
NUMBERS: tuple[Any, ...] = (0.1, -0.1, 7, -3, 0, True, 2.5, 1e6, 70000, 2**40, math.inf, math.nan, -0.0, 1e-8, -0.5)

# These return uninitialized memory.
UNWRITTEN = frozenset(("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided", "resize_", "resize_as_"))
# These kernels stop the device at numbers out of range.
_STOPS_AT = frozenset(("nn.functional.binary_cross_entropy", "multinomial", "bernoulli"))
# PyTorch 2.13 writes out of the bounds of a non-contiguous `out` of these.
_OVERRUN = frozenset(("tril", "triu", "narrow_copy"))
# PyTorch's threads race with each other where the result's memory overlaps the input's: a result differs in one call of 30.
_RACES = frozenset(("softmax", "log_softmax"))
# PyTorch 2.13 leaves a strided `out` of these unwritten on a CPU.
_LEFT_AS_IT_WAS = frozenset(("nn.functional.gelu",))
# Reads its indices through a pointer: dwell sees only calls by the attribute of torch.
_BY_ATTRIBUTE = {"tensor_split": lambda *arguments, **keywords: torch.tensor_split(*arguments, **keywords)}


def name_of(op: Any) -> str:
    return f"{op.name}-{op.variant_test_name}" if op.variant_test_name else op.name


OPERATIONS = {name_of(op): op for op in op_db}


# ---- Inputs ---------------------------------------------------------------------------------------------------------------------------

Change = Callable[[Any], Any]


def same(tensor: Any) -> Any:
    return tensor


class Copier:
    """Copies trees of arguments. Keeps the layout of tensors and the sharing of storages."""

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
    """Returns the whole storage as a tensor."""
    storage = tensor.untyped_storage()
    return torch.empty(0, dtype=tensor.dtype, device=tensor.device).set_(storage, 0, (storage.nbytes() // tensor.element_size(),))


def transposed(tensor: Any) -> Any:
    if tensor.dim() < 2:
        return stepped(tensor)
    made = torch.empty(tuple(reversed(tensor.shape)), dtype=tensor.dtype, device=tensor.device)
    return made.permute(*reversed(range(tensor.dim()))).copy_(tensor)


def stepped(tensor: Any) -> Any:
    """Copies to every second element, from the second on, of memory filled with ones."""
    if tensor.dim() == 0:
        return torch.ones(3, dtype=tensor.dtype, device=tensor.device)[1].copy_(tensor)
    base = torch.ones((*tensor.shape[:-1], 2 * tensor.shape[-1] + 1), dtype=tensor.dtype, device=tensor.device)
    return base[..., 1::2].copy_(tensor)


def shifted(tensor: Any) -> Any:
    """Copies to unaligned memory."""
    return torch.ones(tensor.numel() + 5, dtype=tensor.dtype, device=tensor.device)[3 : tensor.numel() + 3].view(tensor.shape).copy_(tensor)


def expanded(tensor: Any) -> Any:
    """Expands the first row."""
    if tensor.dim() == 0 or tensor.shape[0] == 0:
        return tensor
    return tensor[:1].clone().expand(tensor.shape)


def lasting(tensor: Any) -> Any:
    """Expands the last column."""
    if tensor.dim() < 2 or tensor.shape[-1] == 0:
        return expanded(tensor)
    return tensor[..., -1:].clone().expand(tensor.shape)


def overlapped(tensor: Any) -> Any:
    """Returns rows that share elements with the next ones."""
    if tensor.dim() == 0 or tensor.numel() == 0:
        return tensor
    flat = tensor.clone(memory_format=torch.contiguous_format)
    return flat.as_strided(tensor.shape, (1,) * tensor.dim())


LAYOUTS = {f.__name__: f for f in (transposed, stepped, shifted, expanded, lasting, overlapped)}


def strided(change: Change) -> Change:
    return lambda t: change(t) if t.layout == torch.strided and t.numel() != 0 else t


def every_second(change: Change) -> Change:
    """Changes every second tensor of a call."""
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
        # Keep the layout, unless elements share memory.
        target = tensor if torch._debug_has_internal_overlap(tensor) != 1 else tensor.clone()
        return target.copy_(torch.tensor(chosen, dtype=dtype).view(tensor.shape))

    return fill


# ---- Calls ----------------------------------------------------------------------------------------------------------------------------


@dataclass
class Attempt:
    """A prepared call with inputs of its own."""

    call: Callable[[], Any]
    inputs: list[Any] = field(default_factory=list)
    written: list[Any] = field(default_factory=list)  # compared after the call, with the memory around them


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
    """A sample of the database, and its operation."""

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
    """Prepares a call with `out=`. `make` creates each output from a result of the call and the inputs."""

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
    """Returns gradients of different values, the same each time."""
    if result.layout != torch.strided:
        return torch.ones_like(result)
    steps = torch.arange(result.numel(), dtype=torch.float64) % 7 * 0.25 - 0.6
    return steps.view(result.shape).to(result.device, result.dtype)


# ---- Ways -----------------------------------------------------------------------------------------------------------------------------


def samples_of(op: Any, dtype: Any, device: str = DEVICE) -> Iterator[Sample]:
    """Yields the database's samples, the same each time."""
    torch.manual_seed(1)
    random.seed(1)
    np.random.seed(1)
    # Avoid op.sample_inputs, which inspects the call stack for each sample.
    for number, sample in enumerate(op.sample_inputs_func(op, device, dtype, False)):
        yield Sample(op, dtype, number, sample.input, tuple(sample.args), dict(sample.kwargs))


def results_of(sample: Sample) -> Any:
    """Returns PyTorch's results, or None on an error."""
    try:
        torch.manual_seed(5)
        arguments, keywords, _ = sample.copied(same)
        return sample.function()(*arguments, **keywords)
    except Exception:
        return None


def is_taken(op: Any, dtype: Any) -> bool:
    """Whether dwell takes any part of the first three samples at this type."""
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
    """Calls with `out=`: fitting, of another layout, size or type, and in memory of the inputs."""
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
        if sample.op.name in _RACES and make is overlapping:
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
    """Replaces a tensor by Python numbers, and numbers by others."""
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
    """Calls with tensors of two types, the second with dimensions or without."""
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
    """Yields all ways of calling a sample by name. Most ways apply to the first samples only."""
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
    """Whether integers are values, not indices, which stop the device when out of range. Excludes divisions: the smallest integer by -1
    ends the process."""
    if sample.dtype.is_floating_point:
        return True
    if not type(sample.op).__name__.endswith(("UfuncInfo", "ReductionOpInfo")):
        return False
    return sample.op.name not in ("remainder", "fmod", "floor_divide", "div", "gcd", "lcm", "true_divide") or sample.dtype == torch.bool


def cases_of(name: str, dtype: Any, taken: bool | None = None) -> Iterator[Case]:
    """Yields all cases of an operation at a type. `taken`: whether dwell takes part of it; None: try."""
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


def types_and_errors(name: str) -> list[str]:
    """Returns an operation's values of `dtype` in `cases`: its types, and "-" for its errors."""
    return [*(str(dtype).removeprefix("torch.") for dtype in types_of(name)), *(["-"] if OPERATIONS[name].error_inputs_func else [])]


def cases(name: str, dtype: str, taken: bool | None = None) -> Iterator[Case]:
    if dtype == "-":
        yield from error_cases_of(name)
    else:
        yield from cases_of(name, getattr(torch, dtype), taken)
