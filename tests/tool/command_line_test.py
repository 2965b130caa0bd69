#!/usr/bin/env python3
"""End-to-end tests of command lines that are refused, of --help and --version, and of `dwell demo` without a picture.

    tests/tool/command_line_test.py TOOL [ARGUMENT OF unittest...]
"""

from job_case import Case, main


class CommandLine(Case):
    def test_command_line(self):
        for arguments in ((), ("walk",), ("run",), ("run", "job.toml", "--fast"), ("bench", "no_such_benchmark")):
            result = self.dwell(*arguments)
            self.assertEqual(result.returncode, 2, arguments)
            self.assertNotEqual(result.stderr, "")
        self.assertEqual(self.dwell("--help").returncode, 0)
        for words, said in ((("walk",), "'walk'; known are doctor, run, "), (("cache", "stat"), "'stat'; known are stats, list, ")):
            self.assertTrue(self.dwell(*words).stderr.startswith(f"dwell: error: there is no command {said}"), words)
        self.assertRegex(self.dwell("--version").stdout, r"^dwell \d+\.\d+")


class Demo(Case):
    def test_asks_for_a_picture(self):
        result = self.dwell("demo", "--device", "cpu")
        self.assertEqual(result.returncode, 2)
        self.assertIn("script/demo", result.stderr)
        result = self.dwell("demo", "--device", "cpu", "--image", "job.toml")
        self.assertEqual(result.returncode, 2)
        self.assertIn("job.toml: is neither JPEG nor PNG", result.stderr)


if __name__ == "__main__":
    main(__doc__)
