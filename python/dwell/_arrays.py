"""Functions on ``dwell.Array`` that are made of others, and those that make arrays. The extension has the rest."""

from __future__ import annotations

import math
import os

from . import _dwell
from ._dwell import Array, ElementType, Runtime
from ._errors import InvalidArgument

TYPE_CHECKING = False  # as that of typing, which takes longer to import than this package
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

_DEFAULT = "float32"
_runtimes: dict[int, Runtime] = {}


def default_runtime() -> Runtime:
    """The runtime of arrays that are made without ``runtime=``: opened when it is first needed, on the device "auto"."""
    process = os.getpid()
    if process not in _runtimes:
        opened = Runtime()
        # Of two threads the first: the other's runtime closes itself. A parent's is of no use.
        _runtimes.setdefault(process, opened)
    return _runtimes[process]


def _numpy_type(dtype: object) -> Any:
    import numpy

    name = _dwell.type_name(dtype)
    if name != "bfloat16":
        return numpy.dtype(name)
    return numpy.dtype("float32")  # which NumPy makes of numbers; a cast follows


# ---- Making arrays ------------------------------------------------------------------------------------------------------------------


def asarray(obj: object, /, *, dtype: object = None, copy: bool | None = None, runtime: Runtime | None = None) -> Array:
    """An array of what is given, in its memory where that is possible.

    A ``dwell.Array`` is itself. A ``dwell.Buffer`` is shared, and so is an array of NumPy on the CPU, or a tensor on the
    runtime's device. Other arrays on the host, numbers and lists are copied; floats become float32 and ints int64, as in PyTorch.
    ``copy=True`` copies always, ``copy=False`` raises dwell.InvalidArgument where a copy is needed.
    """
    if isinstance(obj, Array):
        wanted = obj if dtype is None or obj.dtype == _dwell.element_type(dtype) else _dwell.astype(obj, dtype)
        return _dwell.astype(obj, obj.dtype) if copy and wanted is obj else wanted
    rt = runtime or default_runtime()
    if not copy and not isinstance(obj, (bool, int, float, list, tuple)):
        shared = _shared(rt, obj, refuse=copy is False)
        if shared is not None:
            return asarray(shared, dtype=dtype)
    if copy is False:
        raise InvalidArgument(f"argument copy of dwell.asarray: {type(obj).__name__} cannot be used without a copy")
    if copy:
        device = _shared(rt, obj, refuse=False)
        if device is not None:
            return asarray(device, dtype=dtype, copy=True)
    return _copied(rt, obj, dtype)


def _shared(rt: Runtime, obj: object, refuse: bool) -> Array | None:
    try:
        return _dwell.share_array(rt, obj)
    except InvalidArgument:
        if refuse:
            raise
        return None


def _copied(rt: Runtime, obj: object, dtype: object) -> Array:
    import numpy

    wanted = None if dtype is None else _numpy_type(dtype)
    source = numpy.asarray(obj, wanted)
    if source.dtype == object:
        _shared(rt, obj, refuse=True)  # an array that NumPy does not take: says why dwell does not
    if dtype is None and not hasattr(obj, "dtype") and source.dtype == numpy.float64:
        source = source.astype(numpy.float32)
    made = _dwell.own_buffer(rt.array(source))
    return made if dtype is None else asarray(made, dtype=dtype)


def array(obj: object, /, *, dtype: object = None, runtime: Runtime | None = None) -> Array:
    """A copy as an array: ``asarray`` with ``copy=True``."""
    return asarray(obj, dtype=dtype, copy=True, runtime=runtime)


def full(shape: int | Sequence[int], fill_value: float, *, dtype: object = None, runtime: Runtime | None = None) -> Array:
    """An array of one number; float32, int64 or bool as the number is, unless ``dtype`` says otherwise."""
    if dtype is None:
        dtype = "bool" if isinstance(fill_value, bool) else "int64" if isinstance(fill_value, int) else _DEFAULT
    return _dwell.fill_array(runtime or default_runtime(), shape, dtype, fill_value)


def zeros(shape: int | Sequence[int], *, dtype: object = _DEFAULT, runtime: Runtime | None = None) -> Array:
    """An array of 0."""
    return full(shape, 0, dtype=dtype, runtime=runtime)


