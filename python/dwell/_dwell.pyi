"""The runtime in Python; import it as `dwell`."""

from collections.abc import (
    AsyncIterator,
    Callable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence
)
import concurrent.futures
import enum
import logging
import os
from typing import Any, overload

from numpy.typing import NDArray

import dwell._futures
import dwell._logging


version: str = '0.2.0'

class CompileOptions:
    """
    How a source is compiled. Those that are not given are the compiler's own; one that the device's compiler cannot
    honour is refused.
    """

    def __init__(self, *, arch: str = '', standard: int = 20, fast_math: bool = False, flush_denormals: bool | None = None, contract: bool | None = None, precise_division: bool | None = None, precise_sqrt: bool | None = None, max_registers: int = 0, lto: bool = False, line_info: bool = False, debug: bool = False, defines: dict[str, str] = {}, include_paths: Sequence[str] = [], headers: dict[str, str] = {}, flags: Sequence[str] = []) -> None: ...

    @property
    def arch(self) -> str:
        """The real architecture, "sm_90"; empty: the device's own."""

    @arch.setter
    def arch(self, arg: str, /) -> None: ...

    @property
    def standard(self) -> int:
        """The version of C++: 14, 17 or 20."""

    @standard.setter
    def standard(self, arg: int, /) -> None: ...

    @property
    def fast_math(self) -> bool: ...

    @fast_math.setter
    def fast_math(self, arg: bool, /) -> None: ...

    @property
    def flush_denormals(self) -> bool | None: ...

    @flush_denormals.setter
    def flush_denormals(self, arg: bool | None, /) -> None: ...

    @property
    def contract(self) -> bool | None:
        """a * b + c in one rounding."""

    @contract.setter
    def contract(self, arg: bool | None, /) -> None: ...

    @property
    def precise_division(self) -> bool | None: ...

    @precise_division.setter
    def precise_division(self, arg: bool | None, /) -> None: ...

    @property
    def precise_sqrt(self) -> bool | None: ...

    @precise_sqrt.setter
    def precise_sqrt(self, arg: bool | None, /) -> None: ...

    @property
    def max_registers(self) -> int:
        """Registers that a thread may use, 24 to 255; 0: as many as it likes."""

    @max_registers.setter
    def max_registers(self, arg: int, /) -> None: ...

    @property
    def lto(self) -> bool: ...

    @lto.setter
    def lto(self, arg: bool, /) -> None: ...

    @property
    def line_info(self) -> bool: ...

    @line_info.setter
    def line_info(self, arg: bool, /) -> None: ...

    @property
    def debug(self) -> bool: ...

    @debug.setter
    def debug(self, arg: bool, /) -> None: ...

    @property
    def defines(self) -> dict[str, str]:
        """Name ("TILE", "SQUARE(x)") to value."""

    @defines.setter
    def defines(self, arg: Mapping[str, str], /) -> None: ...

    @property
    def include_paths(self) -> list[str]: ...

    @include_paths.setter
    def include_paths(self, arg: Sequence[str], /) -> None: ...

    @property
    def headers(self) -> dict[str, str]:
        """Name to text, found by #include before any file."""

    @headers.setter
    def headers(self, arg: Mapping[str, str], /) -> None: ...

    @property
    def flags(self) -> list[str]:
        """For the compiler itself, behind all others."""

    @flags.setter
    def flags(self, arg: Sequence[str], /) -> None: ...

    def __eq__(self, other: object) -> bool: ...

    def __repr__(self) -> str: ...

class Limits:
    """
    Limits of a runtime's image: an operator with which it would exceed one is refused with dwell.ResourceLimit.
    0: no limit. The CPU has only min_workers.
    """

    def __init__(self, *, registers: int = 0, stack_bytes: int = 0, shared_bytes: int = 0, constant_bytes: int = 0, barriers: int = 0, min_workers: int = 1) -> None: ...

    @property
    def registers(self) -> int:
        """A thread."""

    @registers.setter
    def registers(self, arg: int, /) -> None: ...

    @property
    def stack_bytes(self) -> int:
        """A thread."""

    @stack_bytes.setter
    def stack_bytes(self, arg: int, /) -> None: ...

    @property
    def shared_bytes(self) -> int:
        """A worker, static."""

    @shared_bytes.setter
    def shared_bytes(self, arg: int, /) -> None: ...

    @property
    def constant_bytes(self) -> int: ...

    @constant_bytes.setter
    def constant_bytes(self, arg: int, /) -> None: ...

    @property
    def barriers(self) -> int:
        """A worker; the loop takes 3."""

    @barriers.setter
    def barriers(self, arg: int, /) -> None: ...

    @property
    def min_workers(self) -> int:
        """Workers that the device must hold at once with the image."""

    @min_workers.setter
    def min_workers(self, arg: int, /) -> None: ...

class RuntimeInfo:
    """
    A runtime's device and its image's resources. A snapshot; what it has done is in Metrics.
    """

    @property
    def runtime(self) -> int:
        """Which one of this process, from 1."""

    @property
    def generation(self) -> int:
        """From 1, one more with each Runtime.rebuild."""

    @property
    def device(self) -> str:
        """"cpu", "cuda:0"."""

    @property
    def device_name(self) -> str:
        """As the vendor names it."""

    @property
    def compiler(self) -> str:
        """Name and version."""

    @property
    def workers(self) -> int:
        """
        Of the image that runs; before the first definition as many as were asked for, which an image has at most.
        """

    @property
    def crew(self) -> int:
        """Workers that fetch; 0 before the first definition."""

    @property
    def registers(self) -> int:
        """A thread of the image; 0 on the CPU, as the next four."""

    @property
    def stack_bytes(self) -> int:
        """A thread."""

    @property
    def shared_bytes(self) -> int:
        """Static, a worker."""

    @property
    def constant_bytes(self) -> int:
        """Of the whole image."""

    @property
    def barriers(self) -> int:
        """A worker."""

    @property
    def tier(self) -> str:
        """"relocatable" or "lto"."""

    def __repr__(self) -> str: ...

    def asdict(self) -> dict[str, Any]:
        """All of it as a dictionary."""

class OnWorker:
    """A worker that runs a part of a task."""

    @property
    def worker(self) -> int:
        """Its number."""

    @property
    def node(self) -> str:
        """Of a graph: the node with which it has begun."""

    @property
    def since(self) -> float:
        """For how long, in seconds."""

    def __repr__(self) -> str: ...

    def asdict(self) -> dict[str, Any]:
        """All of it as a dictionary."""

class TaskState:
    """A task, or launch of a graph, that is not complete."""

    @property
    def position(self) -> int:
        """Of its ticket."""

    @property
    def name(self) -> str:
        """Operator and version."""

    @property
    def graph(self) -> bool:
        """Whether it is the launch of a graph."""

    @property
    def cancelled(self) -> bool:
        """Runtime.cancel has been called."""

    @property
    def groups(self) -> int:
        """Of a wide task or a gang."""

    @property
    def doing(self) -> str:
        """
        "runs", "waits_to_start", "waits_for_host", "waits_for_gang", "waits_to_run", "parked" or "lost".
        """

    @property
    def waits_for(self) -> list[int]:
        """Positions of the tasks that it waits for."""

    @property
    def named(self) -> list[str]:
        """What else it waits for."""

    @property
    def workers(self) -> list[OnWorker]:
        """Those that run it."""

    def __repr__(self) -> str: ...

    def asdict(self) -> dict[str, Any]:
        """All of it as a dictionary."""

class Diagnosis:
    """
    What is not complete, and who waits for whom. ``str`` makes a text of it.
    """

    @property
    def tasks(self) -> list[TaskState]:
        """The oldest 64 tasks, oldest first."""

    @property
    def total(self) -> int:
        """How many are not complete."""

    @property
    def cycles(self) -> list[list[int]]:
        """Positions of tasks that wait for each other in a circle."""

    @property
    def workers(self) -> int:
        """Of the image that runs."""

    @property
    def busy(self) -> int:
        """Those of them that run, or may run, a task."""

    @property
    def parked(self) -> bool:
        """By Runtime.park."""

    @property
    def stalled(self) -> bool:
        """The watchdog has proved that nothing moves."""

    def __repr__(self) -> str: ...

    def asdict(self) -> dict[str, Any]:
        """All of it as a dictionary."""

    def __str__(self) -> str: ...

class DeviceSummary:
    """A device as its driver describes it."""

    @property
    def device(self) -> str:
        """As Runtime takes it: "cpu", "cuda:0"."""

    @property
    def name(self) -> str:
        """As the vendor names it."""

    @property
    def target(self) -> str:
        """What operators are compiled for: "host", "sm_90"."""

    @property
    def driver(self) -> str:
        """
        The newest CUDA that its driver supports: "CUDA 13.0"; empty on the CPU.
        """

    @property
    def memory_bytes(self) -> int:
        """All of it."""

    @property
    def multiprocessors(self) -> int:
        """0 on the CPU."""

    @property
    def workers(self) -> int:
        """With workers=0."""

    @property
    def problem(self) -> str:
        """Why it cannot run dwell; empty when nothing is known against it."""

    def __repr__(self) -> str: ...

    def asdict(self) -> dict[str, Any]:
        """All of it as a dictionary."""

def devices() -> list[DeviceSummary]:
    """
    The devices of this machine: the CPU first, then each CUDA device that the driver shows.
    """

def without_cuda() -> str:
    """
    Why this build has no CUDA backend, and how to get one; empty where it has one.
    """

class Ticket:
    """
    The receipt of a task, or of a launch. ``await ticket`` waits in asyncio. It may be kept and dropped freely, also after
    its runtime is closed: it goes on telling what became of its task.
    """

    def wait(self, timeout: float | None = None) -> bool:
        """
        Returns True once the task is complete and its effects are visible, or False after `timeout` seconds. Raises what became of a
        task that failed: dwell.TaskFailed, dwell.Cancelled, dwell.TaskTimeout, dwell.DeviceLost. Without the GIL.
        """

    @property
    def done(self) -> bool:
        """
        Whether the task is complete, successful or not. An attribute: ``ticket.done``, where a future has ``done()``;
        ``ticket.as_future()`` is one.
        """

    def cancel(self) -> bool:
        """
        Asks for the end of a task or launch that has not begun, as `Runtime.cancel`. False when it is known to be complete, and for the
        launch of a kernel.
        """

    def status(self) -> int:
        """
        0 for success, positive for the operator's own code, negative for one of dwell's. Waits, and raises nothing for
        tasks that have failed.
        """

    @property
    def device(self) -> int:
        """
        The device that runs the task: its index among those of the runtime, from 0. A runtime has one.
        """

    @property
    def position(self) -> int:
        """The task's place in its device's order of submission."""

    def add_done_callback(self, callback: Callable[[Ticket], object]) -> None:
        """
        Calls ``callback(ticket)`` once when the task is complete, on a thread of the runtime, which calls one after the other. It may use
        the runtime, but not close it. What it raises goes to ``sys.unraisablehook``.
        """

    def as_future(self) -> concurrent.futures.Future[None]:
        """
        A concurrent.futures.Future whose result is None, or raises as `wait`. Its `cancel` asks for the end of a task that has not begun,
        and returns False: only the end of the task tells. It is cancelled when the task was.
        """

    def __await__(self) -> Generator[Any, None, None]: ...

    def __repr__(self) -> str: ...

