#!/usr/bin/env python3
"""End-to-end tests of `dwell run`: real jobs over real .npy files on the CPU, and every way in which a job can be wrong.

    tests/tool/run_test.py TOOL [ARGUMENT OF unittest...]
"""

import itertools
import json
import os
import re
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOOL = ""

# name: NumPy's type code, struct's format (of a complex number: that of a part), the type in an operator's source
TYPES = {
    "f16": ("<f2", "e", "dwell::half"),
    "bf16": ("<V2", "H", "dwell::bfloat16"),
    "f32": ("<f4", "f", "float"),
    "f64": ("<f8", "d", "double"),
    "i8": ("|i1", "b", "dwell::i8"),
    "i16": ("<i2", "h", "dwell::i16"),
    "i32": ("<i4", "i", "dwell::i32"),
    "i64": ("<i8", "q", "dwell::i64"),
    "u8": ("|u1", "B", "dwell::u8"),
    "u16": ("<u2", "H", "dwell::u16"),
    "u32": ("<u4", "I", "dwell::u32"),
    "u64": ("<u8", "Q", "dwell::u64"),
    "bool": ("|b1", "?", "bool"),
    "complex64": ("<c8", "f", "dwell::complex<float>"),
    "complex128": ("<c16", "d", "dwell::complex<double>"),
}
CODES = {name: code for name, (code, _, _) in TYPES.items()}
FORMATS = {name: letter for name, (_, letter, _) in TYPES.items()}

AXPY = """DWELL_OPERATOR(axpy)(dwell::Group g, float a, dwell::Span<const float> x, dwell::Span<float> y) {
  for (auto i : g.range(y.size())) y[i] += a * x[i];
}
"""

JOB = """[operators.axpy]
source = "axpy.hpp"

[arrays]
x = { file = "x.npy" }
y = { like = "x" }

[[tasks]]
operator = "axpy"
args = [2.0, "x", "y"]
repeat = 10
link = true

[outputs]
y = "y.npy"
"""


def npy(dtype: str, values: list, shape: tuple | None = None, *, version: int = 1, fortran: bool = False) -> bytes:
    """A .npy file, put together by hand from the format's description."""
    header = repr({"descr": CODES[dtype], "fortran_order": fortran, "shape": shape or (len(values),)}) + " "
    length = struct.pack("<H" if version == 1 else "<I", len(header) + 1)
    parts = [part for value in values for part in (value.real, value.imag)] if dtype.startswith("complex") else values
    data = struct.pack(f"<{len(parts)}{FORMATS[dtype]}", *parts)
    return b"\x93NUMPY" + bytes([version, 0]) + length + header.encode() + b"\n" + data


def read_npy(path: Path) -> tuple[str, tuple, list]:
    """dtype, shape and values of a file that the tool wrote; fails when it is not what NumPy itself would write."""
    content = path.read_bytes()
    assert content[:8] == b"\x93NUMPY\x01\x00", content[:8]
    (length,) = struct.unpack("<H", content[8:10])
    assert (10 + length) % 64 == 0 and content[9 + length : 10 + length] == b"\n"
    header = eval(content[10 : 10 + length], {"__builtins__": {}})
    assert not header["fortran_order"]
    dtype = next(name for name, code in CODES.items() if code == header["descr"])
    data = content[10 + length :]
    parts = list(struct.unpack(f"<{len(data) // struct.calcsize(FORMATS[dtype])}{FORMATS[dtype]}", data))
    if dtype.startswith("complex"):
        parts = [complex(*pair) for pair in zip(parts[::2], parts[1::2], strict=True)]
    return dtype, header["shape"], parts


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.put("axpy.hpp", AXPY)
        self.put("job.toml", JOB)
        self.put("x.npy", npy("f32", [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], (2, 3)))

    def put(self, name: str, content: str | bytes):
        (self.folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())

    def dwell(self, *arguments: str) -> subprocess.CompletedProcess:
        return subprocess.run([TOOL, *arguments], cwd=self.folder, capture_output=True, text=True, timeout=300, check=False)

    def run_job(self, *arguments: str) -> subprocess.CompletedProcess:
        return self.dwell("run", "job.toml", "--device", "cpu", *arguments)

    def succeed(self, *arguments: str) -> str:
        result = self.run_job(*arguments)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return result.stdout

    def fail_with(self, message: str, line: int | None, code: int = 2):
        """One message, at the line of the job, and no output written."""
        before = sorted(self.folder.iterdir())
        result = self.run_job()
        self.assertEqual(result.returncode, code, result.stderr + result.stdout)
        self.assertEqual(result.stdout, "")
        place = "job.toml" if line is None else f"job.toml:{line}"
        self.assertRegex(result.stderr, "^" + re.escape(place + ": error: "))
        self.assertIn(message, result.stderr)
        self.assertEqual(len(re.findall(r"^job\.toml", result.stderr, re.MULTILINE)), 1, result.stderr)
        self.assertEqual(sorted(self.folder.iterdir()), before)

    def edit(self, old: str, new: str):
        text = (self.folder / "job.toml").read_text()
        self.assertIn(old, text)
        self.put("job.toml", text.replace(old, new, 1))


