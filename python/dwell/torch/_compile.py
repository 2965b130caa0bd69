"""torch.compile(model, backend="dwell")."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection
from typing import Any

import torch

from ._contexts import accelerate
from ._replayed import Replayed


def backend(graph: torch.fx.GraphModule, inputs: list[Any], *, options: dict[str, Any] | None = None, **others: Any) -> Callable[..., Any]:
    """The backend for torch.compile. Graphs without dynamic shapes, those of backward passes too, are recorded at their second call, and
    compiled as one program in the background; then a call copies what lies elsewhere than before, replays, and returns copies of the
    results. `options={"whole": False}` of torch.compile records nothing.

    A graph with dynamic shapes, and one that stays tasks (docs/loops.md has the reasons), runs inside `eager`, in one burst a call. That
    does not depend on shapes, so dynamic shapes cause no compilation."""
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch.aot_autograd import make_boxed_func  # type: ignore[attr-defined]

    whole = (options or {}).get("whole", True)
    if unknown := set(options or {}) - {"whole"}:
        raise ValueError(f"torch.compile(backend='dwell'): options {sorted(unknown)}: there is 'whole' alone")
    computed: set[str] = set()  # what the forward graph computes for the backward one, by name

    def replayed(part: torch.fx.GraphModule, given: list[Any], moving: Collection[int] = ()) -> Any:
        can_be = whole and all(isinstance(one, torch.Tensor) and not _is_dynamic(one) for one in given)
        return make_boxed_func(Replayed(part, moving) if can_be else accelerate(part.forward))

    def forward(part: torch.fx.GraphModule, given: list[Any]) -> Any:
        computed.update(_computed_by(part.graph))
        return replayed(part, given)

    def backward(part: torch.fx.GraphModule, given: list[Any]) -> Any:
        """Tensors that the forward graph computed lie elsewhere in each call, and so do the gradients of its results."""
        names = [node.name for node in part.graph.nodes if node.op == "placeholder"]
        return replayed(part, given, {at for at, name in enumerate(names) if name in computed or name.startswith("tangents")})

    made: Callable[..., Any] = aot_autograd(fw_compiler=forward, bw_compiler=backward, inference_compiler=replayed)(graph, inputs, **others)
    return made


def _is_dynamic(given: torch.Tensor) -> bool:
    return any(isinstance(size, torch.SymInt) for size in given.shape)


def _computed_by(graph: torch.fx.Graph) -> set[str]:
    """The results of a graph that are in memory of their own, not in that of an argument."""
    results = [one for node in graph.nodes if node.op == "output" for one in node.args[0] if isinstance(one, torch.fx.Node)]
    return {node.name for node in results if not _is_in_an_argument(node)}


def _is_in_an_argument(node: torch.fx.Node) -> bool:
    """Whether a result is an argument of the graph, or a view of one."""
    while node.op == "call_function":
        schema = getattr(node.target, "_schema", None)
        is_view = schema is not None and bool(schema.returns) and schema.returns[0].alias_info is not None
        if not (is_view or node.target is operator.getitem) or not node.args or not isinstance(node.args[0], torch.fx.Node):
            return False
        node = node.args[0]
    return node.op == "placeholder"
