"""Tickets and definitions as futures. Imported when one is first asked for."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import weakref
from collections.abc import Generator
from typing import Any, Generic, Protocol, TypeVar

from . import _dwell
from ._errors import Cancelled, Error

Result = TypeVar("Result")


class _Stop(Protocol):
    def request(self) -> bool:
        """Asks for the end of what goes on. Whether it has ended so."""


class Pending(concurrent.futures.Future, Generic[Result]):  # type: ignore[type-arg]
    """What goes on in the background: a concurrent.futures.Future, which may be awaited too."""

    def __init__(self, stop: _Stop) -> None:
        super().__init__()
        self._stop = stop
        self._called_off = False

    def cancel(self) -> bool:
        """Asks for the end of what goes on: of a definition, unless its version has been handed over, and of a task that has not begun.

        True when it has ended so, and the future is cancelled. False when it is done, when it cannot be called back, of a task always, and
        of a definition that ends at this very moment: only its end tells. The future is cancelled then if it was called off after all, and
        has its result otherwise."""
        if self.done():
            return self.cancelled()
        self._called_off = True
        if self._stop.request():
            super().cancel()
        return self.cancelled()

    def __await__(self) -> Generator[Any, None, Result]:
        return asyncio.wrap_future(self).__await__()

    def _done(self, result: Result, error: BaseException | None) -> None:
        """Called on a thread of the runtime."""
        if self._called_off and isinstance(error, Cancelled):
            super().cancel()  # the runtime may be faster than the thread that has called it off
        if not self.set_running_or_notify_cancel():
            return
        if error is None:
            self.set_result(result)
        else:
            self.set_exception(error)


class _StopOfTicket:
    def __init__(self, ticket: _dwell.Ticket) -> None:
        self._ticket = ticket

    def request(self) -> bool:
        self._ticket.cancel()
        return False  # the device decides, when the task's turn comes


def of_ticket(ticket: _dwell.Ticket) -> Pending[None]:
    """A future of a ticket."""
    future: Pending[None] = Pending(_StopOfTicket(ticket))

    def done(completed: _dwell.Ticket) -> None:
        try:
            completed.wait(0)
        except BaseException as error:
            future._done(None, error)
        else:
            future._done(None, None)

    ticket.add_done_callback(done)
    return future


class _LoopWaker:
    """Resumes the coroutines of one event loop whose tickets are complete."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.waker = _dwell.Waker()
        self.waiting: dict[int, asyncio.Future[None]] = {}
        self.next = 0
        # Not the loop itself, which is the key of a weak dictionary.
        loop.add_reader(self.waker.fileno(), self.wake)

    def watch(self, ticket: _dwell.Ticket, future: asyncio.Future[None]) -> None:
        self.next += 1
        self.waiting[self.next] = future
        self.waker.watch(ticket, self.next)

    def wake(self) -> None:
        for key in self.waker.take():
            future = self.waiting.pop(key)
            if not future.done():
                future.set_result(None)


_wakers: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopWaker] = weakref.WeakKeyDictionary()


def awaiting(ticket: _dwell.Ticket) -> Generator[Any, None, None]:
    """``await ticket``. Cancelling it asks for the end of the task, as for that of an asyncio.Task that is awaited."""
    if not ticket.done:
        loop = asyncio.get_running_loop()
        waker = _wakers.get(loop)
        if waker is None:
            waker = _wakers[loop] = _LoopWaker(loop)
        future: asyncio.Future[None] = loop.create_future()
        waker.watch(ticket, future)
        try:
            yield from future
        except asyncio.CancelledError:
            with contextlib.suppress(Error):  # a device that has failed, say: the waiting is over all the same
                ticket.cancel()
            raise
    ticket.wait(0)
