#include <algorithm>
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/benchmarks.hpp"
#include "bench/timing.hpp"

namespace dwell::bench {

namespace {

// Logs lines of four arguments from one thread of the group. `sum` keeps the compiler from removing the work without lines.
constexpr const char* kLogLines = R"(
DWELL_OPERATOR(log_lines)(dwell::Group g, dwell::u32 lines, dwell::Span<dwell::u32> sum) {
  if (g.rank() != 0) return;
  dwell::u32 x = sum[g.index()];
  for (dwell::u32 i = 0; i < lines; ++i) {
    x = x * 1664525U + 1013904223U;
    dwell::log(g, dwell::level::info, "line {} of {}: {} {:.3f}", i, lines, x, static_cast<float>(x));
  }
  sum[g.index()] = x;
})";

std::uint64_t dropped_in(const Metrics& metrics) {
  std::uint64_t all = 0;
  for (const std::uint64_t count : metrics.log_dropped) all += count;
  return all;
}

void run(const Context& context, Report& report) {
  std::atomic<std::uint64_t> taken = 0;
  Options options = context.options();
  options.log.sink = [&](const LogRecord&) { taken.fetch_add(1, std::memory_order_relaxed); };
  options.log.ring_lines = 8192;
  options.log.kept = 16;
  Runtime runtime(options);
  const auto log_lines = runtime.define<void(u32, Span<u32>)>("log_lines", kLogLines);
  const std::uint32_t workers = runtime.info().workers;  // of the image
  auto sum = runtime.allocate<u32>(workers);
  sum.write(std::vector<u32>(workers, 1));

  // Fewer lines than a ring holds at their severity, so that none is dropped.
  const auto lines = context.pick<u32>(5'000, 2'000);
  const auto time = [&](std::uint32_t groups_of_it) {
    const Clock::time_point start = Clock::now();
    runtime.submit(log_lines, lines, sum, groups(groups_of_it)).wait();
    return nanoseconds_since(start) / lines;
  };
  // Waits until the log's reader is done.
  const auto settle = [&] { static_cast<void>(runtime.logs()); };
  std::vector<double> silent;
  std::vector<double> alone;
  std::vector<double> all;
  std::uint64_t expected = 0;
  const Metrics before = runtime.metrics();
  for (int round = 0; round < context.pick(15, 3); ++round) {
    runtime.set_log_level(level::warning);
    silent.push_back(time(1));
    runtime.set_log_level(level::info);
    settle();
    alone.push_back(time(1));
    settle();
    all.push_back(time(workers));
    settle();
    expected += std::uint64_t{lines} * (1 + workers);
  }
  runtime.park();
  settle();
  const Metrics after = runtime.metrics();
  runtime.resume();
  const std::uint64_t dropped = dropped_in(after) - dropped_in(before);

  const std::string per_line = "a line of four arguments, of its worker's time";
  const Spread quiet = spread_of(silent);
  const Spread lone = spread_of(alone);
  report.add({per_line, "one worker", true, "ns", lone});
  report.add({per_line, "below the threshold", true, "ns", quiet});
  report.add(Goal{"a line of the log", "ns", lone.p50 - quiet.p50, 40, 100});
  Spread together = spread_of(all);
  report.add({"a line while all workers log", std::to_string(workers) + " workers", true, "ns", together});
  report.add(Goal{"lines in a second, of all workers", "", workers * 1e9 / together.p50, 1e8, std::nullopt, true});
  report.check(text_of_count(expected) + " lines were handed over or counted as dropped", taken + dropped == expected);
  report.note(text_of_count(taken) + " lines were handed over, " + text_of_count(dropped) + " were dropped");
}

const Registration kRegistration{{160, "log", "lines that operators log: what one costs its worker, and how many there may be", 90, run}};

}  // namespace

}  // namespace dwell::bench
