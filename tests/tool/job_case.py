"""What the end-to-end tests of `dwell` share: a folder with a job, the tool that runs it, and .npy files.

A test file derives its cases from Case and ends with main(__doc__).
"""

import os
import re
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

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
    """Each test runs in a folder of its own, which holds job.toml, axpy.hpp and x.npy."""

    tool = ""  # path of the executable; main() sets it

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.put("axpy.hpp", AXPY)
        self.put("job.toml", JOB)
        self.put("x.npy", npy("f32", [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], (2, 3)))

    def put(self, name: str, content: str | bytes):
        (self.folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())

    def dwell(self, *arguments: str, cwd: str | None = None, stdin: str | None = None, **variables: str) -> subprocess.CompletedProcess:
        """Runs the tool in the folder, or in `cwd`; `variables` are added to its environment."""
        return subprocess.run(
            [self.tool, *arguments],
            cwd=cwd or self.folder,
            input=stdin,
            env=os.environ | variables,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

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


STEP = """DWELL_OPERATOR(step)(dwell::Group g, dwell::u32 digit, double ms, dwell::Span<dwell::u64> y) {
  const dwell::u64 start = dwell::device::now_ns();
  while (dwell::device::now_ns() - start < 1e6 * ms) {}
  if (digit == 9) g.fail(42);
  if (g.rank() == 0) y[0] = y[0] * 10 + digit;
}
"""


class StepCase(Case):
    """Tasks that each append a digit to y, so that y shows their order. There are enough workers to start each too early."""

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


def main(doc: str):
    """Runs the tests of the calling file, over the tool that is the first argument."""
    if len(sys.argv) < 2:
        sys.exit(doc)
    Case.tool = str(Path(sys.argv.pop(1)).resolve())
    unittest.main()
