#!/usr/bin/env python3
"""Checks that tests which scripts and the build single out by name exist: renaming a test must not take it off such a list unnoticed.

    tests/script/test_names_test.py [ARGUMENT OF unittest...]
"""

import fnmatch
import re
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "script"))

import sanitize  # noqa: E402

TEST = re.compile(r"^TYPED_TEST(?:_P)?\((\w+),\s*(\w+)\)|^TEST(?:_F|_P)?\((\w+),\s*(\w+)\)", re.MULTILINE)


def tests_in(*patterns: str) -> list[str]:
    """SUITE.TEST of every test in the sources that the patterns name."""
    texts = [file.read_text() for pattern in patterns for file in sorted(ROOT.glob(pattern))]
    return [".".join(filter(None, found)) for text in texts for found in TEST.findall(text)]


def found_in(file: str, pattern: str) -> list[str]:
    """What the groups of a pattern that occurs once in a file hold."""
    found = re.search(pattern, (ROOT / file).read_text(), re.MULTILINE)
    assert found, f"{file}: nothing matches {pattern}"
    return list(found.groups())


class TestNames(unittest.TestCase):
    def test_each_pattern_of_sanitize_leaves_a_conformance_test_out(self):
        tests = tests_in("tests/conformance/*.cpp")
        self.assertEqual(sanitize.FILTER[0], "-")
        for pattern in sanitize.FILTER[1:].split(":"):
            self.assertTrue(fnmatch.filter(tests, pattern), f"script/sanitize.py: FILTER: {pattern} matches no test")

    def test_each_suite_that_runs_a_process_a_test_on_gpus_exists(self):
        suites = {test.split(".")[0] for test in tests_in("tests/conformance/*.cpp", "tests/gpu/*.cpp")}
        for name in found_in("script/gpu", r"^faulty='(.*)'$")[0].split("|"):
            self.assertTrue(any(re.search(name, suite) for suite in suites), f"script/gpu: faulty: {name} matches no suite")

    def test_each_suite_that_is_one_process_exists(self):
        suites = {test.split(".")[0] for test in tests_in("src/**/*.test.cpp", "include/**/*.test.cpp", "tests/unit/*.cpp")}
        for name in found_in("cmake/tests.cmake", r"^\s*set\(cuda_suites\s+(Cuda[^)]*)\)$")[0].split():
            self.assertIn(name, suites, "cmake/tests.cmake: cuda_suites")


if __name__ == "__main__":
    sys.exit(unittest.main())
