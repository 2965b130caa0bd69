#!/usr/bin/env python3
"""Small operations of PyTorch: inside dwell.torch.eager(always=True), and in eager PyTorch.

Times a piece of work on the host's clock, from its first operation until the device is done, and checks every result against eager
PyTorch's. Peers in the same run: eager, a CUDA graph's replay, torch.compile, and the foreach forms if there are any. All take turns; the
ratio to eager PyTorch is the median over the rounds.

dwell's times are followed by the number of tasks that the operations became, and the number of flushes.

dwell does not compute results that are overwritten or dropped before they have run. Most pieces of work repeat one result, so their time is
mostly the host's. Independent adds, in-place chains, models and optimisers have results that are read or depend on one another.

The row `host alone` runs the same program on CPU tensors of one element in eager PyTorch: the cost of Python, the dispatcher and autograd
on any device, and of a PyTorch kernel for one element.

A machine with shared processors is up to twice as slow at times. A Python loop is timed next to each sample; if it is slower than 1.3 times
the best so far, the sample is repeated, at most ten times.

usage: bench/torch_eager.py [--device D] [--json FILE] [--only WORD]     DWELL_BENCH=short: quick, meaningless figures
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import functools
import math
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import dwell.torch as dt
import torch
from torch_timing import SHORT, Host, Work, captured, device_of, done_by_dwell, error_of, flat, recorded, spread_of, write_report

ROUNDS = 3 if SHORT else 15
collecting = functools.partial(dt.eager, always=True)


@dataclass
class Case:
    """A piece of work of `operations` operations, and its peers."""

    what: str
    operations: int
    work: Work
    peers: dict[str, Work] = field(default_factory=dict)
    graph: bool = True  # also captured, recorded, and run in the resident mode
    begin: Work | None = None  # with `step`: work is one `begin` and then steps; a step is captured and recorded
    step: Work | None = None
    alone: Work | None = None  # the same program on tensors of one element on the CPU
    compiled: Work | None = None  # one operation, for torch.compile, which would compute equal ones only once
    tolerance: float = 1e-4


@dataclass
class Side:
    """A way to do a case's work."""

    by: str
    work: Work
    context: Callable[[], Any] = contextlib.nullcontext
    peer: bool = True
    checked: bool = True  # compared with the result of eager PyTorch