def ones(shape: int | Sequence[int], *, dtype: object = _DEFAULT, runtime: Runtime | None = None) -> Array:
    """An array of 1."""
    return full(shape, 1, dtype=dtype, runtime=runtime)


def empty(shape: int | Sequence[int], *, dtype: object = _DEFAULT, runtime: Runtime | None = None) -> Array:
    """An array of whatever its memory holds."""
    return _dwell.empty_array(runtime or default_runtime(), shape, dtype)


def full_like(x: Array, /, fill_value: float, *, dtype: object = None) -> Array:
    """An array of one number, of the shape, the type and the runtime of another."""
    return full(x.shape, fill_value, dtype=dtype or x.dtype, runtime=_dwell.runtime_of(x))


def zeros_like(x: Array, /, *, dtype: object = None) -> Array:
    """An array of 0, of the shape, the type and the runtime of another."""
    return full_like(x, 0, dtype=dtype)


def ones_like(x: Array, /, *, dtype: object = None) -> Array:
    """An array of 1, of the shape, the type and the runtime of another."""
    return full_like(x, 1, dtype=dtype)


def empty_like(x: Array, /, *, dtype: object = None) -> Array:
    """An array of whatever its memory holds, of the shape, the type and the runtime of another."""
    return empty(x.shape, dtype=dtype or x.dtype, runtime=_dwell.runtime_of(x))


def arange(
    start: float,
    /,
    stop: float | None = None,
    step: float = 1,
    *,
    dtype: object = None,
    runtime: Runtime | None = None,
) -> Array:
    """start, start + step, ... up to below stop; 0, 1, ... below start where that is all. int64 of ints, else float32."""
    first, end = (0, start) if stop is None else (start, stop)
    if step == 0:
        raise InvalidArgument("argument step of dwell.arange: it is 0")
    if dtype is None:
        dtype = "int64" if all(isinstance(one, int) for one in (first, end, step)) else _DEFAULT
    count = max(0, math.ceil((end - first) / step))
    return _dwell.fill_array(runtime or default_runtime(), count, dtype, first, step)


def linspace(
    start: float, stop: float, /, num: int, *, dtype: object = _DEFAULT, endpoint: bool = True, runtime: Runtime | None = None
) -> Array:
    """``num`` numbers at equal distances from start to stop, with stop or, without ``endpoint``, up to below it."""
    steps = max(num - 1 if endpoint else num, 1)
    step = (stop - start) / steps
    if step == 0:
        return full(num, start, dtype=dtype, runtime=runtime)
    made = _dwell.fill_array(runtime or default_runtime(), num, "float64", float(start), step)
    return _dwell.astype(made, dtype)


def eye(n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: object = _DEFAULT, runtime: Runtime | None = None) -> Array:
    """A matrix with 1 on the k-th diagonal, 0 elsewhere."""
    rows = arange(n_rows, runtime=runtime)
    columns = arange(n_cols if n_cols is not None else n_rows, runtime=runtime)
    return _dwell.astype(_dwell.equal(_dwell.expand_dims(rows, 1) + k, columns), dtype)


def meshgrid(*arrays: Array, indexing: str = "xy") -> list[Array]:
    """Vectors as arrays of as many dimensions, each along one of its own: views. "xy" exchanges the first two, "ij" does not."""
    if indexing not in ("xy", "ij"):
        raise InvalidArgument(f"argument indexing of dwell.meshgrid is 'xy' or 'ij', not {indexing!r}")
    count = len(arrays)
    shaped = []
    for i, one in enumerate(arrays):
        axis = 1 - i if indexing == "xy" and i < 2 <= count else i
        shaped.append(one.reshape([-1 if dim == axis else 1 for dim in range(count)]))
    return broadcast_arrays(*shaped)


# ---- Elements -----------------------------------------------------------------------------------------------------------------------


def positive(x: Array, /) -> Array:
    """A copy."""
    return _dwell.astype(x, x.dtype)


def square(x: Array, /) -> Array:
    """``x * x``."""
    return _dwell.multiply(x, x)


