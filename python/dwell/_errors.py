"""Every way in which dwell can refuse or fail: one class for each code of the library's `errc`."""

from __future__ import annotations


class Error(RuntimeError):
    """What dwell raises. ``str(error)`` says what happened and what to do; the fields say it to programs.

    What does not apply is empty or 0.
    """

    kind: str = ""
    """The code's name as in C++: "task_failed"."""
    message: str = ""
    what: str = ""
    """The kind of thing that it is about: "operator", "kernel", "task", "option", "buffer", "argument", "memory", "file", ..."""
    which: str = ""
    """Its name: "axpy", "Options::workers"; of a task, the operator and version that it ran."""
    value: int = 0
    """The figure that was asked for; of a task, its ticket's position."""
    limit: int = 0
    """The limit that it breaks."""


class InvalidArgument(Error, ValueError):
    """An argument makes no sense: its value, its device or its layout. Correct the call."""

    kind = "invalid_argument"


class SignatureMismatch(Error, TypeError):
    """A task's arguments do not fit the operator's signature; the message names the argument, what came and what fits."""

    kind = "signature_mismatch"


class CompileError(Error):
    """The source does not compile. The version that runs stays."""

    kind = "compile_failed"

    @property
    def log(self) -> str:
        """The compiler's text, with the lines of the source."""
        return self.message


class OperatorNotFound(Error, LookupError):
    """The source does not define ``DWELL_OPERATOR(name)`` for the name it was given, or a program has no kernel of that name."""

    kind = "operator_not_found"


class LinkError(Error):
    """The operators do not link into one image. The image that runs stays."""

    kind = "link_failed"

    @property
    def log(self) -> str:
        """The linker's text."""
        return self.message


class CompilerUnavailable(Error):
    """The compiler that this device needs could not be opened; the message names the file and version looked for."""

    kind = "compiler_unavailable"


class DeviceUnavailable(Error):
    """There is no such device, or its driver is missing or too old."""

    kind = "device_unavailable"


class OutOfMemory(Error, MemoryError):
    """Device memory, host memory or a thread could not be had; the message names it."""

    kind = "out_of_memory"


class TaskFailed(Error):
    """The operator itself reported this task as failed with ``Group::fail``, or the callback of a host node has raised."""

    kind = "task_failed"
    code: int | None = None
    """What the operator gave to ``Group::fail``: positive codes are its own, negative ones dwell's. None where it is not known."""
    position: int = 0
    """The ticket's place in the order of submission."""

    @property
    def operator(self) -> str:
        """The operator that failed, with its version."""
        return self.which


class TaskTimeout(Error):
    """A task ran longer than ``task_timeout``. The runtime can only be closed or rebuilt."""

    kind = "task_timeout"


class DeviceLost(Error):
    """The device failed under a task; the message names the candidates. The runtime can only be closed or rebuilt."""

    kind = "device_lost"


class Cancelled(Error):
    """The task has not begun: one that it was to start after failed, it was cancelled, or the runtime was closed."""

    kind = "cancelled"


class Closed(Error):
    """The runtime is closed, or belongs to the parent of this forked process."""

    kind = "closed"


class NoPreviousVersion(Error):
    """There is no earlier version to go back to."""

    kind = "no_previous_version"


class Unsupported(Error, NotImplementedError):
    """The device or its backend cannot do this; the message says why."""

    kind = "unsupported"


class IoFailed(Error):
    """A file could not be read or written; the message names it."""

    kind = "io_failed"


class ResourceLimit(Error):
    """With this operator the image would take more of the device than ``Limits`` allow. The image that runs stays."""

    kind = "resource_limit"


class StaleHandle(Error):
    """The handle belongs to a runtime that is closed, or to a generation before ``Runtime.rebuild``. Define or allocate again."""

    kind = "stale_handle"


class Stalled(Error):
    """For ``stall_timeout`` nothing has moved; the message says who waits for whom. The runtime stays open."""

    kind = "stalled"


class Interrupted(Error):
    """The runtime was closed in the middle of the task, or of the launch of a graph. The message says how far it came."""

    kind = "interrupted"


BY_KIND: dict[str, type[Error]] = {one.kind: one for one in Error.__subclasses__()}

# Where users find them.
for _class in (Error, *BY_KIND.values()):
    _class.__module__ = "dwell"
del _class
