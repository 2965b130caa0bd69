#!/usr/bin/env python3
"""Runs a GoogleTest executable under compute-sanitizer, once for each tool, and prints the findings.

    script/sanitize.py EXECUTABLE [--tool TOOL]... [--filter PATTERN] [--seconds SECONDS] [--gpu FILE]

  --tool TOOL        memcheck, initcheck, synccheck (default: these three) or racecheck
  --filter PATTERN   a --gtest_filter (default: all tests but those that fail, hang or measure on purpose)
  --seconds SECONDS  for all tools together (default: 540)
  --gpu FILE         the device's file, without which nothing is run (default: /dev/nvidiactl)

Searches compute-sanitizer on PATH, in $DWELL_CUDA_PATH/bin and in /usr/local/cuda/bin. Exit status 0: no findings, and the tests passed;
77: no GPU or no compute-sanitizer, which is printed; 1: all else. racecheck runs only if named: it reports `idle` as a race, a flag in
shared memory that publishes nothing (docs/memory_model.md).

The tools only know memory that was allocated before a kernel's launch. Under them a runtime ends all leases before it returns an
allocation.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import time

SKIPPED = 77
FOUND = 86
TOOLS = ("memcheck", "initcheck", "synccheck")
# Leaves out tasks that overstay, measurements of processor time, an allocation that must fail, and a forked child, which the tools do not
# follow.
FILTER = "-*FailureTest*:*UsesNoProcessor*:*BeyondTheMemory*:*AForkedChild*"

SUMMARY = re.compile(r"^========= (?:ERROR|RACECHECK) SUMMARY: (\d+) (?:error|hazard)", re.MULTILINE)
PASSED = re.compile(r"^\[  PASSED  \] (\d+) test", re.MULTILINE)


def find_sanitizer() -> str | None:
    folders = [os.environ.get("PATH", "")]
    if os.environ.get("DWELL_CUDA_PATH"):
        folders.append(os.path.join(os.environ["DWELL_CUDA_PATH"], "bin"))
    return shutil.which("compute-sanitizer", path=os.pathsep.join([*folders, "/usr/local/cuda/bin"]))


def run(sanitizer: str, tool: str, arguments: argparse.Namespace, seconds: float) -> bool:
    """Whether the tool found nothing; prints its output, then a summary line."""
    # Ignore API errors: dwell probes the driver for features it may lack, and reports failures itself.
    options = ["--tool", tool, "--error-exitcode", str(FOUND), "--target-processes", "application-only"]
    if tool == "memcheck":
        options += ["--report-api-errors", "no"]
    command = [sanitizer, *options, arguments.executable, f"--gtest_filter={arguments.filter}"]
    start = time.monotonic()
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", timeout=seconds)
        output, status = done.stdout, str(done.returncode)
    except subprocess.TimeoutExpired as expired:
        output, status = (expired.stdout or b"").decode(errors="replace"), "stopped"
    print(output, flush=True)
    found, passed = SUMMARY.findall(output), PASSED.findall(output)
    errors = found[-1] if found else "unknown"
    tests = passed[-1] if passed else "unknown"
    print(f"sanitizer: {tool} {errors} errors, {tests} tests passed, exit status {status}, {time.monotonic() - start:.0f} s", flush=True)
    return status == "0" and errors == "0" and tests not in ("0", "unknown")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("executable")
    parser.add_argument("--tool", action="append", choices=(*TOOLS, "racecheck"))
    parser.add_argument("--filter", default=FILTER)
    parser.add_argument("--seconds", type=float, default=540)
    parser.add_argument("--gpu", default="/dev/nvidiactl")
    arguments = parser.parse_args()
    if not os.path.exists(arguments.gpu):
        print(f"sanitizer: skipped, there is no {arguments.gpu}")
        return SKIPPED
    sanitizer = find_sanitizer()
    if sanitizer is None:
        print("sanitizer: skipped, compute-sanitizer is not on PATH nor in /usr/local/cuda/bin")
        return SKIPPED
    tools = arguments.tool or TOOLS
    end = time.monotonic() + arguments.seconds
    results = []
    for index, tool in enumerate(tools):
        left = end - time.monotonic()
        results.append(run(sanitizer, tool, arguments, left / (len(tools) - index)))
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
