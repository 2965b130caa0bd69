// Operations on tensors: collected on the host, and run by the interpreter of programs or by operators that are compiled for them.
#include <cstdint>
#include <dwell/batch.hpp>
#include <dwell/graph.hpp>
#include <string>
#include <vector>

#include "bench/benchmarks.hpp"
#include "bench/timing.hpp"

namespace dwell::bench {

namespace {

constexpr std::uint32_t kElements = 1024;
constexpr const char* kAdd = R"(
#include <dwell/device.hpp>
DWELL_OPERATOR(add)(dwell::Group g, dwell::Span<const float> a, dwell::Span<const float> b, dwell::Span<float> c) {
  g.transform(c, [](float x, float y) { return x + y; }, a, b);
}
)";

// Sums of two tensors each, all apart.
class Sums {
 public:
  Sums(Runtime& runtime, std::size_t count)
      : count_(count),
        a_(runtime.allocate<float>(count * kElements)),
        b_(runtime.allocate<float>(count * kElements)),
        c_(runtime.allocate<float>(count * kElements)) {
    std::vector<float> values(count * kElements);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 1000);
    a_.write(values);
    b_.write(values);
    clear();
  }

  void clear() { c_.write(std::vector<float>(c_.size(), -1)); }
  std::size_t wrong() const {
    std::vector<float> found(c_.size());
    c_.read(found);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < found.size(); ++i) wrong += found[i] == 2 * static_cast<float>(i % 1000) ? 0U : 1U;
    return wrong;
  }

  void collect(Batch& batch) const {
    for (std::size_t i = 0; i < count_; ++i) {
      const std::size_t at = i * kElements;
      batch.apply(TensorOp::add, c_.slice(at, kElements), {TensorView(a_.slice(at, kElements)), TensorView(b_.slice(at, kElements))});
    }
  }
  template <class Add>
  Graph graph(const Add& add) const {
    Graph graph;
    for (std::size_t i = 0; i < count_; ++i) {
      const std::size_t at = i * kElements;
      graph.add(add, a_.slice(at, kElements), b_.slice(at, kElements), c_.slice(at, kElements));
    }
    return graph;
  }

 private:
  std::size_t count_;
  Buffer<float> a_;
  Buffer<float> b_;
  Buffer<float> c_;
};

std::vector<double> each_of(std::size_t repeats, std::size_t count, const auto& run) {
  std::vector<double> each;
  for (std::size_t i = 0; i <= repeats; ++i) {
    const Clock::time_point start = Clock::now();
    run();
    if (i != 0) each.push_back(nanoseconds_since(start) / static_cast<double>(count));
  }
  return each;
}

}  // namespace

void tensors(const Context& context, Report& report) {
  const std::size_t count = context.pick<std::size_t>(10'000, 500);
  const std::size_t repeats = context.pick<std::size_t>(30, 3);
  const std::string all = text_of_count(count) + " sums of 1024 floats, apart";

  Runtime runtime(context.options());
  Sums sums(runtime, count);
  Batch batch(runtime);
  const auto add = runtime.define<void(Span<const float>, Span<const float>, Span<float>)>("add", kAdd);

  {
    const Graph collected = runtime.capture([&] {
      Batch inside(runtime);
      sums.collect(inside);
      inside.flush();
    });
    const GraphExec programs = runtime.instantiate(collected);
    const Spread spread = spread_of(each_of(repeats, count, [&] { runtime.launch(programs).wait(); }));
    report.add({all + ", device: a sum", "dwell, programs", true, "ns", spread});
    if (context.cuda) report.add(Goal{all + ", device: a sum by programs", "ns", spread.p50, 10, 15});
    report.check_none("elements of programs that are wrong", sums.wrong());
    sums.clear();
  }
  {
    const GraphExec tasks = runtime.instantiate(sums.graph(add));
    const Spread spread = spread_of(each_of(repeats, count, [&] { runtime.launch(tasks).wait(); }));
    report.add({all + ", device: a sum", "dwell, compiled operator", true, "ns", spread});
    report.check_none("elements of the compiled operator that are wrong", sums.wrong());
    sums.clear();
  }

  const Spread host = spread_of(each_of(repeats, count, [&] {
    sums.collect(batch);
    batch.flush().wait();
  }));
  report.add({all + ", collected and run: a sum", "dwell, Batch", true, "ns", host});
  report.check_none("elements of batches that are wrong", sums.wrong());
  const Spread submitted = spread_of(each_of(repeats, count, [&] {
    const Graph graph = sums.graph(add);
    runtime.launch(runtime.instantiate(graph)).wait();
  }));
  report.add({all + ", collected and run: a sum", "dwell, graph used once", true, "ns", submitted});

  // An expression that no program had before: each time other numbers.
  Buffer<float> x = runtime.allocate<float>(kElements);
  Buffer<float> y = runtime.allocate<float>(kElements);
  x.write(std::vector<float>(kElements, 2));
  std::vector<float> found(kElements);
  std::size_t wrong = 0;
  const std::size_t times = context.pick<std::size_t>(2000, 50);
  const std::vector<double> first = time_at_random(
      times,
      [&](std::size_t i) {
        batch.assign(y, ops::relu(Expression(x) * static_cast<double>(i) + 1.0) - Expression(x));
        batch.flush().wait();
      },
      [&](std::size_t i) {
        y.read(found);
        wrong += found[7] == 2 * static_cast<float>(i) - 1 ? 0U : 1U;
      });
  const Spread fresh = spread_of(first);
  report.add({"an expression of 1024 floats, from its text to its result", "dwell, Batch", true, "ns", fresh});
  if (context.cuda) report.add(Goal{"an expression of 1024 floats, from its text to its result", "ns", fresh.p50, 20'000});
  report.check_none("results of expressions that are wrong", wrong);
}

}  // namespace dwell::bench
