// Operations on tensors: collected on the host, and run by the interpreter or by compiled operators.
#include <chrono>
#include <cstdint>
#include <dwell/batch.hpp>
#include <dwell/graph.hpp>
#include <string>
#include <thread>
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

// Sums of two tensors each; all independent.
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

// The sums of a benchmark, and how often they run.
struct Plan {
  std::size_t count;
  std::size_t repeats;
  std::string all;
};

// Returns the device's time per sum of a graph, after one run.
Spread run_graph(Runtime& runtime, const Graph& graph, const Plan& plan, const Sums& sums, Report& report) {
  const GraphExec tasks = runtime.instantiate(graph);
  const Spread spread = spread_of(each_of(plan.repeats, plan.count, [&] { runtime.launch(tasks).wait(); }));
  report.check_none("elements that are wrong", sums.wrong());
  return spread;
}

Graph captured(Runtime& runtime, const Sums& sums) {
  return runtime.capture([&] {
    Batch inside(runtime);
    sums.collect(inside);
    inside.submit();
  });
}

void run_collected(Batch& batch, const Plan& plan, const Sums& sums, const char* who, Report& report) {
  const Spread spread = spread_of(each_of(plan.repeats, plan.count, [&] {
    sums.collect(batch);
    batch.flush().wait();
  }));
  report.add({plan.all + ", collected and run: a sum", who, true, "ns", spread});
  report.check_none("elements of batches that are wrong", sums.wrong());
}

// Returns an expression that no earlier program had: its numbers differ each time.
void run_fresh(const Context& context, Runtime& runtime, Report& report) {
  Batch batch(runtime);
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

void run_interpreted(const Context& context, const Plan& plan, Report& report) {
  Options options = context.options();
  options.compile_programs_after = 0;
  Runtime runtime(options);
  Sums sums(runtime, plan.count);

  const Spread programs = run_graph(runtime, captured(runtime, sums), plan, sums, report);
  report.add({plan.all + ", device: a sum", "dwell, programs", true, "ns", programs});
  if (context.cuda) report.add(Goal{plan.all + ", device: a sum by programs", "ns", programs.p50, 10, 15});
  sums.clear();

  const auto add = runtime.define<void(Span<const float>, Span<const float>, Span<float>)>("add", kAdd);
  const Spread own = run_graph(runtime, sums.graph(add), plan, sums, report);
  report.add({plan.all + ", device: a sum", "dwell, operator of the user's", true, "ns", own});
  sums.clear();

  Batch batch(runtime);
  run_collected(batch, plan, sums, "dwell, Batch", report);
  const Spread submitted = spread_of(each_of(plan.repeats, plan.count, [&] {
    const Graph graph = sums.graph(add);
    runtime.launch(runtime.instantiate(graph)).wait();
  }));
  report.add({plan.all + ", collected and run: a sum", "dwell, graph used once", true, "ns", submitted});
  run_fresh(context, runtime, report);
}

void run_compiled(const Context& context, const Plan& plan, Report& report) {
  Options options = context.options();
  options.compile_programs_after = 1;
  Runtime runtime(options);
  Sums sums(runtime, plan.count);
  Batch batch(runtime);
  const Clock::time_point end = Clock::now() + std::chrono::seconds(20);
  for (std::uint64_t before = 0; batch.stats().compiled - before != plan.count && Clock::now() < end;) {
    before = batch.stats().compiled;
    sums.collect(batch);
    batch.flush().wait();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  sums.clear();

  const std::uint64_t before = batch.stats().programs - batch.stats().compiled;
  const Spread compiled = run_graph(runtime, captured(runtime, sums), plan, sums, report);
  report.add({plan.all + ", device: a sum", "dwell, compiled programs", true, "ns", compiled});
  if (context.cuda) report.add(Goal{plan.all + ", device: a sum by compiled programs", "ns", compiled.p50, 6, 8});
  sums.clear();
  run_collected(batch, plan, sums, "dwell, Batch, compiled programs", report);
  report.check_none("programs that were interpreted, not compiled", batch.stats().programs - batch.stats().compiled - before);
}

void run(const Context& context, Report& report) {
  const std::size_t count = context.pick<std::size_t>(10'000, 500);
  const Plan plan{count, context.pick<std::size_t>(30, 3), text_of_count(count) + " sums of 1024 floats, apart"};
  run_interpreted(context, plan, report);
  run_compiled(context, plan, report);
}

const Registration kRegistration{
    {100, "tensors", "operations on tensors: on the device, collected on the host, and from an expression to its result", 60, run}};

}  // namespace

}  // namespace dwell::bench
