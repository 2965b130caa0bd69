"""The runtime in Python; import it as `dwell`."""

from collections.abc import (
    Callable,
    Generator,
    Iterable,
    Mapping,
    Sequence
)
import concurrent.futures
import enum
from typing import Any, overload

from numpy.typing import NDArray

import dwell._futures


version: str = '0.1.0'

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
    A runtime's device, its image's resources, and counts since its start. A snapshot; times are in seconds.
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
        """Of the image that runs."""

    @property
    def crew(self) -> int:
        """Workers that fetch."""

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
    def submitted(self) -> int:
        """Tasks."""

    @property
    def leases(self) -> int:
        """Stays of the loop on the device."""

    @property
    def images(self) -> int:
        """Images handed over."""

    @property
    def tier(self) -> str:
        """"relocatable" or "lto"."""

    @property
    def tasks_relocatable(self) -> int:
        """Tasks completed by images of that tier."""

    @property
    def tasks_lto(self) -> int:
        """Tasks completed by images of that tier."""

    @property
    def compiled(self) -> int:
        """Sources compiled and images linked, but for those from the cache."""

    @property
    def linked(self) -> int:
        """Images among them."""

    @property
    def cache_hits(self) -> int:
        """Sources and images out of the cache on disk."""

    @property
    def last_cache_hit(self) -> float:
        """How long the last of them took."""

    @property
    def last_hand_over(self) -> float:
        """How long the last change of image took."""

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
        """Whether the task is complete, successful or not."""

    def status(self) -> int:
        """
        0 for success, positive for the operator's own code, negative for one of dwell's. Waits, and raises nothing for
        tasks that have failed.
        """

    @property
    def position(self) -> int:
        """The task's place in the order of submission."""

    def add_done_callback(self, callback: Callable[[Ticket], object]) -> None:
        """
        Calls ``callback(ticket)`` once when the task is complete, on a thread of the runtime, which calls one after the other. It may use
        the runtime, but not close it.
        """

    def as_future(self) -> concurrent.futures.Future[None]:
        """A concurrent.futures.Future whose result is None, or raises as `wait`."""

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

    def __call__(self, *arguments: object, groups: int = 1, gang: int = 0, after: Ticket | Iterable[Ticket] | None = None, after_any_result: Ticket | Iterable[Ticket] | None = None, link: bool = False, hard_link: bool = False, drain: bool = False, priority: int | None = None) -> Ticket:
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

    def __init__(self) -> None: ...

    @overload
    def add(self, op: Operator, *arguments: object, groups: int = 1) -> Node:
        """
        Adds a task, with arguments as Runtime.submit takes them, and returns its node.
        """

    @overload
    def add(self, name: str, op: Operator, *arguments: object, groups: int = 1) -> Node:
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
        has failed. It may use the runtime, but not wait for its own launch.
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

    def __call__(self, *arguments: object, grid: int | Sequence[int], block: int | Sequence[int], shared: int = 0, stream: int = 0) -> Ticket:
        """
        Launches it on the runtime's stream for launches, or on the CUstream at the address `stream`, and returns at once.
        """

    def launch(self, *arguments: object, grid: int | Sequence[int], block: int | Sequence[int], shared: int = 0, stream: int = 0) -> Ticket:
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

class Runtime:
    """
    A device, its resident loop, and everything that is submitted to it. A context manager, which closes it. Times are in
    seconds. May be used from any thread.
    """

    def __init__(self, device: str = 'auto', *, workers: int = 0, lease: float = 0.0, idle: float = 0.0, task_timeout: float = 10.0, stall_timeout: float = 0.0, ring_slots: int = 65536, spawned_tasks: int = 0, scratch_bytes: int = 8192, priorities: bool | str | Sequence[str] | None = None, compile: CompileOptions | None = None, compile_threads: int = 0, tier: str | None = None, limits: Limits | None = None, warn: Callable[[str], object] | None = None) -> None:
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
        limits: Limits of the image
        warn: called with one line when something works, but not as well as it could; None: the logger "dwell\"
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

    def submit(self, op: Operator, *arguments: object, groups: int = 1, gang: int = 0, after: Ticket | Iterable[Ticket] | None = None, after_any_result: Ticket | Iterable[Ticket] | None = None, link: bool = False, hard_link: bool = False, drain: bool = False, priority: int | None = None) -> Ticket:
        """
        Submits a task: numbers for values, dwell.Buffer or arrays of others for spans. Memory lives until the task has run, whatever is
        dropped before. Waits while the ring is full.

        groups: so many groups share the task
        gang: so many groups run at once, with barriers among them
        after, after_any_result: tickets that it starts after; a failure of one of the first cancels it
        link, hard_link: it starts after the task that this thread submitted before
        drain: it starts after all before, and holds back all after
        priority: 0 to 7, the most urgent; needs Runtime(priorities=...)
        """

    def submit_many(self, op: Operator, rows: Iterable[Sequence[object]], *, groups: int = 1, gang: int = 0, after: Ticket | Iterable[Ticket] | None = None, after_any_result: Ticket | Iterable[Ticket] | None = None, link: bool = False, hard_link: bool = False, drain: bool = False, priority: int | None = None) -> Ticket:
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

    def allocate(self, shape: int | Sequence[int], dtype: object = 'float32', memory: str = 'device') -> Buffer:
        """
        Memory for elements, uninitialised. `shape` is a count or a tuple; ``memory="host"`` is pinned host memory that the device reaches.
        """

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

    def compile(self, source: str, options: CompileOptions | None = None, expressions: Sequence[str] = [], file: str | None = None, line: int = 1) -> Module:
        """
        Compiles a program of ordinary kernels (CUDA C++ with grid and block) and loads it beside the resident loop. `expressions` are the
        instantiations wanted of kernel templates. On the CPU it raises dwell.Unsupported.
        """

    def info(self) -> RuntimeInfo:
        """The device, the image's resources, and counts."""

    def diagnose(self) -> Diagnosis:
        """What is not complete, and who waits for whom. Waits for nothing."""

    def park(self) -> None:
        """
        Takes the loop off the device until `resume`: waits for tasks that run. Tasks may be submitted meanwhile.
        """

    def resume(self) -> None:
        """Counts: as many resumes as parks."""

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
