"""Compares dwell.torch with PyTorch alone in a case of operation_database.py.

`check` calls PyTorch and then dwell, on the same device with the same inputs, and returns how they differ.
"""

from __future__ import annotations

import math
import random
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from operation_database import (
    FLOATS,
    OPERATIONS,
    UNWRITTEN,
    Attempt,
    Case,
    Change,
    same,
    shifted,
    stepped,
    strided,
    transposed,
    whole,
)
from torch_support import DEVICE, dt, tensors_in, torch


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
                torch.cuda.synchronize()  # raises asynchronous errors of this call
        except Exception as raised:
            error = raised
    return Outcome(value, error, attempt.inputs, attempt.written, sorted({str(w.message) for w in caught}))


def text_of(error: Exception) -> str:
    return re.sub(r"0x[0-9a-f]+", "0x", str(error))


def aliases(outcome: Outcome) -> list[Any]:
    """Returns, for each result, the index of the first input that shares its storage, or None."""
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
    """Returns a tree's structure: its tensors become equal, other values become their text."""
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
    """Converts both to float64; complex numbers become pairs."""
    return (torch.view_as_real(t.resolve_conj()).double() if t.is_complex() else t.double() for t in (a, b))  # type: ignore[return-value]


def units(exact: Any, dtype: Any) -> Any:
    """Returns one unit in the last place at each number."""
    info = torch.finfo(dtype)
    _, exponent = torch.frexp(exact.abs().nan_to_num(0, 0, 0).clamp(min=info.tiny))
    return torch.ldexp(torch.full_like(exact, info.eps), exponent - 1).clamp(min=info.tiny * info.eps)


def differs(expected: Any, got: Any, exacts: Callable[[], list[Any]], computed: Any = None) -> str:
    """Returns how a tensor differs from PyTorch's; "" if it does not. `exacts`: this tensor in each entry of wide_tree. `computed`: the
    type of the computation, if it may be narrower than the tensor's."""
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
    # No wider type tells which of two summation orders is better in 64 bits.
    most = {torch.float16: 1, torch.bfloat16: 1, torch.float64: 8}.get(dtype, 2)
    x, y = x.masked_fill(infinite, 0), y.masked_fill(infinite, 0)
    if ((x - y).abs() <= most * units(x, dtype)).all():
        return ""
    if within(x, y, exacts(), infinite, dtype, most):
        return ""
    worst = ((x - y).abs() / units(x, dtype)).max().item()
    return f"values: {worst:.3g} units; {first_that_differs(x, y, most * units(x, dtype))}"


def is_rounded_to_zero(where: Any, y: Any, exacts: list[Any]) -> bool:
    """Whether each 64-bit result at `where` underflows in the type, or is a zero with the sign of `y`."""
    if not exacts or exacts[0].shape != y.shape:
        return False
    exact = exacts[0].to(y.device)
    return bool(((exact != 0) | (exact.signbit() == y.signbit()))[where].all())


def within(x: Any, y: Any, exacts: list[Any], infinite: Any, dtype: Any, most: int) -> bool:
    """Whether `y` is as accurate as PyTorch's `x`. Allows PyTorch's error against the 64-bit results, or their change when the inputs move
    by a few units. A jump changes as much when the inputs move by one unit: it allows nothing. For 64 bits, PyTorch's error is that with
    32 bits, scaled to the size of a unit."""

    def plain(t: Any) -> Any:
        real = torch.view_as_real(t.resolve_conj()) if t.is_complex() else t
        return real.double().to(x.device).masked_fill(infinite, 0).nan_to_num(0, 0, 0) if real.shape == x.shape else None

    wide = [plain(t) for t in exacts]
    if len(wide) != 2 + 4 * _MOVES or any(t is None for t in wide):
        return False
    exact, narrow, *moved = wide
    error = (x - exact).abs().max() * 1.01
    if dtype == torch.float64:
        pairs = [(exact, narrow), *zip(moved[2::4], moved[3::4], strict=True)]
        error = max((n - e).abs().max() for e, n in pairs) * 2 * torch.finfo(torch.float64).eps / torch.finfo(torch.float32).eps
    allowed = torch.maximum(most * units(exact, dtype), error)
    far = sum((t - exact).abs() for t in moved[::4]) / _MOVES
    near = sum((t - exact).abs() for t in moved[1::4]) / _MOVES
    share = (2 if dtype in (torch.float16, torch.bfloat16) else 8) / _FAR
    allowed = torch.maximum(allowed, torch.where(near * 3 < far, far * share, 0.0))
    return bool(((y - exact).abs() <= allowed).all())


