"""A fuzzer of contexts. Runs random programs of operations, views, replaced storages, pickles, transforms, subclasses, threads and forks in
`dwell.torch.eager()`, and compares them with PyTorch alone.

    PYTHONPATH=build/release/python build/python-venv/bin/python python/tests/fuzz_torch.py --programs 100000 --jobs 2
    ... fuzz_torch.py --show 4711          # one program, step by step
    ... fuzz_torch.py --seed 4711 --programs 1

A number gives the same program each time. Programs that differ are shortened and printed; those that end the process are shortened in
processes of their own. The exit status is 1 if there was any.

With AddressSanitizer, on the CPU: build the library with it, and the extension by a compiler that adds it, both of GCC.

    cmake -B build/asan-python -D CMAKE_BUILD_TYPE=RelWithDebInfo -D CMAKE_CXX_COMPILER=g++ -D DWELL_SANITIZE=address \\
        -D DWELL_UNITY=ON -D DWELL_BUILD_PYTHON=ON -D Python_EXECUTABLE="$PWD/build/python-venv/bin/python"
    cmake --build build/asan-python --target dwell_python
    printf '#!/bin/sh\\nexec g++ "$@" -fsanitize=address\\n' > /tmp/g++asan && chmod +x /tmp/g++asan
    CXX=/tmp/g++asan ASAN_OPTIONS=detect_leaks=0 LD_PRELOAD="$(g++ -print-file-name=libasan.so) $(g++ -print-file-name=libstdc++.so.6)" \\
        PYTHONPATH=build/asan-python/python build/python-venv/bin/python python/tests/fuzz_torch.py --programs 10000
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import dwell.torch as dt
import torch
from fuzz_steps import STEPS, State

Step = tuple[str, int]  # name, and seed of its random numbers


# ---- Programs ---------------------------------------------------------------------------------------------------------------------------


def program(seed: int) -> list[Step]:
    draw = random.Random(seed)
    names, weights = list(STEPS), [weight for _, weight in STEPS.values()]
    steps = draw.choices(names, weights, k=draw.choice([4, 8, 16, 30]))
    return [("makes", draw.getrandbits(30)), *((name, draw.getrandbits(30)) for name in steps)]


def run(steps: list[Step], eager: bool) -> State:
    state = State(eager)
    for name, seed in steps:
        if not state.tensors:
            name = "makes"
        try:
            state.keep(STEPS[name][0](state, random.Random(seed)))
        except (RuntimeError, IndexError, TypeError, ValueError, NotImplementedError, AttributeError, BufferError) as error:
            state.seen.append(f"{type(error).__name__}: {error}"[:100])
    return state


def looks(state: State) -> list[Any]:
    """Returns what the program has seen, and its tensors at the end."""
    looked: list[Any] = list(state.seen)
    for one in state.tensors:
        strides = tuple(stride for stride, size in zip(one.stride(), one.shape, strict=True) if size > 1)
        version = -1 if one.is_inference() else one._version
        looked.append((str(one.dtype), tuple(one.shape), strides, version, one.requires_grad))
        looked.append(one.detach().reshape(-1).tolist() if one.dtype != torch.bool else one.detach().reshape(-1).int().tolist())
    return looked


# Two units in the last place of float16: other steps may double a rounding error a few times.
_NEAR = 2e-3


def equal(a: Any, b: Any) -> bool:
    if isinstance(a, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(equal, a, b))
    if isinstance(a, float) and isinstance(b, float):
        return a == b or (a != a and b != b) or abs(a - b) <= _NEAR * max(1.0, abs(a))
    return bool(a == b)


def differs(steps: list[Step], seed: int) -> str | None:
    """Returns how dwell differs, or None."""
    draw = random.Random(seed)
    options: dict[str, Any] = {"capacity": draw.choice([1, 3, 50, 1000]), "resident": draw.random() < 0.03}
    expected = looks(run(steps, False))
    with dt.eager(always=True, **options):
        state = run(steps, True)
        if draw.random() < 0.5:
            got = looks(state)
    got = looks(state)
    if equal(expected, got):
        return None
    for at, (x, y) in enumerate(zip(expected, got, strict=False)):
        if not equal(x, y):
            return f"{options}: value {at}: {x!r} is to be, {y!r} is"
    return f"{options}: {len(expected)} values are to be, {len(got)} are"


def shorter(steps: list[Step], fails: Callable[[list[Step]], bool]) -> list[Step]:
    """Removes steps while the program fails."""
    size = len(steps) // 2
    while size >= 1:
        at = 0
        while at < len(steps):
            without = steps[:at] + steps[at + size :]
            if without and fails(without):
                steps = without
            else:
                at += size
        size //= 2
    return steps


def failing(seeds: Iterator[int] | range, shorten: bool = True) -> Iterator[tuple[int, str, list[Step]]]:
    """Yields programs that differ: number, difference, steps."""
    for seed in seeds:
        steps = program(seed)
        how = differs(steps, seed)
        if how is None:
            continue
        if shorten:
            steps = shorter(steps, lambda some, seed=seed: differs(some, seed) is not None)
            how = differs(steps, seed) or how
        yield seed, how, steps


# ---- Processes --------------------------------------------------------------------------------------------------------------------------


def _quiet() -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)


def _worker(first: int, count: int, at: str) -> int:
    """Runs programs, and writes the number of the current one to a file."""
    _quiet()
    failures = 0
    with open(at, "r+b", buffering=0) as file:

        def numbers() -> Iterator[int]:
            for seed in range(first, first + count):
                os.pwrite(file.fileno(), struct.pack("q", seed), 0)
                yield seed

        for seed, how, steps in failing(numbers()):
            failures += 1
            print(f"program {seed} differs: {how}\n    {json.dumps(steps)}", flush=True)
    return 1 if failures else 0


def _ends(steps: list[Step], seed: int) -> bool:
    """Whether the steps end or hang a process of their own."""
    command = [sys.executable, __file__, "--steps", json.dumps(steps), "--seed", str(seed)]
    try:
        return subprocess.run(command, capture_output=True, timeout=300, check=False).returncode not in (0, 1)
    except subprocess.TimeoutExpired:
        return True


def _part(first: int, count: int, failed: list[int]) -> None:
    end = first + count
    with tempfile.NamedTemporaryFile() as at:
        at.write(struct.pack("q", first))
        at.flush()
        while first < end:
            command = [sys.executable, __file__, "--worker", at.name, "--seed", str(first), "--programs", str(end - first)]
            status = subprocess.run(command, check=False).returncode
            if status in (0, 1):
                failed.append(status)
                return
            with open(at.name, "rb") as file:
                seed = struct.unpack("q", file.read(8))[0]
            steps = shorter(program(seed), lambda some, seed=seed: _ends(some, seed))
            print(f"program {seed} ends the process (status {status})\n    {json.dumps(steps)}", flush=True)
            failed.append(1)
            first = seed + 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="number of the first program")
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--show", type=int, metavar="SEED", help="prints a program and what it sees")
    parser.add_argument("--steps", help=argparse.SUPPRESS)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        return _worker(given.seed, given.programs, given.worker)
    if given.steps or given.show is not None:
        _quiet()
        steps = [(name, seed) for name, seed in json.loads(given.steps)] if given.steps else program(given.show)
        how = differs(steps, given.seed if given.steps else given.show)
        print(*steps, how or "the same", sep="\n")
        return 1 if how else 0
    jobs = max(1, min(given.jobs, given.programs))
    failed: list[int] = []
    shares = [given.programs * job // jobs for job in range(jobs + 1)]
    parts = [threading.Thread(target=_part, args=(given.seed + a, b - a, failed)) for a, b in itertools.pairwise(shares)]
    for part in parts:
        part.start()
    for part in parts:
        part.join()
    print(f"{given.programs} programs from {given.seed}: {sum(failed)} of the processes report failures")
    return 1 if any(failed) else 0


if __name__ == "__main__":
    sys.exit(main())