class Bench:
    def __init__(self, device: str) -> None:
        self.device = device
        self.cuda = device.startswith("cuda")
        self.rows: list[dict[str, Any]] = []
        self.right = True
        self.host = Host()

    def sync(self) -> None:
        if self.cuda:
            torch.cuda.synchronize()

    def sample(self, side: Side) -> tuple[float, Any]:
        def once() -> tuple[float, Any]:
            self.sync()
            begun = time.perf_counter()
            with side.context():
                result = side.work()
            self.sync()
            return time.perf_counter() - begun, result

        return self.host.steady(once)

    def warmed_up(self, case: Case, side: Side) -> bool:
        """Whether this side works here. Prints the reason for a peer that does not."""
        try:
            for _ in range(2):
                with side.context():
                    side.work()
            self.sync()
        except Exception as error:
            if not side.peer:
                raise
            print(f"  {case.what}: no {side.by}: {str(error).splitlines()[0][:120]}", file=sys.stderr)
            return False
        return True

    def compare(self, case: Case, sides: list[Side]) -> None:
        """Samples all sides in turn, since the machine's speed changes. The first is eager PyTorch, the reference."""
        sides = [side for side in sides if self.warmed_up(case, side)]
        time.sleep(0.01 if SHORT else 0.5)  # frequent programs are compiled meanwhile
        rounds = [[self.sample(side) for side in sides] for _ in range(1 + ROUNDS)][1:]
        expected, _ = self.result(sides[0], rounds[-1][0][1])
        for side, samples in zip(sides, zip(*rounds, strict=True), strict=True):
            ratios = [seconds / eager for (seconds, _), ((eager, _), *_) in zip(samples, rounds, strict=True)]
            got, did = self.result(side, samples[-1][1])
            self.add(case, side, [seconds for seconds, _ in samples], statistics.median(ratios), None if side.peer else did)
            if side.checked:
                self.check(case, side.by, expected, got)

    def result(self, side: Side, earlier: Any) -> tuple[list[torch.Tensor], dict[str, float]]:
        """The result of a side's work, after overwriting an earlier one, and what dwell did for it."""
        for tensor in flat(earlier):
            tensor.fill_(math.nan)

        def once() -> Any:
            with side.context():
                return side.work()

        result, did = done_by_dwell(once)
        return [tensor.clone() for tensor in flat(result)], did

    def add(self, case: Case, side: Side, seconds: list[float], ratio: float, did: dict[str, float] | None) -> None:
        row: dict[str, Any] = {"what": case.what, "by": side.by, "peer": side.peer, "unit": "ns", "ratio": ratio}
        row |= spread_of(s / case.operations * 1e9 for s in seconds)
        text = f"  {case.what:<58} {side.by:<15} {row['p50'] / 1000:9.3f} us  {ratio:6.2f} x"
        if did is not None:
            row["did"] = did
            text += f"  {did['tasks']:.0f} tasks, {did['flushes']:.0f} flushes"
        self.rows.append(row)
        print(text, flush=True)

    def check(self, case: Case, by: str, expected: list[torch.Tensor], got: list[torch.Tensor]) -> None:
        for x, y in zip(expected, got, strict=True):
            error = error_of(x, y)
            if not error <= case.tolerance:
                self.right = False
                print(f"  {case.what}: {by} is wrong by {error:.2e}", file=sys.stderr)

    def run(self, case: Case) -> None:
        sides = [Side("eager", case.work), Side("dwell.torch", case.work, collecting, peer=False)]
        if case.graph and case.step is None:
            sides.append(Side("dwell resident", case.work, lambda: collecting(resident=True), peer=False))
        if case.graph:
            sides.append(Side("dwell recorded", repeated(case, recorded), collecting, peer=False))
        if self.cuda and case.graph:
            sides.append(Side("graph replay", repeated(case, captured)))
        if case.compiled is not None and not SHORT:
            sides.append(Side("torch.compile", times_over(torch.compile(case.compiled), case.operations)))
        sides += [Side(by, work) for by, work in case.peers.items()]
        if case.alone is not None:
            sides.append(Side("host alone", case.alone, checked=False))
        self.compare(case, sides)


def times_over(work: Work, count: int) -> Work:
    """Repeats the work; returns the last result."""

    def all_of_it() -> Any:
        for _ in range(count):
            result = work()
        return result

    return all_of_it


def repeated(case: Case, kept: Callable[[Work], Work]) -> Work:
    """Applies `kept` to a case's work, or to its step."""
    if case.step is None or case.begin is None:
        return kept(case.work)
    begin, replay = case.begin, kept(case.step)

    def work() -> Any:
        result = begin()
        for _ in range(case.operations):
            replay()
        return result

    return work


# ---- The work --------------------------------------------------------------------------------------------------------------------------


def adds(device: str, elements: int) -> Case:
    count = 500 if SHORT else 10_000
    a, b, out = (torch.rand(elements, device=device) for _ in range(3))

    def work() -> Any:
        for _ in range(count):
            torch.add(a, b, out=out)
        return out

    alone = adds("cpu", 1).work if elements == 1024 else None
    return Case(f"add of {elements} floats, out=", count, work, graph=elements == 1024, alone=alone)


def adds_apart(device: str, elements: int) -> Case:
    count = 100 if SHORT else 1000
    a, b = torch.rand(elements, device=device), torch.rand(elements, device=device)
    outs = [torch.empty(elements, device=device) for _ in range(count)]

    def work() -> Any:
        for out in outs:
            torch.add(a, b, out=out)
        return [outs[0], outs[-1]]

    def foreach() -> Any:
        made = torch._foreach_add([a] * count, [b] * count)
        return [made[0], made[-1]]

    return Case(f"add of {elements} floats, each to a result of its own", count, work, {"foreach": foreach})


