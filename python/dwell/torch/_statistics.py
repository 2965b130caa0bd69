"""Counts of what was collected, and of what PyTorch ran."""

from __future__ import annotations

from typing import Any

import torch

from ._extension import extension
from ._thread_state import thread


def stats() -> dict[str, Any]:
    """What happened so far: operations taken, and calls from Python that went straight to dwell; tasks that the operations became, fewer as
    far as neighbours were fused, how many of these run programs over elements, and how many of those an operator that was compiled for the
    program; flushes by their reason; what PyTorch ran, by operation, with how often and why: docs/torch.md has the reasons; call sites of
    this thread that choose, with whether they collect, and the seconds from one context to the next both ways, once they were compared."""
    counts = {"taken": 0, "fast": 0, "tasks": 0, "programs": 0, "compiled": 0}
    flushed: dict[str, int] = {}
    fallback: dict[str, dict[str, int]] = {}
    for line in torch.ops.dwell.stats() if extension.is_loaded else ():
        name, _, count = line.rpartition("=")
        if name in counts:
            counts[name] = int(count)
        elif name.startswith("flushed."):
            flushed[name.removeprefix("flushed.")] = int(count)
        else:
            operation, _, why = name.removeprefix("fallback.").rpartition(".")
            fallback.setdefault(operation, {})[why] = int(count)
    sites = {
        choice.where: {"collects": choice.collects, **({"collected": times[True], "handed_on": times[False]} if times else {})}
        for choice in thread.choices.values()
        for times in [choice.seconds]
    }
    return {**counts, "flushed": flushed, "fallback": fallback, "sites": sites}
