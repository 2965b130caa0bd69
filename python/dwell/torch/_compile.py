"""torch.compile(model, backend="dwell")."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def backend(graph: torch.fx.GraphModule, inputs: list[Any], **options: Any) -> Callable[..., Any]:
    """The backend for torch.compile: runs the operations of a graph inside `eager`, forward and backward, in one burst a call. Does not
    depend on shapes, so dynamic shapes cause no compilation."""
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch.aot_autograd import make_boxed_func  # type: ignore[attr-defined]

    from . import eager

    def compiled(part: torch.fx.GraphModule, _: list[Any]) -> Any:
        def run(*arguments: Any) -> Any:
            with eager():
                return part.forward(*arguments)

        return make_boxed_func(run)

    made: Callable[..., Any] = aot_autograd(fw_compiler=compiled, bw_compiler=compiled)(graph, inputs, **options)
    return made
