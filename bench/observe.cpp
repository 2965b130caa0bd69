#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/benchmarks.hpp"
#include "bench/operators.hpp"
#include "bench/timing.hpp"

namespace dwell::bench {

namespace {

constexpr const char* kFed = "empty tasks, submit_many";
constexpr const char* kLone = "lone empty task, until it is complete";
constexpr const char* kChain = "a chain of empty nodes, replayed, a step";

// Discards a trace, and counts its bytes.
class Counted : public TraceWriter {
 public:
  void write(const Trace& piece) override {
    for (const TraceEvent& event : piece.events) calls += event.kind <= TraceEvent::Kind::group ? 1U : 0U;
    dropped += piece.dropped;
    error_ns = std::max(error_ns, piece.clock_error_ns);
  }
  void finish() override {}

  std::uint64_t calls = 0;  // of operators
  std::uint64_t dropped = 0;
  double error_ns = 0;
};

// A setting of observation under which the same work is timed.
struct Setting {
  const char* name;
  Metering metering;
  bool timeline;
  // Limits on the extra time: throughput and lone latency.
  double goal;
  double at_least;
};
constexpr std::array<Setting, 4> kSettings = {{{"nothing noted", Metering::off, false, 1, 1},
                                               {"counts", Metering::counts, false, 1.01, 1.02},
                                               {"times", Metering::times, false, 1.03, 1.06},
                                               {"counts, timeline", Metering::counts, true, 1.08, 1.15}}};

struct Setup {
  const char* what;
  bool is_goal;
  std::function<std::vector<double>()> time;  // samples of ns per task
};

// Returns `first` and more empty operators, `count` in all.
std::vector<Operator<void()>> define_more(Runtime& runtime, const Operator<void()>& first, std::size_t count) {
  std::vector<std::shared_future<Operator<>>> made;
  for (std::size_t i = 1; i < count; ++i) {
    const std::string name = "empty" + std::to_string(i);
    made.push_back(runtime.define_async(name, "#include <dwell/device.hpp>\nDWELL_OPERATOR(" + name + ")(dwell::Group) {}\n"));
  }
  std::vector<Operator<void()>> all{first};
  for (const auto& one : made) all.emplace_back(one.get());
  return all;
}

void run(const Context& context, Report& report) {
  Runtime runtime(context.options());
  const auto empty = runtime.define<void()>("empty", kEmpty);
  std::uint64_t expected = 0;
  const auto tasks = context.pick<std::size_t>(context.cuda ? 2'000'000 : 200'000, 5'000);
  const auto lone = context.pick<std::size_t>(2'000, 50);
  const auto steps = context.pick<std::size_t>(10'000, 200);
  Graph graph;
  Node last = graph.add(empty);
  for (std::size_t i = 1; i < steps; ++i) last = graph.add(empty).after(last);
  const GraphExec exec = runtime.instantiate(graph);

  const std::vector<Setup> works = {
      {kFed, true,
       [&] {
         const Clock::time_point start = Clock::now();
         runtime.submit_many(empty, tasks, [](std::size_t, auto put) { put(); });
         runtime.wait_all();
         expected += tasks;
         return std::vector<double>{nanoseconds_since(start) / static_cast<double>(tasks)};
       }},
      {kLone, true,
       [&] {
         return time_with_pauses(
             lone, std::chrono::microseconds(10),
             [&](std::size_t) {
               runtime.submit(empty).wait();
               ++expected;
             },
             [](std::size_t) {});
       }},
      {kChain, false,
       [&] {
         const Clock::time_point start = Clock::now();
         for (int i = 0; i < 10; ++i) runtime.launch(exec);
         runtime.wait_all();
         expected += 10 * steps;
         return std::vector<double>{nanoseconds_since(start) / static_cast<double>(10 * steps)};
       }},
  };
  // Alternate the settings, so that changes of the machine affect all.
  std::vector<std::array<std::vector<double>, kSettings.size()>> samples(works.size());
  std::uint64_t noted = 0;   // tasks counted
  std::uint64_t traced = 0;  // tasks traced
  Counted seen;
  for (int round = 0; round < context.pick(15, 2); ++round) {
    for (std::size_t i = 0; i < kSettings.size(); ++i) {
      const Setting& setting = kSettings[i];
      runtime.set_metrics(setting.metering);
      const auto writer = std::make_shared<Counted>();
      if (setting.timeline) runtime.start_trace(writer);
      const std::uint64_t before = expected;
      for (std::size_t k = 0; k < works.size(); ++k) {
        const std::vector<double> times = works[k].time();
        if (round != 0) samples[k][i].insert(samples[k][i].end(), times.begin(), times.end());
      }
      if (setting.metering != Metering::off) noted += expected - before;
      runtime.stop_trace();
      if (setting.timeline) traced += expected - before;
      seen.calls += writer->calls;
      seen.dropped += writer->dropped;
      seen.error_ns = std::max(seen.error_ns, writer->error_ns);
    }
  }
  for (std::size_t k = 0; k < works.size(); ++k) {
    std::vector<double> p50;
    for (std::size_t i = 0; i < kSettings.size(); ++i) {
      const Spread spread = spread_of(samples[k][i]);
      p50.push_back(spread.p50);
      report.add({works[k].what, kSettings[i].name, true, "ns", spread});
    }
    for (std::size_t i = 1; i < kSettings.size() && works[k].is_goal; ++i)
      report.add(Goal{std::string(works[k].what) + ", with " + kSettings[i].name + " against nothing", "x", p50[i] / p50[0],
                      kSettings[i].goal, kSettings[i].at_least});
  }

  // Times a snapshot of `operators` operators, of which each worker has run some with times on.
  runtime.set_metrics(Metering::times);
  const auto operators = context.pick<std::size_t>(64, 4);
  const std::vector<Operator<void()>> all = define_more(runtime, empty, operators);
  const std::size_t each = 2 * runtime.metrics().workers.size();
  const Metrics before = runtime.metrics();
  for (std::size_t i = 0; i < each; ++i)
    for (const Operator<void()>& op : all) runtime.submit(op);
  runtime.wait_all();
  noted += each * all.size();
  std::vector<double> snapshots;
  Metrics metrics;
  for (int i = 0; i < context.pick(200, 10); ++i) {
    const Clock::time_point start = Clock::now();
    metrics = runtime.metrics();
    snapshots.push_back(nanoseconds_since(start));
  }
  const Spread snapshot = spread_of(snapshots);
  const std::string of = std::to_string(metrics.workers.size()) + " workers, " + std::to_string(metrics.operators.size()) + " operators";
  report.add({"a snapshot of the metrics, with times", of, true, "ns", snapshot});
  report.add(Goal{"a snapshot: " + of, "ns", snapshot.p50, 200e3, 1e6});
  report.add(Goal{"the device's clock on the host's", "ns", seen.error_ns, 1000, 5000});
  std::uint64_t counted = 0;
  for (const OperatorMetrics& op : metrics.operators) counted += op.tasks;
  report.check("all of " + text_of_count(noted) + " tasks were counted", counted == noted);
  const Metrics timed = difference(metrics, before);
  report.check("of each of " + std::to_string(operators) + " operators all calls were timed",
               timed.operators.size() == operators && std::ranges::all_of(timed.operators, [&](const OperatorMetrics& op) {
                 return op.timed == each && op.times.total() == each;
               }));
  report.check("of " + text_of_count(traced) + " tasks each is in a timeline or counted as dropped", seen.calls + seen.dropped >= traced);
  report.note(text_of_count(seen.calls) + " calls in timelines were read, " + text_of_count(seen.dropped) + " events were dropped");
}

const Registration kRegistration{{150, "observe", "what it costs to look: counts, times, a timeline, in turns with nothing", 90, run}};

}  // namespace

}  // namespace dwell::bench
