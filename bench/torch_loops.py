#!/usr/bin/env python3
"""Closed loops of PyTorch: one small program runs, is waited for, and only then runs again, as control loops do.

Times each run from its call until the host knows that it is done, on the host's clock. The wait is a synchronisation of the current stream;
on a CPU there is none. Inputs are not refilled between runs. The programs are in torch_programs.py. The rows
`one more step` tell the time of a longer program minus that of a shorter one, divided by the steps between: medians of a round's runs.

All sides take turns in one process, a block of runs each; the first run of a block is not timed.

    eager                   PyTorch as it is
    CUDA graph              a replay; on CUDA alone. Copies from and to the host are part of the graph
    torch.compile           mode="reduce-overhead" on CUDA, the default mode on a CPU. Weights and inputs are marked as never moving.
                            Copies from and to the host are outside
    dwell.torch             each run inside a dwell.torch.eager() of its own, which collects or not, whichever is faster
    dwell.torch always      the same with always=True: each run collects
    dwell recorded          dwell.torch.record() once, then replays
    dwell resident step     Recording.resident, called with NumPy's arrays in the host's memory; of programs from host to host alone. It
                            waits for no stream: the results are there on return
    dwell resident          each run inside an eager(resident=True, always=True) of its own; on CUDA alone
    dwell resident, kept    a block of runs inside one of these, with a flush(sync=True) behind each; on CUDA alone

Optimisers have foreach=False in dwell's sides but dwell.torch, and PyTorch's choice in the others. Precision is PyTorch's default: cuDNN
may use TF32.

Every side's result is checked against the same program in float64, for inputs that differ, before and after it is timed. A side that cannot
be had, or that no time is left for, is left out and named, with the reason. Where the host was slow (a loop of Python's beside a block took
more than 1.3 times its best), the block is taken again, twice at most.

Exit status 1: a result is wrong, or one of dwell's sides failed. Sides left out do not matter.

usage: bench/torch_loops.py [--device D] [--json FILE] [--only WORD] [--sides NAMES] [--budget SECONDS] [--short]
DWELL_BENCH=short: as --short
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import functools
import gc
import inspect
import signal
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import dwell.torch as dt
import torch
from torch_programs import Loop, Place, Program, loops, nothing
from torch_timing import SHORT, Host, Work, captured, device_of, done_by_dwell, error_of, recorded, spread_of, write_report

HANGS = 90.0  # seconds that a block of runs or a check may take; then the process ends


class LeftOut(Exception):
    """A side cannot be had here; the text says why."""


@dataclass
class Side:
    """Who runs a program, and how."""

    by: str
    prepare: Callable[[Program], Work]  # what is called for each run
    peer: bool = True
    kept: Callable[[], Any] = contextlib.nullcontext  # around a block of runs
    wait: Work = nothing  # behind each run, before the stream is waited for
    waits: bool = True  # for the stream
    warm_ups: int = 3
    foreach: bool | None = False  # of optimisers; None: PyTorch's choice


@dataclass
class Runner:
    """A program that a side runs."""

    side: Side
    program: Program
    run: Work
    count: int = 1  # runs in a block


@dataclass
class Entry:
    """A side's runners of one loop, one for each length, and their times by round."""

    side: Side
    runners: list[Runner]
    ready_after: float  # seconds, with compilation and the first runs
    rounds: list[list[float]] = field(default_factory=list)  # what rows tell: seconds of runs, or of one more step
    right: bool = True
    did: dict[str, float] | None = None

    def middle(self, number: int) -> float:
        return statistics.median(self.rounds[number])