def mixed(device: str, elements: int, *, in_place: bool) -> Case:
    count = 50 if SHORT else 1000
    a, b = torch.rand(elements, device=device) + 0.5, torch.rand(elements, device=device) + 0.5

    def allocated() -> Any:
        for _ in range(count):
            x = a + b
            x = x * b
            x = torch.relu(x)
            x = torch.sigmoid(x)
            x = x / b
        return x

    def changed() -> Any:
        x = a.clone()
        for _ in range(count):
            x.add_(b).mul_(b).relu_().sigmoid_().div_(b)
        return x

    how, work = ("in place", changed) if in_place else ("allocated", allocated)
    alone = mixed("cpu", 1, in_place=in_place).work if elements == 1024 else None
    return Case(f"add, mul, relu, sigmoid, div of {elements} floats, {how}", 5 * count, work, graph=elements == 1024, alone=alone)


def attention(device: str, length: int, dtype: torch.dtype, size: int = 128) -> Case:
    tokens = 10 if SHORT else 100
    q = torch.randn(tokens, 1, size, device=device, dtype=dtype)
    k, v = (torch.randn(length, size, device=device, dtype=dtype) for _ in range(2))

    def work() -> Any:
        outs = []
        for i in range(tokens):
            scores = (q[i] @ k.t()) * size**-0.5
            outs.append(torch.softmax(scores, -1) @ v)
        return outs

    name = "f16" if dtype == torch.float16 else "f32"
    alone = attention("cpu", 1, torch.float32, 1).work if length == 128 and dtype == torch.float32 else None
    return Case(f"attention of a token, kv {length}, {name}", tokens, work, tolerance=2e-2 if dtype == torch.float16 else 1e-4, alone=alone)


WIDTHS = (64, 256, 256, 8)
NARROW = (1, 1, 1, 1)


def perceptron(device: str, widths: tuple[int, ...]) -> torch.nn.Module:
    torch.manual_seed(1)
    nn = torch.nn
    a, b, c, d = widths
    return nn.Sequential(nn.Linear(a, b), nn.ReLU(), nn.Linear(b, c), nn.ReLU(), nn.Linear(c, d)).to(device)


def forward(device: str, batch: int, widths: tuple[int, ...] = WIDTHS) -> Case:
    count = 5 if SHORT else 100
    model = perceptron(device, widths)
    x = torch.randn(batch, widths[0], device=device)

    def work() -> Any:
        with torch.no_grad():
            for _ in range(count):
                y = model(x)
        return y

    def one() -> Any:
        with torch.no_grad():
            return model(x)

    alone = forward("cpu", 1, NARROW).work if batch == 1 and widths == WIDTHS else None
    return Case(f"MLP 64-256-256-8, batch {batch}, forward", count, work, compiled=one if batch == 1 else None, alone=alone)


def training(device: str, batch: int, widths: tuple[int, ...] = WIDTHS) -> Case:
    count = 5 if SHORT else 30
    x, y = torch.randn(batch, widths[0], device=device), torch.randn(batch, widths[-1], device=device)
    model = perceptron(device, widths)
    parameters = list(model.parameters())
    start = [p.detach().clone() for p in parameters]
    optimizer = torch.optim.SGD(parameters, lr=0.01, foreach=False)

    def begin() -> Any:
        with torch.no_grad():
            for parameter, was in zip(parameters, start, strict=True):
                parameter.copy_(was)
        return parameters

    def step() -> Any:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()

    def work() -> Any:
        begin()
        for _ in range(count):
            step()
        return parameters

    name = f"MLP 64-256-256-8, batch {batch}, forward, backward, SGD"
    alone = training("cpu", 1, NARROW).work if batch == 1 and widths == WIDTHS else None
    return Case(name, count, work, begin=begin, step=step, tolerance=1e-3, alone=alone)


