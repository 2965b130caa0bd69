"""Chooses, for each call site, whether a context collects operations or leaves them to PyTorch.

The measure is the period of the site: the time from one entry to the next, whatever the program does and waits for in between. Both ways
take turns at first; then a site keeps the faster one, and tries the other again now and then. A trial takes few contexts, and the rest
behind it lasts long enough for the trial to cost less than half a percent of the time."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from typing import Any

_FIRST = 3  # contexts that collect before anything is tried; the first one loads the extension
_SAMPLES = 7  # periods that a way is judged by
_COST = 0.005  # of the time, that trials may cost
_SHORTEST_REST, _LONGEST_REST = 16, 1024  # contexts between trials, of ways that take equally long
_SECOND_TRIAL = 128  # contexts until the second trial at most: a slow machine may have decided the first one
_WAIT = 8  # contexts until a site asks again, while another one of the thread has a trial
_GAIN = 0.97  # of PyTorch's time, that collecting must stay below
_GAP = 4.0  # a period of so many medians is one, whatever the trial costs by it
_SILENCE = 1.0  # seconds without a context, and 4 periods: a site that has a trial is not entered any more
# A trial ends early when so many periods each are so many times as long as the other way's.
_CLEAR = ((4, 1.1), (2, 1.5))

_RESTS, _WATCHES, _TRIES, _CONFIRMS = range(4)


class Turns:
    """Sites of a thread. One at a time has a trial, so that their costs are told apart."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock = clock
        self.holder: Choice | None = None

    def take(self, choice: Choice) -> bool:
        if self.holder is not None and self.holder is not choice:
            if not self.holder.is_silent(self.clock()):
                return False
            self.holder.give_up()
        self.holder = choice
        return True


class Choice:
    """What is known of a site: of a thread, since contexts of two threads take turns with nobody."""

    __slots__ = (
        "_left",
        "_losses",
        "_periods",
        "_phase",
        "_rest",
        "_since",
        "_skip",
        "_told",
        "_tried",
        "_turns",
        "_usual",
        "collects",
        "hands_on",
        "kept",
        "seconds",
        "where",
    )

    def __init__(
        self, turns: Turns, where: str = "", collects: bool | None = None, told: Callable[[bool], None] = lambda collects: None
    ) -> None:
        """`where`: the site's name. `collects`: what another thread has found, if any has. `told` is called with what this one finds."""
        self.collects = collects is not False
        self.where = where
        self.kept: object = None  # by who keeps the choice
        self.hands_on: Any = None  # likewise: its context that leaves operations to PyTorch
        self.seconds: dict[bool, float] = {}  # by whether it collects: the median period at the last trial
        self._turns = turns
        self._left = 1 if collects is None else _SHORTEST_REST  # contexts until `_look`
        self._phase = _WATCHES if collects is None else _RESTS
        self._skip = 1  # periods that tell nothing: the way has changed
        self._since: float | None = None  # the entry before, where periods are timed
        self._periods: list[float] = []
        self._usual = 0.0  # seconds of the way that the trial is compared with
        self._rest = _SHORTEST_REST
        self._losses = 0  # trials that the other way has lost since the last change
        self._tried: list[float] = []  # periods of the last trial
        self._told = told

    def next(self) -> bool:
        """Returns whether the context that begins now collects."""
        self._left -= 1
        return self.collects if self._left > 0 else self._look()

    def is_silent(self, now: float) -> bool:
        return self._since is None or now - self._since > _SILENCE + 4 * max(self._periods, default=0.0)

    def give_up(self) -> None:
        """Ends a trial that was not finished."""
        self._begin_rest(_SHORTEST_REST)

    def _begin_rest(self, contexts: int) -> None:
        self._phase, self._left, self._since, self._periods = _RESTS, contexts, None, []
        if self._turns.holder is self:
            self._turns.holder = None

    def _look(self) -> bool:
        self._left = 1
        now = self._turns.clock()
        if self._phase == _RESTS:
            if not self._turns.take(self):
                self._left = _WAIT
                return self.collects
            self._phase, self._skip, self._since = _WATCHES, 0, now
            return self.collects
        if self._since is not None:
            self._periods.append(now - self._since)
        self._since = now
        return {_WATCHES: self._watch, _TRIES: self._try, _CONFIRMS: self._confirm}[self._phase]()

    def _watch(self) -> bool:
        is_first = not self.seconds and self._skip == 1
        if len(self._periods) < (_FIRST if is_first else _SAMPLES):
            return self.collects
        if not self._turns.take(self):
            # Only a site that has never tried comes here.
            self.collects = False
            self._begin_rest(_WAIT)
            return False
        self._usual = statistics.median_low(self._periods[self._skip :])
        self._phase, self._periods = _TRIES, []
        return not self.collects

    def _try(self) -> bool:
        if not self._suffices(self._usual):
            return not self.collects
        other = statistics.median_low(self._periods[1:])
        is_first = not self.seconds
        self.seconds = {self.collects: self._usual, not self.collects: other}
        self._tried = [min(period, _GAP * other) for period in self._periods]
        if is_first and self._is_better(other, self._usual):  # it is tried again soon
            return self._settle(not self.collects)
        self._phase, self._periods = _CONFIRMS, []
        return self.collects

    def _confirm(self) -> bool:
        """The way before has its turn once more: the machine may have become faster or slower meanwhile."""
        other = self.seconds[not self.collects]
        if not self._suffices(other):
            return self.collects
        before, after = self._usual, statistics.median_low(self._periods[1:])
        if self._is_better(other, min(before, after)):
            return self._settle(not self.collects)
        usual = max(before, after)
        rest = math.ceil(sum(period - usual for period in self._tried) / (_COST * max(usual, 1e-9)))
        if self._losses == 0:
            rest = min(rest, _SECOND_TRIAL)
        self._losses += 1
        self._rest = min(2 * self._rest, _LONGEST_REST)
        return self._settle(self.collects, max(self._rest, rest))

    def _suffices(self, seconds: float) -> bool:
        """Returns whether the periods tell how this way compares with `seconds`. The first one is of both."""
        seen = self._periods[1:]
        return len(seen) >= _SAMPLES or any(len(seen) >= count and min(seen) > factor * seconds for count, factor in _CLEAR)

    def _is_better(self, other: float, usual: float) -> bool:
        return other < usual * (1 if self.collects else _GAIN)

    def _settle(self, collects: bool, rest: int = _SHORTEST_REST) -> bool:
        if collects != self.collects:
            self._rest, self._losses = _SHORTEST_REST, 0
        self.collects = collects
        self._told(collects)
        self._begin_rest(rest)
        return collects
