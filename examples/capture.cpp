// A graph of what a function submits: the order between its tasks follows from the memory that each of them reads and writes.
#include <cstdio>
#include <vector>

#include <dwell/dwell.hpp>

int main() {
  constexpr unsigned kCells = 1000;
  constexpr unsigned kSteps = 50;
  dwell::Runtime runtime;
  auto flow = runtime.define<void(dwell::Span<const float>, dwell::Span<float>)>("flow", R"(
    DWELL_OPERATOR(flow)(dwell::Group g, dwell::Span<const float> heat, dwell::Span<float> flow) {
      for (auto i : g.range(flow.size())) flow[i] = (heat[i] - heat[i + 1]) * 0.25f;  // from each cell to the next
    })");
  auto move = runtime.define<void(dwell::Span<const float>, dwell::Span<float>)>("move", R"(
    DWELL_OPERATOR(move)(dwell::Group g, dwell::Span<const float> flow, dwell::Span<float> heat) {
      for (auto i : g.range(heat.size())) {
        if (i != 0) heat[i] += flow[i - 1];
        if (i != heat.size() - 1) heat[i] -= flow[i];
      }
    })");
  auto note = runtime.define<void(dwell::Span<const float>, dwell::Span<float>)>("note", R"(
    DWELL_OPERATOR(note)(dwell::Group g, dwell::Span<const float> heat, dwell::Span<float> most) {
      const float found = g.reduce(heat, 0.0f, [](float a, float b) { return a > b ? a : b; });
      if (g.rank() == 0) most[0] = found;
    })");

  std::vector<float> expected(kCells, 0);
  expected[kCells / 2] = 1000;
  auto heat = runtime.allocate<float>(kCells);
  auto flows = runtime.allocate<float>(kCells - 1);
  auto most = runtime.allocate<float>(1);
  heat.write(expected);

  // Nothing of it runs yet. `move` and the next `flow` wait for each other's memory; `note` and the next `flow` both only read the heat,
  // and run beside each other.
  const dwell::Graph graph = runtime.capture([&] {
    for (unsigned step = 0; step < 2; ++step) {
      runtime.submit(flow, heat, flows);
      runtime.submit(move, flows, heat);
      runtime.submit(note, heat, most);
    }
  });
  const dwell::GraphExec exec = runtime.instantiate(graph);
  for (unsigned step = 0; step < kSteps; step += 2) runtime.launch(exec);
  runtime.wait_all();

  for (unsigned step = 0; step < kSteps; ++step) {
    const std::vector<float> before = expected;
    for (unsigned i = 0; i + 1 < kCells; ++i) {
      const float moved = (before[i] - before[i + 1]) * 0.25F;
      expected[i] -= moved;
      expected[i + 1] += moved;
    }
  }
  std::vector<float> result(kCells);
  std::vector<float> greatest(1);
  heat.read(result);
  most.read(greatest);
  std::printf("capture: %zu nodes, %u steps, the hottest cell has %.1f\n", exec.size(), kSteps, static_cast<double>(greatest[0]));
  float warmest = 0;
  for (unsigned i = 0; i < kCells; ++i) {
    const float error = result[i] - expected[i];
    if (error > 0.01F || error < -0.01F) return 1;
    warmest = result[i] > warmest ? result[i] : warmest;
  }
  return greatest[0] == warmest ? 0 : 1;
}