class TooLong(Exception):
    """`limited` has ended it."""


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raises TooLong inside of the block when it takes longer, again and again in case that something there catches it."""

    def end(*_: Any) -> None:
        raise TooLong(f"not ready after {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.1), 2)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}"[:160]


class Bench:
    def __init__(self, device: str, *, short: bool, budget: float, compile_seconds: float, sides: frozenset[str] = frozenset()) -> None:
        self.device = device
        self.cuda = device.startswith("cuda")
        self.short = short
        self.begun = time.perf_counter()
        self.deadline = self.begun + budget
        self.compile_seconds = compile_seconds
        self.host = Host()
        self.rows: list[dict[str, Any]] = []
        self.left_out: list[dict[str, str]] = []
        self.notes: list[str] = []
        self.wrong: list[str] = []
        # PyTorch's own: dwell.torch wraps it, and its sides flush by themselves.
        synchronize = inspect.unwrap(torch.cuda.Stream.synchronize)
        self.wait: Work = functools.partial(synchronize, torch.cuda.current_stream()) if self.cuda else nothing
        self.rounds = 2 if short else 15
        self.block_seconds = 0.0 if short else 0.02
        self.block_runs = (2, 2) if short else (10, 200)
        self.loop = ""  # that is measured
        self.sides = [side for side in self.sides_here() if not sides or side.by == "eager" or side.by in sides]

    # ---- Sides ----

    def sides_here(self) -> list[Side]:
        eager = Side("eager", lambda program: program.around(program.core))
        graph = Side("CUDA graph", lambda program: captured(program.around(program.core), 3))
        compiled = Side("torch.compile", self.compiled, warm_ups=5)
        # Enough contexts for a choice.
        warm_ups = 3 if self.short else 60
        chosen = Side(
            "dwell.torch", lambda program: dt.accelerate(program.around(program.core)), peer=False, warm_ups=warm_ups, foreach=None
        )
        collected = Side("dwell.torch always", lambda program: inside(program, collecting), peer=False)
        replayed = Side("dwell recorded", self.replayed, peer=False)
        stepped = Side("dwell steps", self.stepped, peer=False)
        called = Side("dwell resident step", self.called, peer=False, waits=False)
        resident = Side("dwell resident", lambda program: inside(program, resident_loop), peer=False)
        kept = Side(
            "dwell resident, kept",
            lambda program: program.around(program.core),
            peer=False,
            kept=resident_loop,
            wait=lambda: dt.flush(sync=True),
        )
        if self.cuda:
            return [eager, graph, compiled, chosen, collected, replayed, stepped, called, resident, kept]
        return [eager, compiled, chosen, collected, replayed, stepped, called]

    def replayed(self, program: Program) -> Work:
        told = self.notes.append
        return program.around(recorded(program.core, self.device, lambda how: told(f"{self.loop}: dwell recorded as {how}")))

    def stepped(self, program: Program) -> Work:
        """One step is recorded, and runs in a loop on the device. A run sets the state first."""
        if program.stepped is None:
            raise LeftOut("it is not written as one step")
        count, state, step, result = (getattr(program.stepped, name) for name in ("count", "state", "step", "result"))
        with dt.record(self.device, steps=count) as made:
            step(made.each)
        recording = made()
        why = recording.compile()
        self.notes.append(f"{self.loop}: dwell steps as {f'tasks: {why}' if why else f'one program of {recording.members} members'}")
        to, of = ([pair[i] for pair in state] for i in range(2))

        def run() -> Any:
            torch._foreach_copy_(to, of)
            recording.replay()
            return result()

        return program.around(run)

    def called(self, program: Program) -> Work:
        """It stays on the device, and the host calls it."""
        if program.called is None:
            raise LeftOut("its numbers do not come from the host")
        with dt.record(self.device, whole=False) as made:
            result = program.core()
        inputs, output = program.called.inputs, program.called.output
        step = made().resident([x for x, _ in inputs], [result])
        self.notes.append(f"{self.loop}: dwell resident step as one program of {step.members} members")
        given, out = [host.numpy() for _, host in inputs], output.numpy()

        def run() -> torch.Tensor:
            step(*given, out=out)
            return output

        return run

    def compiled(self, program: Program) -> Work:
        if self.cuda:
            try:
                import triton  # noqa: F401
            except ImportError:
                raise LeftOut("Triton is missing") from None
        for tensor in program.place.tensors:
            torch._dynamo.mark_static_address(tensor)

        def compiler(work: Callable[..., Any]) -> Callable[..., Any]:
            made: Callable[..., Any] = torch.compile(work, mode="reduce-overhead" if self.cuda else "default", dynamic=False)
            return made

        core = compiler(program.core) if program.compiled is None else program.compiled(compiler)

        def marked() -> Any:
            torch.compiler.cudagraph_mark_step_begin()  # results of the last run are not needed any more
            return core()

        return program.around(marked if self.cuda else core)

    # ---- Runs ----

    def finish(self, side: Side) -> None:
        side.wait()
        self.wait()

    def times(self, runner: Runner, count: int) -> list[float]:
        """So many runs of a block, each waited for."""
        seconds = []
        clock = time.perf_counter
        first, then, run = runner.side.wait, self.wait if runner.side.waits else nothing, runner.run
        self.finish(runner.side)
        with runner.side.kept():
            run()
            self.finish(runner.side)
            for _ in range(count):
                begun = clock()
                run()
                first()
                then()
                seconds.append(clock() - begun)
        return seconds

    def checked_run(self, runner: Runner, number: int) -> tuple[list[torch.Tensor], dict[str, float]]:
        """What it results in for the inputs of this number, and what dwell did."""
        runner.program.begin(number)
        self.finish(runner.side)

        def once() -> Any:
            with runner.side.kept():
                result = runner.run()
                self.finish(runner.side)
            return result

        result, did = done_by_dwell(once)
        self.finish(runner.side)
        return [tensor.double().cpu().clone() for tensor in runner.program.results(result)], did

    def watch(self, seconds: float = HANGS) -> None:
        """The process ends, with a trace of all threads, when it does not come here again in time. What was timed is in the report."""
        faulthandler.dump_traceback_later(seconds, exit=True)

    # ---- A loop ----

    def measure(self, loop: Loop) -> None:
        print(f"\n{loop.name}", flush=True)
        self.loop = loop.name
        gc.collect()
        with torch.set_grad_enabled(loop.trains):
            expected = self.expected(loop)
            entries = self.prepared(loop)
            if not entries:
                return
            time.sleep(0.01 if self.short else 0.5)  # dwell compiles what runs often meanwhile
            entries = [entry for entry in entries if self.tried(loop, entry, expected)]
            if not entries or entries[0].side.by != "eager":
                return
            self.take_turns(loop, entries)
            for entry in entries:
                self.watch()
                for number in (1, 2):
                    self.check(loop, entry, expected, number)
        self.tell(loop, entries)

    def lengths(self, loop: Loop) -> tuple[int, ...]:
        return loop.lengths or (loop.steps,)

    def expected(self, loop: Loop) -> list[list[list[torch.Tensor]]]:
        """By length and number of the inputs: in float64 on the CPU, by eager PyTorch."""
        found = []
        for steps in self.lengths(loop):
            program = loop.make(Place("cpu", torch.float64), steps)
            run = program.around(program.core)
            of_length = []
            for number in range(3):
                program.begin(number)
                of_length.append([tensor.clone() for tensor in program.results(run())])
            found.append(of_length)
        return found

    def tried(self, loop: Loop, entry: Entry, expected: list[list[list[torch.Tensor]]]) -> bool:
        """Whether it runs on other inputs than those that it was prepared with. Finds how many runs a block has."""
        self.watch()
        try:
            self.check(loop, entry, expected, 0)
            for runner in entry.runners:
                least = min(self.times(runner, 3))
                runner.count = min(max(int(self.block_seconds / least), self.block_runs[0]), self.block_runs[1])
        except Exception as error:
            self.cannot(loop, entry.side, error)
            return False
        return True

    def cannot(self, loop: Loop, side: Side, error: Exception) -> None:
        """Leaves a side out. It is a failure when it is eager PyTorch or dwell, unless dwell refuses what it does not record."""
        why = first_line(error)
        self.leave_out(loop, side.by, why)
        refused = "cannot be recorded" in why or "beside the recording" in why
        if side.by == "eager" or not (side.peer or refused):
            self.wrong.append(f"{loop.name}: {side.by}: {why}")

    def prepared(self, loop: Loop) -> list[Entry]:
        """All sides that can be had, warmed up."""
        entries: list[Entry] = []
        if not self.short:
            torch.compiler.reset()
        for side in self.sides:
            left = self.deadline - time.perf_counter()
            if left <= 0:
                self.leave_out(loop, side.by, "the budget is spent")
                continue
            compiles = side.by == "torch.compile"
            if compiles and (self.short or not loop.compiles):
                why = "a short run compiles nothing" if self.short else "it runs torch.nn.LSTM and GRU as eager PyTorch does"
                self.leave_out(loop, side.by, why)
                continue
            limit = min(self.compile_seconds, left) if compiles else HANGS
            self.watch(limit + HANGS)
            begun = time.perf_counter()
            try:
                with limited(limit):
                    runners = [self.warmed_up(loop, side, steps) for steps in self.lengths(loop)]
                entries.append(Entry(side, runners, time.perf_counter() - begun))
            except LeftOut as missing:
                self.leave_out(loop, side.by, str(missing))
            except Exception as error:
                # Whatever it has become on its way through the compiler.
                late = time.perf_counter() - begun >= limit
                self.cannot(loop, side, TooLong(f"not ready after {limit:.0f} s") if late else error)
                if side.by == "eager":
                    break  # nothing to compare with
        return entries

    def warmed_up(self, loop: Loop, side: Side, steps: int) -> Runner:
        place = Place(self.device, torch.float32, foreach=None if side.peer else side.foreach)
        program = loop.make(place, steps)
        program.begin(0)
        compiles = side.by == "torch.compile"
        if compiles:
            torch._dynamo.utils.counters.clear()
        runner = Runner(side, program, side.prepare(program))
        with warnings.catch_warnings():
            if compiles:
                warnings.simplefilter("ignore")  # those of the compiler about itself
            for _ in range(side.warm_ups):
                with side.kept():
                    runner.run()
                    self.finish(side)
        if compiles and (skips := torch._dynamo.utils.counters["inductor"]["cudagraph_skips"]):
            self.notes.append(f"{loop.name}: torch.compile has run {skips} times without a CUDA graph")
        return runner

    def take_turns(self, loop: Loop, entries: list[Entry]) -> None:
        """Rounds of a block for each side and length. Ends early when time is up."""
        begun = time.perf_counter()
        gc.disable()
        try:
            for number in range(self.rounds):
                now = time.perf_counter()
                if number >= 3 and (now > self.deadline or now - begun > 20):
                    break
                for entry in entries:
                    self.watch()
                    entry.rounds.append(self.round_of(loop, entry))
        finally:
            gc.enable()

    def round_of(self, loop: Loop, entry: Entry) -> list[float]:
        def block(runner: Runner) -> list[float]:
            runner.program.begin(0)
            return self.host.steady(lambda: self.times(runner, runner.count), 1 if self.short else 3)

        blocks = [block(runner) for runner in entry.runners]
        if loop.lengths is None:
            return blocks[0]
        shorter, longer = map(statistics.median, blocks)
        return [(longer - shorter) / (loop.lengths[1] - loop.lengths[0])]

    def check(self, loop: Loop, entry: Entry, expected: list[list[list[torch.Tensor]]], number: int) -> None:
        for runner, of_length in zip(entry.runners, expected, strict=True):
            got, did = self.checked_run(runner, number)
            if len(got) != len(of_length[number]):
                raise RuntimeError(f"{loop.name}: {entry.side.by} has {len(got)} results")
            error = max((error_of(x, y) for x, y in zip(of_length[number], got, strict=True)), key=lambda e: (e != e, e))
            if not error <= loop.tolerance:
                entry.right = False
                self.wrong.append(f"{loop.name}: {entry.side.by} is wrong by {error:.2e}")
            if not entry.side.peer:
                entry.did = did

    # ---- What is told ----

    def leave_out(self, loop: Loop, by: str, why: str) -> None:
        self.left_out.append({"what": loop.name, "by": by, "why": why})
        print(f"{loop.name}: left out: {why}" if by == "all" else f"  {by:<22} left out: {why}", flush=True)

    def tell(self, loop: Loop, entries: list[Entry]) -> None:
        eager = entries[0]
        graph = next((entry for entry in entries if entry.side.by == "CUDA graph"), None)
        for entry in entries:
            row: dict[str, Any] = {"what": loop.name, "by": entry.side.by, "peer": entry.side.peer, "unit": "ns"}
            row |= spread_of(seconds * 1e9 for runs in entry.rounds for seconds in runs)
            row["ready_after_s"] = entry.ready_after
            row["ratio"] = ratio_of(entry, eager)
            text = f"  {entry.side.by:<22} {row['p50'] / 1000:10.2f} {row['p99'] / 1000:10.2f} us {times_text(row['ratio'])}"
            if graph is not None:
                row["ratio_to_graph"] = ratio_of(entry, graph)
                text += f" {times_text(row['ratio_to_graph'])}"
            if entry.did is not None:
                row["did"] = entry.did
                # The tasks of a replay were counted when it was recorded.
                tasks = f"{entry.did['tasks']:.0f} tasks, " if entry.did["tasks"] else ""
                text += f"  {tasks}{entry.did['flushes']:.0f} flushes"
            if not entry.right:
                row["wrong"] = True
                text += "  WRONG"
            self.rows.append(row)
            print(text, flush=True)

    def key_figure(self) -> str:
        if not self.rows:
            return "nothing was timed"
        first = [row for row in self.rows if row["what"] == self.rows[0]["what"]]
        told = (f"{row['by']} {row['p50'] / 1000:.1f}" for row in first if row["by"] in ("dwell recorded", "CUDA graph", "eager"))
        return f"{', '.join(told)} us, {first[0]['what']}"

    def benchmark(self) -> dict[str, Any]:
        """In the form of `dwell bench --json`."""
        names = [f"left out: {one['what']}, {one['by']}: {one['why']}" for one in self.left_out]
        return {
            "name": "loops",
            "title": "closed loops of PyTorch: one run, waited for",
            "right": not self.wrong,
            "seconds": time.perf_counter() - self.begun,
            "key_figure": self.key_figure(),
            "rows": self.rows,
            "goals": [],
            "checks": [{"what": text, "right": False} for text in self.wrong],
            "notes": [*self.notes, f"blocks that were taken again because the host was slow: {self.host.again}", *names],
            "left_out": self.left_out,
        }


def inside(program: Program, context: Callable[[], Any]) -> Work:
    """A run inside a context of its own."""
    whole = program.around(program.core)

    def run() -> Any:
        with context():
            return whole()

    return run


def collecting() -> Any:
    return dt.eager(always=True)


def resident_loop() -> Any:
    return dt.eager(resident=True, always=True)


def ratio_of(entry: Entry, other: Entry) -> float | None:
    """The median of each round's; of one more step, which noise may leave no time for, that of the medians."""
    if len(entry.runners) == 1:
        return statistics.median(entry.middle(number) / other.middle(number) for number in range(len(entry.rounds)))
    ours, theirs = (statistics.median(map(one.middle, range(len(one.rounds)))) for one in (entry, other))
    return ours / theirs if theirs > 0 else None


