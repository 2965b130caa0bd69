#!/usr/bin/env python3
"""End-to-end tests of `dwell run`: dtypes of arrays, and scalars, as an operator gets them.

    tests/tool/run_types_test.py TOOL [ARGUMENT OF unittest...]
"""

from job_case import CODES, TYPES, Case, main, npy, read_npy


class Types(Case):
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
DWELL_OPERATOR(rotate)(dwell::Group g, dwell::complex<float> by, dwell::Span<dwell::complex<float>> z) {
  g.transform(z, [=](dwell::complex<float> value) { return value * by; }, z);
}""")
        self.put("job.toml", """[operators]
axpy = { source = "axpy.hpp" }
twice = { source = "axpy.hpp" }
rotate = { source = "axpy.hpp" }
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
operator = "rotate"
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


if __name__ == "__main__":
    main(__doc__)
