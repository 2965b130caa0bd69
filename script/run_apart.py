#!/usr/bin/env python3
"""Runs the tests of a GoogleTest executable apart, so that one that hangs, or takes the device down with it, disturbs no other.

    script/run_apart.py EXECUTABLE [--filter PATTERN] [--alone REGEX] [--limit SECONDS] [--seconds SECONDS]

Each suite gets a process of its own, and so does each test of a suite whose name matches --alone. Tests of a suite that fails, hangs or
crashes are run again one by one, but for those that had passed by then: that tells apart a test that fails by itself, and one that only
fails with others. What runs when --seconds are over is cut off, and what has not begun by then is left out.

Closes with a line `apart: 12 passed, 2 failed, 1 skipped` and one indented line for each failure. Exit status 0: nothing failed.
"""

import argparse
import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

# Test names hold no spaces; the parameter and the time stand behind them. Output of the test itself may stand before.
STARTED = re.compile(r"\[ RUN      \] (\S+)$", re.MULTILINE)
ENDED = re.compile(r"\[ *(OK|FAILED|SKIPPED) *\] ([^\s,]+).* \(\d+ ms\)$", re.MULTILINE)
# The tests' own watchdog writes this before it ends the process.
HANGS = re.compile(r"^\S+ hangs: no end after ", re.MULTILINE)


class Run:
    """One process that ran some tests: how each of them ended ("" is well), and how the process did. `cut_off`: it was ended for want of
    time, and nothing is said of tests that it has not begun."""

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
        # Every test ended well, and then the process did not.
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
    """Ends a process and those it has started. One that does not go even so (it is in the driver) is left behind."""
    with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(20)


def run(executable: str, tests: list[str], limit: float, deadline: float) -> Run:
    command = [executable, f"--gtest_filter={':'.join(tests)}", "--gtest_color=no"]
    # A file, not a pipe: processes that a test leaves behind must not hold the reader up.
    with tempfile.TemporaryFile("w+", errors="replace") as file:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, start_new_session=True)
        status = None
        left = deadline - time.monotonic()
        try:
            with contextlib.suppress(subprocess.TimeoutExpired):
                status = process.wait(min(limit, left))
        finally:
            stop(process)  # processes that it has left running too
        file.seek(0)
        output = file.read()
    print(output, end="" if output.endswith("\n") else "\n")
    if status is None:
        print(f"stopped after {min(limit, left):.0f} s")
    sys.stdout.flush()
    return Run(output, status, tests, status is None and left < limit)


def main() -> int:
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("executable")
    parser.add_argument("--filter", default="*")
    parser.add_argument("--alone", default="$^")
    parser.add_argument("--limit", type=float, default=150)  # of one process
    parser.add_argument("--seconds", type=float, default=3600)  # of all together
    arguments = parser.parse_args()
    executable = os.path.abspath(arguments.executable)
    deadline = time.monotonic() + arguments.seconds
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # through `finally`

    processes: list[list[str]] = []
    for suite, tests in list_tests(executable, arguments.filter).items():
        processes += [[test] for test in tests] if re.search(arguments.alone, suite) else [tests]

    passed = skipped = left_out = 0
    problems: dict[str, str] = {}

    def is_over() -> bool:
        return deadline - time.monotonic() < 1

    for tests in processes:
        if is_over():
            left_out += len(tests)
            continue
        together = run(executable, tests, arguments.limit, deadline)
        skipped += len(together.skipped)
        left_out += len(together.left_out)
        passed += len(tests) - len(together.skipped) - len(together.problems) - len(together.left_out)
        if together.end:
            problems[tests[0].split(".")[0]] = together.end
        for name, problem in together.problems.items():
            if len(tests) > 1 and not is_over():
                alone = run(executable, [name], arguments.limit, deadline)
                if alone.left_out:
                    pass  # what is known of it stays
                elif alone.problems:
                    problem = alone.problems[name]
                elif problem == "did not start":
                    skipped += len(alone.skipped)
                    passed += 1 - len(alone.skipped)
                    continue
                else:
                    problem += " with others of its suite, alone it passes"
            problems[name] = problem

    print(f"apart: {passed} passed, {len(problems)} failed, {skipped} skipped" + (f", {left_out} left out" if left_out else ""))
    for name, problem in problems.items():
        print(f"  {name}: {problem}")
    return 1 if problems or left_out else 0


if __name__ == "__main__":
    sys.exit(main())
