"""dwell.torch: a context collects or leaves its operations to PyTorch, whichever is faster at its call site."""

import random
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from conftest import run_python
from torch_support import DEVICE, dt, made, taken, torch

Choice, Turns = dt._choice.Choice, dt._choice.Turns
_contexts, _extension, _thread_state = dt._contexts, dt._extension, dt._thread_state

# ---- The policy, by a clock that the test sets -------------------------------------------------------------------------------------------


class Program:
    """Contexts of one site. Each takes the time of its way."""

    def __init__(self, collected: float, handed_on: float, turns: Turns | None = None) -> None:
        self.now = 0.0
        self.seconds = {True: collected, False: handed_on}
        self.turns = turns or Turns(lambda: self.now)
        self.choice = Choice(self.turns)
        self.ways: list[bool] = []

    def run(self, contexts: int, more: Callable[[], float] = lambda: 0.0) -> list[bool]:
        """Returns whether each has collected. `more`: seconds besides."""
        ways = [self.context(more) for _ in range(contexts)]
        self.ways += ways
        return ways

    def context(self, more: Callable[[], float] = lambda: 0.0) -> bool:
        collects = self.choice.next()
        self.now += self.seconds[collects] + more()
        return collects

    def collects(self) -> bool:
        """What it has settled for."""
        ways = self.run(31)
        return sum(ways) > 15


def cost(program: Program) -> float:
    """The time of all contexts, of what they would have taken all the faster way."""
    best = min(program.seconds.values()) * len(program.ways)
    return program.now / best - 1


def test_the_first_contexts_collect() -> None:
    assert Program(300e-6, 100e-6).run(3) == [True] * 3


@pytest.mark.parametrize("collected, handed_on", [(300e-6, 100e-6), (27e-6, 100e-6), (110e-6, 100e-6), (90e-6, 100e-6), (1.0, 0.2)])
def test_the_faster_way_is_kept(collected: float, handed_on: float) -> None:
    program = Program(collected, handed_on)
    program.run(100)
    assert program.collects() == (collected < handed_on)


@pytest.mark.parametrize("slower", [1.01, 1.05, 1.2, 1.5, 2, 3, 5, 10, 15])
@pytest.mark.parametrize("collecting_is_slower", [False, True])
def test_trials_cost_less_than_a_fiftieth(slower: float, collecting_is_slower: bool) -> None:
    slow, fast = slower * 100e-6, 100e-6
    program = Program(*((slow, fast) if collecting_is_slower else (fast, slow)))
    program.run(10_000)
    assert cost(program) < 0.02
    assert program.collects() is not collecting_is_slower or slower < 1.04


@pytest.mark.parametrize("seed", range(5))
def test_noise_does_not_matter(seed: int) -> None:
    draw = random.Random(seed)
    for collected, handed_on in ((300e-6, 100e-6), (50e-6, 100e-6)):
        program = Program(collected, handed_on)
        program.run(10_000, lambda: draw.expovariate(1 / 10e-6) + (1e-3 if draw.random() < 0.02 else 0))
        kept = collected < handed_on
        assert program.ways.count(not kept) < 300


@pytest.mark.parametrize("length", [3e-3, 10e-3, 30e-3])
def test_a_machine_that_is_slow_at_times_decides_nothing(length: float) -> None:
    """For a while each context takes four times as long, whichever way it goes."""
    for seed in range(20):
        draw = random.Random(seed)
        program = Program(150e-6, 100e-6)
        slow_from = [draw.uniform(0, 5.0) for _ in range(20)]

        def slower(program: Program = program, slow_from: list[float] = slow_from) -> float:
            return 400e-6 if any(begin <= program.now < begin + length for begin in slow_from) else 0.0

        program.run(20_000, slower)
        assert program.ways.count(True) < 1000


