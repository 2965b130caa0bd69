"""Shared by the benchmarks of PyTorch: samples on a host that is slow at times, programs that are kept and run again, figures, reports."""

from __future__ import annotations

import contextlib
import datetime
import inspect
import json
import math
import os
import platform
import statistics
import subprocess
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import dwell.torch as dt
import torch

SHORT = os.environ.get("DWELL_BENCH") == "short"
Work = Callable[[], Any]
_T = TypeVar("_T")


# ---- Samples ---------------------------------------------------------------------------------------------------------------------------


def loop_seconds() -> float:
    begun = time.perf_counter()
    for _ in range(20_000):
        pass
    return time.perf_counter() - begun


class Host:
    """A machine whose processors others share. A loop of Python's beside each sample tells whether the host was slow."""

    def __init__(self) -> None:
        self.loop = min(loop_seconds() for _ in range(50))  # the best so far
        self.again = 0  # samples that were taken once more

    def steady(self, sample: Callable[[], _T], attempts: int = 10) -> _T:
        """A sample beside which the loop took less than 1.3 times its best, or the last one of so many."""
        for attempt in range(attempts):
            loop = loop_seconds()
            result = sample()
            loop = max(loop, loop_seconds())
            self.loop = min(self.loop, loop)
            if loop < 1.3 * self.loop:
                break
            self.again += attempt < attempts - 1
        return result


def spread_of(values: Iterable[float]) -> dict[str, float]:
    """Quantiles, which are values that were measured, but for the median."""
    each = sorted(values)
    quantiles = {"p90": 0.9, "p99": 0.99, "max": 1}
    spread = {"count": len(each), "min": each[0], "p50": statistics.median(each)}
    return spread | {name: each[math.ceil(q * len(each)) - 1] for name, q in quantiles.items()}


# ---- Programs --------------------------------------------------------------------------------------------------------------------------


def flat(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value.detach()]
    return [one for part in value for one in flat(part)]


def recorded(work: Work, device: str | None = None, told: Callable[[str], None] | None = None) -> Work:
    """Replays a recording of dwell's, as one program where it can be. `told` gets how many members that has, or why there is none."""
    with dt.record(device) as made:
        result = work()
    recording = made()
    why = recording.compile()
    if told is not None:
        told(f"tasks: {why}" if why else f"one program of {recording.members} members")

    def replay() -> Any:
        recording.replay()
        return result

    return replay


def captured(work: Work, warm_ups: int = 1) -> Work:
    """Replays a CUDA graph. Libraries allocate and choose kernels in their first calls, so the work runs before it is captured."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(warm_ups):
            work()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = work()
    own = inspect.unwrap(torch.cuda.CUDAGraph.replay)  # not dwell.torch's, which flushes first

    def replay() -> Any:
        own(graph)
        return result

    return replay


def error_of(expected: torch.Tensor, got: torch.Tensor) -> float:
    """The greatest difference, of the greatest element expected. NaN where one is NaN, infinite where shapes differ."""
    if expected.shape != got.shape:
        return math.inf
    x, y = expected.double(), got.double().to(expected.device)
    return float((x - y).abs().max() / x.abs().max().clamp_min(1e-30))


def done_by_dwell(work: Callable[[], _T]) -> tuple[_T, dict[str, float]]:
    """What work returns, and what dwell did for it: operations, tasks, flushes."""
    before = dt.stats()
    result = work()
    after = dt.stats()
    did = {name: after[name] - before[name] for name in ("taken", "tasks", "programs", "compiled")}
    did["flushes"] = sum(after["flushed"].values()) - sum(before["flushed"].values())
    return result, did


# ---- Reports ---------------------------------------------------------------------------------------------------------------------------


def device_of(device: str) -> dict[str, Any]:
    told: dict[str, Any] = {"device": device, "name": "cpu", "torch": torch.__version__}
    if device.startswith("cuda"):
        told |= {"name": torch.cuda.get_device_name(), "cuda": torch.version.cuda}
        query = ["nvidia-smi", "--query-gpu=driver_version,clocks.max.sm", "--format=csv,noheader,nounits"]
        with contextlib.suppress(OSError, subprocess.SubprocessError, ValueError):
            driver, clock = subprocess.run(query, check=True, capture_output=True, text=True, timeout=30).stdout.splitlines()[0].split(",")
            told |= {"driver": driver.strip(), "clock_mhz": float(clock)}
    return told


def write_report(path: str, device: dict[str, Any], benchmark: dict[str, Any], *, short: bool) -> None:
    """The document that `dwell bench --json` writes, of one benchmark. A reader never sees half of it."""
    report = {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "commit": os.environ.get("DWELL_COMMIT", "unknown"),
        "short": short,
        "host": {"processor": platform.processor(), "processors": os.cpu_count(), "system": platform.platform()},
        "device": device,
        "benchmarks": [benchmark],
    }
    part = Path(f"{path}.part")
    part.write_text(json.dumps(report, indent=2), encoding="utf-8")
    part.replace(path)
