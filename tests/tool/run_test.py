#!/usr/bin/env python3
"""End-to-end tests of `dwell run`: real jobs over real .npy files on the CPU. Each aspect of jobs has a file run_*_test.py.

    tests/tool/run_test.py TOOL [ARGUMENT OF unittest...]
"""

import json

from job_case import AXPY, Case, main, npy, read_npy


class Jobs(Case):
    def test_computes_what_the_operator_says(self):
        text = self.succeed()
        self.assertEqual(read_npy(self.folder / "y.npy"), ("f32", (2, 3), [20.0, 40.0, 60.0, 80.0, 100.0, 120.0]))
        self.assertRegex(text, r"operator +version +tasks +p50 +p99 +max +tasks/s +swap pause\naxpy +1 +10 ")
        self.assertIn("wrote y.npy", text)
        self.assertEqual([path.name for path in self.folder.iterdir() if path.name.startswith(".")], [])

    def test_runs_from_another_folder(self):
        job = self.folder / "job.toml"
        result = self.dwell("run", str(job), "--device", "cpu", cwd="/")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertTrue((self.folder / "y.npy").exists())

    def test_speaks_json(self):
        report = json.loads(self.succeed("--json"))
        self.assertEqual(report["tasks"], 10)
        (row,) = report["operators"]
        self.assertEqual((row["operator"], row["version"], row["tasks"]), ("axpy", 1, 10))
        self.assertLessEqual(row["latency_ns"]["p50"], row["latency_ns"]["max"])
        self.assertGreater(row["tasks_per_second"], 0)
        self.assertEqual(report["outputs"], [{"array": "y", "file": "y.npy"}])
        self.assertEqual(report["device"]["device"], "cpu")

    def test_shares_wide_tasks_and_keeps_order(self):
        self.put("axpy.hpp", AXPY + "\n")
        self.put("twice.hpp", "DWELL_OPERATOR(twice)(dwell::Group g, dwell::Span<float> y) { for (auto i : g.range(y.size())) y[i] *= 2; }")
        self.put("x.npy", npy("f32", [float(i) for i in range(5000)]))
        self.edit("repeat = 10", "groups = 7")
        self.edit("[outputs]", '[[tasks]]\noperator = "twice"\nargs = ["y"]\ngroups = 3\ndrain = true\nrepeat = 3\n\n[outputs]')
        self.edit("[arrays]", '[operators.twice]\nsource = "twice.hpp"\n[arrays]')
        self.succeed()
        self.assertEqual(read_npy(self.folder / "y.npy")[2], [16.0 * i for i in range(5000)])

    def test_empty_arrays_and_numbers_without_dimensions(self):
        self.put("x.npy", npy("f32", [7.0], ()).replace(b"(1,)", b"()  "))
        self.edit('y = { like = "x" }', 'y = { like = "x" }\nz = { shape = [3, 0], dtype = "i8" }')
        self.edit("[outputs]", '[outputs]\nz = "z.npy"')
        self.succeed()
        self.assertEqual(read_npy(self.folder / "y.npy"), ("f32", (), [140.0]))
        self.assertEqual(read_npy(self.folder / "z.npy"), ("i8", (3, 0), []))


class FailingTasks(Case):
    def test_name_themselves_and_write_nothing(self):
        self.put("axpy.hpp", AXPY.replace("{\n", "{\n  if (a == 3.0f && g.rank() == 0) g.fail(42);\n", 1))
        self.edit("[outputs]", '[[tasks]]\noperator = "axpy"\nargs = [3.0, "x", "y"]\nrepeat = 5\n\n[outputs]')
        self.put("y.npy", "old")
        self.fail_with("task 2 (axpy, repetition 1 of 5): ", 14, code=1)
        self.fail_with("failed with code 42", 14, code=1)
        self.assertEqual((self.folder / "y.npy").read_text(), "old")


if __name__ == "__main__":
    main(__doc__)