class Waker:
    def __init__(self) -> None: ...

    def fileno(self) -> int: ...

    def watch(self, ticket: Ticket, key: int) -> None: ...

    def take(self) -> list[int]: ...

class StopSource:
    def request(self) -> bool: ...

class ElementType(enum.Enum):
    """The types that elements of buffers have."""

    f16 = 0

    bf16 = 1

    f32 = 2

    f64 = 3

    i8 = 4

    i16 = 5

    i32 = 6

    i64 = 7

    u8 = 8

    u16 = 9

    u32 = 10

    u64 = 11

    boolean = 12

    complex64 = 13

    complex128 = 14

class Buffer:
    """
    Elements of one type in C order, in memory of a runtime or of somebody else: what operators work on.

    Made by ``Runtime.allocate``, ``Runtime.array`` (a copy) and ``Runtime.wrap`` (no copy). Parts, ``buffer[2:10]``,
    share its memory. Memory that tasks name lives until they have run, also when the buffer is dropped before.
    Other libraries take it without a copy, by DLPack, ``__cuda_array_interface__`` or the buffer protocol.
    """

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> ElementType:
        """The type of its elements."""

    @property
    def size(self) -> int:
        """How many elements it has."""

    @property
    def nbytes(self) -> int:
        """Its size in bytes."""

    @property
    def device(self) -> str:
        """The runtime's device: "cpu", "cuda:0"."""

    @property
    def memory(self) -> str:
        """"device", or "host" for pinned host memory that the device reaches."""

    @property
    def address(self) -> int:
        """Where it begins, in the device's addresses."""

    def wait(self) -> None:
        """Waits for the tasks so far that name the memory, without the GIL."""

    def write(self, source: object) -> None:
        """
        Copies an array on the host, ``bytes``, or a list of numbers into it, after the tasks so far that name it.
        """

    def read(self) -> NDArray[Any]:
        """
        A copy as a NumPy array, taken after the tasks so far that name it. A bfloat16 is that of ml_dtypes where
        that is installed, else ``uint16``.
        """

    def readinto(self, target: object) -> None:
        """Copies it into an array on the host of the same type and size."""

    def tobytes(self) -> bytes:
        """A copy as bytes. Needs no NumPy."""

    def numpy(self) -> NDArray[Any]:
        """
        The same memory as a NumPy array, on the CPU and for host memory; else raises dwell.Unsupported. Waits for the tasks so far,
        but not for later ones.
        """

    def __array__(self, dtype: object = None, copy: object = None) -> NDArray[Any]: ...

    def view(self, dtype: object) -> Buffer:
        """
        The same memory as elements of another type; in one dimension when these have another size.
        """

    def reshape(self, shape: int | Sequence[int]) -> Buffer:
        """The same memory in another shape."""

    def __getitem__(self, part: slice) -> Buffer:
        """A part along the first dimension, which shares the memory."""

    def __len__(self) -> int: ...

    def __buffer__(self, flags: int, /) -> memoryview: ...

    def __repr__(self) -> str: ...

    def __dlpack__(self, *, stream: int | None = None, max_version: tuple[int, int] | None = None, dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> object:
        """
        The memory as a capsule of DLPack, of version 1 when the consumer takes that. Waits for the tasks so far on the host, so that
        every stream sees their results; with ``stream=-1`` for none.
        """

    def __dlpack_device__(self) -> tuple[int, int]: ...

    @property
    def __cuda_array_interface__(self) -> dict[str, object]: ...

class Ring:
    """
    A ring of messages of one type between operators, or between operators and the host; made by ``Runtime.ring``.
    Operators declare a ``dwell::Ring<T>``. Iterating takes messages until the ring is closed, with ``async for`` too.
    """

    def try_push(self, value: object, type: int = 0) -> bool:
        """Appends a message. False if there is no room, or the ring is closed."""

    def push(self, value: object, type: int = 0, timeout: float | None = None) -> bool:
        """
        Appends a message; waits for room. False when ``timeout``, in seconds, is over first.
        """

    def try_pop(self) -> Any:
        """The next message, a scalar of NumPy; None if there is none."""

    def pop(self, timeout: float | None = None) -> Any:
        """
        The next message; waits for it. None at the end of a closed ring, and when ``timeout``, in seconds, is over first.
        """

    @property
    def dtype(self) -> Any:
        """The type of messages, of NumPy."""

    def __iter__(self) -> Ring: ...

    def __next__(self) -> Any: ...

    def close(self) -> None:
        """
        Ends the ring: later pushes fail, and consumers find the end behind the messages before. If the producers are operators, first
        waits for the tasks submitted so far that name the ring.
        """

    @property
    def finished(self) -> bool:
        """Whether the ring is closed and all of its messages have been taken."""

    @property
    def slots(self) -> int:
        """The number of slots."""

    def counts(self) -> dict[str, int]:
        """
        What consumers have skipped: "discarded", "abandoned" and "damaged" messages, and "damaged_at", the position of the last
        damaged one.
        """

    def __aiter__(self) -> AsyncIterator[Any]: ...

class ByteRing:
    """
    A ring of messages of bytes, each with a type from 0 to 255; made by ``Runtime.byte_ring``. Operators declare a
    ``dwell::ByteRing``. Iterating takes messages until the ring is closed, with ``async for`` too.
    """

    def try_push(self, message: bytes, type: int = 0) -> bool:
        """Appends a message. False if there is no room, or the ring is closed."""

    def push(self, message: bytes, type: int = 0, timeout: float | None = None) -> bool:
        """
        Appends a message; waits for room. False when ``timeout``, in seconds, is over first.
        """

    def try_pop(self) -> tuple[int, bytes] | None:
        """The next message, its type first; None if there is none."""

    def pop(self, timeout: float | None = None) -> tuple[int, bytes] | None:
        """
        The next message, its type first; waits for it. None at the end of a closed ring, and when ``timeout``, in seconds, is over
        first.
        """

    def __iter__(self) -> ByteRing: ...

    def __next__(self) -> tuple[int, bytes]: ...

    def close(self) -> None:
        """
        Ends the ring: later pushes fail, and consumers find the end behind the messages before. If the producers are operators, first
        waits for the tasks submitted so far that name the ring.
        """

    @property
    def finished(self) -> bool:
        """Whether the ring is closed and all of its messages have been taken."""

    @property
    def slots(self) -> int:
        """The number of slots."""

    def counts(self) -> dict[str, int]:
        """
        What consumers have skipped: "discarded", "abandoned" and "damaged" messages, and "damaged_at", the position of the last
        damaged one.
        """

    def __aiter__(self) -> AsyncIterator[Any]: ...

class Ref:
    """
    A reference to memory of a runtime's heap, for operators that declare a ``dwell::Ref<T>`` or ``dwell::Root<T>``. False if it
    names nothing. It keeps nothing, unless ``Heap.hold`` or ``Heap.hold_root`` has returned it.
    """

    def __init__(self, unit: int = 0) -> None: ...

    @property
    def unit(self) -> int:
        """The number of 16-byte units from the heap's start; 0: nothing."""

    def __index__(self) -> int: ...

    def __int__(self) -> int: ...

    def __bool__(self) -> bool: ...

    def __eq__(self, other: object) -> bool: ...

    def __hash__(self) -> int: ...

    def __repr__(self) -> str: ...

class Heap:
    """
    The memory that operators of a runtime allocate while they run: ``Runtime.heap``.
    """

    def allocate(self, bytes: int, alignment: int = 16, count: int | None = None) -> Any:
        """
        Allocates uninitialised memory, as a Ref. With ``count`` so many times, as an array of uint32; many at once are cheaper.
        """

    def make(self, value: Any, dtype: Any = None) -> Ref:
        """
        Allocates memory for a value, or an array of values, and copies it there.
        """

    def free(self, refs: Ref | int | Sequence[Ref | int] | None) -> None:
        """
        Frees what one reference names, or each of several, whoever has allocated it. Tasks that use it have ended.
        """

    def read(self, ref: Ref | int, dtype: Any, count: int | None = None, offset: int = 0) -> Any:
        """
        Copies a scalar of a type of NumPy from there, or an array of ``count``. ``offset``: in bytes. Operators may run; the caller
        orders it with theirs.
        """

    def write(self, ref: Ref | int, values: Any, dtype: Any = None, offset: int = 0) -> None:
        """Copies values there, from ``offset`` bytes on."""

    def root(self, name: str) -> Ref:
        """
        The root of this name: an object with one reference, which the heap holds for ever. Operators declare a ``dwell::Root<T>``.
        """

    def set_root(self, root: Ref | int, ref: Ref | int | None = None) -> None:
        """Overwrites a root's reference."""

    def hold(self, ref: Ref | int) -> Ref:
        """
        A reference that keeps an object as long as it lives. The object is reachable now, and of a type that does not move.
        """

    def hold_root(self, root: Ref | int) -> Ref:
        """
        The same for the object that a root refers to, which may be of a type that moves: it stays while it is held.
        """

    def collect(self) -> dict[str, Any]:
        """
        Frees all objects that are unreachable; returns counts. Tasks run meanwhile. Times are in seconds.
        """

    def compact(self) -> dict[str, Any]:
        """
        Collects, moves objects of types that DWELL_MOVABLE declares together, and gives pages back; returns counts.
        """

    def statistics(self) -> dict[str, Any]:
        """Bytes and counts of the heap, and of each size class."""

    def census(self) -> dict[str, Any]:
        """
        What lives in the heap, by type of object and by size. Takes the loop off the device meanwhile.
        """

    def verify(self) -> dict[str, int]:
        """
        Checks the heap's tables against each other, with the loop off the device: "mistakes" is 0.
        """

class Operator:
    """A piece of device code that tasks run: ``op(x, y, 2.0)`` submits one."""

    @property
    def name(self) -> str:
        """As it was defined: "axpy", or "axpy<float>" for an instance."""

    @property
    def signature(self) -> str:
        """
        Its parameters as C++ writes them: "(float, Span<const float>, Span<float>)".
        """

    @property
    def versions(self) -> int:
        """Versions defined so far."""

    @property
    def version(self) -> int:
        """That which a task submitted now would run, from 1."""

    @property
    def instances(self) -> list[str]:
        """As `define` was given them; else the name alone."""

    def instance(self, expression: str) -> Operator:
        """Another instance of the same template."""

    def redefine(self, source: str, options: CompileOptions | None = None, file: str | None = None, line: int = 1) -> None:
        """
        Compiles `source` and makes it the current version: tasks submitted before this returns run the old one, later ones the new one.
        Without options those of the version before are used. Raises as `define`; then the old version stays.
        """

    def redefine_async(self, source: str, options: CompileOptions | None = None, file: str | None = None, line: int = 1) -> dwell._futures.Pending[None]:
        """The same in the background: a future, which may be awaited too."""

    def rollback(self) -> None:
        """
        Makes the version below the current one current again, without compiling.
        """

    def __call__(self, *arguments: object, groups: int = 1, gang: int = 0, after: Ticket | Iterable[Ticket] | None = None, after_any_result: Ticket | Iterable[Ticket] | None = None, link: bool = False, hard_link: bool = False, drain: bool = False, priority: int | None = None, repeat: int = 1) -> Ticket:
        """Submits a task, as Runtime.submit."""

    def __eq__(self, other: object) -> bool: ...

    def __hash__(self) -> int: ...

    def __repr__(self) -> str: ...

class Node:
    """
    A task of a graph, a conditional node, a host node, or all of a sub-graph.
    """

    def after(self, *nodes: Node | Iterable[Node]) -> Node:
        """
        This node starts only when all of these have succeeded. Returns the node.
        """

    def name(self, name: str) -> Node:
        """The name that errors and Graph.dot show. Returns the node."""

    def __eq__(self, other: object) -> bool: ...

    def __repr__(self) -> str: ...

class SubGraph(Node):
    """
    The nodes of a graph that was added to another, or of those that a conditional node chooses from.
    """

    def inside(self, node: Node, body: int = 0) -> Node:
        """
        What has become of a node of the graph that was added; of several, of that with this number.
        """

class Graph:
    """
    Tasks and their order, made once and launched as often as wanted. Holds no memory of a device, and keeps the buffers alive
    that its nodes name. Used by one thread at a time.
    """

    def __init__(self, name: str = '') -> None: ...

    def name(self, name: str) -> Graph:
        """
        The name by which launches go wherever tasks are shown: in errors, timelines, `Runtime.diagnose`. Execs keep the one that the
        graph had when they were instantiated. Returns the graph.
        """

    @overload
    def add(self, op: Operator, *arguments: object, groups: int = 1, gang: int = 0) -> Node:
        """
        Adds a task, with arguments, groups and gang as Runtime.submit takes them, and returns its node.
        """

    @overload
    def add(self, name: str, op: Operator, *arguments: object, groups: int = 1, gang: int = 0) -> Node:
        """The same with a name, which errors and `dot` show."""

    @overload
    def add(self, graph: Graph) -> SubGraph:
        """Adds the nodes of another graph, as they are now."""

    @overload
    def add(self, name: str, graph: Graph) -> SubGraph:
        """
        The same with a name: a node 'x' of a sub-graph 'sub' is called 'sub/x'.
        """

    def add_if(self, name: str, value: Buffer, body: Graph, otherwise: Graph | None = None) -> SubGraph:
        """
        Runs `body` if `value`, the first element of a buffer of uint32, is not 0 when the node's turn comes, else `otherwise`.
        """

    def add_while(self, name: str, value: Buffer, body: Graph) -> SubGraph:
        """
        Runs `body` while `value` is not 0, at which it looks before each time.
        """

    def add_switch(self, name: str, value: Buffer, bodies: Iterable[Graph]) -> SubGraph:
        """
        Runs that of `bodies` whose number `value` is; none if it is too large.
        """

    def add_host(self, name: str, callback: Callable[[], object]) -> Node:
        """
        Adds a node that calls ``callback()`` on a thread of the runtime; the nodes behind start when it has returned. If it raises, the node
        has failed. It may use the runtime, but not wait for its own launch. There, reading and writing arrays waits for no tasks: wait for
        the tickets of what is to be seen.
        """

    def dot(self) -> str:
        """The graph in the language of Graphviz."""

    def __len__(self) -> int: ...

    def __repr__(self) -> str: ...

class NodeTime:
    """How long a node has taken in the launch of GraphExec.measure."""

    @property
    def runs(self) -> int:
        """0 of one that was cancelled or not chosen, more than 1 in a loop."""

    @property
    def total(self) -> float:
        """Seconds, of all runs."""

    def __repr__(self) -> str: ...

class GraphExec:
    """
    A graph on a device, ready to be launched: by Runtime.launch, and by operators that have it as an argument.
    """

    def set(self, node: Node, index: int, value: object) -> None:
        """
        Gives a node another argument from the next launch on; launches so far keep theirs.
        """

    def update(self, graph: Graph) -> None:
        """Takes over all arguments of a graph with the same operators and edges."""

    def measure(self) -> None:
        """
        Launches the graph once with two readings of the device's clock around each node, and returns when that has ended.
        """

    def time(self, node: Node) -> NodeTime:
        """What `measure` has found last for a node that runs something."""

    def dot(self) -> str:
        """As Graph.dot; behind `measure` with times and the critical path."""

    @property
    def nbytes(self) -> int:
        """The device memory that it takes."""

    def __len__(self) -> int: ...

    def __repr__(self) -> str: ...

class Kernel:
    """An ordinary kernel: ``kernel(x, 3, grid=8, block=128)`` launches it."""

    @property
    def name(self) -> str:
        """As C++ has it, without parameters."""

    @property
    def symbol(self) -> str: ...

    @property
    def signature(self) -> str:
        """Its parameters."""

    def __call__(self, *arguments: object, grid: int | Sequence[int], block: int | Sequence[int], shared: int = 0, stream: int = 0, cooperative: bool = False) -> Ticket:
        """
        Launches it on the runtime's stream for launches, or on the CUstream at the address `stream`, and returns at once.

        grid, block: blocks and threads, up to three extents
        shared: dynamic shared memory of a block, in bytes
        cooperative: run all blocks at once, so that they may wait for each other

        Raises InvalidArgument for what is beyond the limits of the kernel or the device, and for a cooperative grid that does not fit
        on the device.
        """

    def launch(self, *arguments: object, grid: int | Sequence[int], block: int | Sequence[int], shared: int = 0, stream: int = 0, cooperative: bool = False) -> Ticket:
        """The same."""

    def __repr__(self) -> str: ...

class Module:
    """A compiled and loaded program of ordinary kernels."""

    def kernel(self, name: str) -> Kernel:
        """
        The kernel of this name: "scale", "reduce<double, 256>", "scale(float*)", or a symbol.
        """

    @property
    def kernels(self) -> list[str]:
        """The names of all kernels."""

    def lowered_name(self, name: str) -> str:
        """The symbol behind a name."""

    @property
    def cubin(self) -> bytes:
        """The program that was loaded."""

    @property
    def ptx(self) -> str:
        """The same in PTX."""

    @property
    def log(self) -> str:
        """The compiler's warnings."""

    def __repr__(self) -> str: ...

class BatchStats:
    """What has been collected since the beginning."""

    @property
    def operations(self) -> int:
        """Collected, copies in between among them."""

    @property
    def tasks(self) -> int:
        """Submitted: fewer, as far as operations became part of others."""

    @property
    def programs(self) -> int:
        """Tasks among these that run a program over elements."""

    @property
    def compiled(self) -> int:
        """And among those, by an operator compiled for the program."""

    def __repr__(self) -> str: ...

class Batch:
    """
    Collects operations on tensors, and runs them as few tasks: nothing is compiled for them, and no kernel is launched.

    Tensors are ``dwell.Buffer``, or arrays of others on the runtime's device, of any strides, up to 8 dimensions and of float16,
    bfloat16, float32, float64, int8, int16, int32, int64, uint8 or bool. ``to`` is where results go; types are PyTorch's. Order follows
    from memory. What an operation names lives until it has run. A context manager: the block's end flushes. Threads may share it, and
    then wait for each other. Made by ``Runtime.batch``.
    """

    def apply(self, op: str, to: object, *operands: object) -> None:
        """
        to = op(operands), element by element, with broadcasting: ``batch.apply("add", y, x, 1.0)``. The names are those of C++,
        ``dwell/device/tensor_op.hpp``. Operands are tensors, bools, ints and floats. Raises dwell.InvalidArgument for what does not
        fit, dwell.Unsupported for types that tensors cannot have.
        """

    def assign(self, to: object, value: object) -> None:
        """
        to = a tensor or a number, converted to its type and broadcast to its shape.
        """

    def arange(self, to: object, start: object = 0, step: object = 1) -> None:
        """to = start, start + step, ... in the order of rows."""

    def flush(self) -> Ticket:
        """
        Submits what is left. The ticket stands for all since the flush before.
        """

    @property
    def stats(self) -> BatchStats:
        """What it has done since it was made."""

    def __enter__(self) -> Batch: ...

    def __exit__(self, type: object = None, value: object = None, traceback: object = None) -> None:
        """Flushes, and does not wait."""

    def __repr__(self) -> str: ...

    def sum(self, to: object, x: object, axes: object | None = None) -> None:
        """
        to = the sum. Along axes: all, when none is named; `to` has the shape of x without them, or 1 in their place.
        """

    def mean(self, to: object, x: object, axes: object | None = None) -> None:
        """
        to = the mean. Along axes: all, when none is named; `to` has the shape of x without them, or 1 in their place.
        """

    def prod(self, to: object, x: object, axes: object | None = None) -> None:
        """
        to = the product. Along axes: all, when none is named; `to` has the shape of x without them, or 1 in their place.
        """

    def amax(self, to: object, x: object, axes: object | None = None) -> None:
        """
        to = the largest element. Along axes: all, when none is named; `to` has the shape of x without them, or 1 in their place.
        """

    def amin(self, to: object, x: object, axes: object | None = None) -> None:
        """
        to = the smallest element. Along axes: all, when none is named; `to` has the shape of x without them, or 1 in their place.
        """

    def argmax(self, to: object, x: object, axes: object | None = None) -> None:
        """
        to = the place of the largest element, the first of equal ones in the order of rows. Along axes: all, when none is named; `to` has the shape of x without them, or 1 in their place.
        """

    def argmin(self, to: object, x: object, axes: object | None = None) -> None:
        """
        to = the place of the smallest element, the first of equal ones in the order of rows. Along axes: all, when none is named; `to` has the shape of x without them, or 1 in their place.
        """

    def any(self, to: object, x: object, axes: object | None = None) -> None:
        """
        to = whether some element is not 0. Along axes: all, when none is named; `to` has the shape of x without them, or 1 in their place.
        """

    def all(self, to: object, x: object, axes: object | None = None) -> None:
        """
        to = whether no element is 0. Along axes: all, when none is named; `to` has the shape of x without them, or 1 in their place.
        """

    def var(self, to: object, x: object, axes: object | None = None, correction: float = 1.0) -> None:
        """
        to = the sum of squared differences from the mean, divided by the count less the correction. Along axes: all, when none is named; `to` has the shape of x without them, or 1 in their place.
        """

    def std(self, to: object, x: object, axes: object | None = None, correction: float = 1.0) -> None:
        """
        to = the square root of `var`. Along axes: all, when none is named; `to` has the shape of x without them, or 1 in their place.
        """

    def norm(self, to: object, x: object, axes: object | None = None, p: float = 2.0) -> None:
        """
        to = the sum of ``|x|**p`` to the power of 1/p; the largest or smallest |x| for an infinite p, the count of those not 0 for a p of 0. Along axes: all, when none is named; `to` has the shape of x without them, or 1 in their place.
        """

    def logsumexp(self, to: object, x: object, axes: object | None = None) -> None:
        """
        to = the logarithm of the sum of exponentials. Along axes: all, when none is named; `to` has the shape of x without them, or 1 in their place.
        """

    def max(self, values: object, places: object, x: object, axis: int) -> None:
        """The largest elements along an axis, and their places."""

    def min(self, values: object, places: object, x: object, axis: int) -> None:
        """The smallest elements along an axis, and their places."""

    def softmax(self, to: object, x: object, axis: int = -1) -> None:
        """
        to = exponentials of x, divided by their sum along an axis. `to` may be x.
        """

    def log_softmax(self, to: object, x: object, axis: int = -1) -> None:
        """to = the logarithm of `softmax`."""

    def cumsum(self, to: object, x: object, axis: int = -1) -> None:
        """to = the sum of all elements up to this one along an axis."""

    def layer_norm(self, to: object, x: object, shape: object, weight: object | None = None, bias: object | None = None, epsilon: float = 1e-05) -> None:
        """
        to = x with mean 0 and variance 1 along its last dimensions, which have `shape`; times weights, plus biases, of that shape.
        """

    def rms_norm(self, to: object, x: object, shape: object, weight: object | None = None, epsilon: float = 1e-05) -> None:
        """
        to = x with a mean square of 1 along its last dimensions, times weights.
        """

    def mm(self, to: object, a: object, b: object) -> None:
        """to (m, n) = a (m, k) times b (k, n), all of one type."""

    def bmm(self, to: object, a: object, b: object) -> None:
        """
        The same for each of a batch: to (batch, m, n), a (batch, m, k), b (batch, k, n).
        """

    def matmul(self, to: object, a: object, b: object) -> None:
        """
        As torch.matmul: vectors, matrices, and dimensions ahead of them that broadcast.
        """

    def mv(self, to: object, a: object, b: object) -> None:
        """to (m) = a (m, k) times b (k)."""

    def dot(self, to: object, a: object, b: object) -> None:
        """to () = the sum of a (k) times b (k)."""

    def outer(self, to: object, a: object, b: object) -> None:
        """to (m, n) = a (m) times b (n), of any types."""

    def addmm(self, to: object, bias: object, a: object, b: object, beta: float = 1.0, alpha: float = 1.0) -> None:
        """
        to = beta * bias + alpha * (a times b); the bias broadcasts, and may be `to`.
        """

    def baddbmm(self, to: object, bias: object, a: object, b: object, beta: float = 1.0, alpha: float = 1.0) -> None:
        """The same for each of a batch."""

    def addmv(self, to: object, bias: object, a: object, b: object, beta: float = 1.0, alpha: float = 1.0) -> None:
        """The same of a matrix and a vector."""

    def index_select(self, to: object, source: object, axis: int, index: object) -> None:
        """
        to = slices of source along an axis, by an index of int32 or int64 with one dimension.
        """

    def gather(self, to: object, source: object, axis: int, index: object) -> None:
        """
        to = the element that the index, of its shape, names along an axis of source.
        """

    def embedding(self, to: object, source: object, index: object) -> None:
        """to = rows of a table, for an index of any shape."""

    def scatter_add(self, to: object, axis: int, index: object, source: object) -> None:
        """
        Adds each element of source where the index says along an axis of `to`.
        """

    def tril(self, to: object, x: object, diagonal: int = 0) -> None:
        """to = the lower triangle of each matrix, 0 elsewhere."""

    def triu(self, to: object, x: object, diagonal: int = 0) -> None:
        """to = the upper triangle of each matrix, 0 elsewhere."""

    def cat(self, to: object, arrays: object, axis: int = 0) -> None:
        """to = the arrays behind each other along an axis."""

    def stack(self, to: object, arrays: object, axis: int = 0) -> None:
        """to = the arrays along an axis that they do not have."""

class OperatorMetrics:
    """What one version of an operator has done. Times are in seconds."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> int:
        """
        0: all versions before the oldest one that is listed; of Metrics.totals, all versions.
        """

    @property
    def tasks(self) -> int:
        """
        Tasks whose operator was called and has returned; a wide task counts once for each group.
        """

    @property
    def failures(self) -> int:
        """Tasks that have reported a failure."""

    @property
    def timed(self) -> int:
        """Tasks that the times tell of: those while metrics were "times"."""

    @property
    def total(self) -> float:
        """
        Time from the call of the operator to its return in all threads of the group, of all timed tasks.
        """

    @property
    def min(self) -> float:
        """The least of these times."""

    @property
    def max(self) -> float:
        """The longest of these times."""

    @property
    def waits(self) -> int:
        """
        Tasks of a sample of which it is known how long they waited: of the ring one in 256, of others one place of the queue in 16.
        """

    @property
    def waited(self) -> float:
        """
        Time that these have waited: from their submission to the call, nodes and spawned tasks in the queue.
        """

    @property
    def longest_wait(self) -> float:
        """The longest of these."""

    @property
    def sampled(self) -> int:
        """Tasks of a sample whose arguments were looked at."""

    @property
    def sampled_bytes(self) -> int:
        """Bytes that the spans among the arguments of these name."""

    @property
    def mean(self) -> float: ...

    def quantile(self, q: float) -> float:
        """
        The time that the share `q` (0 to 1) does not exceed, to within a fifth.
        """

    @property
    def mean_wait(self) -> float:
        """
        From the submission to the call of the operator; of nodes and tasks that operators make, in the ready queue.
        """

    @property
    def mean_bytes(self) -> float:
        """That the arrays among the arguments of a task name."""

    def __repr__(self) -> str: ...

class WorkerMetrics:
    """What one worker has done, of all leases. Times are in seconds."""

    @property
    def tasks(self) -> int:
        """Tasks that the worker has run."""

    @property
    def busy(self) -> float:
        """
        Time that the worker has spent inside operators, while metrics were "times".
        """

    @property
    def idle(self) -> float:
        """
        Time that the worker has spent on the device outside of operators, but for the lease under way, while metrics were "times".
        """

    @property
    def present(self) -> float:
        """
        Time that the worker has spent on the device, but for the lease under way.
        """

    @property
    def fetched(self) -> int:
        """
        Slots of the ring that the worker has taken out, for itself or others; most tasks have one.
        """

    @property
    def queued(self) -> int:
        """Tasks that the worker has taken from the ready queue."""

    @property
    def stolen(self) -> int:
        """Nodes that the worker has taken from another one; on the CPU alone."""

    @property
    def spawned(self) -> int:
        """Tasks that operators have made on the worker."""

    @property
    def leases(self) -> int:
        """Leases that the worker has taken part in."""

    @property
    def parks(self) -> int:
        """
        How often the worker has left the device with no lease there to go on in.
        """

    @property
    def log_dropped(self) -> dict[str, int]:
        """Lines of its log that found no room, by severity."""

class Metrics:
    """
    What a runtime has done, in numbers. Counts only grow: what happened in an interval is ``later - earlier``.
    """

    @property
    def device(self) -> str: ...

    @property
    def metering(self) -> str: ...

    @property
    def operators(self) -> list[OperatorMetrics]:
        """By version."""

    @property
    def totals(self) -> list[OperatorMetrics]:
        """
        All versions of each operator together. Counts of one that is here only grow.
        """

    @property
    def workers(self) -> list[WorkerMetrics]: ...

    @property
    def submitted(self) -> int:
        """Tasks and launches of graphs that were submitted."""

    @property
    def in_flight_slots(self) -> int:
        """
        Slots of the ring that no other task can have yet: of tasks that are not complete, and of those behind such a one.
        """

    @property
    def ring_slots(self) -> int:
        """Slots of the ring."""

    @property
    def queued(self) -> int:
        """Tasks in the ready queue that no worker has claimed."""

    @property
    def credit_waits(self) -> int:
        """How often a submitter has found the ring full."""

    @property
    def cancels(self) -> int:
        """Calls that have asked for a cancel of a task that was not complete."""

    @property
    def leases(self) -> int:
        """Leases that were started."""

    @property
    def parks(self) -> int:
        """
        How often the loop was off the device when a lease was started, but for the first.
        """

    @property
    def pauses(self) -> int:
        """
        How often the loop was taken off the device: by a park, an image with another number of workers, the watchdog.
        """

    @property
    def images(self) -> int:
        """Images that have taken over."""

    @property
    def hand_overs_relocatable(self) -> int:
        """Images that have taken over, by tier."""

    @property
    def hand_overs_lto(self) -> int:
        """Images that have taken over, by tier."""

    @property
    def tasks_relocatable(self) -> int:
        """Tasks that images have completed, by tier."""

    @property
    def tasks_lto(self) -> int:
        """Tasks that images have completed, by tier."""

    @property
    def last_hand_over(self) -> float:
        """
        Time of the last change of image: from when it was loaded until no lease of another was on the device.
        """

    @property
    def compiled(self) -> int:
        """Sources that were compiled."""

    @property
    def linked(self) -> int:
        """Images that were linked."""

    @property
    def cache_hits(self) -> int:
        """Sources and images that came from a cache."""

    @property
    def last_cache_hit(self) -> float:
        """Time of the last hit in the cache on disk: looked up, read, verified."""

    @property
    def arena_bytes(self) -> int:
        """Memory of the loop, with its graphs and counters."""

    @property
    def buffer_bytes(self) -> int:
        """Memory of live buffers that the runtime has allocated."""

    @property
    def buffers(self) -> int:
        """Live buffers that the runtime has allocated."""

    @property
    def heap_bytes(self) -> int:
        """Memory of the heap in slabs and in large allocations."""

    @property
    def heap_mapped_bytes(self) -> int:
        """Memory that the heap has."""

    @property
    def heap_live_bytes(self) -> int:
        """Memory of live allocations in the heap."""

    @property
    def heap_collections(self) -> int:
        """Collections of the heap."""

    @property
    def heap_failures(self) -> int:
        """Searches for room in the heap that found none."""

    @property
    def log_lines(self) -> int:
        """Lines of the log that were handed over."""

    @property
    def log_limited(self) -> int:
        """
        Lines of the log that one site had too many of (Logging::per_site_per_second).
        """

    @property
    def graph_launches(self) -> int:
        """Launches of graphs."""

    @property
    def batch_flushes(self) -> int:
        """Batches that were flushed."""

    @property
    def batch_operations(self) -> int:
        """Operations that batches have collected."""

    @property
    def batch_tasks(self) -> int:
        """Tasks that these operations have become."""

    @property
    def log_dropped(self) -> dict[str, int]:
        """Lines that found no room, by severity."""

    def __sub__(self, earlier: Metrics) -> Metrics:
        """What has happened in between."""

    def to_json(self) -> str:
        """All of it as JSON."""

    def to_openmetrics(self) -> str:
        """The text that Prometheus reads."""

    def __repr__(self) -> str: ...

class LogRecord:
    """
    A line that an operator has logged. ``str`` makes of it what stderr shows.
    """

    @property
    def severity(self) -> str:
        """"trace", "debug", "info", "warning" or "error"."""

    @property
    def text(self) -> str:
        """What it says."""

    @property
    def operator(self) -> str:
        """The name of the operator."""

    @property
    def version(self) -> int:
        """Which version of it, from 1."""

    @property
    def worker(self) -> int:
        """The number of the worker that ran it."""

    @property
    def ticket(self) -> int | None:
        """
        The position of the task's ticket, of a node that of its launch; None for tasks that operators have made, and for nodes of
        graphs that operators have launched.
        """

    @property
    def node(self) -> str:
        """Of a node of a graph: its name, "#3" without one; else empty."""

    @property
    def graph(self) -> str:
        """The name of that graph; empty without one."""

    @property
    def time(self) -> float:
        """When it was logged, by the device, on the clock of ``time.monotonic``."""

    def __repr__(self) -> str: ...

    def asdict(self) -> dict[str, Any]:
        """All of it as a dictionary."""

    def __str__(self) -> str: ...

class Logs:
    """
    The lines that a runtime keeps, oldest first, and those that come: an iterator, made by ``Runtime.logs``. Each has a
    place of its own.
    """

    def __iter__(self) -> Logs: ...

    def __next__(self) -> LogRecord: ...

    @property
    def missed(self) -> int:
        """Lines that were forgotten before they were read."""

class Inspection:
    """What Runtime.inspect has found. ``str`` makes a text of it."""

    @property
    def name(self) -> str:
        """As it was asked for."""

    @property
    def operator(self) -> str:
        """Whose variables they are; empty for others."""

    @property
    def version(self) -> int:
        """Which version of it."""

    @property
    def whole(self) -> bool:
        """
        Whether all values are of one moment: a dwell::Seqlock has guarded them, or it is one of at most 8 bytes.
        """

    @property
    def value(self) -> Any:
        """
        The only value: a number, a list of them, the bytes of a struct, or a text.
        """

    @property
    def values(self) -> dict[str, Any]:
        """All values by their names."""

    def __getitem__(self, name: str) -> Any: ...

    def __str__(self) -> str: ...

    def __repr__(self) -> str: ...

class Watch:
    """What Runtime.watch has begun. A context manager that ends it."""

    def stop(self) -> None:
        """No call of the callback runs behind this, unless that itself stops it."""

    @property
    def active(self) -> bool:
        """Whether it still goes on."""

    def __enter__(self) -> Watch: ...

    def __exit__(self, *exc_info: object) -> None: ...

class Runtime:
    """
    A device, its resident loop, and everything that is submitted to it. A context manager, which closes it. Times are in
    seconds. May be used from any thread.
    """

    def __init__(self, device: str = 'auto', *, workers: int = 0, lease: float = 0.0, idle: float = 0.0, task_timeout: float = 10.0, stall_timeout: float = 0.0, ring_slots: int = 65536, spawned_tasks: int = 0, scratch_bytes: int = 8192, priorities: bool | str | Sequence[str] | None = None, compile: CompileOptions | None = None, compile_threads: int = 0, tier: str | None = None, parts: str | Sequence[str] = 'used', limits: Limits | None = None, compile_programs_after: int = 1000, metrics: str = 'counts', live: bool = True, inspect_writes: bool = False, heap_reserve: int = 0, heap_grow: int = 0, heap_checks: str = 'light', log: dwell._logging.Logging | logging.Logger | str | os.PathLike[str] | Callable[[LogRecord], object] | None = None, warn: Callable[[str], object] | None = None, progress: bool | Callable[[str, float, bool], object] | None = None) -> None:
        """
        Opens a device: "auto" (a CUDA device where there is one, else the CPU), "cpu", "cuda:0", ... Zero means the backend's own
        choice.

        workers: thread blocks on CUDA, threads on the CPU
        lease: the longest that other CUDA calls wait for the loop to leave a busy device
        idle: how long the loop waits for work before it parks
        task_timeout: a task that runs longer fails the runtime; 0: never
        stall_timeout: when nothing moves for so long, waits raise dwell.Stalled; 0: never
        ring_slots: tasks in flight at most, a power of two from 128 on
        spawned_tasks: tasks at once that operators have made
        scratch_bytes: memory of Group::shared, a worker
        priorities: True, "fifo", "lifo", or eight of these: lets tasks have priorities
        compile: CompileOptions of operators that are given none
        compile_threads: threads for define_async
        tier: "relocatable" or "lto"; None: the one, then the other
        parts: what the loop on a GPU can do from the start, beside plain and wide tasks: "used", nothing; "all"; or a list of
            "links", "gates", "priorities", "gangs", "graphs", "times" and "repeats". The first use of anything else brings
            all; it waits for an image and for the tasks that run
        limits: Limits of the image
        compile_programs_after: tasks of one program over tensors after which it is compiled; 0: never
        metrics: what the device notes of tasks: "off", "counts" or "times"
        live: lets other processes of the user look at the runtime (dwell top)
        inspect_writes: lets Runtime.assign write variables of operators
        heap_reserve: bytes that the heap may grow to; 0: the device's memory, at most 64 GiB
        heap_grow: by how many bytes it grows at least; 0: 64 MiB
        heap_checks: "off"; "light": each free; "full": also writes behind the end of memory, and after its free
        log: where lines go that operators log: a logging.Logger or its name, a callable that takes a dwell.LogRecord, a path
            (pathlib.Path), None: stderr; or a dwell.Logging, which has a level and limits too
        warn: called with one line when something works, but not as well as it could; None: the logger "dwell"
        progress: who is told of a wait for a compiler that has taken a second, then each second and at the end: a callable
            (name, seconds, done), called on a thread of its own, at the end on the thread that has waited; True: a line on stderr,
            which goes at the end; None: that line where stderr is a terminal; False: nobody
        """

    def define(self, name: str, source: str, instances: Sequence[str] = [], options: CompileOptions | None = None, file: str | None = None, line: int = 1) -> Operator:
        """
        Compiles `source`, which defines ``DWELL_OPERATOR(name)``, and links it into the image. `instances` are those wanted of a template,
        as C++ spells them: ["axpy<float>"]; the first is returned. `file` and `line` tell where the text comes from. Raises
        dwell.CompileError, dwell.OperatorNotFound, dwell.LinkError, dwell.ResourceLimit, dwell.InvalidArgument (the name is taken).
        """

    def define_async(self, name: str, source: str, instances: Sequence[str] = [], options: CompileOptions | None = None, file: str | None = None, line: int = 1) -> dwell._futures.Pending[Operator]:
        """
        The same in the background: a concurrent.futures.Future, which may be awaited too. Cancelling it calls the definition off.
        """

    def compile(self, source: str, options: CompileOptions | None = None, expressions: Sequence[str] = [], file: str | None = None, line: int = 1) -> Module:
        """
        Compiles a program of ordinary kernels (CUDA C++ with grid and block) and loads it beside the resident loop. `expressions` are the
        instantiations wanted of kernel templates. On the CPU it raises dwell.Unsupported.
        """

    def submit(self, op: Operator, *arguments: object, groups: int = 1, gang: int = 0, after: Ticket | Iterable[Ticket] | None = None, after_any_result: Ticket | Iterable[Ticket] | None = None, link: bool = False, hard_link: bool = False, drain: bool = False, priority: int | None = None, repeat: int = 1) -> Ticket:
        """
        Submits a task: numbers for values, dwell.Buffer or arrays of others for spans. Memory lives until the task has run, whatever is
        dropped before. Waits while the ring is full.

        groups: so many groups share the task
        gang: so many groups run at once, with barriers among them
        after, after_any_result: tickets that it starts after; a failure of one of the first cancels it
        link, hard_link: it starts after the task that this thread submitted before; a task without waits for none, and begins a
            new chain
        the first of these four in a runtime is a drain too, unless what it names has ended
        drain: it starts after all before, and holds back all after
        priority: 0 to 7, the most urgent; needs Runtime(priorities=...)
        repeat: it runs so many times, one run behind the other
        """

    def submit_many(self, op: Operator, rows: Iterable[Sequence[object]], *, groups: int = 1, gang: int = 0, after: Ticket | Iterable[Ticket] | None = None, after_any_result: Ticket | Iterable[Ticket] | None = None, link: bool = False, hard_link: bool = False, drain: bool = False, priority: int | None = None, repeat: int = 1) -> Ticket:
        """
        Submits a task for each row of arguments, and returns the ticket of the last. All rows are checked before the first task is
        submitted; the GIL is released while they are. Modifiers hold for every task.
        """

    def cancel(self, ticket: Ticket) -> bool:
        """
        Cancels a task or launch that has not begun. False when it is known to be complete.
        """

    def sync(self) -> None:
        """
        Waits until every task submitted so far is complete, without the GIL. Raises nothing for tasks that have failed: their tickets tell.
        """

    def batch(self) -> Batch:
        """
        Collects operations on tensors: a dwell.Batch. The first one of a runtime defines dwell's operators for elements.
        """

    def flush(self) -> Ticket:
        """
        Computes all lazy arrays that somebody still has: submits their tasks. The ticket stands for all since the flush before.
        """

    def capture(self, tasks: Callable[[], object]) -> Graph:
        """
        Calls ``tasks()``. What the calling thread submits meanwhile is not run: it becomes the nodes of the graph that is returned, ordered
        by the memory that they read and write. Also a decorator.
        """

    def instantiate(self, graph: Graph) -> GraphExec:
        """
        Lays a graph out in memory of the device. The graph may change or go afterwards.
        """

    def launch(self, exec: GraphExec, *, after: Ticket | Iterable[Ticket] | None = None, after_any_result: Ticket | Iterable[Ticket] | None = None, link: bool = False, hard_link: bool = False, drain: bool = False, priority: int | None = None) -> Ticket:
        """
        Runs all nodes of a graph once, in their order, as one task among the others. Launches of one exec follow each other.
        """

    def allocate(self, shape: int | Sequence[int], dtype: object = 'float32', memory: str = 'device') -> Buffer:
        """
        Memory for elements, uninitialised. `shape` is a count or a tuple; ``memory="host"`` is pinned host memory that the device reaches.
        """

    def ring(self, dtype: Any, slots: int, *, producers: str = 'device', consumers: str = 'device', checksum: bool = False) -> Ring:
        """
        A ring of ``slots`` messages, a power of two, of a type of NumPy (a structured one for a struct). Operators ("device") or threads
        of Python ("host") push and pop. With ``checksum`` damaged messages are skipped and counted.
        """

    def byte_ring(self, bytes: int, *, producers: str = 'device', consumers: str = 'device', checksum: bool = False, message_bytes: int = 0) -> ByteRing:
        """
        A ring of ``bytes``, a power of two, for messages of up to ``message_bytes`` (0: a quarter of the ring) with a type; else as
        ``ring``.
        """

    @property
    def heap(self) -> Heap:
        """The memory that operators allocate while they run."""

    def array(self, source: object, dtype: object = None, memory: str = 'device') -> Buffer:
        """
        A copy of an array on the host, or of a list of numbers, as a buffer of the same shape.
        """

    def wrap(self, array: object) -> Buffer:
        """
        Memory of others as a buffer, without a copy: a NumPy array on the CPU, a tensor of PyTorch, CuPy, JAX on the runtime's device. The
        array is kept alive until the buffer and the last task that names it have gone. Work that others put on streams afterwards is
        ordered by nobody but the caller.
        """

    def info(self) -> RuntimeInfo:
        """The device and the image's resources."""

    def diagnose(self) -> Diagnosis:
        """What is not complete, and who waits for whom. Waits for nothing."""

    def metrics(self) -> Metrics:
        """
        What the runtime has done so far, by operator and worker. Stops nothing.
        """

    def set_metrics(self, metrics: str) -> None:
        """
        Changes what the device notes of tasks, while it works: "off", "counts" or "times".
        """

    def logs(self, wait: float = 0.0) -> Logs:
        """
        The lines that operators have logged so far, as many as are kept, and those that come: an iterator, which ends when no line has
        come for so many seconds.
        """

    def set_log_level(self, level: str) -> None:
        """
        Changes which lines operators log, while they work: "trace", "debug", "info", "warning", "error" or "off".
        """

    def start_trace(self, path: str | os.PathLike[str]) -> None:
        """
        Begins a timeline, written to a file: for chrome://tracing when its name ends in .json, else for https://ui.perfetto.dev. See
        dwell.trace.
        """

    def stop_trace(self) -> None:
        """Ends it; nothing to do when none is being taken."""

    def mark(self, text: str) -> None:
        """
        Puts a mark of this thread into the trace that is being taken, if one is.
        """

    def inspect(self, name: str) -> Inspection:
        """
        What goes by this name at this moment, read while the loop runs: a variable that an operator shows with DWELL_INSPECT, an
        operator, or "ring", "queue", "held", "workers", "leases", "image", "graphs", "memory".
        """

    def watch(self, name: str, every: float, callback: Callable[[Inspection], object]) -> Watch:
        """
        Calls ``callback(inspection)`` now and each ``every`` seconds, on a thread of its own, until the dwell.Watch is stopped or gone,
        or the runtime is closed.
        """

    def assign(self, name: str, value: complex | Sequence[complex]) -> None:
        """
        Writes a variable of an operator, while operators may use it; with Runtime(inspect_writes=True). A number, or a list of as many
        as the array has.
        """

    def park(self) -> None:
        """
        Takes the loop off the device until `resume`: waits for tasks that run. Tasks may be submitted meanwhile.
        """

    def resume(self) -> None:
        """Calls nest: each park needs one resume."""

    def rebuild(self) -> None:
        """
        Opens the device anew after dwell.DeviceLost or dwell.TaskTimeout. Operators and buffers are stale then.
        """

    def close(self, *, now: bool = False) -> None:
        """
        Ends the runtime: waits for all tasks, or with ``now`` cancels those that have not started. Nothing to do the second time.
        """

    @property
    def device(self) -> str:
        """"cpu", "cuda:0"."""

    def __enter__(self) -> Runtime: ...

    def __exit__(self, type: object = None, value: object = None, traceback: object = None) -> None:
        """Closes the runtime; with ``now`` when an exception is on its way."""

    def __repr__(self) -> str: ...

class Array:
    """
    A tensor whose operations are lazy: they run when somebody looks at a result, or flushes, as few tasks, without launches and without
    compiling. Up to 8 dimensions of float16, bfloat16, float32, float64, int8, int16, int32, int64, uint8 or bool.

    ``dwell.asarray``, ``dwell.zeros`` and others make arrays; functions have the names of the array API, types of results are PyTorch's.
    Slices and other views share memory, and in-place operations write to it, as in NumPy. Keeps its runtime open. May be used from any
    thread; operations of one runtime take turns.
    """

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> ElementType:
        """The type of its elements."""

    @property
    def ndim(self) -> int:
        """How many dimensions it has."""

    @property
    def size(self) -> int:
        """How many elements it has."""

    @property
    def device(self) -> str:
        """"cpu", "cuda:0"."""

    @property
    def lazy(self) -> bool:
        """Whether it is still to be computed: nothing has been collected for it."""

    def flush(self) -> Ticket:
        """
        Submits what computes it, and what has been collected before: the ticket stands for that.
        """

    def numpy(self) -> NDArray[Any]:
        """
        Its elements as an array of NumPy: a copy. Runs what is lazy, and waits; raises what became of it.
        """

    def __array__(self, dtype: object = None, copy: object = None) -> NDArray[Any]: ...

    def item(self) -> int | float | bool:
        """The only element as a number of Python."""

    def tolist(self) -> Any:
        """As lists of numbers."""

    def __bool__(self) -> bool: ...

    def __float__(self) -> float: ...

    def __int__(self) -> int: ...

    def __len__(self) -> int: ...

    def __repr__(self) -> str: ...

    def __dlpack__(self, *, stream: int | None = None, max_version: tuple[int, int] | None = None, dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> object:
        """
        Its memory as a capsule of DLPack, when what computes it has run. Operations on the array and its consumer are then the caller's
        to order.
        """

    def __dlpack_device__(self) -> tuple[int, int]: ...

    def __array_namespace__(self, *, api_version: str | None = None) -> Any: ...

    __array_ufunc__: None = None

    def __add__(self, other: object, /) -> Array: ...

    def __radd__(self, other: object, /) -> Array: ...

    def __iadd__(self, other: object, /) -> Array: ...

    def __sub__(self, other: object, /) -> Array: ...

    def __rsub__(self, other: object, /) -> Array: ...

    def __isub__(self, other: object, /) -> Array: ...

    def __mul__(self, other: object, /) -> Array: ...

    def __rmul__(self, other: object, /) -> Array: ...

    def __imul__(self, other: object, /) -> Array: ...

    def __truediv__(self, other: object, /) -> Array: ...

    def __rtruediv__(self, other: object, /) -> Array: ...

    def __itruediv__(self, other: object, /) -> Array: ...

    def __floordiv__(self, other: object, /) -> Array: ...

    def __rfloordiv__(self, other: object, /) -> Array: ...

    def __ifloordiv__(self, other: object, /) -> Array: ...

    def __mod__(self, other: object, /) -> Array: ...

    def __rmod__(self, other: object, /) -> Array: ...

    def __imod__(self, other: object, /) -> Array: ...

    def __pow__(self, other: object, /) -> Array: ...

    def __rpow__(self, other: object, /) -> Array: ...

    def __ipow__(self, other: object, /) -> Array: ...

    def __and__(self, other: object, /) -> Array: ...

    def __rand__(self, other: object, /) -> Array: ...

    def __iand__(self, other: object, /) -> Array: ...

    def __or__(self, other: object, /) -> Array: ...

    def __ror__(self, other: object, /) -> Array: ...

    def __ior__(self, other: object, /) -> Array: ...

    def __xor__(self, other: object, /) -> Array: ...

    def __rxor__(self, other: object, /) -> Array: ...

    def __ixor__(self, other: object, /) -> Array: ...

    def __lshift__(self, other: object, /) -> Array: ...

    def __rlshift__(self, other: object, /) -> Array: ...

    def __ilshift__(self, other: object, /) -> Array: ...

    def __rshift__(self, other: object, /) -> Array: ...

    def __rrshift__(self, other: object, /) -> Array: ...

    def __irshift__(self, other: object, /) -> Array: ...

    def __eq__(self, other: object, /) -> Array: ...  # type: ignore[override]

    def __ne__(self, other: object, /) -> Array: ...  # type: ignore[override]

    def __lt__(self, other: object, /) -> Array: ...

    def __le__(self, other: object, /) -> Array: ...

    def __gt__(self, other: object, /) -> Array: ...

    def __ge__(self, other: object, /) -> Array: ...

    def __neg__(self) -> Array: ...

    def __abs__(self) -> Array: ...

    def __invert__(self) -> Array: ...

    __hash__: None  # type: ignore[assignment]

    def negative(self) -> Array:
        """``neg`` of each element, as PyTorch has it."""

    def abs(self) -> Array:
        """``abs`` of each element, as PyTorch has it."""

    def sign(self) -> Array:
        """``sign`` of each element, as PyTorch has it."""

    def relu(self) -> Array:
        """``relu`` of each element, as PyTorch has it."""

    def floor(self) -> Array:
        """``floor`` of each element, as PyTorch has it."""

    def ceil(self) -> Array:
        """``ceil`` of each element, as PyTorch has it."""

    def round(self) -> Array:
        """``round`` of each element, as PyTorch has it."""

    def trunc(self) -> Array:
        """``trunc`` of each element, as PyTorch has it."""

    def logical_not(self) -> Array:
        """``logical_not`` of each element, as PyTorch has it."""

    def reciprocal(self) -> Array:
        """``reciprocal`` of each element, as PyTorch has it."""

    def sqrt(self) -> Array:
        """``sqrt`` of each element, as PyTorch has it."""

    def rsqrt(self) -> Array:
        """``rsqrt`` of each element, as PyTorch has it."""

    def exp(self) -> Array:
        """``exp`` of each element, as PyTorch has it."""

    def log(self) -> Array:
        """``log`` of each element, as PyTorch has it."""

    def tanh(self) -> Array:
        """``tanh`` of each element, as PyTorch has it."""

    def erf(self) -> Array:
        """``erf`` of each element, as PyTorch has it."""

    def sigmoid(self) -> Array:
        """``sigmoid`` of each element, as PyTorch has it."""

    def gelu(self) -> Array:
        """``gelu`` of each element, as PyTorch has it."""

    def gelu_tanh(self) -> Array:
        """``gelu_tanh`` of each element, as PyTorch has it."""

    def silu(self) -> Array:
        """``silu`` of each element, as PyTorch has it."""

    def hardsigmoid(self) -> Array:
        """``hardsigmoid`` of each element, as PyTorch has it."""

    def hardswish(self) -> Array:
        """``hardswish`` of each element, as PyTorch has it."""

    def exp2(self) -> Array:
        """``exp2`` of each element, as PyTorch has it."""

    def expm1(self) -> Array:
        """``expm1`` of each element, as PyTorch has it."""

    def log2(self) -> Array:
        """``log2`` of each element, as PyTorch has it."""

    def log10(self) -> Array:
        """``log10`` of each element, as PyTorch has it."""

    def log1p(self) -> Array:
        """``log1p`` of each element, as PyTorch has it."""

    def sin(self) -> Array:
        """``sin`` of each element, as PyTorch has it."""

    def cos(self) -> Array:
        """``cos`` of each element, as PyTorch has it."""

    def tan(self) -> Array:
        """``tan`` of each element, as PyTorch has it."""

    def asin(self) -> Array:
        """``asin`` of each element, as PyTorch has it."""

    def acos(self) -> Array:
        """``acos`` of each element, as PyTorch has it."""

    def atan(self) -> Array:
        """``atan`` of each element, as PyTorch has it."""

    def sinh(self) -> Array:
        """``sinh`` of each element, as PyTorch has it."""

    def cosh(self) -> Array:
        """``cosh`` of each element, as PyTorch has it."""

    def asinh(self) -> Array:
        """``asinh`` of each element, as PyTorch has it."""

    def acosh(self) -> Array:
        """``acosh`` of each element, as PyTorch has it."""

    def atanh(self) -> Array:
        """``atanh`` of each element, as PyTorch has it."""

    def erfc(self) -> Array:
        """``erfc`` of each element, as PyTorch has it."""

    def frac(self) -> Array:
        """``frac`` of each element, as PyTorch has it."""

    def logit(self) -> Array:
        """``logit`` of each element, as PyTorch has it."""

    def selu(self) -> Array:
        """``selu`` of each element, as PyTorch has it."""

    def mish(self) -> Array:
        """``mish`` of each element, as PyTorch has it."""

    def softsign(self) -> Array:
        """``softsign`` of each element, as PyTorch has it."""

    def bitwise_invert(self) -> Array:
        """``bitwise_not`` of each element, as PyTorch has it."""

    def astype(self, dtype: object) -> Array:
        """A copy with elements of another type."""

    def __getitem__(self, key: object) -> Array:
        """
        A view: ints, slices with steps of either sign, ``...`` and None. Rows by an array of int32 or int64 are a copy.
        """

    def __setitem__(self, key: object, value: object) -> None:
        """Writes an array or a number to a view, converted to its type."""

    def __iter__(self) -> Iterator[Array]: ...

    @property
    def T(self) -> Array:
        """The matrix with its dimensions exchanged: a view."""

    @property
    def mT(self) -> Array:
        """The same of the last two dimensions."""

    def reshape(self, shape: int | Sequence[int]) -> Array:
        """
        The same elements in the order of rows, a view where strides say that; -1: what is left.
        """

    def sum(self, axis: int | Sequence[int] | None = None, *, dtype: object = None, keepdims: bool = False) -> Array:
        """The sum. Along axes: all, when none is named."""

    def mean(self, axis: int | Sequence[int] | None = None, *, dtype: object = None, keepdims: bool = False) -> Array:
        """The mean. Along axes: all, when none is named."""

    def prod(self, axis: int | Sequence[int] | None = None, *, dtype: object = None, keepdims: bool = False) -> Array:
        """The product. Along axes: all, when none is named."""

    def max(self, axis: int | Sequence[int] | None = None, *, keepdims: bool = False) -> Array:
        """The largest element. Along axes: all, when none is named."""

    def min(self, axis: int | Sequence[int] | None = None, *, keepdims: bool = False) -> Array:
        """The smallest element. Along axes: all, when none is named."""

    def argmax(self, axis: int | Sequence[int] | None = None, *, keepdims: bool = False) -> Array:
        """
        The place of the largest element, the first of equal ones in the order of rows. Along axes: all, when none is named.
        """

    def argmin(self, axis: int | Sequence[int] | None = None, *, keepdims: bool = False) -> Array:
        """
        The place of the smallest element, the first of equal ones in the order of rows. Along axes: all, when none is named.
        """

    def any(self, axis: int | Sequence[int] | None = None, *, keepdims: bool = False) -> Array:
        """Whether some element is not 0. Along axes: all, when none is named."""

    def all(self, axis: int | Sequence[int] | None = None, *, keepdims: bool = False) -> Array:
        """Whether no element is 0. Along axes: all, when none is named."""

    def var(self, axis: int | Sequence[int] | None = None, *, correction: float = 0.0, keepdims: bool = False) -> Array:
        """
        The sum of squared differences from the mean, divided by the count less the correction. Along axes: all, when none is named.
        """

    def std(self, axis: int | Sequence[int] | None = None, *, correction: float = 0.0, keepdims: bool = False) -> Array:
        """The square root of `var`. Along axes: all, when none is named."""

    def logsumexp(self, axis: int | Sequence[int] | None = None, *, keepdims: bool = False) -> Array:
        """
        The logarithm of the sum of exponentials. Along axes: all, when none is named.
        """

    def softmax(self, axis: int = -1) -> Array:
        """Exponentials, divided by their sum along an axis."""

    def log_softmax(self, axis: int = -1) -> Array:
        """The logarithm of `softmax`."""

    def cumulative_sum(self, axis: int = -1) -> Array:
        """
        The sum of all elements up to each along an axis; int64 of integers and bool.
        """

    def __matmul__(self, other: object, /) -> Array: ...

    def __rmatmul__(self, other: object, /) -> Array: ...

def add(x1: object, x2: object) -> Array:
    """``add`` of each element, as PyTorch has it."""

def subtract(x1: object, x2: object) -> Array:
    """``sub`` of each element, as PyTorch has it."""

def multiply(x1: object, x2: object) -> Array:
    """``mul`` of each element, as PyTorch has it."""

def negative(x: object) -> Array:
    """``neg`` of each element, as PyTorch has it."""

def abs(x: object) -> Array:
    """``abs`` of each element, as PyTorch has it."""

def sign(x: object) -> Array:
    """``sign`` of each element, as PyTorch has it."""

def relu(x: object) -> Array:
    """``relu`` of each element, as PyTorch has it."""

def maximum(x1: object, x2: object) -> Array:
    """``maximum`` of each element, as PyTorch has it."""

def minimum(x1: object, x2: object) -> Array:
    """``minimum`` of each element, as PyTorch has it."""

def fmax(x1: object, x2: object) -> Array:
    """``fmax`` of each element, as PyTorch has it."""

def fmin(x1: object, x2: object) -> Array:
    """``fmin`` of each element, as PyTorch has it."""

def clamp_min(x1: object, x2: object) -> Array:
    """``clamp_min`` of each element, as PyTorch has it."""

def clamp_max(x1: object, x2: object) -> Array:
    """``clamp_max`` of each element, as PyTorch has it."""

def floor_divide(x1: object, x2: object) -> Array:
    """``floor_divide`` of each element, as PyTorch has it."""

def trunc_divide(x1: object, x2: object) -> Array:
    """``trunc_divide`` of each element, as PyTorch has it."""

def remainder(x1: object, x2: object) -> Array:
    """``remainder`` of each element, as PyTorch has it."""

def fmod(x1: object, x2: object) -> Array:
    """``fmod`` of each element, as PyTorch has it."""

def pow(x1: object, x2: object) -> Array:
    """``pow`` of each element, as PyTorch has it."""

def floor(x: object) -> Array:
    """``floor`` of each element, as PyTorch has it."""

def ceil(x: object) -> Array:
    """``ceil`` of each element, as PyTorch has it."""

def round(x: object) -> Array:
    """``round`` of each element, as PyTorch has it."""

def trunc(x: object) -> Array:
    """``trunc`` of each element, as PyTorch has it."""

def equal(x1: object, x2: object) -> Array:
    """``eq`` of each element, as PyTorch has it."""

def not_equal(x1: object, x2: object) -> Array:
    """``ne`` of each element, as PyTorch has it."""

def less(x1: object, x2: object) -> Array:
    """``lt`` of each element, as PyTorch has it."""

def less_equal(x1: object, x2: object) -> Array:
    """``le`` of each element, as PyTorch has it."""

def greater(x1: object, x2: object) -> Array:
    """``gt`` of each element, as PyTorch has it."""

def greater_equal(x1: object, x2: object) -> Array:
    """``ge`` of each element, as PyTorch has it."""

def logical_and(x1: object, x2: object) -> Array:
    """``logical_and`` of each element, as PyTorch has it."""

def logical_or(x1: object, x2: object) -> Array:
    """``logical_or`` of each element, as PyTorch has it."""

def logical_xor(x1: object, x2: object) -> Array:
    """``logical_xor`` of each element, as PyTorch has it."""

def logical_not(x: object) -> Array:
    """``logical_not`` of each element, as PyTorch has it."""

def divide(x1: object, x2: object) -> Array:
    """``div`` of each element, as PyTorch has it."""

def reciprocal(x: object) -> Array:
    """``reciprocal`` of each element, as PyTorch has it."""

def sqrt(x: object) -> Array:
    """``sqrt`` of each element, as PyTorch has it."""

def rsqrt(x: object) -> Array:
    """``rsqrt`` of each element, as PyTorch has it."""

def exp(x: object) -> Array:
    """``exp`` of each element, as PyTorch has it."""

def log(x: object) -> Array:
    """``log`` of each element, as PyTorch has it."""

def tanh(x: object) -> Array:
    """``tanh`` of each element, as PyTorch has it."""

def erf(x: object) -> Array:
    """``erf`` of each element, as PyTorch has it."""

def sigmoid(x: object) -> Array:
    """``sigmoid`` of each element, as PyTorch has it."""

def gelu(x: object) -> Array:
    """``gelu`` of each element, as PyTorch has it."""

def gelu_tanh(x: object) -> Array:
    """``gelu_tanh`` of each element, as PyTorch has it."""

def silu(x: object) -> Array:
    """``silu`` of each element, as PyTorch has it."""

def hardsigmoid(x: object) -> Array:
    """``hardsigmoid`` of each element, as PyTorch has it."""

def hardswish(x: object) -> Array:
    """``hardswish`` of each element, as PyTorch has it."""

def atan2(x1: object, x2: object) -> Array:
    """``atan2`` of each element, as PyTorch has it."""

def hypot(x1: object, x2: object) -> Array:
    """``hypot`` of each element, as PyTorch has it."""

def exp2(x: object) -> Array:
    """``exp2`` of each element, as PyTorch has it."""

def expm1(x: object) -> Array:
    """``expm1`` of each element, as PyTorch has it."""

def log2(x: object) -> Array:
    """``log2`` of each element, as PyTorch has it."""

def log10(x: object) -> Array:
    """``log10`` of each element, as PyTorch has it."""

def log1p(x: object) -> Array:
    """``log1p`` of each element, as PyTorch has it."""

def sin(x: object) -> Array:
    """``sin`` of each element, as PyTorch has it."""

def cos(x: object) -> Array:
    """``cos`` of each element, as PyTorch has it."""

def tan(x: object) -> Array:
    """``tan`` of each element, as PyTorch has it."""

def asin(x: object) -> Array:
    """``asin`` of each element, as PyTorch has it."""

def acos(x: object) -> Array:
    """``acos`` of each element, as PyTorch has it."""

def atan(x: object) -> Array:
    """``atan`` of each element, as PyTorch has it."""

def sinh(x: object) -> Array:
    """``sinh`` of each element, as PyTorch has it."""

def cosh(x: object) -> Array:
    """``cosh`` of each element, as PyTorch has it."""

def asinh(x: object) -> Array:
    """``asinh`` of each element, as PyTorch has it."""

def acosh(x: object) -> Array:
    """``acosh`` of each element, as PyTorch has it."""

def atanh(x: object) -> Array:
    """``atanh`` of each element, as PyTorch has it."""

def erfc(x: object) -> Array:
    """``erfc`` of each element, as PyTorch has it."""

def frac(x: object) -> Array:
    """``frac`` of each element, as PyTorch has it."""

def logit(x: object) -> Array:
    """``logit`` of each element, as PyTorch has it."""

def selu(x: object) -> Array:
    """``selu`` of each element, as PyTorch has it."""

def mish(x: object) -> Array:
    """``mish`` of each element, as PyTorch has it."""

def softsign(x: object) -> Array:
    """``softsign`` of each element, as PyTorch has it."""

def bitwise_and(x1: object, x2: object) -> Array:
    """``bitwise_and`` of each element, as PyTorch has it."""

def bitwise_or(x1: object, x2: object) -> Array:
    """``bitwise_or`` of each element, as PyTorch has it."""

def bitwise_xor(x1: object, x2: object) -> Array:
    """``bitwise_xor`` of each element, as PyTorch has it."""

def bitwise_invert(x: object) -> Array:
    """``bitwise_not`` of each element, as PyTorch has it."""

def bitwise_left_shift(x1: object, x2: object) -> Array:
    """``left_shift`` of each element, as PyTorch has it."""

def bitwise_right_shift(x1: object, x2: object) -> Array:
    """``right_shift`` of each element, as PyTorch has it."""

def clamp(x: object, y: object, z: object) -> Array:
    """``clamp`` of each element, as PyTorch has it."""

def threshold(x: object, y: object, z: object) -> Array:
    """``threshold`` of each element, as PyTorch has it."""

def lerp(x: object, y: object, z: object) -> Array:
    """``lerp`` of each element, as PyTorch has it."""

def leaky_relu(x: object, negative_slope: float = 0.01) -> Array:
    """x where it is above 0, else the slope times x."""

def elu(x: object, alpha: float = 1.0) -> Array:
    """x where it is above 0, else ``alpha * (exp(x) - 1)``."""

def softplus(x: object, beta: float = 1.0, threshold: float = 20.0) -> Array:
    """
    ``log(1 + exp(beta * x)) / beta``; x where ``beta * x`` is above the threshold.
    """

def where(condition: object, x1: object, x2: object) -> Array:
    """x1 where the condition, of bool, is true, else x2."""

def astype(x: object, dtype: object) -> Array:
    """A copy with elements of another type."""

def permute_dims(x: Array, axes: Sequence[int]) -> Array:
    """Its dimensions in another order: a view."""

def matrix_transpose(x: Array) -> Array:
    """The last two dimensions exchanged: a view."""

def reshape(x: Array, shape: int | Sequence[int]) -> Array:
    """The same elements in the order of rows; -1: what is left."""

def broadcast_to(x: Array, shape: int | Sequence[int]) -> Array:
    """Repeated along dimensions of size 1, and new ones in front: a view."""

def expand_dims(x: Array, axis: int = 0) -> Array:
    """With a new dimension of size 1: a view."""

def squeeze(x: Array, axis: int | Sequence[int] | None = None) -> Array:
    """Without dimensions of size 1, all of them or those named: a view."""

def flip(x: Array, axis: int | Sequence[int] | None = None) -> Array:
    """Backwards along axes, all when none is named: a view."""

def sum(x: Array, axis: int | Sequence[int] | None = None, *, dtype: object = None, keepdims: bool = False) -> Array:
    """The sum. Along axes: all, when none is named."""

def mean(x: Array, axis: int | Sequence[int] | None = None, *, dtype: object = None, keepdims: bool = False) -> Array:
    """The mean. Along axes: all, when none is named."""

def prod(x: Array, axis: int | Sequence[int] | None = None, *, dtype: object = None, keepdims: bool = False) -> Array:
    """The product. Along axes: all, when none is named."""

def max(x: Array, axis: int | Sequence[int] | None = None, *, keepdims: bool = False) -> Array:
    """The largest element. Along axes: all, when none is named."""

def min(x: Array, axis: int | Sequence[int] | None = None, *, keepdims: bool = False) -> Array:
    """The smallest element. Along axes: all, when none is named."""

def argmax(x: Array, axis: int | Sequence[int] | None = None, *, keepdims: bool = False) -> Array:
    """
    The place of the largest element, the first of equal ones in the order of rows. Along axes: all, when none is named.
    """

def argmin(x: Array, axis: int | Sequence[int] | None = None, *, keepdims: bool = False) -> Array:
    """
    The place of the smallest element, the first of equal ones in the order of rows. Along axes: all, when none is named.
    """

def any(x: Array, axis: int | Sequence[int] | None = None, *, keepdims: bool = False) -> Array:
    """Whether some element is not 0. Along axes: all, when none is named."""

def all(x: Array, axis: int | Sequence[int] | None = None, *, keepdims: bool = False) -> Array:
    """Whether no element is 0. Along axes: all, when none is named."""

def var(x: Array, axis: int | Sequence[int] | None = None, *, correction: float = 0.0, keepdims: bool = False) -> Array:
    """
    The sum of squared differences from the mean, divided by the count less the correction. Along axes: all, when none is named.
    """

def std(x: Array, axis: int | Sequence[int] | None = None, *, correction: float = 0.0, keepdims: bool = False) -> Array:
    """The square root of `var`. Along axes: all, when none is named."""

def logsumexp(x: Array, axis: int | Sequence[int] | None = None, *, keepdims: bool = False) -> Array:
    """
    The logarithm of the sum of exponentials. Along axes: all, when none is named.
    """

def vector_norm(x: Array, *, axis: int | Sequence[int] | None = None, keepdims: bool = False, ord: float = 2.0) -> Array:
    """
    The sum of ``|x|**ord`` to the power of 1/ord along axes; the largest |x| for an infinite one.
    """

def softmax(x: Array, axis: int = -1) -> Array:
    """Exponentials, divided by their sum along an axis."""

def log_softmax(x: Array, axis: int = -1) -> Array:
    """The logarithm of `softmax`."""

def cumulative_sum(x: Array, axis: int = -1) -> Array:
    """
    The sum of all elements up to each along an axis; int64 of integers and bool.
    """

def layer_norm(x: Array, shape: int | Sequence[int], weight: object = None, bias: object = None, epsilon: float = 1e-05) -> Array:
    """
    x with mean 0 and variance 1 along its last dimensions, which have `shape`; times weights, plus biases, of that shape.
    """

def rms_norm(x: Array, shape: int | Sequence[int], weight: object = None, epsilon: float = 1e-05) -> Array:
    """x with a mean square of 1 along its last dimensions, times weights."""

def matmul(x1: object, x2: object) -> Array:
    """The product of matrices; of vectors, and of batches, as torch.matmul."""

def take(x: object, indices: object, *, axis: int = 0) -> Array:
    """
    Slices along an axis, by an index of int32 or int64 with one dimension. One that is not there fails the task: reading the result
    raises dwell.TaskFailed.
    """

def take_along_axis(x: object, indices: object, axis: int = -1) -> Array:
    """The element that the index, of its shape, names along an axis."""

def embedding(table: object, indices: object) -> Array:
    """Rows of a table, for an index of any shape."""

def scatter_add(x: object, indices: object, source: object, *, axis: int = 0) -> Array:
    """
    A copy of x, where each element of source is added at the place that the index names along an axis.
    """

def tril(x: object, *, k: int = 0) -> Array:
    """
    The lower triangle of each matrix, up to the k-th diagonal; 0 elsewhere.
    """

def triu(x: object, *, k: int = 0) -> Array:
    """
    The upper triangle of each matrix, from the k-th diagonal on; 0 elsewhere.
    """

def concat(arrays: Sequence[object], *, axis: int = 0) -> Array:
    """The arrays behind each other along an axis, in their common type."""

def stack(arrays: Sequence[object], *, axis: int = 0) -> Array:
    """The arrays along a new axis, in their common type."""

def fill_array(runtime: object, shape: object, dtype: object, start: object, step: object = 0) -> Array: ...

def empty_array(runtime: object, shape: object, dtype: object) -> Array: ...

def element_type(dtype: object) -> ElementType: ...

def type_name(dtype: object) -> str: ...

def common_type(operands: Sequence[object]) -> ElementType: ...

def share_array(runtime: Runtime, array: object) -> Array | None: ...

def own_buffer(buffer: Buffer) -> Array: ...

def array_stats(runtime: Runtime) -> BatchStats: ...

def runtime_of(array: Array) -> Runtime: ...
