// A loop on the device: a small network, compiled as one program, decides a step, and an operator takes it, until the operator is content.
// The host launches the graph once. An operator launches it again.
#include <array>
#include <cmath>
#include <cstdio>
#include <vector>

#include <dwell/batch.hpp>
#include <dwell/dwell.hpp>
#include <dwell/gang_program.hpp>

namespace {

constexpr unsigned kUnits = 64;
constexpr unsigned kNumbers = 4;
constexpr float kStep = 0.125F;
constexpr float kNear = 0.01F;
using Numbers = std::array<float, kNumbers>;
constexpr Numbers kStart = {1, -2, 0.5F, 3};

constexpr const char* kAct = R"(
DWELL_OPERATOR(act)(dwell::Group g, dwell::Span<float> x, dwell::Span<const float> y, dwell::Span<dwell::u32> goes, float step, float near) {
  if (g.rank() != 0) return;
  float largest = 0;
  for (dwell::u64 i = 0; i < x.size(); ++i) {
    x[i] -= step * y[i];
    largest = fmaxf(largest, fabsf(x[i]));
  }
  goes[0] = largest > near ? 1u : 0u;
})";

constexpr const char* kAgain = R"(
DWELL_OPERATOR(again)(dwell::Group g, dwell::Span<float> x, dwell::Span<dwell::u32> goes, dwell::Exec exec) {
  if (g.rank() == 0) {
    for (dwell::u64 i = 0; i < x.size(); ++i) x[i] = 1;
    goes[0] = 1;
  }
  g.launch(exec);
})";

}  // namespace

int main() {
  dwell::Runtime runtime({.scratch_bytes = 32U << 10U});  // a member's memory
  const auto act = runtime.define<void(dwell::Span<float>, dwell::Span<const float>, dwell::Span<dwell::u32>, float, float)>("act", kAct);
  const auto again = runtime.define<void(dwell::Span<float>, dwell::Span<dwell::u32>, dwell::Exec)>("again", kAgain);

  // The network hands each number to some units, and adds up what they make of it.
  std::vector<float> first(kUnits * kNumbers, 0.0F);
  for (unsigned unit = 0; unit < kUnits; ++unit) first[unit * kNumbers + unit % kNumbers] = 1;
  auto weights = runtime.allocate<float>(first.size());
  auto x = runtime.allocate<float>(kNumbers);
  auto hidden = runtime.allocate<float>(kUnits);
  auto y = runtime.allocate<float>(kNumbers);
  auto goes = runtime.allocate<dwell::u32>(1);
  weights.write(first);
  const auto w = dwell::TensorView(weights).reshape({kUnits, kNumbers});
  const auto h = dwell::TensorView(hidden).reshape({1, kUnits});
  const auto result = dwell::TensorView(y).reshape({1, kNumbers});

  dwell::OperationList list;
  const dwell::Graph single = runtime.capture([&] {  // notes the operations, and runs none
    dwell::Batch batch(runtime);
    batch.note_in(list);
    batch.mm(h, dwell::TensorView(x).reshape({1, kNumbers}), w.transpose(0, 1));
    batch.assign(h, dwell::ops::tanh(h));
    batch.mm(result, h, w);
    batch.assign(result, dwell::Expression(result) / (kUnits / kNumbers));
    batch.flush();
  });
  const dwell::TensorView::Extent read = result.extent();
  const dwell::GangProgram network(runtime, list, [&](const auto& memory) { return memory.overlaps(read); }, {.in_loop = true});

  dwell::Graph round;
  const dwell::Node decided = round.add("network", network);  // or round.add("network", single), a node for each operation
  round.add("act", act, x, y, goes, kStep, kNear).after(decided);
  dwell::Graph graph("descend");
  graph.add_while("rounds", goes, round);
  const dwell::GraphExec exec = runtime.instantiate(graph);

  const auto are_near = [&] {
    Numbers left{};
    x.read(left);
    for (const float number : left) {
      if (std::fabs(number) <= kNear) continue;
      std::printf("gang_node: a number is %g, above %g\n", static_cast<double>(number), static_cast<double>(kNear));
      return false;
    }
    return true;
  };
  x.write(kStart);
  goes.write(std::array{1U});
  runtime.launch(exec).wait();
  if (!are_near()) return 1;
  runtime.submit(again, x, goes, exec).wait();
  if (!are_near()) return 1;
  std::printf("gang_node: %zu operations, one node of %u members instead of %zu nodes; all rounds without the host\n", list.size(),
              network.members(), single.size());
  return 0;
}
