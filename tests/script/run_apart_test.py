#!/usr/bin/env python3
"""Tests of script/run_apart.py, on a shell script that behaves like the executables it runs.

    tests/script/run_apart_test.py [ARGUMENT OF unittest...]
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

RUN_APART = Path(__file__).resolve().parents[2] / "script" / "run_apart.py"

# The work of each test once it has started; Mixed's tests disturb each other through a variable of their process.
EXECUTABLE = r"""#!/usr/bin/env bash
tests=(Good.One Good.Two On/Param.First/cuda_0 Bad.Passes Bad.Fails Bad.Skips Dies.Before Dies.Here Dies.After Hangs.Long Watched.Hangs
  Mixed.Dirty Mixed.Victim Exits.Badly Fault.A Fault.B)
for argument in "$@"; do
  case $argument in
    --gtest_list_tests) listing=true ;;
    --gtest_filter=*) filter=${argument#*=} ;;
  esac
done
if [[ $filter == '*' ]]; then chosen=("${tests[@]}"); else IFS=: read -ra chosen <<<"$filter"; fi
if [[ ${listing:-} ]]; then
  suite=
  for test in "${chosen[@]}"; do
    if [[ ${test%%.*} != "$suite" ]]; then suite=${test%%.*} && echo "$suite."; fi
    echo "  ${test#*.}  # GetParam() = \"cuda:0\""
  done
  exit
fi
echo "process ${chosen[*]}"
rc=0
fail() { echo "[  FAILED  ] $1, where GetParam() = \"cuda:0\" (1 ms)" && rc=1; }
for test in "${chosen[@]}"; do
  echo "[ RUN      ] $test"
  case $test in
    Bad.Fails) fail "$test" && continue ;;
    Bad.Skips) echo "[  SKIPPED ] $test (0 ms)" && continue ;;
    Dies.Here) kill -SEGV $$ ;;
    Hangs.Long) touch "$0.hangs" && sleep 100 ;;
    Meets.Late) touch "$0.meets" && until [[ -e $0.late ]]; do sleep 0.02; done ;;
    Late.Meets) touch "$0.late" && until [[ -e $0.meets ]]; do sleep 0.02; done ;;
    Watched.Hangs) echo "Watched.Hangs hangs: no end after 1 s" && kill -ABRT $$ ;;
    Mixed.Dirty) dirty=true ;;
    Mixed.Victim) if [[ ${dirty:-} ]]; then fail "$test" && continue; fi ;;
    Exits.Badly) rc=7 ;;
  esac
  echo "some text[       OK ] $test (12 ms)"
done
exit $rc
"""


class RunApart(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.executable = os.path.join(folder.name, "tests")
        Path(self.executable).write_text(EXECUTABLE)
        os.chmod(self.executable, 0o755)

    def run_apart(self, *arguments: str) -> tuple[int, str, list[str]]:
        done = subprocess.run([str(RUN_APART), self.executable, *arguments], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.stderr, "")
        output, _, summary = done.stdout.rpartition("apart: ")
        return done.returncode, output, summary.splitlines()

    def test_suites_that_pass_take_a_process_each(self):
        status, output, summary = self.run_apart("--filter", "Good.One:Good.Two:On/Param.First/cuda_0")
        self.assertEqual((status, summary), (0, ["3 passed, 0 failed, 0 skipped"]))
        self.assertIn("process Good.One Good.Two\n", output)
        self.assertIn("process On/Param.First/cuda_0\n", output)

    def test_suites_that_are_alone_take_a_process_a_test(self):
        _, output, _ = self.run_apart("--filter", "Fault.A:Fault.B", "--alone", "Other|Fault")
        self.assertIn("process Fault.A\n", output)
        self.assertIn("process Fault.B\n", output)

    def test_every_failure_is_named_and_every_test_is_counted_once(self):
        status, output, summary = self.run_apart("--limit", "2")
        self.assertEqual(status, 1)
        self.assertEqual(
            summary,
            [
                "10 passed, 6 failed, 1 skipped",
                "  Bad.Fails: failed",
                "  Dies.Here: crashed, SIGSEGV",
                "  Hangs.Long: hung",
                "  Watched.Hangs: hung",
                "  Mixed.Victim: failed with others of its suite, alone it passes",
                "  Exits: ended the process with 7",
            ],
        )
        self.assertIn("process Dies.After\n", output)
        self.assertNotIn("process Dies.Before\n", output)

    def test_suites_run_beside_each_other_but_those_that_are_alone(self):
        tests = "Meets.Late:Late.Meets:Bad.Fails:Fault.A:Good.One"  # the first two wait for each other
        status, output, summary = self.run_apart("--filter", tests, "--alone", "Fault", "--jobs", "2", "--limit", "20")
        self.assertEqual((status, summary), (1, ["4 passed, 1 failed, 0 skipped", "  Bad.Fails: failed"]))
        self.assertLess(output.index("process Fault.A\n"), output.index("process Good.One\n"))
        self.assertEqual(output.count("process Bad.Fails\n"), 2, "once more, with nothing beside it")

    def test_being_ended_ends_what_runs(self):
        with subprocess.Popen(
            [str(RUN_APART), self.executable, "--filter", "Hangs.Long:Good.One", "--jobs", "2"], stdout=subprocess.PIPE, text=True
        ) as process:
            while not Path(self.executable + ".hangs").exists():
                time.sleep(0.02)
            process.send_signal(signal.SIGTERM)
            output, _ = process.communicate(timeout=20)
        self.assertEqual(process.returncode, 143)
        self.assertIn("process Hangs.Long\n", output)

    def test_what_the_time_does_not_hold_is_cut_off_or_left_out(self):
        status, _, summary = self.run_apart("--filter", "Hangs.Short:Hangs.Long:Hangs.After:Good.One:Good.Two", "--seconds", "2")
        self.assertEqual((status, summary), (1, ["1 passed, 1 failed, 0 skipped, 3 left out", "  Hangs.Long: cut off"]))


if __name__ == "__main__":
    sys.exit(unittest.main())