def test_the_slower_way_is_left_soon_and_tried_again_seldom() -> None:
    program = Program(300e-6, 100e-6)
    ways = program.run(5000)
    assert ways[:50].count(True) <= 8
    trials = [at for at in range(50, 5000) if ways[at] and not ways[at - 1]]
    assert 2 <= len(trials) <= 6
    assert all(ways[at : at + 4] == [True, True, True, False] for at in trials), "three contexts tell"


def test_a_program_whose_costs_change_is_followed() -> None:
    program = Program(300e-6, 100e-6)
    program.run(5000)
    assert not program.collects()
    program.seconds = {True: 50e-6, False: 200e-6}
    program.run(5000)
    assert program.collects()
    program.seconds = {True: 400e-6, False: 200e-6}
    program.run(5000)
    assert not program.collects()


@pytest.mark.parametrize("every", [5, 7, 40])
def test_long_gaps_do_not_count(every: int) -> None:
    count = 0

    def gap() -> float:
        nonlocal count
        count += 1
        return 10.0 if count % every == 0 else 0.0

    for collected, handed_on in ((300e-6, 100e-6), (50e-6, 100e-6)):
        program = Program(collected, handed_on)
        program.run(3000, gap)
        assert program.collects() == (collected < handed_on)
        assert program.ways.count(collected >= handed_on) < 60
        # The gap of a trial does not put off the next one for ever.
        program.seconds = {True: handed_on, False: collected}
        program.run(10_000, gap)
        assert program.collects() == (collected >= handed_on)


def test_sites_of_a_thread_are_tried_one_after_the_other() -> None:
    """One gains by collecting, another one loses more: a trial of both at once would tell the sum."""
    now = 0.0
    turns = Turns(lambda: now)
    costs = [{True: 50e-6, False: 100e-6}, {True: 400e-6, False: 100e-6}]
    sites = [Choice(turns), Choice(turns)]
    for _ in range(3000):
        for site, seconds in zip(sites, costs, strict=True):
            now += seconds[site.next()]
    assert [site.collects for site in sites] == [True, False]


def test_a_site_that_is_not_entered_any_more_holds_up_nobody() -> None:
    program = Program(300e-6, 100e-6)
    left = Choice(program.turns)
    for _ in range(5):
        left.next()
    assert program.turns.holder is left
    program.run(20)
    program.now += 10
    program.run(300)
    assert program.choice.seconds
    assert not program.collects()
    for _ in range(40):
        left.next()  # goes on
    assert program.turns.holder in (left, None)


def test_a_thread_begins_with_what_others_have_found() -> None:
    found: list[bool] = []
    program = Program(300e-6, 100e-6)
    program.choice = Choice(program.turns, told=found.append)
    program.run(100)
    assert found and not found[-1]
    assert not Choice(Turns(), collects=False).next()
    assert Choice(Turns(), collects=True).next()


# ---- Contexts ----------------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def choosing(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Contexts choose, as they do for users."""
    monkeypatch.setattr(_extension, "ALWAYS", False)
    monkeypatch.setattr(_contexts, "_found", {})
    monkeypatch.setattr(_thread_state.thread, "choices", {})
    monkeypatch.setattr(_thread_state.thread, "turns", Turns())
    with dt.eager(always=True):  # loads the extension
        pass
    yield
    assert _thread_state.thread.depth == 0


def settle(collects: bool) -> None:
    """Has all sites of this thread go one way, as long as the test lasts."""
    for choice in _thread_state.thread.choices.values():
        choice.give_up()
        choice.collects, choice._left = collects, 1 << 30


def collected(work: Callable[[], Any]) -> int:
    before = taken()
    work()
    return taken() - before


@pytest.mark.usefixtures("choosing")
def test_a_context_hands_on_and_collects() -> None:
    x = made(16)

    def site() -> "torch.Tensor":
        with dt.eager():
            return torch.relu(x * 2 + 1)

    assert [collected(site) for _ in range(3)] == [3, 3, 3], "the first ones collect"
    settle(False)
    assert collected(site) == 0
    assert torch.equal(site(), torch.relu(x * 2 + 1))
    settle(True)
    assert collected(site) == 3
    assert torch.equal(site(), torch.relu(x * 2 + 1))


