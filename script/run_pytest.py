#!/usr/bin/env python3
"""Runs pytest in several processes at once: uses all cores, and isolates tests that hang or end their process.

    script/run_pytest.py [--jobs N] [--seconds SECONDS] [--limit SECONDS] [--logs FOLDER] [-k EXPRESSION] FILE-OR-FOLDER...

Each file is a process; a long one is several, of at most `--split` tests (100). Files with most tests start first; of equal ones, those
given first start last. If a process hangs (no test ends for `--limit` seconds) or ends, the test that was running has failed, and the rest
of its tests run in another process. Each process has a log. Prints at the end one line per failure, followed by the end of pytest's output
for it, and `pytest: 12 passed, 2 failed, 1 skipped, 35 s`. Exit status 0: nothing failed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

# ---- In pytest's process, as a plugin ------------------------------------------------------------------------------------------------

_report = os.environ.get("DWELL_PYTEST_REPORT", "")
_SHOWN_LINES = 20  # per failure


def _tell(**what: Any) -> None:
    with open(_report, "a", encoding="utf-8") as file:
        file.write(json.dumps(what) + "\n")


def pytest_collection_finish(session: Any) -> None:
    if _report and session.config.option.collectonly:
        for item in session.items:
            _tell(collected=item.nodeid)


def pytest_runtest_logstart(nodeid: str, location: Any) -> None:
    if _report:
        _tell(started=nodeid)


def pytest_runtest_logreport(report: Any) -> None:
    if _report and (report.when == "call" or report.outcome != "passed"):
        said = report.longreprtext if report.outcome == "failed" else ""
        _tell(ended=report.nodeid, outcome=report.outcome, when=report.when, seconds=report.duration, said=said)


def pytest_runtest_logfinish(nodeid: str, location: Any) -> None:
    if _report:
        _tell(finished=nodeid)


# ---- Around them ----------------------------------------------------------------------------------------------------------------------


def read(report: Path) -> list[dict[str, Any]]:
    try:
        lines = report.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    told = []
    for line in lines:
        with contextlib.suppress(ValueError):  # a partial line of a process that ended
            told.append(json.loads(line))
    return told


def command_of(arguments: list[str]) -> list[str]:
    return [sys.executable, "-m", "pytest", "-p", Path(__file__).stem, "-p", "no:cacheprovider", *arguments]


def environment_of(report: Path) -> dict[str, str]:
    path = os.pathsep.join(filter(None, [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]))
    return {**os.environ, "PYTHONPATH": path, "DWELL_PYTEST_REPORT": str(report), "PYTHONUNBUFFERED": "1"}


def collect(paths: list[str], expression: str, logs: Path) -> dict[str, list[str]]:
    """Tests by file."""
    report, log = logs / "collected.jsonl", logs / "collected.log"
    report.unlink(missing_ok=True)
    arguments = ["-q", "--collect-only", *(["-k", expression] if expression else []), *paths]
    with open(log, "w") as file:
        status = subprocess.run(command_of(arguments), stdout=file, stderr=subprocess.STDOUT, env=environment_of(report)).returncode
    if status not in (0, 5):  # 5: no tests
        print(log.read_text()[-4000:])
        raise SystemExit("run_pytest.py: the tests cannot be collected")
    files: dict[str, list[str]] = {}
    for told in read(report):
        files.setdefault(told["collected"].split("::")[0], []).append(told["collected"])
    return files


class Run:
    """A process that runs some of a file's tests."""

    def __init__(self, tests: list[str], number: int, logs: Path):
        self.tests = tests
        name = f"{number:03}-{Path(tests[0].split('::')[0]).stem}"
        self.report, self.log = logs / f"{name}.jsonl", logs / f"{name}.log"
        self.report.unlink(missing_ok=True)
        listed = logs / f"{name}.args"
        listed.write_text("\n".join(tests) + "\n")
        arguments = ["-v", "--tb=short", "-o", "faulthandler_timeout=60", f"@{listed}"]
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                command_of(arguments),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment_of(self.report),
                start_new_session=True,
            )
        self.begun = time.monotonic()
        self._size = 0
        self._since = self.begun

    def stands_for(self) -> float:
        """Seconds since its last report."""
        with contextlib.suppress(FileNotFoundError):
            size = self.report.stat().st_size
            if size != self._size:
                self._size, self._since = size, time.monotonic()
        return time.monotonic() - self._since

    def stop(self, number: int = signal.SIGKILL) -> None:
        """Ends the process and those it has started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(20)


def main() -> int:
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("paths", nargs="+")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--split", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=3600)  # of all together
    parser.add_argument("--limit", type=float, default=150)  # of one test
    parser.add_argument("--logs", default="build/pytest")
    parser.add_argument("-k", dest="expression", default="")
    arguments = parser.parse_args()
    begun = time.monotonic()
    deadline = begun + arguments.seconds
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # through `finally`
    logs = Path(arguments.logs).resolve()
    logs.mkdir(parents=True, exist_ok=True)

    outcomes: Counter[str] = Counter()
    problems: dict[str, str] = {}
    said: dict[str, str] = {}
    seconds: Counter[str] = Counter()
    slowest: Counter[str] = Counter()
    waiting: list[list[str]] = []
    for tests in sorted(collect(arguments.paths, arguments.expression, logs).values(), key=len):
        # The parts of a long file are of equal size.
        parts = -(-len(tests) // arguments.split)
        waiting += [tests[part::parts] for part in range(parts)]
    left_out = 0
    running: list[Run] = []
    count = 0

    def settle(run: Run, why: str) -> None:
        run.stop()
        status = run.process.returncode
        end = why or ("" if status in (0, 1, 5) else f"ended by {signal.Signals(-status).name}" if (status or 0) < 0 else f"exit {status}")
        started, finished = [], set()
        verdicts: dict[str, str] = {}
        for told in read(run.report):
            if "started" in told:
                started.append(told["started"])
            elif "finished" in told:
                finished.add(told["finished"])
            elif "ended" in told:
                name = told["ended"]
                if verdicts.get(name) != "failed":
                    verdicts[name] = told["outcome"]
                    said[name] = told["said"]
                if told["when"] == "call":
                    slowest[name] = told["seconds"]
        for name in finished:
            outcome = verdicts.get(name, "failed")
            outcomes[outcome] += 1
            if outcome == "failed":
                problems[name] = f"failed: {run.log.name}"
        for name in started:
            if name not in finished:
                outcomes["failed"] += 1
                problems[name] = f"{end or 'did not finish'}: {run.log.name}"
        rest = [name for name in run.tests if name not in finished and name not in started]
        if rest and started:
            waiting.append(rest)
        elif rest:
            outcomes["failed"] += len(rest)
            problems[f"{rest[0]} and {len(rest) - 1} others"] = f"not started, {end or 'left out'}: {run.log.name}"
        elif end and not any(name not in finished for name in started):
            outcomes["failed"] += 1
            problems[run.tests[0].split("::")[0]] = f"{end} behind its tests: {run.log.name}"
        seconds[run.tests[0].split("::")[0]] += time.monotonic() - run.begun

    try:
        while waiting or running:
            late = time.monotonic() > deadline
            if late:
                left_out += sum(map(len, waiting))
                waiting.clear()
            while waiting and len(running) < arguments.jobs:
                running.append(Run(waiting.pop(), count, logs))
                count += 1
            time.sleep(0.1)
            for run in list(running):
                ended = run.process.poll() is not None
                hangs = not ended and run.stands_for() > arguments.limit
                if ended or hangs or late:
                    running.remove(run)
                    if hangs:
                        run.stop(signal.SIGABRT)  # faulthandler prints its stack
                    settle(run, "" if ended else f"hung for {arguments.limit:.0f} s" if hangs else "stopped: no time left")
            if late:
                left_out += sum(map(len, waiting))
                waiting.clear()
    finally:
        for run in running:
            run.stop()
    for name, spent in seconds.most_common(5):
        print(f"  {spent:6.1f} s  {name}")
    for name, spent in slowest.most_common(5):
        print(f"  {spent:6.1f} s  {name}")
    for name, problem in problems.items():
        print(f"FAILED {name}: {problem}")
        for line in said.get(name, "").splitlines()[-_SHOWN_LINES:]:
            print(f"  {line}")
    print(
        f"pytest: {outcomes['passed']} passed, {outcomes['failed']} failed, {outcomes['skipped']} skipped"
        + (f", {left_out} left out" if left_out else "")
        + f", {time.monotonic() - begun:.0f} s"
    )
    return 1 if outcomes["failed"] or left_out else 0


if __name__ == "__main__":
    sys.exit(main())
