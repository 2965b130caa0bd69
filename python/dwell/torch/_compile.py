"""torch.compile(model, backend="dwell")."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def backend(graph: torch.fx.GraphModule, inputs: list[Any], *, options: dict[str, Any] | None = None, **others: Any) -> Callable[..., Any]:
    """The backend for torch.compile. Runs the operations of a graph inside `eager`, forward and backward, in one burst a call. That does
    not depend on shapes, so dynamic shapes cause no compilation.

    Graphs without gradients and without dynamic shapes are recorded at their second call, and compiled as one program in the background;
    then a call copies what lies elsewhere than before, replays, and returns copies of the results. `options={"whole": False}` of
    torch.compile records nothing. docs/loops.md has the reasons for which a recording stays tasks; such a graph runs inside `eager`."""
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch.aot_autograd import make_boxed_func  # type: ignore[attr-defined]

    whole = (options or {}).get("whole", True)
    if unknown := set(options or {}) - {"whole"}:
        raise ValueError(f"torch.compile(backend='dwell'): options {sorted(unknown)}: there is 'whole' alone")
    from . import accelerate
    from ._replayed import Replayed

    def collected(part: torch.fx.GraphModule, _: list[Any]) -> Any:
        return make_boxed_func(accelerate(part.forward))

    def replayed(part: torch.fx.GraphModule, given: list[Any]) -> Any:
        return make_boxed_func(Replayed(part)) if whole and not any(map(_is_dynamic, given)) else collected(part, given)

    made: Callable[..., Any] = aot_autograd(fw_compiler=collected, bw_compiler=collected, inference_compiler=replayed)(
        graph, inputs, **others
    )
    return made


def _is_dynamic(given: Any) -> bool:
    return any(isinstance(size, torch.SymInt) for size in (given.shape if isinstance(given, torch.Tensor) else (given,)))
