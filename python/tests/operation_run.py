#!/usr/bin/env python3
"""Compares dwell.torch with PyTorch alone on PyTorch's database of operations.

    PYTHONPATH=build/release/python python/tests/operation_run.py [--device cpu|cuda] [--jobs N] [--shard I/N] [--ops PATTERN]
        [--types f32,...] [--ways PATTERN] [--seconds LIMIT] [--case SECONDS] [--out FOLDER] [--verbose]

Cases run in worker processes (`--jobs`, default: one a core): a crash or a hang is reported, and the others continue. Prints new
differences, a table by operation and kind, and last `operations: 122277 cases, 12 differ (12 known), ...`. Writes operations.json to the
folder (default: $OUT, else build/operations). Exit status 0: no new differences, at most one difference in 10,000 cases, no case left
out for lack of time and, in a run of all cases, no entry of known_differences.py without a difference.
"""

import argparse
import contextlib
import fnmatch
import itertools
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

MOST_DIFFERENCES = 1 / 10000


# ---- A worker -------------------------------------------------------------------------------------------------------------------------


def work(journal: int, ways: str) -> int:
    """Reads items from standard input, one type of an operation a line, and writes the results. Notes the running case in the journal."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # keeps PyTorch's output out of the answers
    import faulthandler

    faulthandler.enable()
    import operation_comparison as comparison
    import operation_database as database
    import torch

    torch.set_num_threads(1)
    count = 0

    def tell(what: str) -> None:
        nonlocal count
        count += 1
        os.pwrite(journal, f"{count}\t{what}\n".encode().ljust(600)[:600], 0)

    def answer(**what: Any) -> None:
        answers.write(json.dumps(what) + "\n")

    with database.dt.eager():  # warm up
        torch.ones(3, device=database.DEVICE).add_(1).sum().item()
    print("ready", file=answers)
    for line in sys.stdin:
        item = json.loads(line)
        name, dtype, start = item["operation"], item["dtype"], item["from"]
        by_way: Counter[str] = Counter()
        try:
            tell(f"0\tprobe\t{name} {dtype}")
            for number, case in enumerate(database.cases(name, dtype, item["taken"])):
                if number < start or not fnmatch.fnmatchcase(case.way, ways):
                    continue
                kind, detail = comparison.check(case, lambda phase, n=number, c=case: tell(f"{n}\t{phase}\t{c}"))
                if kind == "impossible":
                    continue
                by_way["keyword" if "=" in case.way else case.way.split(" ")[0].rstrip(",")] += 1
                if kind:
                    answer(case=str(case), kind=kind, detail=detail)
        except Exception as error:
            if isinstance(error, comparison.Stopped) or comparison.is_stopped():
                answer(done=item, ways=by_way, stopped=str(error))
                return 3
            # The database itself fails: its samples need a missing package.
            answer(done=item, ways=by_way, broken=f"{type(error).__name__}: {str(error)[:300]}")
            continue
        answer(done=item, ways=by_way)
    return 0


# ---- The run --------------------------------------------------------------------------------------------------------------------------


class Worker:
    def __init__(self, folder: Path, number: int, arguments: argparse.Namespace):
        self.journal = open(folder / f"journal{number}", "w+b")  # noqa: SIM115
        self.log = open(folder / f"worker{number}.log", "ab")  # noqa: SIM115
        command = [sys.executable, __file__, "--worker", str(self.journal.fileno()), "--ways", arguments.ways]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            pass_fds=[self.journal.fileno()],
            env={**os.environ, "DWELL_TEST_DEVICE": arguments.device, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"},
            start_new_session=True,
        )
        assert self.process.stdout is not None
        os.set_blocking(self.process.stdout.fileno(), False)
        self.item: dict[str, Any] | None = None
        self.ready = False
        self._rest = b""
        self._seen = b""
        self._since = time.monotonic()

    def give(self, item: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.item = item
        self._since = time.monotonic()
        with contextlib.suppress(BrokenPipeError):  # reported as the end of its output
            self.process.stdin.write(json.dumps(item).encode() + b"\n")
            self.process.stdin.flush()

    def lines(self) -> list[bytes] | None:
        """Returns the lines written since the last call; None at the end of the output."""
        assert self.process.stdout is not None
        data = self.process.stdout.read()
        if data is None:
            return []
        if data == b"":
            return None
        *lines, self._rest = (self._rest + data).split(b"\n")
        return lines

    def at(self) -> list[str]:
        """Returns number, phase and name of the running case, from the journal."""
        text = os.pread(self.journal.fileno(), 600, 0).decode(errors="replace").strip()
        return text.split("\t")[1:] if text.count("\t") == 3 else ["0", "start", "-"]

    def stands_for(self) -> float:
        """Returns the seconds since the journal last changed."""
        now = os.pread(self.journal.fileno(), 600, 0)
        if now != self._seen:
            self._seen, self._since = now, time.monotonic()
        return time.monotonic() - self._since

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def end(self) -> int:
        self.kill()
        try:
            return self.process.wait(20)
        except subprocess.TimeoutExpired:
            return -signal.SIGKILL

    def close(self) -> None:
        for file in (self.process.stdin, self.process.stdout, self.journal, self.log):
            with contextlib.suppress(BrokenPipeError):
                file.close()  # type: ignore[union-attr]


class Results:
    def __init__(self) -> None:
        self.differences: list[dict[str, str]] = []
        self.ways: Counter[str] = Counter()
        self.operations: Counter[str] = Counter()
        self.unstable: list[dict[str, str]] = []
        self.left_out: list[str] = []

    def add(self, case: str, kind: str, detail: str) -> None:
        found = self.unstable if kind == "unstable" else self.differences
        found.append({"case": case, "kind": kind, "detail": detail})

    def count(self, item: dict[str, Any], ways: dict[str, int]) -> None:
        self.ways.update(ways)
        self.operations[item["operation"]] += sum(ways.values())


def go_through(items: list[dict[str, Any]], arguments: argparse.Namespace, folder: Path, deadline: float) -> Results:
    results = Results()
    waiting = list(reversed(items))
    selector = selectors.DefaultSelector()
    workers: list[Worker] = []
    ends_early = 0  # workers that ended before they were ready

    numbers = itertools.count()

    def start() -> None:
        worker = Worker(folder, next(numbers), arguments)
        workers.append(worker)
        selector.register(worker.process.stdout, selectors.EVENT_READ, worker)  # type: ignore[arg-type]

    def give_next(worker: Worker) -> bool:
        if not waiting:
            worker.process.stdin.close()  # type: ignore[union-attr]
            return False
        worker.give(waiting.pop())
        return True

    def over(worker: Worker, why: str) -> None:
        """Ends a worker, reports its case, and continues with the next case in another process."""
        nonlocal ends_early
        selector.unregister(worker.process.stdout)  # type: ignore[arg-type]
        workers.remove(worker)
        status = worker.end()
        number, phase, case = worker.at()
        item = worker.item
        if item is not None:
            end = why or (signal.Signals(-status).name if status < 0 else f"exit status {status}")
            if phase in ("PyTorch", "prepare"):
                results.left_out.append(f"{case}: PyTorch alone: {end}")
            elif phase == "compare":
                results.left_out.append(f"{case}: PyTorch alone, asked for more exact results: {end}")
            elif phase == "probe":
                results.left_out.append(f"{case}: while its samples were made or tried: {end}")
            else:
                results.add(case, "hang" if why else "crash", f"{'hang' if why else 'crash'}: {end} ({phase})")
            results.operations[item["operation"]] += max(int(number) + 1 - item["from"], 1)
            if phase != "probe":
                waiting.append({**item, "from": int(number) + 1, "taken": True})
            elif item["taken"] is None:
                waiting.append({**item, "taken": True})
        elif not worker.ready:
            ends_early += 1
            if ends_early > arguments.jobs:
                raise SystemExit(f"operation_run.py: workers end before they start: see {folder}/worker0.log")
        worker.close()
        if waiting:
            start()

    for _ in range(min(arguments.jobs, len(items))):
        start()
    while workers:
        if time.monotonic() > deadline:
            results.left_out += [f"{item['operation']} {item['dtype']}: no time" for item in waiting]
            waiting.clear()
            for worker in workers:  # all first: a process with a GPU takes seconds to end
                worker.kill()
            for worker in workers:
                if worker.item is not None:
                    results.left_out.append(f"{worker.at()[2]} and the rest of its operation and type: no time")
                worker.end()
                worker.close()
            break
        for key, _ in selector.select(0.5):
            worker = key.data
            lines = worker.lines()
            if lines is None:
                if worker.item is None and worker.ready:
                    selector.unregister(worker.process.stdout)
                    workers.remove(worker)
                    worker.process.wait()
                    worker.close()
                else:
                    over(worker, "")
                continue
            for line in lines:
                if line == b"ready":
                    worker.ready = True
                    give_next(worker)
                    continue
                said = json.loads(line)
                if "case" in said:
                    results.add(said["case"], said["kind"], said["detail"])
                    if arguments.verbose:
                        print(f"{said['case']}: {said['detail']}", flush=True)
                    continue
                results.count(said["done"], said["ways"])
                if "broken" in said:
                    results.left_out.append(f"{said['done']['operation']} {said['done']['dtype']}: {said['broken']}")
                if "stopped" not in said:
                    worker.item = None
                    give_next(worker)
        for worker in list(workers):
            limit = arguments.case if worker.ready else 300
            if (worker.item is not None or not worker.ready) and worker.stands_for() > limit:
                over(worker, f"nothing for {limit:.0f} s")
    return results


def table_of(differences: list[dict[str, str]]) -> str:
    kinds = sorted({one["kind"] for one in differences})
    rows: dict[str, Counter[str]] = defaultdict(Counter)
    for one in differences:
        rows[one["case"].split(" ")[0]][one["kind"]] += 1
    lines = ["operation".ljust(48) + " ".join(kind.rjust(max(9, len(kind))) for kind in kinds)]
    for name, row in sorted(rows.items()):
        lines.append(name.ljust(48) + " ".join(str(row[kind] or "").rjust(max(9, len(kind))) for kind in kinds))
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--device", choices=["cpu", "cuda"])
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--shard", default="0/1")
    parser.add_argument("--ops", default="*")
    parser.add_argument("--types", default="")
    parser.add_argument("--ways", default="*")
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--case", type=float, default=60)
    parser.add_argument("--out", default=os.environ.get("OUT") or "build/operations")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--worker", type=int)
    arguments = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).parent))
    if arguments.worker is not None:
        return work(arguments.worker, arguments.ways)
    begun = time.monotonic()
    if arguments.device is None:
        import torch

        arguments.device = "cuda" if torch.cuda.is_available() else "cpu"
    os.environ["DWELL_TEST_DEVICE"] = arguments.device
    import known_differences
    import operation_database as database

    shard, shards = map(int, arguments.shard.split("/"))
    types = set(filter(None, arguments.types.split(",")))
    items = [
        {"operation": name, "dtype": dtype, "from": 0, "taken": None}
        for name in database.OPERATIONS
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in arguments.ops.split(","))
        for dtype in database.types_and_errors(name)
        if not types or dtype in types
    ][shard::shards]
    out = Path(arguments.out)
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        results = go_through(items, arguments, Path(folder), begun + arguments.seconds)
        for log in sorted(Path(folder).glob("worker*.log")):
            text = log.read_text(errors="replace")
            if text.strip():
                (out / log.name).write_text(text[-100000:])
    known, new = known_differences.sorted_out(results.differences, arguments.device)
    total = sum(results.operations.values())
    complete = not results.left_out or all("no time" not in one for one in results.left_out)
    everything = complete and shards == 1 and arguments.ops == "*" and arguments.ways == "*" and not types
    stale = known_differences.stale(results.differences, arguments.device) if everything else []
    document = {
        "device": arguments.device,
        "cases": total,
        "ways": results.ways,
        "operations": results.operations,
        "differences": new,
        "known": known,
        "unstable": results.unstable,
        "left_out": results.left_out,
        "stale": stale,
        "seconds": round(time.monotonic() - begun, 1),
    }
    (out / "operations.json").write_text(json.dumps(document, indent=1))
    for one in new[:200]:
        print(f"{one['case']}: {one['detail'][:300]}")
    if results.differences:
        print(table_of(results.differences))
    for one in results.left_out[:60]:
        print(f"left out: {one}")
    for one in stale:
        print(f"known, but differs no more: {one}")
    print("ways: " + ", ".join(f"{way} {count}" for way, count in sorted(results.ways.items())))
    few = len(results.differences) <= max(total * MOST_DIFFERENCES, 0)
    print(
        f"operations: {total} cases of {len(results.operations)} operations, {len(results.differences)} differ ({len(known)} known), "
        f"{len(results.unstable)} where PyTorch differs from itself, {len(results.left_out)} left out, {document['seconds']} s"
    )
    return 0 if not new and not stale and few and complete else 1


if __name__ == "__main__":
    sys.exit(main())