def adam(device: str, size: int = 64) -> Case:
    count = 2 if SHORT else 10
    torch.manual_seed(2)
    start = [torch.randn(size, device=device) for _ in range(200)]
    gradients = [torch.randn(size, device=device) for _ in range(200)]

    def step(foreach: bool) -> Work:
        def work() -> Any:
            parameters = [torch.nn.Parameter(p.clone()) for p in start]
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter.grad = gradient
            steps = torch.optim.Adam(parameters, lr=0.01, foreach=foreach)
            for _ in range(count):
                steps.step()
            return parameters

        return work

    alone = adam("cpu", 1).work if size != 1 else None
    peers = {"foreach=True": step(True)}
    return Case("Adam over 200 parameters of 64, foreach=False", count, step(False), peers, graph=False, alone=alone)


def overhead(bench: Bench) -> None:
    """Operations that dwell leaves to PyTorch."""
    count = 500 if SHORT else 5000
    x = torch.rand(64, device=bench.device)

    def work() -> Any:
        x.zero_()
        for _ in range(count):
            x.add_(1).mul_(0.5)
        return x.clone()  # else x would be compared with itself

    inside = Side("dwell.torch", work, lambda: collecting(size_threshold=1), peer=False)
    bench.compare(Case("operation above the threshold", 2 * count, work), [Side("eager", work), inside])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda:0" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--json", help="write the figures there")
    parser.add_argument("--only", default="", help="work whose description has this word; the adds with out= always")
    options = parser.parse_args()
    device = options.device
    bench = Bench(device)
    begun = time.perf_counter()
    print(f"torch: small operations of PyTorch {torch.__version__} on {device}; an operation, against eager")
    cases = [lambda n=n: adds(device, n) for n in (256, 1024, 4096, 16384)]
    cases += [lambda: adds_apart(device, 1024)]
    cases += [lambda n=n, p=p: mixed(device, n, in_place=p) for p in (False, True) for n in (1024, 4096, 8192)]
    cases += [lambda n=n, t=t: attention(device, n, t) for t in (torch.float32, torch.float16) for n in (128, 256, 512)]
    cases += [lambda n=n: forward(device, n) for n in (1, 16, 64)]
    cases += [lambda n=n: training(device, n) for n in (1, 64)]
    cases += [lambda: adam(device)]
    with collecting():  # builds the extension, which may take longer than a piece of work
        torch.zeros(1, device=device).add_(1)
    for make in cases:
        faulthandler.dump_traceback_later(120, exit=True)
        case = make()
        if options.only in case.what or case.what.endswith("out="):
            bench.run(case)
    faulthandler.cancel_dump_traceback_later()
    if not options.only:
        overhead(bench)
    lone = next(row for row in bench.rows if row["by"] == "dwell.torch" and row["what"].startswith("add of 1024"))
    key_figure = f"{lone['p50'] / 1000:.2f} us, an add of 1024 floats with out= (goal 1.0 us, at least 1.5)"
    print(f"  key figure: {key_figure}")
    fallbacks = sum(sum(calls.values()) for calls in dt.stats()["fallback"].values())
    print(f"  {dt.stats()['flushed']}, fallbacks {fallbacks}; {bench.host.again} samples were taken again")
    if options.json:
        benchmark = {
            "name": "torch",
            "title": "small operations of PyTorch",
            "right": bench.right,
            "seconds": time.perf_counter() - begun,
            "key_figure": key_figure,
            "rows": bench.rows,
            "goals": [],
            "checks": [],
            "notes": [f"samples that were taken again because the host was slow: {bench.host.again}"],
        }
        write_report(options.json, device_of(device), benchmark, short=SHORT)
    return 0 if bench.right else 1


if __name__ == "__main__":
    sys.exit(main())