def times_text(ratio: float | None) -> str:
    return f"{ratio:8.3f} x" if ratio is not None else f"{'-':>8}  "


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda:0" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--json", help="write the figures there, behind each program those so far")
    parser.add_argument("--only", default="", help="programs whose name has this word")
    parser.add_argument("--sides", default="", help="sides to time beside eager, by their names, with commas between")
    parser.add_argument("--list", action="store_true", help="print the programs' names")
    parser.add_argument("--budget", type=float, default=900, help="seconds; what does not fit is left out and named (default: 900)")
    parser.add_argument("--compile-seconds", type=float, default=60, help="torch.compile may take so long for a program (default: 60)")
    parser.add_argument("--short", action="store_true", default=SHORT, help="quick and worthless figures")
    return parser.parse_args()


def main() -> int:
    options = parsed()
    found = [loop for loop in loops(options.short) if options.only in loop.name]
    if options.list:
        print("\n".join(loop.name for loop in found))
        return 0
    if not found:
        print(f"torch_loops.py: no program's name has {options.only!r} in it: --list prints them", file=sys.stderr)
        return 2
    if options.device == "cuda":
        options.device = "cuda:0"
    if options.device.startswith("cuda"):
        torch.cuda.set_device(options.device)
    with collecting():  # builds the extension, which takes a minute
        torch.zeros(1, device=options.device).add_(1)
    sides = frozenset(name.strip() for name in options.sides.split(",") if name.strip())
    bench = Bench(options.device, short=options.short, budget=options.budget, compile_seconds=options.compile_seconds, sides=sides)
    device = device_of(options.device)
    print(f"loops: closed loops of PyTorch {torch.__version__} on {device['name']}: one run, waited for, then the next")
    print(f"  {'by':<22} {'p50':>10} {'p99':>10}    {'of eager':>10} {'of graph' if bench.cuda else '':>10}")

    def report(waiting: list[Loop]) -> None:
        if options.json:
            benchmark = bench.benchmark()
            benchmark["left_out"] = [*bench.left_out, *({"what": loop.name, "by": "all", "why": "not reached"} for loop in waiting)]
            write_report(options.json, device, benchmark, short=options.short)

    for number, loop in enumerate(found):
        report(found[number:])
        if time.perf_counter() > bench.deadline:
            bench.leave_out(loop, "all", "the budget is spent")
            continue
        try:
            bench.measure(loop)
        except Exception as error:  # the report has what was timed before
            bench.leave_out(loop, "all", first_line(error))
            bench.wrong.append(f"{loop.name}: {first_line(error)}")
    faulthandler.cancel_dump_traceback_later()
    report([])
    print()
    for text in [*bench.wrong, *bench.notes]:
        print(f"  {'WRONG' if text in bench.wrong else 'note'}: {text}")
    print(f"  {len(bench.left_out)} left out; {bench.host.again} blocks were taken again; {time.perf_counter() - bench.begun:.0f} s")
    print(f"  key figure: {bench.key_figure()}")
    return 1 if bench.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
