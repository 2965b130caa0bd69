// A task graph: a diamond of named nodes, launched again and again, and its picture for Graphviz.
#include <cstdio>
#include <string>
#include <vector>

#include <dwell/dwell.hpp>

int main() {
  constexpr unsigned kCount = 1000;
  constexpr unsigned kLaunches = 100;
  dwell::Runtime runtime;
  auto scale = runtime.define<void(dwell::Span<const float>, dwell::Span<float>, float)>("scale", R"(
    DWELL_OPERATOR(scale)(dwell::Group g, dwell::Span<const float> from, dwell::Span<float> to, float factor) {
      for (auto i : g.range(from.size())) to[i] = from[i] * factor;
    })");
  auto add = runtime.define<void(dwell::Span<float>, dwell::Span<const float>, dwell::Span<const float>)>("add", R"(
    DWELL_OPERATOR(add)(dwell::Group g, dwell::Span<float> to, dwell::Span<const float> a, dwell::Span<const float> b) {
      for (auto i : g.range(to.size())) to[i] += a[i] + b[i];
    })");

  auto input = runtime.allocate<float>(kCount);
  auto base = runtime.allocate<float>(kCount);
  auto twice = runtime.allocate<float>(kCount);
  auto thrice = runtime.allocate<float>(kCount);
  auto sum = runtime.allocate<float>(kCount);
  input.write(std::vector<float>(kCount, 1));
  sum.write(std::vector<float>(kCount, 0));

  dwell::Graph graph;
  const dwell::Node load = graph.add("load", scale, input, base, 1.0F);
  const dwell::Node left = graph.add("twice", scale, base, twice, 2.0F).after(load);
  const dwell::Node right = graph.add("thrice", scale, base, thrice, 3.0F).after(load);
  graph.add("sum", add, sum, twice, thrice).after(left, right);
  std::fputs(graph.dot().c_str(), stdout);

  // Laid out in memory of the device once; then a launch costs as much as one task.
  const dwell::GraphExec exec = runtime.instantiate(graph);
  for (unsigned i = 0; i < kLaunches; ++i) runtime.launch(exec);
  runtime.wait_all();

  std::vector<float> result(kCount);
  sum.read(result);
  std::printf("graph: %zu nodes, %u launches, each sum is %g\n", exec.size(), kLaunches, static_cast<double>(result[0]));
  for (const float value : result)
    if (value != 5 * kLaunches) return 1;
  return 0;
}
