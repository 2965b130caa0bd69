"""Shared by the tests of dwell.torch."""

import os
import sys
import types
import unittest
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

# As in conftest.py, for programs that pytest does not run.
os.environ.setdefault("DWELL_TORCH", "always")

torch = pytest.importorskip("torch")

# PyTorch's database of operations imports expecttest for PyTorch's own tests.
if "expecttest" not in sys.modules:
    sys.modules["expecttest"] = types.ModuleType("expecttest")
    sys.modules["expecttest"].TestCase = unittest.TestCase  # type: ignore[attr-defined]

import dwell.torch as dt  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() and os.environ.get("DWELL_TEST_DEVICE") != "cpu" else "cpu"


def made(*sizes: int, **options: Any) -> Any:
    """Returns a tensor of numbers between 0.5 and 1.5, the same each time."""
    torch.manual_seed(3)
    return torch.rand(*sizes, device=DEVICE, **options) + 0.5


def copy_of(value: Any, *, grad: bool = False) -> Any:
    """Copies the tensors in a value; keeps their strides."""
    if isinstance(value, torch.Tensor):
        copy = value.detach().clone(memory_format=torch.preserve_format)
        return copy.requires_grad_() if grad and value.is_floating_point() else copy
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return type(value)(copy_of(one, grad=grad) for one in value)
    return value


def tensors_in(value: Any) -> Iterator[Any]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for one in value:
            yield from tensors_in(one)
    elif isinstance(value, dict):
        for one in value.values():
            yield from tensors_in(one)


def outcome(call: Callable[[], Any]) -> Any:
    """Returns the call's result, or the exception that it raises."""
    try:
        return call()
    except Exception as error:
        return error


def outcomes(call: Callable[[], Any]) -> tuple[Any, Any]:
    """Returns the outcomes of PyTorch and of dwell."""
    expected = outcome(call)
    with dt.eager():
        got = outcome(call)
    return expected, got


def compare(expected: Any, got: Any, what: Any, exact: Any = None) -> None:
    """Compares two outcomes. Formats `what` only if they differ: text of tensors takes long."""
    if isinstance(expected, Exception) or isinstance(got, Exception):
        assert (type(got), str(got)) == (type(expected), str(expected)), what
        return
    wide = list(tensors_in(exact() if exact is not None and any(t.element_size() == 2 for t in tensors_in(expected)) else []))
    for at, (x, y) in enumerate(zip(tensors_in(expected), tensors_in(got), strict=True)):
        assert (y.dtype, y.shape, y.layout, y.device) == (x.dtype, x.shape, x.layout, x.device), what
        if x.layout != torch.strided:
            continue
        if x.numel() > 1:
            assert y.stride() == x.stride(), what
        if not x.is_complex() and torch.equal(x, y):
            continue
        try:
            torch.testing.assert_close(y, x, equal_nan=True)
        except AssertionError:
            # Allow PyTorch's own error: its backends round at different places.
            if at >= len(wide) or wide[at].shape != x.shape:
                raise AssertionError(what) from None
            worst = (x.double() - wide[at]).abs().nan_to_num().max()
            assert (y.double() - wide[at]).abs().nan_to_num().max() <= worst * 1.01, what


def fallbacks() -> Counter[tuple[str, str]]:
    """Counts calls that PyTorch ran, by operation and reason."""
    return Counter({(name, why): calls for name, reasons in dt.stats()["fallback"].items() for why, calls in reasons.items()})


def taken() -> int:
    return dt.stats()["taken"]
