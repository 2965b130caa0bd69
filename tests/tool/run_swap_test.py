#!/usr/bin/env python3
"""End-to-end tests of `dwell run` with [swap]: an operator is replaced while the job runs.

    tests/tool/run_swap_test.py TOOL [ARGUMENT OF unittest...]
"""

import json

from job_case import Case, main, read_npy


class Swap(Case):
    def setUp(self):
        super().setUp()
        self.put("mark.hpp", "DWELL_OPERATOR(mark)(dwell::Group g, dwell::Span<dwell::u64> y) { if (g.rank() == 0) y[0] += 1; }")
        self.put("mark2.hpp", "DWELL_OPERATOR(mark)(dwell::Group g, dwell::Span<dwell::u64> y) { if (g.rank() == 0) y[1] += 1; }")
        self.put("job.toml", """[operators.mark]
source = "mark.hpp"
[arrays]
y = { shape = [2], dtype = "u64" }
[[tasks]]
operator = "mark"
args = ["y"]
repeat = 100000
link = true
[swap]
operator = "mark"
source = "mark2.hpp"
after = 20000
[outputs]
y = "y.npy"
""")

    def test_replaces_in_mid_stream_and_loses_nothing(self):
        report = json.loads(self.succeed("--json"))
        first, second = read_npy(self.folder / "y.npy")[2]
        self.assertEqual(first + second, 100000)
        self.assertGreaterEqual(first, 20000)
        self.assertGreaterEqual(second, 40000)  # half of the rest is kept for the new version
        by_version = {row["version"]: row["tasks"] for row in report["operators"]}
        self.assertEqual(sum(by_version.values()), 100000)
        # The tool reads the version beside the submission, so tasks at the switch may be counted for the other.
        self.assertLess(abs(by_version[1] - first), 10000)
        self.assertGreater(report["swap"]["pause_ns"], 0)
        self.assertLessEqual(report["swap"]["submitted_meanwhile"], 40000)

    def test_works_for_the_last_task(self):
        self.edit("repeat = 100000", "repeat = 5")
        self.edit("after = 20000", "after = 4")
        self.assertRegex(self.succeed(), r"mark +2 +1 .* (us|ms)\n")
        self.assertEqual(read_npy(self.folder / "y.npy")[2], [4, 1])

    def test_a_broken_source_stops_the_job_before_it_begins(self):
        self.put("mark2.hpp", "DWELL_OPERATOR(mark)(dwell::Group g, dwell::Span<dwell::u64> y) {\n  y[0] = nonsense;\n}")
        result = self.run_job()
        self.assertEqual(result.returncode, 2)
        self.assertRegex(result.stderr, r"^job\.toml:12: error: .*")
        self.assertRegex(result.stderr, r"mark2.hpp:2:\d+: error: .*nonsense")
        self.assertFalse((self.folder / "y.npy").exists())

    def test_another_signature_is_refused(self):
        self.put("mark2.hpp", "DWELL_OPERATOR(mark)(dwell::Group g, dwell::Span<dwell::u32> y) {}")
        self.fail_with("takes (Span<u64>), and its new source takes (Span<u32>)", 12)


if __name__ == "__main__":
    main(__doc__)