_INTEGERS = {torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64}
# Number of moves of the inputs; units of a far move (a near one is one unit).
_MOVES, _FAR = 5, 16
_BITS = {torch.float32: torch.int32, torch.float64: torch.int64, torch.float16: torch.int16, torch.bfloat16: torch.int16}


def first_that_differs(x: Any, y: Any, tolerance: Any = None) -> str:
    apart = (x != y) & ~((x != x) & (y != y)) if tolerance is None else (x - y).abs() > tolerance
    at = int(apart.reshape(-1).byte().argmax())
    return f"{y.reshape(-1)[at].item()!r} for {x.reshape(-1)[at].item()!r} at {at}, {int(apart.sum())} of {apart.numel()}"


def wide_tree(case: Case) -> list[list[Any]]:
    """Returns the results of the inputs in 64 and in 32 bits, then four of each move: in 64 bits, of inputs moved by `_FAR` units and by
    one; in 64 and in 32 bits, of inputs moved by `_FAR` units of 32 bits and rounded to 32 bits. Stops at the first error."""
    dtype = getattr(torch, case.dtype) if case.dtype != "-" else torch.float32
    eps = torch.finfo(dtype if dtype.is_floating_point else torch.float32).eps

    def moved(seed: int, by: float) -> Change:
        generator = torch.Generator()
        generator.manual_seed(seed)

        def move(t: Any) -> Any:
            # Integers move as floats: the call fails if the operation needs integers, and then the moves allow nothing.
            if t.layout != torch.strided or not (t.is_floating_point() or (by != 0 and t.dtype == dtype and dtype in _INTEGERS)):
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

    def rough(seed: int, last: Change) -> Change:
        move = moved(seed, _FAR * torch.finfo(torch.float32).eps)
        return lambda t: last(narrow(move(t)))

    wide, halved = torch.float64, torch.float32
    changes = [(moved(0, 0), wide), (narrow, halved)]
    for seed in range(_MOVES):
        changes += [(moved(seed, _FAR * eps), wide), (moved(seed, eps), wide)]
        changes += [(rough(seed, moved(0, 0)), wide), (rough(seed, same), halved)]
    made: list[list[Any]] = []
    for change, default in changes:
        # Operations convert integers to the default type.
        torch.set_default_dtype(default)
        try:
            outcome = run(case.prepare(change))
        finally:
            torch.set_default_dtype(torch.float32)
        if outcome.error is not None:
            break
        made.append(compared_tensors(case, outcome))
    return made


def strides_kept(tensor: Any, dtype: Any) -> Any:
    if not is_dense(tensor):
        return tensor.to(dtype)
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=dtype, device=tensor.device).copy_(tensor)


def is_dense(tensor: Any) -> bool:
    """Whether the elements fill their memory without gaps or overlap."""
    reach = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size > 1 and stride != reach:
            return False
        reach *= size if size > 1 else 1
    return True