@pytest.mark.usefixtures("choosing")
def test_a_site_finds_the_faster_way() -> None:
    """Waits stand for what a way costs."""
    x = made(16)
    pause = threading.Event()
    slow = {True: 3e-3, False: 0.0}

    def site() -> None:
        with dt.eager():
            before = taken()
            x.add_(1)
            pause.wait(slow[taken() > before] or 1e-5)

    for _ in range(60):
        site()
    assert sum(collected(site) for _ in range(10)) == 0
    (told,) = dt.stats()["sites"].values()
    assert told["collects"] is False and told["collected"] > told["handed_on"]
    slow[True], slow[False] = 0.0, 3e-3
    settle(False)
    (choice,) = _thread_state.thread.choices.values()
    choice.give_up()
    for _ in range(60):
        site()
    assert sum(collected(site) for _ in range(10)) == 10


@pytest.mark.usefixtures("choosing")
def test_sites_are_told_apart_by_place_and_limits() -> None:
    for size in (10, 20):
        with dt.eager(size_threshold=size):
            pass
        with dt.eager(), dt.eager(resident=False):
            pass
    assert len(_thread_state.thread.choices) == 4
    assert all("test_torch_choice.py:" in where for where in dt.stats()["sites"])


@pytest.mark.usefixtures("choosing")
def test_always_collects() -> None:
    x = made(16)

    def always() -> None:
        with dt.eager(always=True):
            x.add_(1)

    def inner() -> None:
        with dt.eager():
            x.add_(1)

    def nested() -> None:
        with dt.eager(always=True):
            inner()

    inner()
    settle(False)
    assert collected(inner) == 0
    assert [collected(always) for _ in range(50)] == [1] * 50
    assert [collected(nested) for _ in range(50)] == [1] * 50, "contexts inside of one that collects do too"
    with dt.record() as recorded:
        y = x + 1
    recorded().replay()
    assert torch.equal(y, x + 1)


@pytest.mark.usefixtures("choosing")
def test_limits_hold_inside_of_contexts_either_way() -> None:
    x = made(1000)

    def site() -> None:
        with dt.eager(size_threshold=10):
            x * 2

    site()
    for collects in (False, True):
        settle(collects)
        assert collected(site) == 0
        with dt.eager(always=True):
            assert collected(site) == 0
            assert collected(lambda: x * 2) == 1


@pytest.mark.usefixtures("choosing")
def test_a_context_that_collects_inside_of_one_that_hands_on() -> None:
    x = made(16)

    def outer() -> None:
        with dt.eager():
            x.add_(1)
            with dt.eager(always=True):
                x.add_(1)
            x.add_(1)

    outer()
    settle(False)
    assert collected(outer) == 1
    assert torch.equal(x, made(16) + 1 + 1 + 1 + 1 + 1 + 1)


@pytest.mark.usefixtures("choosing")
@pytest.mark.parametrize("collects", [False, True])
def test_exceptions_leave_the_block(collects: bool) -> None:
    x = made(16)

    def site() -> None:
        with dt.eager():
            x.add_(1)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        site()
    settle(collects)
    for _ in range(20):
        with pytest.raises(ZeroDivisionError):
            site()
    assert _thread_state.thread.depth == 0
    assert collected(lambda: x.add_(1)) == 0
    assert torch.allclose(x, made(16) + 22)


