"""Passes operations of a thread to the extension: by a key of PyTorch's dispatcher, or by a Python mode if no key fits."""

from __future__ import annotations

import threading
from typing import Any, Protocol

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack
from torch.utils._pytree import tree_leaves

_NUMBERS = {bool: torch.bool, int: torch.int64, float: torch.float64, complex: torch.complex128}


def _tensors_in(value: Any) -> list[torch.Tensor]:
    return [one for one in tree_leaves(value) if isinstance(one, torch.Tensor)]


def _tensors_of(function: Any, arguments: Any, keywords: dict[str, Any]) -> tuple[list[torch.Tensor], list[int]]:
    """Returns the tensors of a call, and the argument that each is part of."""
    names = [argument.name for argument in function._schema.arguments]
    by_place = [*enumerate(arguments), *((names.index(name), value) for name, value in keywords.items())]
    all = [(tensor, place) for place, value in by_place for tensor in _tensors_in(value)]
    return [tensor for tensor, _ in all], [place for _, place in all]


class Dispatch(Protocol):
    """Sets what happens to operations of the calling thread."""

    def take(self, on: bool) -> None:
        """Takes operations from now on, or no more. Flushes before PyTorch runs others on tensors of collected ones."""

    def watch(self) -> None:
        """Flushes before tensors of other threads are read, and takes nothing."""

    def leave(self) -> None:
        """Ends `take` and `watch`."""

    def begin(self, elements: int, operations: int, resident: bool) -> None:
        """Begins a context with these limits."""

    def end(self, elements: int, operations: int, resident: bool, is_last: bool, watches: bool) -> None:
        """Ends one: the limits are those before again. Behind the thread's last one takes nothing more, and flushes."""


class _InSteps:
    """Begins and ends contexts by operations of PyTorch."""

    def begin(self: Dispatch, elements: int, operations: int, resident: bool) -> None:
        torch.ops.dwell.set_limits(elements, operations, resident)
        self.take(True)

    def end(self: Dispatch, elements: int, operations: int, resident: bool, is_last: bool, watches: bool) -> None:
        torch.ops.dwell.set_limits(elements, operations, resident)
        if not is_last:
            return
        if watches:
            self.take(False)
        else:
            self.leave()
        torch.ops.dwell.flush(False)


class ByKey(_InSteps):
    """By a key of the dispatcher, in C++."""

    def __init__(self, begin: Any, end: Any) -> None:
        """Functions that begin and end a context in one call each, past the dispatcher; None where there are none."""
        if begin is not None and end is not None:
            self.begin = begin  # type: ignore[method-assign]
            self.end = end  # type: ignore[method-assign]

    def take(self, on: bool) -> None:
        torch.ops.dwell.take(on)

    def watch(self) -> None:
        torch.ops.dwell.watch()

    def leave(self) -> None:
        torch.ops.dwell.leave()


class _Mode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Calls operations of the same name in `dwell_mode`, which take a call or have PyTorch run it."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        touch_nothing, made_of_others = torch.ops.dwell.passed()
        self._touch_nothing = frozenset(touch_nothing)
        self._made_of_others = frozenset(made_of_others)
        self._known: dict[Any, tuple[Any, list[int]]] = {}

    def _operation_for(self, function: Any) -> tuple[Any, list[int]]:
        """Returns the operation in `dwell_mode`, or None, and which of its arguments are tensors."""
        if function not in self._known:
            packet = getattr(torch.ops.dwell_mode, function._schema.name.partition("::")[2], None) if function.namespace == "aten" else None
            tensors = [at for at, argument in enumerate(function._schema.arguments) if isinstance(argument.type, torch.TensorType)]
            self._known[function] = getattr(packet, function._overloadname, None), tensors
        return self._known[function]

    def __torch_dispatch__(self, function: Any, types: Any, arguments: Any = (), keywords: Any = None) -> Any:
        keywords = keywords or {}
        name = function.name()
        if function.namespace == "dwell" or name in self._touch_nothing:
            return function(*arguments, **keywords)
        tensors, places = _tensors_of(function, arguments, keywords)
        # A subclass or another mode must handle the operation first: `dwell_mode` would bypass it.
        plain = not types and torch._C._len_torch_dispatch_stack() == 0
        operation, tensor_places = self._operation_for(function)
        if plain and operation is not None:
            given = list(arguments)
            for place in tensor_places:
                if place < len(given) and (dtype := _NUMBERS.get(type(given[place]))) is not None:
                    given[place] = torch.scalar_tensor(given[place], dtype=dtype, device="cpu")
                    torch.ops.dwell.mark_number(given[place])
            return operation(*given, **keywords)
        if plain and tensors and name in self._made_of_others:
            keys = torch._C._dispatch_keys(tensors[0]) & torch._C._dispatch_keyset_full_after(torch._C.DispatchKey.Python)
            with self:  # the operations that it calls come here
                return function.redispatch(keys, *arguments, **keywords)
        torch.ops.dwell.before_fallback(name, tensors, places, not plain)
        results: list[torch.Tensor] = []
        try:
            result = function(*arguments, **keywords)
            results = _tensors_in(result)
            return result
        finally:
            torch.ops.dwell.after_fallback(results)


class ByMode(_InSteps):
    """By a Python mode. Slow: each operation goes through Python."""

    def __init__(self) -> None:
        self._thread = threading.local()

    def _enter(self) -> None:
        if not hasattr(self._thread, "mode"):
            self._thread.mode = _Mode()
        if self._thread.mode not in _get_current_dispatch_mode_stack():
            self._thread.mode.__enter__()

    def take(self, on: bool) -> None:
        self._enter()
        torch.ops.dwell.take(on)

    def watch(self) -> None:
        self._enter()
        torch.ops.dwell.watch()

    def leave(self) -> None:
        """If another mode lies above, the mode stays and takes nothing."""
        stack = _get_current_dispatch_mode_stack()
        if stack and stack[-1] is self._thread.mode:
            self._thread.mode.__exit__(None, None, None)  # type: ignore[no-untyped-call]
            torch.ops.dwell.leave()
        else:
            torch.ops.dwell.take(False)
