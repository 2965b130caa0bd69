"""Results of a recorded graph, for the callers of its replays."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import torch

_storage_of = inspect.unwrap(torch.Tensor.untyped_storage)  # not dwell.torch's, which flushes first: nobody reads the memory here


def _memory_of(tensor: torch.Tensor) -> int:
    return int(_storage_of(tensor)._cdata)


@dataclass(frozen=True)
class _Argument:
    """A result that is an argument of the call."""

    at: int


@dataclass(frozen=True)
class _View:
    """A result that is a view of an argument of the call."""

    at: int
    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int  # elements behind the first one of the argument


@dataclass(frozen=True)
class _Copy:
    """A result that the graph computes."""

    number: int  # of the copies
    same: bool  # an earlier result is the same tensor: the caller gets the same one for both


class Results:
    """Where the results of a replay are: in the memory of the recording, which the next replay writes anew, or in arguments.

    Arguments and views of them are those of the call, so autograd finds out if someone changes them before the backward pass."""

    def __init__(self, results: list[Any], given: list[torch.Tensor], arguments: tuple[torch.Tensor, ...]) -> None:
        """`results`: those of the recording. `given`: the arguments that it was made with, each either the one of `arguments` or a
        tensor of the same elements in its place."""
        self._copied: list[torch.Tensor] = []
        self._places = [self._place_of(one, given, arguments) if isinstance(one, torch.Tensor) else one for one in results]

    def _place_of(self, result: torch.Tensor, given: list[torch.Tensor], arguments: tuple[torch.Tensor, ...]) -> Any:
        for at, one in enumerate(given):
            if result is one:
                return _Argument(at)
        for at, one in enumerate(given):
            if _memory_of(result) == _memory_of(one) and result.dtype == one.dtype and one.stride() == arguments[at].stride():
                return _View(at, tuple(result.size()), tuple(result.stride()), int(result.storage_offset() - one.storage_offset()))
        for number, one in enumerate(self._copied):
            if result is one:
                return _Copy(number, same=True)
            if _memory_of(result) == _memory_of(one) and _layout_of(result) == _layout_of(one):
                return _Copy(number, same=False)
        self._copied.append(result)
        return _Copy(len(self._copied) - 1, same=True)

    def of(self, arguments: tuple[torch.Tensor, ...]) -> list[Any]:
        """The results of the replay that has run on these arguments. The caller's: later replays leave them alone."""
        copies = [torch.empty_like(one) for one in self._copied]
        if copies:
            torch._foreach_copy_(copies, self._copied)
        return [self._result_at(place, arguments, copies) for place in self._places]

    @staticmethod
    def _result_at(place: Any, arguments: tuple[torch.Tensor, ...], copies: list[torch.Tensor]) -> Any:
        if isinstance(place, _Copy):
            return copies[place.number] if place.same else copies[place.number].detach()
        if isinstance(place, _Argument):
            return arguments[place.at]
        if isinstance(place, _View):
            one = arguments[place.at]
            return one.as_strided(place.size, place.stride, one.storage_offset() + place.offset)
        return place


def _layout_of(tensor: torch.Tensor) -> tuple[Any, ...]:
    return tensor.dtype, tensor.size(), tensor.stride(), tensor.storage_offset()
