#!/usr/bin/env python3
"""End-to-end tests of `dwell run`: the files that a job reads and writes.

    tests/tool/run_files_test.py TOOL [ARGUMENT OF unittest...]
"""

import os
import subprocess

from job_case import JOB, Case, main, npy, read_npy


class Files(Case):
    def test_replaces_its_own_input(self):
        self.edit('y = "y.npy"', 'y = "x.npy"')
        self.succeed()
        self.assertEqual(read_npy(self.folder / "x.npy")[2], [20.0, 40.0, 60.0, 80.0, 100.0, 120.0])

    def test_files_of_arrays(self):
        good = npy("f32", [1.0, 2.0])
        for content, message in (
            (None, "x.npy cannot be read: No such file"),
            (b"", "is not a valid .npy file"),
            (b"some text", "does not begin with"),
            (good[:-1], "takes 8 bytes, and 7 follow the header"),
            (good + b"\0", "takes 8 bytes, and 9 follow the header"),
            (good[:40], "ends within its header"),
            (good.replace(b"<f4", b">f4"), "is big-endian"),
            (good.replace(b"<f4", b"<m8"), "elements of type '<m8'"),
            (npy("f32", [1.0, 2.0], (2, 1), fortran=True), "Fortran order"),
        ):
            with self.subTest(message):
                (self.folder / "x.npy").unlink(missing_ok=True)
                if content is not None:
                    self.put("x.npy", content)
                self.fail_with(message, 5)

    def test_sizes_that_do_not_fit(self):
        self.edit('file = "x.npy"', 'file = "x.npy", shape = [3, 2]')
        self.fail_with("array x should have shape (3, 2), but x.npy has (2, 3)", 5)
        self.put("job.toml", JOB)
        self.edit('file = "x.npy"', 'file = "x.npy", dtype = "f64"')
        self.fail_with("array x should be f64, but x.npy holds f32", 5)
        self.put("job.toml", JOB)
        self.edit('like = "x"', 'shape = [4611686018427387904, 8], dtype = "f32"')
        self.fail_with("too large", 6)
        self.put("job.toml", JOB)
        self.edit('like = "x"', 'shape = [70368744177664], dtype = "f32"')
        self.fail_with("array y (f32, shape (70368744177664,))", 6)

    def test_outputs_that_cannot_be_written(self):
        self.edit('"y.npy"', '"none/y.npy"')
        self.fail_with("there is no folder none", 15)
        self.put("job.toml", JOB)
        self.edit('"y.npy"', '"."')
        self.fail_with("it is a folder", 15)

    def test_outputs_that_are_no_files_stay_what_they_are(self):
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        self.edit('"y.npy"', '"pipe"')
        with subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE) as reader:
            self.succeed()
            got = reader.communicate(timeout=60)[0]
        self.assertTrue(pipe.is_fifo())
        self.put("got.npy", got)
        self.assertEqual(read_npy(self.folder / "got.npy")[2], [20.0, 40.0, 60.0, 80.0, 100.0, 120.0])
        (self.folder / "full").symlink_to("/dev/full")
        self.edit('"pipe"', '"full"')
        self.fail_with("No space left", 15)
        self.assertTrue((self.folder / "full").is_symlink())

    def test_inputs_that_never_end(self):
        os.mkfifo(self.folder / "pipe")
        for name in ("pipe", "/dev/zero", "."):
            wrong = "it is a folder" if name == "." else "it is not a regular file"
            for old, line in (("axpy.hpp", 2), ("x.npy", 5)):
                self.put("job.toml", JOB)
                self.edit(f'"{old}"', f'"{name}"')
                self.fail_with(wrong, line)
        result = self.dwell("run", "/dev/zero", "--device", "cpu")
        too_long = "/dev/zero: error: cannot read /dev/zero: it is longer than 16777216 bytes\n"
        self.assertEqual((result.returncode, result.stderr), (2, too_long))

    def test_a_job_may_come_through_a_pipe(self):
        job = self.dwell("run", "/dev/stdin", "--device", "cpu", stdin="x = 1")
        self.assertEqual((job.returncode, job.stderr.split(";")[0]), (2, "/dev/stdin:1: error: unknown key 'x' in the job"))


if __name__ == "__main__":
    main(__doc__)