def compare(case: Case, expected: Outcome, got: Outcome) -> str:
    """Returns how dwell's outcome differs from PyTorch's; "" if it does not."""
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
    if is_unwritten(case):
        return ""
    wide: list[list[Any]] = []

    def exacts(at: int) -> list[Any]:
        if not wide:
            try:
                wide.extend(wide_tree(case))
            except Exception:
                wide.append([])
        return [one[at] for one in wide if at < len(one)]

    results = [compared_tensors(case, one) for one in (expected, got)]
    if is_conversion(case):
        results = [[without_undefined(t, expected.inputs[0]) for t in one] for one in results]
    for at, (x, y) in enumerate(zip(*results, strict=True)):
        problem = differs(x, y, lambda at=at: exacts(at), computed_in(case))
        if problem and not is_near(case, x, y, expected.inputs):
            return problem
    for x, y in zip(expected.written, got.written, strict=True):
        if x.layout == torch.strided and x.storage_offset() != y.storage_offset():
            return f"offset: {y.storage_offset()} for {x.storage_offset()}"
        if x.layout == torch.strided and x.untyped_storage().nbytes() > x.nbytes and around(x, y):
            return "what lies around the result was written"
    if expected.error is None and aliases(expected) != aliases(got):
        return f"aliases: {aliases(got)} for {aliases(expected)}"
    return ""


def is_unwritten(case: Case) -> bool:
    """Whether the results are uninitialized memory."""
    # torch.masked leaves the value undefined if every element is masked.
    wholly_masked = case.operation == "masked.median" and case.way in ("expanded", "lasting")
    return OPERATIONS[case.operation].name in UNWRITTEN or wholly_masked


def compared_tensors(case: Case, outcome: Outcome) -> list[Any]:
    """Returns all results and written tensors. Multiplies U, S, V: singular vectors are unique only up to their sign, and those of equal
    singular values only up to the space they span."""
    made = list(tensors_in(outcome.value))
    if is_of_low_rank(case) and len(made) == 3:
        u, s, v = (t.detach() for t in made)
        made = [(u * s.unsqueeze(-2)) @ v.mH]
    return [*made, *outcome.written]


def is_of_low_rank(case: Case) -> bool:
    return OPERATIONS[case.operation].name in ("svd_lowrank", "pca_lowrank")


def is_conversion(case: Case) -> bool:
    return DEVICE == "cpu" and case.way.startswith("special") and case.operation in ("byte", "char", "short", "int", "long")


def without_undefined(converted: Any, numbers: Any) -> Any:
    """Zeroes integers converted from numbers out of the type's range: the conversion is undefined in C++."""
    if converted.is_floating_point() or numbers.shape != converted.shape:
        return converted
    info, whole = torch.iinfo(converted.dtype), numbers.detach().double().trunc()
    return torch.where((whole >= float(info.min)) & (whole < float(info.max) + 1), converted, 0)


def is_near(case: Case, x: Any, y: Any, given: list[Any]) -> bool:
    """Whether results of a singular value decomposition differ by rounding: 32 units of the largest singular value (LAPACK Users' Guide,
    section 4.9). The decomposed matrix is a product of two factors, minus a third matrix if given. The pseudoinverse of a singular matrix
    moves by this error times its own norm squared (Wedin, BIT 13, 1973)."""
    inverse = case.operation == "linalg.pinv-singular"
    if not is_of_low_rank(case) and not inverse:
        return False
    matrices = [t.detach().double() for t in given if t.is_floating_point() and t.dim() >= 2 and t.numel() != 0]
    if not matrices or x.shape != y.shape or x.dtype != y.dtype or not x.is_floating_point():
        return False
    norms = [float(torch.linalg.matrix_norm(t, 2).max()) for t in matrices]
    largest = math.prod(norms[:2]) + sum(norms[2:])
    if inverse:
        largest *= float(torch.linalg.matrix_norm(x.detach().double(), 2).max()) ** 2
    return bool(((x - y).abs() <= 32 * torch.finfo(x.dtype).eps * largest).all())


