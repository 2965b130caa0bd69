#!/usr/bin/env python3
"""End-to-end tests of `dwell run`: jobs that are refused, with the line at fault.

    tests/tool/run_mistakes_test.py TOOL [ARGUMENT OF unittest...]
"""

from job_case import AXPY, JOB, Case, main, npy


class Mistakes(Case):
    def test_job_that_is_not_there(self):
        (self.folder / "job.toml").unlink()
        self.fail_with("cannot read job.toml: No such file", None)

    def test_job_that_is_no_toml(self):
        self.edit("link = true", "link = = true")
        self.fail_with("", 12)

    def test_empty_job(self):
        self.put("job.toml", "")
        self.fail_with("the job is empty: it has no [[tasks]]", 1)

    def test_unknown_names(self):
        for old, new, line, message in (
            ('source = "axpy.hpp"', 'file = "axpy.hpp"', 2, "unknown key 'file' in operator axpy; known are source"),
            ("repeat = 10", "repeats = 10", 11, "unknown key 'repeats' in task 1"),
            ('operator = "axpy"', 'operator = "axpi"', 9, "there is no operator 'axpi'; the job has axpy"),
            ('"x", "y"]', '"x", "z"]', 10, "there is no array 'z'; the job has x and y"),
            ('y = "y.npy"', 'z = "y.npy"', 15, "there is no array 'z'"),
        ):
            with self.subTest(new):
                self.put("job.toml", JOB)
                self.edit(old, new)
                self.fail_with(message, line)

    def test_operator_sources(self):
        self.edit("axpy.hpp", "none.hpp")
        self.fail_with("cannot read none.hpp: No such file", 2)
        self.put("job.toml", JOB)
        self.put("axpy.hpp", AXPY.replace("a * x[i]", "a * z[i]"))
        self.fail_with("axpy.hpp:2:", 2)
        self.put("axpy.hpp", AXPY.replace("OPERATOR(axpy)", "OPERATOR(axqy)"))
        self.fail_with("axpy", 2)
        self.put("axpy.hpp", "")
        self.fail_with("axpy", 2)

    def test_arguments(self):
        for old, new, message in (
            ('"x", "y"]', '"x"]', "operator axpy takes 3 arguments (float, Span<const float>, Span<float>), the task gives 2"),
            ("[2.0,", '["x",', "argument 1 of operator axpy is float, and cannot be array x (f32, shape (2, 3))"),
            ('"x", "y"]', '"x", 3]', "argument 3 of operator axpy is Span<float>: 3 is no array"),
            ("[2.0,", "[1e300,", "out of the range of float"),
            ("[2.0,", "[true,", "true is no number"),
        ):
            with self.subTest(new):
                self.put("job.toml", JOB)
                self.edit(old, new)
                self.fail_with(message, 8 if "gives" in message else 10)

    def test_wrong_dtype_for_a_span(self):
        self.put("x.npy", npy("f64", [1.0]))
        self.fail_with("argument 2 of operator axpy is Span<const float>, and cannot be array x (f64, shape (1,))", 10)
        self.put("x.npy", npy("i32", [1]))
        self.fail_with("cannot be array x (i32", 10)

    def test_messages_do_not_act_on_a_terminal(self):
        self.put("job.toml", JOB.replace("[outputs]", '"\\u001b[2J" = 1\n[outputs]'))
        result = self.run_job()
        self.assertEqual(result.returncode, 2)
        self.assertIn("unknown key '?[2J'", result.stderr)

    def test_device_that_is_not_there(self):
        result = self.dwell("run", "job.toml", "--device", "tpu")
        self.assertEqual(result.returncode, 2)
        self.assertIn("there is no device 'tpu'", result.stderr)


if __name__ == "__main__":
    main(__doc__)
