"""dwell: a runtime that lives on the GPU.

One resident kernel takes tiny tasks from a ring in host memory, runs them through operators that can be added and replaced while it
works, and acknowledges each within microseconds. The same operators run on CPU threads.

    import dwell

    with dwell.Runtime() as rt:
        axpy = rt.define("axpy", '''
            DWELL_OPERATOR(axpy)(dwell::Group g, float a, dwell::Span<const float> x, dwell::Span<float> y) {
              g.transform(y, [=](float b, float c) { return a * b + c; }, x, y);
            }''')
        x, y = rt.array([1.0, 2.0, 3.0], "float32"), rt.array([0.5, 0.5, 0.5], "float32")
        axpy(2.0, x, y).wait()
        print(y.read())
"""

from ._dwell import (
    Buffer,
    CompileOptions,
    DeviceSummary,
    Diagnosis,
    ElementType,
    Graph,
    GraphExec,
    Kernel,
    Limits,
    Module,
    Node,
    NodeTime,
    OnWorker,
    Operator,
    Runtime,
    RuntimeInfo,
    SubGraph,
    TaskState,
    Ticket,
    devices,
)
from ._dwell import version as __version__
from ._errors import (
    Cancelled,
    Closed,
    CompileError,
    CompilerUnavailable,
    DeviceLost,
    DeviceUnavailable,
    Error,
    InvalidArgument,
    IoFailed,
    LinkError,
    NoPreviousVersion,
    OperatorNotFound,
    OutOfMemory,
    ResourceLimit,
    SignatureMismatch,
    StaleHandle,
    Stalled,
    TaskFailed,
    TaskTimeout,
    Unsupported,
)

__all__ = [
    "Buffer",
    "Cancelled",
    "Closed",
    "CompileError",
    "CompileOptions",
    "CompilerUnavailable",
    "DeviceLost",
    "DeviceSummary",
    "DeviceUnavailable",
    "Diagnosis",
    "ElementType",
    "Error",
    "Graph",
    "GraphExec",
    "InvalidArgument",
    "IoFailed",
    "Kernel",
    "Limits",
    "LinkError",
    "Module",
    "NoPreviousVersion",
    "Node",
    "NodeTime",
    "OnWorker",
    "Operator",
    "OperatorNotFound",
    "OutOfMemory",
    "ResourceLimit",
    "Runtime",
    "RuntimeInfo",
    "SignatureMismatch",
    "StaleHandle",
    "Stalled",
    "SubGraph",
    "TaskFailed",
    "TaskState",
    "TaskTimeout",
    "Ticket",
    "Unsupported",
    "__version__",
    "devices",
]