def computed_in(case: Case) -> Any:
    """Returns the type of the computation if the call's types hide it: the common type of tensors with dimensions, or the default."""
    if not case.way.startswith(("out as", "beside", "in place, beside", "number", "in place, number", "argument")):
        return None
    dtype = getattr(torch, case.dtype) if case.dtype != "-" else torch.float32
    if case.way.partition("beside ")[2] == "float32" and dtype == torch.float64:
        return torch.float32  # for results that depend on that tensor alone
    return dtype if dtype.is_floating_point else torch.float32


def around(x: Any, y: Any) -> bool:
    """Whether the storages differ outside of the tensors."""
    hidden = []
    for one in (x, y):
        everything = whole(one.detach()).clone()
        everything.as_strided(one.shape, one.stride(), one.storage_offset()).zero_()
        hidden.append(everything)
    return hidden[0].shape != hidden[1].shape or not torch.equal(*(h.nan_to_num() if h.is_floating_point() else h for h in hidden))


def is_unstable(case: Case, expected: Outcome) -> bool:
    """Whether repeated calls of PyTorch differ."""
    return any(compare(case, expected, run(case.prepare(same))) != "" for _ in range(3))


class Stopped(Exception):
    """The device fails every further call in this process."""


def check(case: Case, tell: Callable[[str], None] = lambda phase: None) -> tuple[str, str]:
    """Returns the kind of the difference and its text. "": none; "unstable": PyTorch's results vary between calls or memory layouts;
    "impossible": the inputs cannot be made, or several elements share the memory of one result."""
    tell("prepare")
    try:
        theirs, ours = case.prepare(same), case.prepare(same)
    except Exception:
        return "impossible", ""
    tell("PyTorch")
    expected = run(theirs)
    _look_for_stop(expected)
    if expected.error is not None or "attention" in case.operation:
        run(case.prepare(same))  # this call may make PyTorch's next one crash, without dwell too
    if expected.error is None and any(torch._debug_has_internal_overlap(t) == 1 for t in expected.written if t.layout == torch.strided):
        return "impossible", ""  # several elements are written to one place: any is right
    tell("dwell")
    got = run(ours, dt.eager())
    _look_for_stop(got)
    tell("compare")
    problem = compare(case, expected, got)
    if problem and (is_unstable(case, expected) or is_pytorchs_elsewhere(case, expected, got, problem)):
        return "unstable", problem
    return problem.partition(":")[0], problem


def is_pytorchs_elsewhere(case: Case, expected: Outcome, got: Outcome, problem: str) -> bool:
    """Whether PyTorch computes dwell's values from the same elements in other memory layouts. Its functions for contiguous vectors differ
    from its scalar ones at infinities, zeros and large numbers, and add and multiply in another order."""
    if not problem.startswith(("values", "NaN", "infinity", "sign of zero")):
        return False
    try:
        merged, results = compared_tensors(case, expected), compared_tensors(case, got)
        for layout in (stepped, transposed, shifted):
            other = compared_tensors(case, run(case.prepare(strided(layout))))
            merged = [elementwise(x, y, z) for x, y, z in zip(merged, results, other, strict=True)]
    except (RuntimeError, ValueError):
        return False
    return all(differs(x, y, list) == "" for x, y in zip(merged, results, strict=True))


def elementwise(x: Any, y: Any, z: Any) -> Any:
    """Returns `x`, with the elements of `z` where `y` differs."""
    if x.layout != torch.strided or not x.is_floating_point() or x.shape != z.shape or x.dtype != z.dtype:
        return x
    x, y, z = x.detach(), y.detach(), z.detach()
    is_same = ((x == y) & (x.signbit() == y.signbit())) | (x.isnan() & y.isnan())
    return x.clone().copy_(torch.where(is_same, x, z))


def _look_for_stop(outcome: Outcome) -> None:
    if outcome.error is not None and is_stopped():
        raise Stopped(str(outcome.error).splitlines()[0]) from None


def is_stopped() -> bool:
    """Whether the device fails every call, as after a failed kernel."""
    if DEVICE != "cuda":
        return False
    try:
        torch.ones(1, device=DEVICE).item()
    except Exception:
        return True
    return False
