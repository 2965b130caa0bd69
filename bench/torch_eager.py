#!/usr/bin/env python3
"""Small operations of PyTorch: inside dwell.torch.eager(), and as PyTorch runs them.

Times a piece of work from its first operation until the device has done it, on the host's clock, and checks every result against eager
PyTorch's. Peers in the same run: eager, a CUDA graph's replay, torch.compile, and the foreach forms where there are some.

dwell does not compute what is overwritten or dropped before it has run. Most pieces of work repeat one result: there its time is the
host's for the most part. Adds apart, in-place chains, models and optimisers have results that are seen or follow from one another.

usage: bench/torch_eager.py [--device D] [--json FILE] [--resident]     DWELL_BENCH=short: quick and worthless figures
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import faulthandler
import json
import math
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import dwell.torch as dt
import torch

SHORT = os.environ.get("DWELL_BENCH") == "short"
ROUNDS = 3 if SHORT else 15
Work = Callable[[], Any]


@dataclass
class Case:
    """A piece of work of so many operations, and others that do the same."""

    what: str
    operations: int
    work: Work
    peers: dict[str, Work] = field(default_factory=dict)
    graph: bool = True  # it is captured and recorded too
    compiled: Work | None = None  # to be given to torch.compile
    tolerance: float = 1e-4


class Bench:
    def __init__(self, device: str, *, resident: bool) -> None:
        self.device = device
        self.resident = resident
        self.cuda = device.startswith("cuda")
        self.rows: list[dict[str, Any]] = []
        self.right = True

    def sync(self) -> None:
        if self.cuda:
            torch.cuda.synchronize()

    def samples(self, work: Work, context: Callable[[], Any] = contextlib.nullcontext) -> tuple[list[float], Any]:
        for _ in range(2):
            with context():
                result = work()
        self.sync()
        taken = []
        for _ in range(ROUNDS):
            self.sync()
            begun = time.perf_counter()
            with context():
                result = work()
            self.sync()
            taken.append(time.perf_counter() - begun)
        return taken, result

    def add(self, case: Case, by: str, seconds: list[float], eager: float, *, peer: bool) -> None:
        each = sorted(s / case.operations * 1e9 for s in seconds)
        middle = statistics.median(each)
        row = {"what": case.what, "by": by, "peer": peer, "unit": "ns", "count": len(each), "ratio": middle / eager}
        quantiles = {"p90": 0.9, "p99": 0.99, "max": 1}
        row |= {"min": each[0], "p50": middle} | {name: each[math.ceil(q * len(each)) - 1] for name, q in quantiles.items()}
        self.rows.append(row)
        print(f"  {case.what:<58} {by:<15} {middle / 1000:9.3f} us  {middle / eager:6.2f} x", flush=True)

    def check(self, case: Case, by: str, expected: Any, got: Any) -> None:
        for x, y in zip(flat(expected), flat(got), strict=True):
            error = (x.double() - y.double()).abs().max() / x.double().abs().max().clamp_min(1e-30)
            if not float(error) <= case.tolerance:
                self.right = False
                print(f"  {case.what}: {by} is wrong by {float(error):.2e}", file=sys.stderr)

    def run(self, case: Case) -> None:
        times, expected = self.samples(case.work)
        expected = [t.clone() for t in flat(expected)]
        eager = statistics.median(times) / case.operations * 1e9
        times_taken, got = self.samples(case.work, dt.eager)
        self.add(case, "dwell.torch", times_taken, eager, peer=False)
        self.check(case, "dwell.torch", expected, got)
        if self.resident:
            times_taken, got = self.samples(case.work, lambda: dt.eager(resident=True))
            self.add(case, "dwell resident", times_taken, eager, peer=False)
            self.check(case, "dwell resident", expected, got)
        if case.graph:
            times_taken, got = self.samples(recorded(case.work))
            self.add(case, "dwell recorded", times_taken, eager, peer=False)
            self.check(case, "dwell recorded", expected, got)
        self.add(case, "eager", times, eager, peer=True)
        others = dict(case.peers)
        if self.cuda and case.graph:
            others["graph replay"] = captured(case.work)
        if case.compiled is not None and not SHORT:
            others["torch.compile"] = torch.compile(case.compiled)
        for by, work in others.items():
            try:
                times, got = self.samples(work)
            except Exception as error:  # a peer that cannot be had here
                print(f"  {case.what}: no {by}: {str(error).splitlines()[0][:120]}", file=sys.stderr)
                continue
            self.check(case, by, expected, got)
            self.add(case, by, times, eager, peer=True)


def flat(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value.detach()]
    return [one for part in value for one in flat(part)]


def recorded(work: Work) -> Work:
    with dt.record() as made:
        result = work()
    recording = made()

    def replay() -> Any:
        recording.replay()
        return result

    return replay


def captured(work: Work) -> Work:
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        work()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = work()

    def replay() -> Any:
        graph.replay()
        return result

    return replay


# ---- The work --------------------------------------------------------------------------------------------------------------------------


def adds(device: str, elements: int) -> Case:
    count = 500 if SHORT else 10_000
    a, b, out = (torch.rand(elements, device=device) for _ in range(3))

    def work() -> Any:
        for _ in range(count):
            torch.add(a, b, out=out)
        return out

    return Case(f"add of {elements} floats, out=", count, work, graph=elements == 1024)


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
    return Case(f"add, mul, relu, sigmoid, div of {elements} floats, {how}", 5 * count, work, graph=elements == 1024)


def attention(device: str, length: int, dtype: torch.dtype) -> Case:
    tokens = 10 if SHORT else 100
    size = 128
    q = torch.randn(tokens, 1, size, device=device, dtype=dtype)
    k, v = (torch.randn(length, size, device=device, dtype=dtype) for _ in range(2))

    def work() -> Any:
        outs = []
        for i in range(tokens):
            scores = (q[i] @ k.t()) * size**-0.5
            outs.append(torch.softmax(scores, -1) @ v)
        return outs

    name = "f16" if dtype == torch.float16 else "f32"
    return Case(f"attention of a token, kv {length}, {name}", tokens, work, tolerance=2e-2 if dtype == torch.float16 else 1e-4)


def perceptron(device: str) -> torch.nn.Module:
    torch.manual_seed(1)
    nn = torch.nn
    return nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 8)).to(device)


def forward(device: str, batch: int) -> Case:
    count = 5 if SHORT else 100
    model = perceptron(device)
    x = torch.randn(batch, 64, device=device)

    def work() -> Any:
        with torch.no_grad():
            for _ in range(count):
                y = model(x)
        return y

    def one() -> Any:
        with torch.no_grad():
            return model(x)

    return Case(f"MLP 64-256-256-8, batch {batch}, forward", count, work, compiled=work if batch == 1 else None)


def training(device: str, batch: int) -> Case:
    count = 5 if SHORT else 30
    x, y = torch.randn(batch, 64, device=device), torch.randn(batch, 8, device=device)

    def work() -> Any:
        model = perceptron(device)
        steps = torch.optim.SGD(model.parameters(), lr=0.01, foreach=False)
        for _ in range(count):
            steps.zero_grad()
            torch.nn.functional.mse_loss(model(x), y).backward()
            steps.step()
        return list(model.parameters())

    return Case(f"MLP 64-256-256-8, batch {batch}, forward, backward, SGD", count, work, graph=False, tolerance=1e-3)


def adam(device: str) -> Case:
    count = 2 if SHORT else 10
    torch.manual_seed(2)
    start = [torch.randn(64, device=device) for _ in range(200)]
    gradients = [torch.randn(64, device=device) for _ in range(200)]

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

    return Case("Adam over 200 parameters of 64, foreach=False", count, step(False), {"foreach=True": step(True)}, graph=False)


def overhead(bench: Bench) -> None:
    """Operations that stay PyTorch's."""
    count = 500 if SHORT else 5000
    x = torch.rand(64, device=bench.device)

    def work() -> Any:
        for _ in range(count):
            x.add_(1).mul_(0)
        return x

    case = Case("operation above the threshold", 2 * count, work)
    times, expected = bench.samples(work)
    eager = statistics.median(times) / case.operations * 1e9
    times_inside, got = bench.samples(work, lambda: dt.eager(size_threshold=1))
    bench.add(case, "dwell.torch", times_inside, eager, peer=False)
    bench.check(case, "dwell.torch", expected, got)
    bench.add(case, "eager", times, eager, peer=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda:0" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--json", help="write the figures there")
    parser.add_argument("--resident", action="store_true", help="time eager(resident=True) too")
    options = parser.parse_args()
    device = options.device
    bench = Bench(device, resident=options.resident)
    begun = time.perf_counter()
    print(f"torch: small operations of PyTorch {torch.__version__} on {device}; an operation, against eager")
    cases = [lambda n=n: adds(device, n) for n in (256, 1024, 4096, 16384)]
    cases += [lambda: adds_apart(device, 1024)]
    cases += [lambda n=n, p=p: mixed(device, n, in_place=p) for p in (False, True) for n in (1024, 4096, 8192)]
    cases += [lambda n=n, t=t: attention(device, n, t) for t in (torch.float32, torch.float16) for n in (128, 256, 512)]
    cases += [lambda n=n: forward(device, n) for n in (1, 16, 64)]
    cases += [lambda n=n: training(device, n) for n in (1, 64)]
    cases += [lambda: adam(device)]
    with dt.eager():  # builds the extension, which may take longer than a piece of work
        torch.zeros(1, device=device).add_(1)
    for make in cases:
        faulthandler.dump_traceback_later(60, exit=True)
        bench.run(make())
    faulthandler.cancel_dump_traceback_later()
    overhead(bench)
    lone = next(row for row in bench.rows if row["by"] == "dwell.torch" and row["what"].startswith("add of 1024"))
    key_figure = f"{lone['p50'] / 1000:.2f} us, an add of 1024 floats with out= (goal 1.0 us, at least 1.5)"
    print(f"  key figure: {key_figure}")
    print(f"  {dt.stats()['flushed']}, fallbacks {sum(dt.stats()['fallback'].values())}")
    if options.json:
        report = {
            "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "commit": os.environ.get("DWELL_COMMIT", "unknown"),
            "short": SHORT,
            "host": {"processor": platform.processor(), "processors": os.cpu_count(), "system": platform.platform()},
            "device": {"device": device, "name": torch.cuda.get_device_name() if bench.cuda else "cpu", "torch": torch.__version__},
            "benchmarks": [
                {
                    "name": "torch",
                    "title": "small operations of PyTorch",
                    "right": bench.right,
                    "seconds": time.perf_counter() - begun,
                    "key_figure": key_figure,
                    "rows": bench.rows,
                    "goals": [],
                    "checks": [],
                    "notes": [],
                }
            ],
        }
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=2)
    return 0 if bench.right else 1


if __name__ == "__main__":
    sys.exit(main())
