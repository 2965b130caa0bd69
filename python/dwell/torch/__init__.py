"""PyTorch's small operations without launches.

    with dwell.torch.eager():
        y = torch.relu(a * x + b)     # three operations, one task of dwell's, no launch each

Inside a context, small operations on strided tensors are collected and run together; what dwell does not do goes to PyTorch, behind
what was collected on its tensors. Results, errors, views, gradients and the order on streams are PyTorch's. A context in a loop leaves
its operations to PyTorch where that is faster. docs/torch.md says what is taken, and where the limits are.
"""

from __future__ import annotations

from ._build import BuildError
from ._compile import backend
from ._contexts import accelerate, disable, eager, enable, flush
from ._recording import Recorder, Recording, record
from ._scheduler import init, scheduler_context, shutdown, submit_add, submit_mul
from ._statistics import stats
from ._steps import ResidentStep

__all__ = [
    "BuildError",
    "Recorder",
    "Recording",
    "ResidentStep",
    "accelerate",
    "backend",
    "disable",
    "eager",
    "enable",
    "flush",
    "init",
    "record",
    "scheduler_context",
    "shutdown",
    "stats",
    "submit_add",
    "submit_mul",
]