class Jobs(Case):
    def test_computes_what_the_operator_says(self):
        text = self.succeed()
        self.assertEqual(read_npy(self.folder / "y.npy"), ("f32", (2, 3), [20.0, 40.0, 60.0, 80.0, 100.0, 120.0]))
        self.assertRegex(text, r"operator +version +tasks +p50 +p99 +max +tasks/s +swap pause\naxpy +1 +10 ")
        self.assertIn("wrote y.npy", text)
        self.assertEqual([path.name for path in self.folder.iterdir() if path.name.startswith(".")], [])

    def test_runs_from_another_folder(self):
        job = self.folder / "job.toml"
        command = [TOOL, "run", str(job), "--device", "cpu"]
        result = subprocess.run(command, cwd="/", capture_output=True, text=True, timeout=300, check=False)
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

    def test_knows_every_dtype(self):
        values = {name: [1.5, -2.0, 0.25] if name[0] == "f" else [1, 2, 100] for name in CODES}
        values["bool"] = [True, False, True]
        values["complex64"] = values["complex128"] = [1.5 - 2j, 0.25j, -3 + 0j]
        operators, arrays, tasks, outputs = "", "", "", ""
        for index, (name, list_of) in enumerate(values.items()):
            of = TYPES[name][2]
            self.put(f"{name}.npy", npy(name, list_of, version=1 + index % 3))
            self.put(
                f"copy_{name}.hpp",
                f"DWELL_OPERATOR(copy_{name})(dwell::Group g, dwell::Span<const {of}> x, dwell::Span<{of}> y) {{\n"
                "  for (auto i : g.range(y.size())) y[i] = x[i];\n}",
            )
            operators += f'[operators.copy_{name}]\nsource = "copy_{name}.hpp"\n'
            arrays += f'{name} = {{ file = "{name}.npy", dtype = "{name}", shape = [3] }}\n'
            arrays += f'to_{name} = {{ shape = [3], dtype = "{name}" }}\n'
            tasks += f'[[tasks]]\noperator = "copy_{name}"\nargs = ["{name}", "to_{name}"]\n'
            outputs += f'to_{name} = "out_{name}.npy"\n'
        self.put("job.toml", f"{operators}[arrays]\n{arrays}{tasks}[outputs]\n{outputs}")
        self.succeed()
        for name, list_of in values.items():
            self.assertEqual(read_npy(self.folder / f"out_{name}.npy"), (name, (3,), list_of))

    def test_half_precision_in_a_type_of_the_operators_own(self):
        self.put("x.npy", npy("f16", [1.0, -2.0]))
        self.put("axpy.hpp", """struct Half { unsigned short bits; };
DWELL_OPERATOR(axpy)(dwell::Group g, float a, dwell::Span<const Half> x, dwell::Span<Half> y) {
  for (auto i : g.range(y.size())) y[i].bits = x[i].bits ^ 0x8000;
}""")
        self.succeed()
        self.assertEqual(read_npy(self.folder / "y.npy"), ("f16", (2,), [-1.0, 2.0]))

    def test_computes_in_the_types_that_cpp_lacks(self):
        self.put("x.npy", npy("f16", [1.5, -2.0, 65504.0]))
        self.put("z.npy", npy("complex64", [1 + 2j, -1j]))
        self.put("b.npy", npy("bf16", [0x3FC0, 0xC000]))  # 1.5 and -2 without the lower half of their float
        self.put("axpy.hpp", """
DWELL_OPERATOR(axpy)(dwell::Group g, dwell::half a, dwell::Span<const dwell::half> x, dwell::Span<dwell::half> y) {
  g.transform(y, [=](float value) { return a * value; }, x);
}
DWELL_OPERATOR(twice)(dwell::Group g, dwell::Span<dwell::bfloat16> b) { for (auto i : g.range(b.size())) b[i] *= 2; }
DWELL_OPERATOR(turn)(dwell::Group g, dwell::complex<float> by, dwell::Span<dwell::complex<float>> z) {
  g.transform(z, [=](dwell::complex<float> value) { return value * by; }, z);
}""")
        self.put("job.toml", """[operators]
axpy = { source = "axpy.hpp" }
twice = { source = "axpy.hpp" }
turn = { source = "axpy.hpp" }
[arrays]
x = { file = "x.npy" }
y = { like = "x" }
b = { file = "b.npy" }
z = { file = "z.npy" }
[[tasks]]
operator = "axpy"
args = [2, "x", "y"]
[[tasks]]
operator = "twice"
args = ["b"]
[[tasks]]
operator = "turn"
args = [[0, 1], "z"]
[outputs]
y = "y.npy"
b = "b2.npy"
z = "z2.npy"
""")
        self.succeed()
        self.assertEqual(read_npy(self.folder / "y.npy"), ("f16", (3,), [3.0, -4.0, float("inf")]))
        self.assertEqual(read_npy(self.folder / "b2.npy"), ("bf16", (2,), [0x4040, 0xC080]))
        self.assertEqual(read_npy(self.folder / "z2.npy"), ("complex64", (2,), [-2 + 1j, 1 + 0j]))

    def test_tells_half_from_bfloat16(self):
        self.put("x.npy", npy("bf16", [0x3FC0]))
        self.put("axpy.hpp", "DWELL_OPERATOR(axpy)(dwell::Group, float, dwell::Span<const dwell::half>, dwell::Span<dwell::half>) {}")
        self.fail_with("argument 2 of operator axpy is Span<const half>, and cannot be array x (bf16, shape (1,))", 10)

    def test_passes_scalars_of_every_kind(self):
        kinds = ("bool", "dwell::i8", "dwell::u16", "dwell::i32", "dwell::i64", "float", "double")
        parameters = ", ".join(f"{kind} p{i}" for i, kind in enumerate(kinds))
        body = "".join(f"y[{i}] = p{i}; " for i in range(len(kinds)))
        self.put(
            "axpy.hpp",
            f"DWELL_OPERATOR(axpy)(dwell::Group g, {parameters}, dwell::Span<double> y) {{ if (g.rank() == 0) {{ {body} }} }}",
        )
        self.put("x.npy", npy("f64", [0.0] * len(kinds)))
        self.edit('[2.0, "x", "y"]', '[true, -128, 65535, -2147483648, 9007199254740992, 0.5, 3, "y"]')
        self.succeed()
        self.assertEqual(read_npy(self.folder / "y.npy")[2], [1.0, -128.0, 65535.0, -2147483648.0, 9007199254740992.0, 0.5, 3.0])

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

    def test_replaces_its_own_input(self):
        self.edit('y = "y.npy"', 'y = "x.npy"')
        self.succeed()
        self.assertEqual(read_npy(self.folder / "x.npy")[2], [20.0, 40.0, 60.0, 80.0, 100.0, 120.0])


