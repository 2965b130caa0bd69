#!/usr/bin/env python3
"""Uses dwell.torch once, and again in another process: says how long its extension took to build, and to load where it is built."""

from __future__ import annotations

import os
import subprocess
import sys

_USE = """
import time
begun = time.perf_counter()
import torch
loaded = time.perf_counter()
import dwell.torch
with dwell.torch.eager(always=True):
    torch.ones(8) + 1
print(f"{loaded - begun:.1f} {time.perf_counter() - loaded:.1f}")
"""


def seconds() -> tuple[str, str]:
    """Of `import torch`, and of what follows until dwell.torch has run an operation."""
    done = subprocess.run([sys.executable, "-c", _USE], stdout=subprocess.PIPE, text=True, check=True)
    torch, dwell = done.stdout.split()[-2:]
    return torch, dwell


def main() -> None:
    _, first = seconds()
    torch, second = seconds()
    print(f"first use of dwell.torch {first} s on {os.cpu_count()} processors, the next {second} s, beyond {torch} s for torch")


main()
