#!/usr/bin/env python3
"""Tests of script/run_pytest.py, on tests that fail, hang and end their process. Needs pytest: exit status 77 without.

tests/script/run_pytest_test.py [ARGUMENT OF unittest...]
"""

import importlib.util
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

RUN_PYTEST = Path(__file__).resolve().parents[2] / "script" / "run_pytest.py"

FILES = {
    "test_good.py": """
import os, pytest
def test_one(): pass
def test_two(): pass
@pytest.mark.skip
def test_left(): pass
@pytest.mark.parametrize("number", range(5))
def test_many(number): print("process", os.getpid())
""",
    "test_bad.py": """
def test_passes(): pass
def test_fails(): assert 1 == 2
""",
    "test_dies.py": """
import os, signal
def test_before(): pass
def test_here(): os.kill(os.getpid(), signal.SIGKILL)
def test_after(): pass
""",
    "test_hangs.py": """
import time
def test_hang(): time.sleep(100)
def test_behind(): pass
""",
    "test_ends_badly.py": """
import atexit, os
def test_well(): atexit.register(os._exit, 7)
""",
}


class RunPytest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        for name, text in FILES.items():
            (self.folder / name).write_text(text)

    def run_pytest(self, *arguments: str) -> tuple[int, list[str]]:
        command = [sys.executable, str(RUN_PYTEST), "--jobs", "3", "--logs", str(self.folder / "logs"), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=self.folder)
        self.assertEqual(done.stderr, "")
        lines = done.stdout.splitlines()
        lines[-1] = lines[-1].rpartition(", ")[0]  # without the time
        return done.returncode, lines

    def test_every_failure_is_named_and_every_test_is_counted_once(self):
        status, lines = self.run_pytest("--limit", "10", str(self.folder))
        self.assertEqual(status, 1)
        self.assertEqual(lines[-1], "pytest: 12 passed, 4 failed, 1 skipped")
        failures = "\n".join(sorted(line.replace(str(self.folder) + "/", "") for line in lines if line.startswith("FAILED ")))
        self.assertRegex(
            failures,
            r"FAILED test_bad.py::test_fails: failed: \d+-test_bad.log\n"
            r"FAILED test_dies.py::test_here: ended by SIGKILL: \d+-test_dies.log\n"
            r"FAILED test_ends_badly.py: exit 7 behind its tests: \d+-test_ends_badly.log\n"
            r"FAILED test_hangs.py::test_hang: hung for 10 s: \d+-test_hangs.log$",
        )
        self.assertIn("  E   assert 1 == 2", lines)

    def test_long_files_are_several_processes(self):
        status, lines = self.run_pytest("--split", "3", str(self.folder / "test_good.py"))
        self.assertEqual((status, lines[-1]), (0, "pytest: 7 passed, 0 failed, 1 skipped"))
        self.assertEqual(len(list((self.folder / "logs").glob("*-test_good.log"))), 3)

    def test_tests_are_chosen_by_name(self):
        status, lines = self.run_pytest("-k", "passes or one", str(self.folder))
        self.assertEqual((status, lines[-1]), (0, "pytest: 2 passed, 0 failed, 0 skipped"))

    def test_what_the_time_does_not_hold_is_left_out(self):
        status, lines = self.run_pytest("--jobs", "1", "--seconds", "12", str(self.folder / "test_hangs.py"))
        self.assertEqual(status, 1)
        self.assertRegex(lines[-1], r"pytest: 0 passed, [01] failed, 0 skipped, [12] left out")


if __name__ == "__main__":
    if importlib.util.find_spec("pytest") is None:
        sys.exit(77)
    sys.exit(unittest.main())