class Traces(Case):
    """`dwell run --trace`: a timeline of the job's tasks."""

    def calls(self, name: str) -> list[dict]:
        """Of operators, by workers."""
        events = json.loads((self.folder / name).read_text())["traceEvents"]
        workers = {event["tid"] for event in events if event["name"] == "thread_name" and event["args"]["name"].startswith("worker ")}
        return [event for event in events if event["ph"] == "X" and event["tid"] in workers and "(version " in event["name"]]

    def test_have_all_tasks(self):
        self.succeed("--trace", "t.json")
        calls = self.calls("t.json")
        self.assertEqual([call["name"] for call in calls], ["axpy (version 1)"] * 10)
        self.assertEqual(read_npy(self.folder / "y.npy")[2][0], 20.0)
        # They are linked: each begins when the one before has ended.
        calls.sort(key=lambda call: call["ts"])
        for before, after in itertools.pairwise(calls):
            self.assertLessEqual(before["ts"] + before["dur"], after["ts"] + 0.001)  # microseconds, in decimal digits

    def test_have_both_versions_of_an_operator_that_is_replaced(self):
        self.put("axpy2.hpp", AXPY.replace("+=", "-="))
        self.edit("[outputs]", '[swap]\noperator = "axpy"\nsource = "axpy2.hpp"\nafter = 9\n\n[outputs]')
        self.succeed("--trace", "t.json")
        self.assertEqual({call["name"] for call in self.calls("t.json")}, {"axpy (version 1)", "axpy (version 2)"})

    def test_are_of_the_job_alone_not_of_its_second_run(self):
        self.edit("link = true", "after = []")
        self.assertIn("critical path", self.succeed("--trace", "t.json"))
        self.assertEqual([call["name"] for call in self.calls("t.json")], ["axpy (version 1)"] * 10)

    def test_are_for_perfetto_unless_the_name_ends_in_json(self):
        self.succeed("--trace", "t.pftrace")
        content = (self.folder / "t.pftrace").read_bytes()
        # A file is a run of packets, field 1 of its message: a tag, a length, and so many bytes.
        place, packets = 0, 0
        while place < len(content):
            self.assertEqual(content[place], 0x0A)
            place, length, shift = place + 1, 0, 0
            while True:
                byte = content[place]
                length |= (byte & 0x7F) << shift
                place, shift = place + 1, shift + 7
                if byte < 0x80:
                    break
            place, packets = place + length, packets + 1
        self.assertEqual(place, len(content))
        self.assertGreaterEqual(packets, 20)  # two for each call
        self.assertIn(b"axpy (version 1)", content)

    def test_a_file_that_cannot_be_written_is_named(self):
        result = self.run_job("--trace", "none/t.json")
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        self.assertIn("none/t.json", result.stderr)
        self.assertFalse((self.folder / "y.npy").exists())


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
        command = [TOOL, "run", "/dev/stdin", "--device", "cpu"]
        job = subprocess.run(command, input="x = 1", capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual((job.returncode, job.stderr.split(";")[0]), (2, "/dev/stdin:1: error: unknown key 'x' in the job"))

    def test_messages_do_not_act_on_a_terminal(self):
        self.put("job.toml", JOB.replace("[outputs]", '"\\u001b[2J" = 1\n[outputs]'))
        result = self.run_job()
        self.assertEqual(result.returncode, 2)
        self.assertIn("unknown key '?[2J'", result.stderr)

    def test_device_that_is_not_there(self):
        result = self.dwell("run", "job.toml", "--device", "tpu")
        self.assertEqual(result.returncode, 2)
        self.assertIn("there is no device 'tpu'", result.stderr)

    def test_command_line(self):
        for arguments in ((), ("walk",), ("run",), ("run", "job.toml", "--fast"), ("bench", "no_such_benchmark")):
            result = self.dwell(*arguments)
            self.assertEqual(result.returncode, 2, arguments)
            self.assertNotEqual(result.stderr, "")
        self.assertEqual(self.dwell("--help").returncode, 0)
        for words, said in ((("walk",), "'walk'; known are doctor, run, "), (("cache", "stat"), "'stat'; known are stats, list, ")):
            self.assertTrue(self.dwell(*words).stderr.startswith(f"dwell: error: there is no command {said}"), words)
        self.assertRegex(self.dwell("--version").stdout, r"^dwell \d+\.\d+")


class FailingTasks(Case):
    def test_name_themselves_and_write_nothing(self):
        self.put("axpy.hpp", AXPY.replace("{\n", "{\n  if (a == 3.0f && g.rank() == 0) g.fail(42);\n", 1))
        self.edit("[outputs]", '[[tasks]]\noperator = "axpy"\nargs = [3.0, "x", "y"]\nrepeat = 5\n\n[outputs]')
        self.put("y.npy", "old")
        self.fail_with("task 2 (axpy, repetition 1 of 5): ", 14, code=1)
        self.fail_with("failed with code 42", 14, code=1)
        self.assertEqual((self.folder / "y.npy").read_text(), "old")


STEP = """DWELL_OPERATOR(step)(dwell::Group g, dwell::u32 digit, double ms, dwell::Span<dwell::u64> y) {
  const dwell::u64 start = dwell::device::now_ns();
  while (dwell::device::now_ns() - start < 1e6 * ms) {}
  if (digit == 9) g.fail(42);
  if (g.rank() == 0) y[0] = y[0] * 10 + digit;
}
"""


class After(Case):
    """Tasks whose order shows in the digits of y. Workers enough for each to start too early."""

    def setUp(self):
        super().setUp()
        self.put("step.hpp", STEP)

    def run_job(self, *arguments: str) -> subprocess.CompletedProcess:
        return super().run_job("--workers", "4", *arguments)

    def steps(self, *steps: tuple):
        """(name, digit, ms, further keys...): step i stands on line 2 + i."""
        rows = ",\n".join(
            f'{{ name = "{name}", operator = "step", args = [{digit}, {ms}, "y"]{"".join(", " + key for key in keys)} }}'
            for name, digit, ms, *keys in steps
        )
        self.put(
            "job.toml",
            f'tasks = [\n{rows}\n]\n[operators]\nstep = {{ source = "step.hpp" }}\n[arrays]\ny = {{ shape = [1], dtype = "u64" }}\n'
            '[outputs]\ny = "y.npy"\n',
        )

    def result(self) -> int:
        return read_npy(self.folder / "y.npy")[2][0]

    def test_orders_tasks_wherever_they_stand(self):
        # 1, then 2 and 3 in this order by way of 3's own `after`, then 4; the slowest come first in the file's order of what is ready.
        self.steps(
            ("last", 4, 0, 'after = ["left", "right"]'),
            ("right", 3, 0, 'after = ["load", "left"]'),
            ("left", 2, 5, 'after = ["load"]'),
            ("load", 1, 10),
        )
        self.succeed()
        self.assertEqual(self.result(), 1234)

    def test_waits_for_all_repetitions_and_orders_all(self):
        self.put("count.hpp", """DWELL_OPERATOR(count)(dwell::Group g, double ms, dwell::Span<dwell::u64> y) {
  const dwell::u64 start = dwell::device::now_ns();
  while (dwell::device::now_ns() - start < 1e6 * ms) {}
  if (g.rank() == 0) y.atomic_add(0, 1);
}
DWELL_OPERATOR(add)(dwell::Group g, dwell::Span<const dwell::u64> y, dwell::Span<dwell::u64> z) {
  if (g.rank() == 0) z.atomic_add(0, y[0]);
}""")
        self.put("job.toml", """[operators]
count = { source = "count.hpp" }
add = { source = "count.hpp" }
[arrays]
y = { shape = [1], dtype = "u64" }
z = { like = "y" }
[[tasks]]
name = "b"
operator = "count"
args = [0.5, "y"]
repeat = 50
link = true
after = []
[[tasks]]
name = "a"
operator = "count"
args = [0.5, "y"]
repeat = 50
[[tasks]]
operator = "add"
args = ["y", "z"]
repeat = 3
after = ["a", "b"]
[outputs]
z = "z.npy"
""")
        self.succeed()
        self.assertEqual(read_npy(self.folder / "z.npy")[2], [300])

    def test_overlaps_what_no_order_joins(self):
        # Each of the two waits until the other has begun, for ten seconds.
        self.put("step.hpp", """DWELL_OPERATOR(step)(dwell::Group g, dwell::u32 meet, double, dwell::Span<dwell::u64> y) {
  const dwell::u64 start = dwell::device::now_ns();
  y.atomic_add(0, 1);
  while (meet == 1 && y.atomic_load(0) < 3) {
    if (dwell::device::now_ns() - start > 10000000000ull) return g.fail(7);
  }
}""")
        self.steps(("load", 0, 0), ("left", 1, 0, 'after = ["load"]'), ("right", 1, 0, 'after = ["load"]'))
        self.succeed("--no-critical-path")

    def test_cancels_what_is_behind_a_failure_and_runs_the_rest(self):
        # Other waits for slow, which ends long after bad has failed: it is still run, and fails by itself.
        self.steps(
            ("good", 1, 0),
            ("bad", 9, 0, 'after = ["good"]'),
            ("behind", 2, 0, 'after = ["bad"]', "repeat = 3", "link = true"),
            ("far", 3, 0, 'after = ["good", "behind"]'),
            ("slow", 4, 50, 'after = ["good"]'),
            ("other", 9, 0, 'after = ["slow"]'),
        )
        self.fail_with("task 'bad' (step): ", 3, code=1)
        self.fail_with("failed with code 42", 3, code=1)
        self.fail_with("; failed too: task 'other'; cancelled: task 'behind' and task 'far'", 3, code=1)

    def test_a_failure_of_long_ago_cancels_too(self):
        self.steps(
            ("bad", 9, 0, "repeat = 20"),
            ("own", 3, 0, "after = []", "repeat = 2", "link = true"),  # a chain of its own, not linked to bad
            ("slow", 1, 50),
            ("late", 2, 0, 'after = ["slow", "bad"]', "repeat = 30", "hard_link = true"),
        )
        self.fail_with("task 'bad' (step, repetition 1 of 20): ", 2, code=1)
        self.fail_with("failed with code 42; cancelled: task 'late'\n", 2, code=1)

    def test_prints_the_critical_path(self):
        self.steps(
            ("load", 1, 3),
            ("short", 2, 4, 'after = ["load"]'),
            ("long", 3, 10, 'after = ["load"]', "repeat = 2", "link = true"),
            ("last", 4, 1, 'after = ["short", "long"]'),
            ("aside", 5, 8),
        )
        def told(of, *options):
            """What the tool says; again when a worker has lost its processor in `short`, which then took longest."""
            for _ in range(10):
                said = self.succeed(*options)
                if "short" not in of(said):
                    break
            return said

        text = told(lambda said: said[said.index("\ntask ") :])
        self.assertIn(", 4 workers\n", text)
        self.assertRegex(text, r"critical path: [0-9.]+ ms, [0-9.]+ % of the [0-9.]+ ms that the job took\ntime: each task alone")
        self.assertRegex(text, r"\ntask +operator +tasks +time\nload +step +1 +\S+ ms\nlong +step +2 +\S+ ms\nlast +step +1 +\S+ ms\nwrote")

        def names(said):
            return [task["task"] for task in json.loads(said)["critical_path"]["tasks"]]

        path = json.loads(told(names, "--json"))["critical_path"]
        self.assertEqual([task["task"] for task in path["tasks"]], ["load", "long", "last"])
        self.assertEqual([task["repeat"] for task in path["tasks"]], [1, 2, 1])
        times = [task["time_ns"] for task in path["tasks"]]
        for time, least in zip(times, (3e6, 20e6, 1e6), strict=True):
            self.assertGreaterEqual(time, least)
        self.assertEqual(path["time_ns"], sum(times))
        self.assertGreaterEqual(path["job_took_ns"], 24e6)
        self.assertAlmostEqual(path["share"], path["time_ns"] / path["job_took_ns"])

    def test_times_tasks_over_the_first_values_and_keeps_the_outputs(self):
        self.put("wait.hpp", """DWELL_OPERATOR(wait)(dwell::Group g, dwell::Span<float> x) {
  const dwell::u64 start = dwell::device::now_ns();
  while (dwell::device::now_ns() - start < 1e6 * x[0]) {}
  if (g.rank() == 0) x[0] -= 10;
}""")
        self.put("x.npy", npy("f32", [10.0]))
        self.put("job.toml", """[operators]
wait = { source = "wait.hpp" }
[arrays]
x = { file = "x.npy" }
[[tasks]]
after = []
operator = "wait"
args = ["x"]
[outputs]
x = "x.npy"
""")
        (task,) = json.loads(self.succeed("--json"))["critical_path"]["tasks"]
        self.assertEqual(task["task"], "task 1")
        self.assertGreaterEqual(task["time_ns"], 10e6)
        self.assertEqual(read_npy(self.folder / "x.npy")[2], [0.0])

    def test_the_critical_path_can_be_left_out(self):
        self.steps(("load", 1, 0), ("last", 2, 0, 'after = ["load"]'))
        self.assertNotIn("critical path", self.succeed("--no-critical-path"))
        self.assertNotIn("critical_path", json.loads(self.succeed("--json", "--no-critical-path")))
        self.steps(("load", 1, 0), ("last", 2, 0))
        self.assertNotIn("critical path", self.succeed())

    def test_mistakes_name_the_task_and_the_fix(self):
        for steps, line, message in (
            (
                (("a", 1, 0), ("b", 1, 0, 'after = ["c"]')),
                3,
                "task 'b' is after 'c', and no task has that name; names in this job: a and b",
            ),
            ((("a", 1, 0), ("a", 1, 0)), 3, "task 2 has the name of task 1, 'a': give it another one"),
            ((("a", 1, 0, 'after = ["a"]'),), 2, "task 'a' is after itself: take 'a' out of its 'after'"),
            ((("a", 1, 0), ("b", 1, 0, 'after = ["a", "a"]')), 3, "'after' in task 'b' has 'a' twice"),
            (
                (("x", 1, 0, 'after = ["c"]'), ("a", 1, 0, 'after = ["b"]'), ("b", 1, 0, 'after = ["c"]'), ("c", 1, 0, 'after = ["a"]')),
                3,
                "task 'a' would wait for itself: 'a' is after 'b' is after 'c' is after 'a': take one of them out",
            ),
            ((("a", 1, 0, 'after = "b"'),), 2, "'after' in task 'a' must be an array"),
            ((("a", 1, 0, "after = [1]"),), 2, "'after' in task 'a' must hold names of tasks, as strings"),
            ((("", 1, 0),), 2, "'name' in task 1 is empty"),
            (
                (("a", 1, 0, 'after = ["b"]'), ("b", 1, 0), ("c", 1, 0, "drain = true")),
                2,
                "task 'a' is after 'b', which stands below it, while task 'c' has 'drain', which goes by the order of the file: move",
            ),
            ((("a", 1, 0, 'after = ["b"]'), ("b", 1, 0, "hard_link = true")), 2, "while task 'b' has 'hard_link'"),
        ):
            with self.subTest(message):
                self.steps(*steps)
                self.fail_with(message, line)


class Demo(Case):
    def test_asks_for_a_picture(self):
        result = self.dwell("demo", "--device", "cpu")
        self.assertEqual(result.returncode, 2)
        self.assertIn("script/demo", result.stderr)
        result = self.dwell("demo", "--device", "cpu", "--image", "job.toml")
        self.assertEqual(result.returncode, 2)
        self.assertIn("job.toml: is neither JPEG nor PNG", result.stderr)


class Doctor(Case):
    def test_finds_the_cpu(self):
        result = self.dwell("doctor", "--json")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        findings = {finding["what"]: finding for finding in json.loads(result.stdout)["findings"]}
        self.assertEqual(findings["device cpu"]["state"], "ok")
        self.assertEqual(findings["host compiler"]["state"], "ok")
        for finding in findings.values():
            self.assertIn(finding["state"], ("ok", "missing", "too old", "failed"))

    def test_says_what_to_do_without_a_compiler(self):
        environment = {**os.environ, "DWELL_CXX": "/none/such"}
        result = subprocess.run([TOOL, "doctor"], capture_output=True, text=True, timeout=300, check=False, env=environment)
        self.assertRegex(result.stdout, r"device cpu +(failed|missing)")
        self.assertIn("DWELL_CXX", result.stdout)

    def test_lists_the_operators_of_an_image(self):
        # As src/image/bundle.cpp packs it: magic, one object, one opcode with the object's index and a symbol, no words of uses.
        symbol = b"dwell_axpy_" + b"0123456789abcdef" * 2
        bundle = b"DWBNDL03" + struct.pack("<IQ", 1, 3) + b"ELF" + struct.pack("<IIQ", 1, 0, len(symbol)) + symbol + struct.pack("<I", 0)
        self.put("image", bundle)
        result = self.dwell("doctor", "--image", "image")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertEqual(result.stdout, "image for host, 1 operator\n  axpy\n")
        report = json.loads(self.dwell("doctor", "--image", "image", "--json").stdout)
        self.assertEqual((report["target"], report["operators"][0]["symbol"]), ("host", symbol.decode()))

    def test_says_what_is_no_image(self):
        self.put("text", "no image")
        faults = {"text": "neither a cubin nor a bundle", TOOL: "an ELF file, but not for CUDA"}
        faults |= {"nothing": "cannot be read", ".": "cannot be read"}
        for name, why in faults.items():
            result = self.dwell("doctor", "--image", name)
            self.assertEqual((result.returncode, result.stdout), (2, ""))
            self.assertIn(name, result.stderr)
            self.assertIn(why, result.stderr)
        self.assertEqual(self.dwell("doctor", "--scratch", "1").returncode, 2)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    TOOL = str(Path(sys.argv.pop(1)).resolve())
    unittest.main()
