#!/usr/bin/env python3
"""Tests of script/sanitize.py, on a shell script that stands for compute-sanitizer.

    tests/script/sanitize_test.py [ARGUMENT OF unittest...]
"""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

SANITIZE = Path(__file__).resolve().parents[2] / "script" / "sanitize.py"

# Says what it was called with, and then what the variable FAKE_<TOOL> asks for.
SANITIZER = r"""#!/usr/bin/env bash
echo "========= COMPUTE-SANITIZER $*"
behaviour=FAKE_${2^^}
case ${!behaviour:-} in
  finds) echo '[  PASSED  ] 3 tests.'; echo '========= ERROR SUMMARY: 2 errors'; exit 86 ;;
  fails) echo '[  PASSED  ] 2 tests.'; echo '[  FAILED  ] 1 test.'; echo '========= ERROR SUMMARY: 0 errors'; exit 1 ;;
  hangs) exec sleep 60 ;;
  empty) echo '[  PASSED  ] 0 tests.'; echo '========= ERROR SUMMARY: 0 errors' ;;
  *) echo '[  PASSED  ] 3 tests.'; echo '========= ERROR SUMMARY: 0 errors' ;;
esac
"""


class Sanitize(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.bin = Path(folder.name)
        sanitizer = self.bin / "compute-sanitizer"
        sanitizer.write_text(SANITIZER)
        sanitizer.chmod(0o755)

    def sanitize(self, *arguments: str, **variables: str) -> tuple[int, list[str], str]:
        """(exit status, its own lines, all output)"""
        environment = {**os.environ, "PATH": f"{self.bin}:{os.environ['PATH']}", **variables}
        command = [str(SANITIZE), "tests", "--gpu", "/dev/null", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
        self.assertEqual(done.stderr, "")
        own = [line.removeprefix("sanitizer: ") for line in done.stdout.splitlines() if line.startswith("sanitizer: ")]
        return done.returncode, own, done.stdout

    def test_three_tools_run_and_find_nothing(self):
        status, lines, output = self.sanitize()
        self.assertEqual(status, 0)
        self.assertEqual([line.split()[0] for line in lines], ["memcheck", "initcheck", "synccheck"])
        self.assertTrue(all("0 errors, 3 tests passed" in line for line in lines))
        self.assertIn(" tests --gtest_filter=-*FailureTest*", output)

    def test_an_error_of_one_tool_fails_and_the_others_run(self):
        status, lines, _ = self.sanitize(FAKE_MEMCHECK="finds")
        self.assertEqual((status, len(lines)), (1, 3))
        self.assertIn("memcheck 2 errors, 3 tests passed, exit status 86", lines[0])

    def test_a_failed_test_fails(self):
        status, lines, _ = self.sanitize("--tool", "initcheck", FAKE_INITCHECK="fails")
        self.assertEqual((status, len(lines)), (1, 1))
        self.assertIn("initcheck 0 errors, 2 tests passed, exit status 1", lines[0])

    def test_no_tests_fail(self):
        self.assertEqual(self.sanitize("--tool", "synccheck", FAKE_SYNCCHECK="empty")[0], 1)

    def test_a_tool_that_hangs_is_stopped_and_leaves_time_for_the_others(self):
        status, lines, _ = self.sanitize("--seconds", "3", FAKE_MEMCHECK="hangs")
        self.assertEqual((status, len(lines)), (1, 3))
        self.assertIn("memcheck unknown errors, unknown tests passed, exit status stopped", lines[0])
        self.assertIn("initcheck 0 errors", lines[1])

    def test_without_a_gpu_or_the_tool_it_is_skipped(self):
        status, lines, _ = self.sanitize("--gpu", "/dev/none")
        self.assertEqual((status, lines), (77, ["skipped, there is no /dev/none"]))
        if not os.path.exists("/usr/local/cuda/bin/compute-sanitizer"):
            status, lines, _ = self.sanitize(PATH="/usr/bin:/bin", DWELL_CUDA_PATH="")
            self.assertEqual((status, lines[0].split(",")[0]), (77, "skipped"))


if __name__ == "__main__":
    unittest.main()
