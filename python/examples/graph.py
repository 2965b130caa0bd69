"""Work that depends on other work, as a graph that is launched again and again."""

import dwell

with dwell.Runtime() as rt:
    scale = rt.define(
        "scale",
        """
DWELL_OPERATOR(scale)(dwell::Group g, dwell::Span<const float> from, dwell::Span<float> to, float by) {
  g.transform(to, [=](float x) { return x * by; }, from);
}""",
    )
    add = rt.define(
        "add",
        """
DWELL_OPERATOR(add)(dwell::Group g, dwell::Span<float> sum, dwell::Span<const float> x, dwell::Span<const float> y) {
  g.transform(sum, [](float a, float b) { return a + b; }, x, y);
}""",
    )
    source = rt.array([1.0] * 1000, "float32")
    twice, thrice, total = (rt.allocate(1000) for _ in range(3))

    graph = dwell.Graph()
    left = graph.add("left", scale, source, twice, 2.0)
    right = graph.add("right", scale, source, thrice, 3.0)
    graph.add("sum", add, total, twice, thrice).after(left, right)

    exec = rt.instantiate(graph)
    rt.launch(exec).wait()
    print("2 + 3 =", total.read()[0])
    exec.set(left, 2, 10.0)  # from the next launch on
    for _ in range(100):
        ticket = rt.launch(exec)
    ticket.wait()
    print("10 + 3 =", total.read()[0])
    assert total.read()[0] == 13

    # The same by capture: order follows from memory.
    @rt.capture
    def captured():
        scale(source, twice, 4.0)
        scale(source, thrice, 5.0)
        add(total, twice, thrice)

    rt.launch(rt.instantiate(captured)).wait()
    print("4 + 5 =", total.read()[0])