@pytest.mark.usefixtures("choosing")
def test_decorators_are_sites_of_their_own() -> None:
    @dt.accelerate
    def doubled(x: "torch.Tensor") -> "torch.Tensor":
        return x * 2

    @dt.eager(size_threshold=8)
    def tripled(x: "torch.Tensor") -> "torch.Tensor":
        return x * 3

    @dt.eager(always=True)
    def halved(x: "torch.Tensor") -> "torch.Tensor":
        return x / 2

    x = made(16)
    assert [collected(lambda f=f: f(x)) for f in (doubled, tripled, halved)] == [1, 0, 1]  # type: ignore[misc]
    assert collected(lambda: tripled(x[:8])) == 1
    settle(False)
    assert [collected(lambda f=f: f(x)) for f in (doubled, tripled, halved)] == [0, 0, 1]  # type: ignore[misc]
    assert collected(lambda: tripled(x[:8])) == 0
    assert torch.equal(doubled(x), x * 2) and torch.equal(tripled(x), x * 3)
    assert any(where.endswith("doubled") for where in dt.stats()["sites"])


@pytest.mark.usefixtures("choosing")
def test_a_context_is_entered_again_and_chooses_again() -> None:
    x = made(16)
    context = dt.eager()

    def again() -> None:
        with context:
            x.add_(1)

    again()
    settle(False)
    assert collected(again) == 0
    settle(True)
    assert collected(again) == 1
    with context, pytest.raises(RuntimeError, match="inside of itself"), context:
        pass
    assert _thread_state.thread.depth == 0


@pytest.mark.usefixtures("choosing")
def test_threads_choose_for_themselves() -> None:
    x = made(16)
    counts: list[int] = []

    def site() -> None:
        with dt.eager():
            x.add_(1)

    site()
    settle(False)

    def other() -> None:
        counts.extend(collected(site) for _ in range(3))

    def found() -> None:
        (key,) = keys
        _contexts._found[key] = False
        counts.extend(collected(site) for _ in range(3))

    keys = list(_thread_state.thread.choices)
    for work in (other, found):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert counts == [1, 1, 1, 0, 0, 0]
    assert collected(site) == 0
    assert torch.allclose(x, made(16) + 8)


@pytest.mark.usefixtures("choosing")
def test_a_flush_waits_for_what_was_handed_on() -> None:
    x = made(64, 64)

    def site() -> None:
        with dt.eager():
            y = x
            for _ in range(100):
                y = torch.tanh(y @ x)
            dt.flush()
        dt.flush(sync=True)
        assert DEVICE == "cpu" or torch.cuda.current_stream().query()

    site()
    settle(False)
    site()


@pytest.mark.usefixtures("choosing")
def test_programs_that_are_generated_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_contexts, "_MOST_SITES", 10)
    for _ in range(100):
        exec("with dt.eager(): pass", {"dt": dt})
    assert len(_thread_state.thread.choices) <= 10


@pytest.mark.usefixtures("choosing")
def test_a_context_that_is_traced_does_nothing() -> None:
    x = made(16)

    @torch.compile(backend="eager", fullgraph=True)
    def function(x: "torch.Tensor") -> "torch.Tensor":
        with dt.eager():
            return torch.relu(x + 1) * 2

    assert collected(lambda: [function(x) for _ in range(5)]) == 0
    assert torch.equal(function(x), torch.relu(x + 1) * 2)


def test_by_default_contexts_choose_and_by_a_variable_they_collect() -> None:
    program = f"""
        import torch, dwell.torch as dt
        x = torch.ones(8, 8, device={DEVICE!r})
        for _ in range(200):
            with dt.eager():
                y = torch.softmax(x @ x, -1)
            torch.equal(x, x)
        print(dt.stats()["taken"], len(dt.stats()["sites"]), y[0, 0].item())
        """
    taken_by = {name: run_python(program, DWELL_TORCH=name).stdout.split() for name in ("", "always", "off")}
    assert {name: values[1] for name, values in taken_by.items()} == {"": "1", "always": "0", "off": "0"}
    assert taken_by["always"][0] == "400" and taken_by["off"][0] == "0"
    assert 6 <= int(taken_by[""][0]) < 400
    assert {values[2] for values in taken_by.values()} == {"0.125"}
