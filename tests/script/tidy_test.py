#!/usr/bin/env python3
"""Tests of script/tidy.py, on sources that are made here.

    tests/script/tidy_test.py [ARGUMENT OF unittest...]
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

TIDY = Path(__file__).resolve().parents[2] / "script" / "tidy.py"
sys.path.insert(0, str(TIDY.parent))
from tidy import batches_of  # noqa: E402

os.environ["PATH"] = f"{TIDY.parents[1] / 'build/venv/bin'}:{os.environ['PATH']}"  # as in script/lint

CONFIG = "Checks: '-*,bugprone-*,misc-unused-*'\nHeaderFilterRegex: '/(src|tests)/'\n"
CLEAN = "int same(int value) { return value; }\n"
ALSO_CLEAN = "int other(int value) { return value; }\n"
MOVED = "#include <string>\nunsigned long moved(std::string text) { std::string other = std::move(text); return text.size(); }\n"
# Each is fine alone; together, the second would call the first's function.
LOCAL = "namespace a {\nnamespace {\nint own(int) { return 1; }\n}  // namespace\nint local() { return own(2); }\n}  // namespace a\n"
MENTIONS = "int own(const char*);\nnamespace a {\nint mentions() { return own(\"\"); }\n}  // namespace a\n"
PROGRAM = "int main() { return 0; }\n"
UNUSED = "#include <vector>\nusing std::vector;\nint unused() { return 1; }\n"


@unittest.skipUnless(shutil.which("clang-tidy"), "clang-tidy is not installed")
class TidyTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.cache = Path(folder.name)

    def notes(self):
        return sorted((self.cache / "dwell-tidy").iterdir())

    def tidy(self, sources, programs=""):
        """Runs a copy of the script in a tree of its own that holds `sources`, with those of the folder `programs` before others."""
        with tempfile.TemporaryDirectory() as name:
            root = Path(name).resolve()
            (root / "script").mkdir()
            (root / "build").mkdir()
            script = root / "script" / "tidy.py"
            script.write_text(TIDY.read_text(encoding="utf-8"), encoding="utf-8")
            (root / ".clang-tidy").write_text(CONFIG, encoding="utf-8")
            commands = []
            for path, text in sources.items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(text, encoding="utf-8")
                command = f"c++ -std=c++20 -o {path}.o -c {root / path}"
                commands.append({"directory": str(root), "command": command, "file": str(root / path)})
            (root / "build" / "compile_commands.json").write_text(json.dumps(commands), encoding="utf-8")
            command = [sys.executable, script, "build", *sources, "not_compiled.cpp"]
            where = os.environ | {"XDG_CACHE_HOME": str(self.cache), "PATH": f"{programs}:{os.environ['PATH']}"}
            done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False, timeout=120, env=where)
            return done.returncode, done.stdout + done.stderr

    def batches(self, sources):
        """The batches that the script makes of `sources`."""
        with tempfile.TemporaryDirectory() as name:
            entries = []
            for path, text in sources.items():
                file = Path(name) / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text, encoding="utf-8")
                entries.append({"file": str(file), "command": f"c++ -c {file}"})
            return [[source.entry for source in batch.sources] for batch in batches_of(entries)]

    def test_good_sources_pass_without_output(self):
        self.assertEqual(self.tidy({"tests/a.cpp": CLEAN, "tests/b.cpp": ALSO_CLEAN, "src/c.cpp": CLEAN}), (0, ""))

    def test_a_batch_names_the_source_and_the_check(self):
        code, text = self.tidy({"tests/a.cpp": CLEAN, "tests/b.cpp": MOVED})
        self.assertEqual(code, 1)
        self.assertRegex(text, r"/tests/b\.cpp:2:.*bugprone-use-after-move")

    def test_a_source_of_the_library_is_checked(self):
        code, text = self.tidy({"src/a.cpp": MOVED})
        self.assertEqual(code, 1)
        self.assertRegex(text, r"/src/a\.cpp:2:.*bugprone-use-after-move")

    def test_the_library_is_checked_in_batches_too(self):
        code, text = self.tidy({"src/a.cpp": CLEAN, "src/b.cpp": MOVED})
        self.assertEqual(code, 1)
        self.assertRegex(text, r"/src/b\.cpp:2:.*bugprone-use-after-move")

    def test_a_local_name_that_another_source_mentions_keeps_the_two_apart(self):
        self.assertEqual([len(batch) for batch in self.batches({"src/a.cpp": LOCAL, "src/b.cpp": MENTIONS})], [1, 1])
        self.assertEqual([len(batch) for batch in self.batches({"src/a.cpp": LOCAL, "src/b.cpp": CLEAN})], [2])
        self.assertEqual(self.tidy({"src/a.cpp": LOCAL, "src/b.cpp": MENTIONS}), (0, ""))

    def test_programs_are_checked_together(self):
        self.assertEqual([len(batch) for batch in self.batches({"examples/a.cpp": PROGRAM, "examples/b.cpp": PROGRAM})], [2])
        self.assertEqual(self.tidy({"examples/a.cpp": PROGRAM, "examples/b.cpp": PROGRAM}), (0, ""))

    def test_sources_that_do_not_go_together_pass(self):
        self.assertEqual(self.tidy({"tests/a.cpp": CLEAN, "tests/b.cpp": CLEAN}), (0, ""))

    def test_unused_names_are_found_in_a_batch(self):
        code, text = self.tidy({"tests/a.cpp": CLEAN, "tests/b.cpp": UNUSED})
        self.assertEqual(code, 1)
        self.assertRegex(text, r"/tests/b\.cpp:2:.*misc-unused-using-decls")

    def test_what_has_passed_is_checked_again_only_when_it_reads_another_text(self):
        sources = {"tests/a.cpp": MOVED.rstrip() + "  // NOLINT\n", "tests/b.cpp": ALSO_CLEAN}
        self.assertEqual(self.tidy(sources), (0, ""))
        with tempfile.TemporaryDirectory() as folder:
            refuses = Path(folder) / "clang-tidy"
            real = shutil.which("clang-tidy")
            refuses.write_text(f'#!/bin/sh\n[ "$1" = --version ] && exec {real} --version\necho checked\nexit 1\n', encoding="utf-8")
            refuses.chmod(0o755)
            self.assertEqual(self.tidy(sources, folder), (0, ""))  # in another folder than the first time
        code, text = self.tidy(sources | {"tests/a.cpp": MOVED})
        self.assertEqual(code, 1)
        self.assertRegex(text, r"/tests/a\.cpp:2:.*bugprone-use-after-move")

    def test_without_a_folder_for_notes_all_is_checked(self):
        self.cache = Path("/dev/null")
        self.assertEqual(self.tidy({"tests/a.cpp": CLEAN}), (0, ""))
        self.assertEqual(self.tidy({"tests/a.cpp": MOVED})[0], 1)

    def test_old_notes_are_forgotten(self):
        (self.cache / "dwell-tidy").mkdir()
        (self.cache / "dwell-tidy" / "old").touch()
        os.utime(self.cache / "dwell-tidy" / "old", (time.time() - 40 * 24 * 3600,) * 2)
        self.tidy({"tests/a.cpp": MOVED})
        self.assertEqual(self.notes(), [])


if __name__ == "__main__":
    unittest.main()