def clip(x: Array, /, min: Any = None, max: Any = None) -> Array:
    """x, but at least ``min`` and at most ``max``: arrays or numbers, or None for no bound."""
    if min is None:
        return positive(x) if max is None else _dwell.clamp_max(x, max)
    return _dwell.clamp_min(x, min) if max is None else _dwell.clamp(x, min, max)


def isnan(x: Array, /) -> Array:
    """Whether each element is no number."""
    return _dwell.not_equal(x, x)


def isinf(x: Array, /) -> Array:
    """Whether each element is infinite."""
    return _dwell.equal(_dwell.abs(x), math.inf) if _is_floating(x) else _dwell.not_equal(x, x)


def isfinite(x: Array, /) -> Array:
    """Whether each element is a number, and none that is infinite."""
    return _dwell.less(_dwell.abs(x), math.inf) if _is_floating(x) else _dwell.equal(x, x)


def logaddexp(x1: Array, x2: Array, /) -> Array:
    """``log(exp(x1) + exp(x2))``."""
    high = _dwell.maximum(x1, x2)
    distance = _dwell.subtract(_dwell.minimum(x1, x2), high)
    return _dwell.where(_dwell.equal(x1, x2), high + math.log(2), high + _dwell.log1p(_dwell.exp(distance)))


def _is_floating(x: Array) -> bool:
    return x.dtype in (ElementType.f16, ElementType.bf16, ElementType.f32, ElementType.f64)


# ---- Whole arrays -------------------------------------------------------------------------------------------------------------------


def broadcast_arrays(*arrays: Array) -> list[Array]:
    """Arrays in the shape that they broadcast to: views."""
    shape: list[int] = []
    for one in arrays:
        shape = [1] * (len(one.shape) - len(shape)) + shape
        for i in range(1, len(one.shape) + 1):
            shape[-i] = one.shape[-i] if shape[-i] == 1 else shape[-i]
    return [_dwell.broadcast_to(one, shape) for one in arrays]


def moveaxis(x: Array, source: int, destination: int, /) -> Array:
    """With one dimension at another place: a view."""
    order = list(range(x.ndim))
    order.insert(destination % x.ndim, order.pop(source))
    return _dwell.permute_dims(x, order)


def unstack(x: Array, /, *, axis: int = 0) -> tuple[Array, ...]:
    """Its slices along a dimension: views."""
    return tuple(moveaxis(x, axis, 0))


def roll(x: Array, /, shift: int, *, axis: int | None = None) -> Array:
    """Elements further on by ``shift`` along a dimension, from its end to its beginning; in the order of rows without one."""
    if axis is None:
        return roll(x.reshape(-1), shift, axis=0).reshape(x.shape)
    along = moveaxis(x, axis, 0)
    if along.shape[0] == 0:
        return positive(x)
    first = -shift % along.shape[0]
    return moveaxis(_dwell.concat([along[first:], along[:first]]), 0, axis)


def repeat(x: Array, repeats: int, /, *, axis: int) -> Array:
    """Each slice along a dimension so many times."""
    along = moveaxis(x, axis, 0)
    shape = (along.shape[0], repeats, *along.shape[1:])
    wide = _dwell.broadcast_to(_dwell.expand_dims(along, 1), shape)
    return moveaxis(wide.reshape((-1, *along.shape[1:])), 0, axis)


def vecdot(x1: Array, x2: Array, /, *, axis: int = -1) -> Array:
    """The sum of products along a dimension."""
    return _dwell.sum(_dwell.multiply(x1, x2), axis, dtype=result_type(x1, x2))


def outer(x1: Array, x2: Array, /) -> Array:
    """Every element of a vector times every one of another."""
    return _dwell.multiply(_dwell.expand_dims(x1, 1), _dwell.expand_dims(x2, 0))


def linear(x: Array, weight: Array, bias: Array | None = None, /) -> Array:
    """``x @ weight.mT + bias``."""
    product = _dwell.matmul(x, weight.mT)
    return product if bias is None else product + bias


def result_type(*arrays: Array | bool | int | float) -> ElementType:
    """The type of a result of arrays and numbers."""
    found = next((one for one in arrays if isinstance(one, Array)), None)
    if found is None:
        raise InvalidArgument("dwell.result_type: no argument is a dwell.Array")
    return _dwell.common_type(arrays)
