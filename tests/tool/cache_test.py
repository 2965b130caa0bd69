#!/usr/bin/env python3
"""End-to-end tests of `dwell cache`: over what a real job leaves in the cache, and over folders that are none.

    tests/tool/cache_test.py TOOL [ARGUMENT OF unittest...]
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOOL = ""

MARK = "DWELL_OPERATOR(mark)(dwell::Group g, dwell::Span<float> y) {\n  for (auto i : g.range(y.size())) y[i] = 1;\n}\n"
JOB = '[operators.mark]\nsource = "mark.hpp"\n[arrays]\ny = { shape = [6], dtype = "f32" }\n[[tasks]]\noperator = "mark"\nargs = ["y"]\n'


def dwell(*arguments: str, **variables: str | Path) -> subprocess.CompletedProcess:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DWELL_CACHE")}
    environment |= {name: str(value) for name, value in variables.items()}
    return subprocess.run([TOOL, *arguments], capture_output=True, text=True, timeout=300, check=False, env=environment)


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        root = tempfile.TemporaryDirectory()
        cls.addClassCleanup(root.cleanup)
        cls.filled = Path(root.name) / "filled"
        (Path(root.name) / "mark.hpp").write_text(MARK)
        (Path(root.name) / "job.toml").write_text(JOB)
        result = dwell("run", f"{root.name}/job.toml", "--device", "cpu", DWELL_CACHE_DIR=cls.filled)
        assert result.returncode == 0, result.stderr

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name) / "cache"
        shutil.copytree(self.filled, self.folder)

    def cache(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess:
        return dwell("cache", *arguments, **({"DWELL_CACHE_DIR": self.folder} | variables))

    def succeed(self, *arguments: str) -> str:
        result = self.cache(*arguments)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return result.stdout

    def entries(self) -> list[dict]:
        return json.loads(self.succeed("list", "--json"))["entries"]


class Cache(Case):
    def test_lists_what_a_job_left(self):
        entries = self.entries()
        self.assertEqual({entry["description"] for entry in entries}, {"operator mark", "image of 1 operator"})
        for entry in entries:
            self.assertEqual(entry["bytes"], (self.folder / entry["key"]).stat().st_size)
        self.assertRegex(self.succeed("list"), r"(?m)^[0-9a-f]{12} +[0-9,]+  20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ  operator mark$")

    def test_counts(self):
        stats = json.loads(self.succeed("stats", "--json"))
        self.assertEqual((stats["path"], stats["entries"], stats["max_bytes"]), (str(self.folder), 2, 2**30))
        self.assertEqual(stats["bytes"], sum(path.stat().st_size for path in self.folder.iterdir()))
        self.assertRegex(self.succeed("stats"), r"(?m)^entries  2\nbytes    [0-9,]+ of 1,073,741,824\n")

    def test_says_where(self):
        self.assertEqual(self.succeed("path"), f"{self.folder}\n")
        self.assertEqual(json.loads(self.succeed("path", "--json")), {"path": str(self.folder)})
        result = dwell("cache", "path", XDG_CACHE_HOME="/somewhere")
        self.assertEqual(result.stdout, "/somewhere/dwell\n")

    def test_clears_what_is_its_own(self):
        (self.folder / "notes").write_text("mine")
        self.assertRegex(self.succeed("clear"), r"^removed 2 entries, [0-9,]+ bytes\n$")
        self.assertEqual([path.name for path in self.folder.iterdir()], ["notes"])
        self.assertEqual(json.loads(self.succeed("clear", "--json"))["removed"], 0)

    def test_verifies(self):
        self.assertEqual(self.succeed("verify"), "2 entries, 0 broken\n")
        key = self.entries()[0]["key"]
        content = bytearray((self.folder / key).read_bytes())
        content[-1] ^= 1
        (self.folder / key).write_bytes(content)
        result = self.cache("verify", "--json")
        self.assertEqual((result.returncode, result.stderr), (1, ""))
        report = json.loads(result.stdout)
        self.assertEqual(report["entries"], 2)
        self.assertEqual(report["broken"], [{"key": key, "reason": "its content is damaged", "removed": True}])
        self.assertEqual(self.succeed("verify"), "1 entry, 0 broken\n")

    def test_an_empty_folder_is_an_empty_cache(self):
        shutil.rmtree(self.folder)
        self.assertEqual(self.entries(), [])
        self.assertEqual(json.loads(self.succeed("stats", "--json"))["entries"], 0)
        self.assertEqual(self.succeed("verify"), "0 entries, 0 broken\n")
        self.assertEqual(self.succeed("clear"), "removed 0 entries, 0 bytes\n")
        self.assertFalse(self.folder.exists())


class Mistakes(Case):
    def test_switched_off(self):
        for action in ("stats", "list", "clear", "verify", "path"):
            result = self.cache(action, DWELL_CACHE="off")
            self.assertEqual((result.returncode, result.stdout), (2, ""))
            self.assertIn("unset DWELL_CACHE", result.stderr)

    def test_a_folder_that_others_may_write_to(self):
        self.folder.chmod(0o777)
        for action in ("stats", "list", "clear", "verify"):
            result = self.cache(action)
            self.assertEqual((result.returncode, result.stdout), (1, ""))
            self.assertIn(f"{self.folder} cannot be used: it belongs to another user, or others may write to it", result.stderr)
        self.assertEqual(len(list(self.folder.iterdir())), 2)

    def test_a_limit_that_is_no_number(self):
        result = self.cache("stats", "--json", DWELL_CACHE_MAX_BYTES="1G")
        self.assertEqual(result.returncode, 0)
        self.assertEqual(len(result.stderr.splitlines()), 1)
        self.assertIn("DWELL_CACHE_MAX_BYTES is '1G'", result.stderr)
        self.assertEqual(json.loads(result.stdout)["max_bytes"], 2**30)
        result = self.cache("stats", DWELL_CACHE_MAX_BYTES="0")
        self.assertIn("without a limit", result.stdout)

    def test_command_line(self):
        for arguments in ((), ("walk",), ("stats", "list"), ("list", "extra")):
            result = self.cache(*arguments)
            self.assertEqual(result.returncode, 2, arguments)
            self.assertNotEqual(result.stderr, "")


class Doctor(Case):
    def test_names_a_limit_that_is_no_number(self):
        result = dwell("doctor", "--json", DWELL_CACHE_DIR=self.folder, DWELL_CACHE_MAX_BYTES="1G")
        (finding,) = (finding for finding in json.loads(result.stdout)["findings"] if finding["what"] == "cache")
        self.assertEqual(finding["state"], "failed")
        self.assertIn("Set DWELL_CACHE_MAX_BYTES to a number", finding["advice"])


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    TOOL = str(Path(sys.argv.pop(1)).resolve())
    unittest.main()
