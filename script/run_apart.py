#!/usr/bin/env python3
"""Runs the tests of a GoogleTest executable in separate processes: isolates tests that hang or take the device down.

    script/run_apart.py EXECUTABLE [--filter PATTERN] [--alone REGEX] [--jobs N] [--limit SECONDS] [--seconds SECONDS]

Each suite gets its own process, and so does each test of a suite whose name matches --alone. --jobs processes run at once (default: 1);
those of --alone come first, one at a time. If a suite fails, hangs or crashes, its tests that had not passed run again at the end, one by
one: this distinguishes tests that fail by themselves from those that only fail with others. After --seconds running tests are ended, and
the rest is left out.

Prints at the end `apart: 12 passed, 2 failed, 1 skipped` and one indented line per failure. Exit status 0: nothing failed.
"""

import argparse
import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor

# Test names contain no spaces; the parameter and the time follow. The test's own output may precede them.
STARTED = re.compile(r"\[ RUN      \] (\S+)$", re.MULTILINE)
ENDED = re.compile(r"\[ *(OK|FAILED|SKIPPED) *\] ([^\s,]+).* \(\d+ ms\)$", re.MULTILINE)
# The tests' own watchdog writes this before it ends the process.
HANGS = re.compile(r"^\S+ hangs: no end after ", re.MULTILINE)


class Run:
    """One process that ran some tests: how each test ended ("": passed), and how the process did. `cut_off`: it was ended at the time
    limit; tests that had not begun have no result."""

    def __init__(self, output: str, status: int | None, tests: list[str], cut_off: bool):
        ended = {name: verdict for verdict, name in ENDED.findall(output)}
        started = set(STARTED.findall(output))
        self.skipped = {name for name in tests if ended.get(name) == "SKIPPED"}
        self.problems: dict[str, str] = {}
        if cut_off:
            end = "cut off"
        elif status is None or HANGS.search(output):
            end = "hung"
        elif status < 0:
            end = f"crashed, {signal.Signals(-status).name}"
        else:
            end = f"ended the process with {status}"
        self.left_out = {name for name in tests if cut_off and name not in started}
        for name in tests:
            if name in self.left_out:
                continue
            if name not in ended:
                self.problems[name] = end if name in started else "did not start"
            elif ended[name] == "FAILED":
                self.problems[name] = "failed"
        # All tests passed, but the process failed.
        self.end = end if status != 0 and not cut_off and not self.problems else ""


def list_tests(executable: str, pattern: str) -> dict[str, list[str]]:
    command = [executable, "--gtest_list_tests", f"--gtest_filter={pattern}"]
    listing = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
    suites: dict[str, list[str]] = {}
    suite = ""
    for line in listing.splitlines():
        name = line.split("#")[0].rstrip()
        if line.startswith("  ") and suite:
            suites[suite].append(suite + name.strip())
        elif name.endswith("."):
            suite = name
            suites[suite] = []
    return suites


def stop(process: subprocess.Popen) -> None:
    """Ends a process and those it has started. Leaves behind one that cannot be ended (in the driver)."""
    with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(20)


class Processes:
    """Runs the executable's tests in processes, started by several threads."""

    def __init__(self, executable: str, limit: float, deadline: float):
        self._executable = executable
        self._limit = limit
        self._deadline = deadline
        self._output = threading.Lock()
        self._running: set[subprocess.Popen] = set()
        self._ends = False

    def end(self) -> None:
        """Ends the running processes; no new one starts."""
        self._ends = True
        for process in list(self._running):
            stop(process)

    def are_over(self) -> bool:
        return self._ends or self._deadline - time.monotonic() < 1

    def run(self, tests: list[str]) -> Run:
        if self.are_over():
            return Run("", None, tests, cut_off=True)
        command = [self._executable, f"--gtest_filter={':'.join(tests)}", "--gtest_color=no"]
        # Use a file, not a pipe: processes that a test leaves behind would block the reader.
        with tempfile.TemporaryFile("w+", errors="replace") as file:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, start_new_session=True)
            self._running.add(process)
            status = None
            left = self._deadline - time.monotonic()
            try:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    status = process.wait(min(self._limit, left))
            finally:
                stop(process)  # also processes that it has left running
                self._running.discard(process)
            file.seek(0)
            output = file.read()
        with self._output:
            print(output, end="" if output.endswith("\n") else "\n")
            if status is None:
                print(f"stopped after {min(self._limit, left):.0f} s")
            sys.stdout.flush()
        return Run(output, status, tests, cut_off=status is None and left < self._limit)


def main() -> int:
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("executable")
    parser.add_argument("--filter", default="*")
    parser.add_argument("--alone", default="$^")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--limit", type=float, default=150)  # of one process
    parser.add_argument("--seconds", type=float, default=3600)  # of all together
    arguments = parser.parse_args()
    processes = Processes(os.path.abspath(arguments.executable), arguments.limit, time.monotonic() + arguments.seconds)

    def ended(*_: object) -> None:
        processes.end()
        sys.exit(143)

    signal.signal(signal.SIGTERM, ended)

    alone, beside = [], []
    for suite, tests in list_tests(arguments.executable, arguments.filter).items():
        if re.search(arguments.alone, suite):
            alone += [[test] for test in tests]
        else:
            beside.append(tests)
    with ThreadPoolExecutor(arguments.jobs) as pool:
        runs = [*map(processes.run, alone), *pool.map(processes.run, beside)]

    passed = skipped = left_out = 0
    problems: dict[str, str] = {}
    for tests, together in zip(alone + beside, runs, strict=True):
        skipped += len(together.skipped)
        left_out += len(together.left_out)
        passed += len(tests) - len(together.skipped) - len(together.problems) - len(together.left_out)
        if together.end:
            problems[tests[0].split(".")[0]] = together.end
        for name, problem in together.problems.items():
            if len(tests) > 1 or (tests in beside and arguments.jobs > 1):
                again = processes.run([name])
                if again.left_out:
                    pass  # keep what is known of it
                elif again.problems:
                    problem = again.problems[name]
                elif problem == "did not start":
                    skipped += len(again.skipped)
                    passed += 1 - len(again.skipped)
                    continue
                else:
                    problem += " with others of its suite, alone it passes" if len(tests) > 1 else " beside others, alone it passes"
            problems[name] = problem

    print(f"apart: {passed} passed, {len(problems)} failed, {skipped} skipped" + (f", {left_out} left out" if left_out else ""))
    for name, problem in problems.items():
        print(f"  {name}: {problem}")
    return 1 if problems or left_out else 0


if __name__ == "__main__":
    sys.exit(main())
