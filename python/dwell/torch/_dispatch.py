"""How operations of a thread come to the extension: by a key of PyTorch's dispatcher, or by a mode of Python's where no key fits."""

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
    """The tensors of a call, and of which argument each is."""
    names = [argument.name for argument in function._schema.arguments]
    by_place = [*enumerate(arguments), *((names.index(name), value) for name, value in keywords.items())]
    all = [(tensor, place) for place, value in by_place for tensor in _tensors_in(value)]
    return [tensor for tensor, _ in all], [place for _, place in all]


class Dispatch(Protocol):
    """What becomes of the calling thread's operations."""

    def take(self, on: bool) -> None:
        """They are taken from now on, or no more; those that PyTorch runs come behind what was collected on their tensors."""

    def watch(self) -> None:
        """From now on, flushes before tensors of other threads are read."""

    def leave(self) -> None:
        """They are PyTorch's own again."""


class ByKey:
    """In C++."""

    def take(self, on: bool) -> None:
        torch.ops.dwell.take(on)

    def watch(self) -> None:
        torch.ops.dwell.watch()

    def leave(self) -> None:
        torch.ops.dwell.leave()


class _Mode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Hands operations to those of the same name in `dwell_mode`, which take them, or have PyTorch run them."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        touch_nothing, made_of_others = torch.ops.dwell.passed()
        self._touch_nothing = frozenset(touch_nothing)
        self._made_of_others = frozenset(made_of_others)
        self._taken: dict[Any, tuple[Any, list[int]]] = {}

    def _taking(self, function: Any) -> tuple[Any, list[int]]:
        """The operation that takes this one, or None; which of its arguments are tensors."""
        if function not in self._taken:
            packet = getattr(torch.ops.dwell_mode, function._schema.name.partition("::")[2], None) if function.namespace == "aten" else None
            tensors = [at for at, argument in enumerate(function._schema.arguments) if isinstance(argument.type, torch.TensorType)]
            self._taken[function] = getattr(packet, function._overloadname, None), tensors
        return self._taken[function]

    def __torch_dispatch__(self, function: Any, types: Any, arguments: Any = (), keywords: Any = None) -> Any:
        keywords = keywords or {}
        name = function.name()
        if function.namespace == "dwell" or name in self._touch_nothing:
            return function(*arguments, **keywords)
        tensors, places = _tensors_of(function, arguments, keywords)
        # Classes of tensors and modes around this one are to see the operation: those that take it would go past them.
        plain = not types and torch._C._len_torch_dispatch_stack() == 0
        taking, tensor_places = self._taking(function)
        if plain and taking is not None:
            given = list(arguments)
            for place in tensor_places:
                if place < len(given) and (dtype := _NUMBERS.get(type(given[place]))) is not None:
                    given[place] = torch.scalar_tensor(given[place], dtype=dtype, device="cpu")
                    torch.ops.dwell.mark_number(given[place])
            return taking(*given, **keywords)
        if plain and tensors and name in self._made_of_others:
            keys = torch._C._dispatch_keys(tensors[0]) & torch._C._dispatch_keyset_full_after(torch._C.DispatchKey.Python)
            with self:  # what it is made of comes here
                return function.redispatch(keys, *arguments, **keywords)
        torch.ops.dwell.before_fallback(name, tensors, places, not plain)
        results: list[torch.Tensor] = []
        try:
            result = function(*arguments, **keywords)
            results = _tensors_in(result)
            return result
        finally:
            torch.ops.dwell.after_fallback(results)


class ByMode:
    """Slow: each operation goes through Python."""

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
        """Where another mode stands above, it stays and takes nothing."""
        stack = _get_current_dispatch_mode_stack()
        if stack and stack[-1] is self._thread.mode:
            self._thread.mode.__exit__(None, None, None)  # type: ignore[no-untyped-call]
            torch.ops.dwell.leave()
        else:
            torch.ops.dwell.take(False)
