"""An operator, numbers and arrays, and a new version while tasks flow."""

import dwell

SOURCE = """
DWELL_OPERATOR(axpy)(dwell::Group g, float a, dwell::Span<const float> x, dwell::Span<float> y) {
  g.transform(y, [=](float b, float c) { return a * b + c; }, x, y);
}"""

with dwell.Runtime() as rt:  # a GPU where there is one, else the CPU
    axpy = rt.define("axpy", SOURCE)
    x, y = rt.array([1.0] * 1000, "float32"), rt.array([1.0] * 1000, "float32")

    axpy(2.0, x, y).wait()
    print(f"1 + 2 * 1 = {y.read()[999]:g} on {rt.info().device}")

    rt.submit_many(axpy, [(1.0, x, y)] * 100, link=True)  # each after the one before
    axpy.redefine(SOURCE.replace("a * b + c", "-a * b + c"))
    axpy(3.0, x, y, link=True).wait()
    print(f"3 + 100 - 3 = {y.read()[999]:g} with version {axpy.version}")
    assert y.read()[999] == 100
