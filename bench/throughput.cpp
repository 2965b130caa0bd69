#include <algorithm>
#include <atomic>
#include <vector>

#include "bench/benchmarks.hpp"
#include "bench/cpu_pool.hpp"
#include "bench/cuda_peer.hpp"
#include "bench/operators.hpp"
#include "bench/tbb_peer.hpp"
#include "bench/timing.hpp"

namespace dwell::bench {

namespace {

constexpr const char* kEmptyTasks = "empty tasks";

// Arrays of one size.
struct Set {
  std::string what;
  std::size_t floats;  // of each array, a power of two
};

std::vector<Set> sets_for(const Context& context) {
  constexpr std::size_t kMi = std::size_t{1} << 20U;
  if (context.cuda) {
    const std::size_t large = context.pick(256 * kMi, 32 * kMi);
    return {{"adds, 3 x 8 MiB: fits L2", 2 * kMi}, {"adds, 3 x " + std::to_string(large * 4 / kMi) + " MiB", large}};
  }
  const std::size_t large = context.pick(16 * kMi, 4 * kMi);
  return {{"adds, 3 x 128 KiB: fits L2", kMi / 32}, {"adds, 3 x " + std::to_string(large * 4 / kMi) + " MiB", large}};
}

// Returns the nanoseconds per task of run(), which runs `count` tasks and waits for them; after an untimed run.
template <class Run>
Spread time_repeats(const Context& context, std::size_t count, Run run) {
  std::vector<double> times;
  run();
  for (int repeat = 0; repeat < context.pick(7, 3); ++repeat) {
    const Clock::time_point start = Clock::now();
    run();
    times.push_back(nanoseconds_since(start) / static_cast<double>(count));
  }
  return spread_of(std::move(times));
}

Row row_of(const std::string& what, const std::string& by, bool ours, const Spread& spread, bool adds) {
  Row row{what, by, ours, "ns", spread, std::nullopt};
  if (adds && spread.p50 > 0) row.gigabytes_per_second = Adds::kBytes / spread.p50;
  return row;
}

// Our figures.
struct Reached {
  double empty = 0;
  double empty_many = 0;
  std::vector<double> adds;  // by set
  std::vector<double> adds_many;
};

Reached add_ours(const Context& context, Report& report, const std::vector<Set>& sets, std::size_t count) {
  Reached reached;
  Runtime runtime(context.options());
  const auto empty = runtime.define<void()>("empty", kEmpty);
  const auto add = runtime.define<void(Span<const float>, Span<const float>, Span<float>)>("add", kAdd);
  std::uint64_t expected = runtime.metrics().submitted;

  const auto time = [&](const std::string& what, const char* by, bool adds, std::size_t tasks, auto submit) {
    const Spread spread = time_repeats(context, tasks, [&] {
      submit();
      runtime.wait_all();
      expected += tasks;
    });
    report.add(row_of(what, by, true, spread, adds));
    return spread.p50;
  };
  reached.empty = time(kEmptyTasks, "dwell, submit", false, count, [&] {
    for (std::size_t i = 0; i < count; ++i) runtime.submit(empty);
  });
  reached.empty_many = time(kEmptyTasks, "dwell, submit_many", false, count,
                            [&] { runtime.submit_many(empty, count, [](std::size_t, auto&& put) { put(); }); });

  for (const Set& set : sets) {
    Adds adds(runtime, add, set.floats);
    const std::size_t tasks = std::max(count, adds.slices());
    std::size_t wrong = 0;
    // Use every slice once first, so that each of these tasks is checked by its own result.
    adds.submit(0, adds.slices());
    wrong += adds.wrong();
    adds.poison();
    adds.submit_many(0, adds.slices());
    wrong += adds.wrong();
    adds.poison();
    expected += 2 * adds.slices();
    reached.adds.push_back(time(set.what, "dwell, submit", true, tasks, [&] { adds.submit(0, tasks); }));
    wrong += adds.wrong();
    adds.poison();
    reached.adds_many.push_back(time(set.what, "dwell, submit_many", true, tasks, [&] { adds.submit_many(0, tasks); }));
    wrong += adds.wrong();
    report.check_none("wrong sums in " + set.what, wrong);
  }
  const std::uint64_t submitted = runtime.metrics().submitted;
  report.check(text_of_count(submitted) + " tasks submitted and complete, of " + text_of_count(expected), submitted == expected);
  return reached;
}

// Measures submission and execution separately: tasks are submitted while the loop is parked, and run later.
void add_halves(const Context& context, Report& report) {
  Options options = context.options();
  options.ring_slots = 1U << 17U;
  const std::size_t count = options.ring_slots - options.ring_slots / 16;
  Runtime runtime(std::move(options));
  const auto empty = runtime.define<void()>("empty", kEmpty);
  const auto add = runtime.define<void(Span<const float>, Span<const float>, Span<float>)>("add", kAdd);
  Adds adds(runtime, add, sets_for(context).front().floats);
  const auto time = [&](const std::string& tasks, const char* by, auto submit) {
    std::vector<double> submitted;
    std::vector<double> drained;
    for (int repeat = 0; repeat <= context.pick(7, 3); ++repeat) {
      runtime.park();
      const Clock::time_point start = Clock::now();
      submit();
      const Clock::time_point between = Clock::now();
      runtime.resume();
      runtime.wait_all();
      if (repeat == 0) continue;
      submitted.push_back(nanoseconds(between - start) / static_cast<double>(count));
      drained.push_back(nanoseconds_since(between) / static_cast<double>(count));
    }
    const Spread host = spread_of(std::move(submitted));
    const Spread device = spread_of(std::move(drained));
    report.add({tasks + ", submitted while the loop is parked", by, true, "ns", host});
    report.add({tasks + ", run without the host", by, true, "ns", device});
    return std::pair(host.p50, device.p50);
  };
  const auto plain =
      time(kEmptyTasks, "dwell, submit_many", [&] { runtime.submit_many(empty, count, [](std::size_t, auto&& put) { put(); }); });
  const auto one = time("adds", "dwell, submit", [&] { adds.submit(0, count); });
  const auto many = time("adds", "dwell, submit_many", [&] { adds.submit_many(0, count); });
  report.check_none("wrong sums of adds that were submitted while parked", adds.wrong());
  if (!context.cuda) return;
  report.add(Goal{"empty tasks, run without the host", "ns", plain.second, 4, 5});
  report.add(Goal{"adds, run without the host", "ns", std::min(one.second, many.second), 5, 6.2});
  report.add(Goal{"adds, submitted while the loop is parked, submit", "ns", one.first, 7, 8.5});
  report.add(Goal{"adds, submitted while the loop is parked, submit_many", "ns", many.first, 3.5, 4.5});
}

// Returns the bandwidth of copies within the device, 0 when unknown.
double add_cuda_peers(const Context& context, Report& report, const std::vector<Set>& sets) {
  std::string why;
  const auto peer = open_cuda_peer(context.ordinal, &why);
  if (!peer) {
    report.note("no CUDA peers: " + why);
    return 0;
  }
  peer->warm_up();
  const auto launches = context.pick<std::size_t>(100'000, 5'000);
  const auto nodes = context.pick<std::size_t>(10'000, 1'000);
  for (const Set& set : sets) {
    const auto adds = peer->adds(set.floats);
    report.add(row_of(set.what, "stream launches", false,
                      time_repeats(context, launches,
                                   [&] {
                                     for (std::size_t i = 0; i < launches; ++i) adds->launch(i);
                                     adds->synchronise();
                                   }),
                      true));
    report.check_none("wrong sums of stream launches", adds->wrong(std::min(launches, adds->slices()), 1));
    adds->poison();
    const double instantiation = adds->make_graph(nodes) / static_cast<double>(nodes);
    report.add(row_of(set.what, "CUDA graph, independent nodes", false, time_repeats(context, nodes, [&] { adds->replay(); }), true));
    report.check_none("wrong sums of the graph",
                      adds->wrong(std::min(nodes, adds->slices()), std::max<std::size_t>(adds->slices() / nodes, 1)));
    report.note("a graph of " + text_of_count(nodes) + " nodes took " + text_of(instantiation, "ns") + " a node to instantiate");
  }
  const double bandwidth = peer->copy_bandwidth(std::size_t{1} << 30U);
  report.note("a copy within the device moves " + text_of(bandwidth, "GB/s") +
              ", read and written: " + text_of(Adds::kBytes / bandwidth, "ns") + " for the " +
              text_of_count(static_cast<std::size_t>(Adds::kBytes)) + " bytes of an add");
  return bandwidth;
}

struct CpuPeers {
  double tbb_empty = 0;  // 0: no oneTBB
};

CpuPeers add_cpu_peers(const Context& context, Report& report, const std::vector<Set>& sets, std::size_t count) {
  CpuPeers peers;
  std::atomic<std::size_t> ran{0};
  std::size_t expected = 0;
  const std::size_t fewer = count / 5;
  {
    CpuPool pool(context.info.workers);
    report.add(row_of(kEmptyTasks, "thread pool, condition variables", false,
                      time_repeats(context, fewer,
                                   [&] {
                                     for (std::size_t i = 0; i < fewer; ++i) pool.run([&] { ran.fetch_add(1, std::memory_order_relaxed); });
                                     pool.wait();
                                     expected += fewer;
                                   }),
                      false));
  }
  report.check(text_of_count(ran.load()) + " tasks of the thread pool ran, of " + text_of_count(expected), ran.load() == expected);
  std::string why;
  const auto tbb = TbbPeer::open(static_cast<int>(context.info.workers) + 1, &why);
  if (!tbb) {
    report.note("no oneTBB: " + why);
    return peers;
  }
  auto nothing = [](std::size_t) {};
  const Spread empty = time_repeats(context, count, [&] { tbb->run_all(nothing, count); });
  peers.tbb_empty = empty.p50;
  report.add(row_of(kEmptyTasks, "oneTBB task_group", false, empty, false));
  ran.store(0);
  auto counting = [&](std::size_t) { ran.fetch_add(1, std::memory_order_relaxed); };
  tbb->run_all(counting, count);
  report.check(text_of_count(ran.load()) + " tasks of oneTBB ran, of " + text_of_count(count), ran.load() == count);
  for (const Set& set : sets) {
    CpuAdds adds(set.floats);
    const std::size_t tasks = std::max(count, adds.sums.size() / Adds::kFloats);
    auto task = [&](std::size_t i) { adds.run(i); };
    report.add(row_of(set.what, "oneTBB task_group", false, time_repeats(context, tasks, [&] { tbb->run_all(task, tasks); }), true));
    report.check_none("wrong sums of oneTBB in " + set.what, adds.wrong());
  }
  report.note("oneTBB is " + tbb->version() + ", with as many threads as ours: " + std::to_string(context.info.workers) +
              " and the caller's, which helps while it waits");
  return peers;
}

void run(const Context& context, Report& report) {
  const auto count = context.pick<std::size_t>(1'000'000, 20'000);
  const std::vector<Set> sets = sets_for(context);
  const Reached reached = add_ours(context, report, sets, count);
  add_halves(context, report);
  if (context.cuda) {
    const double bandwidth = add_cuda_peers(context, report, sets);
    report.add(Goal{"adds that fit L2, submit", "ns", reached.adds[0], 8, 16});
    report.add(Goal{"adds that fit L2, submit_many", "ns", reached.adds_many[0], 5, 9});
    // The goal is the memory's bandwidth: the time of a copy if that exceeds 5 ns.
    const double floor = bandwidth > 0 ? std::max(5.0, Adds::kBytes / bandwidth) : 5.0;
    report.add(Goal{"adds that do not, submit", "ns", reached.adds[1], 8, 16});
    report.add(Goal{"adds that do not, submit_many", "ns", reached.adds_many[1], floor, 9});
  } else {
    const CpuPeers peers = add_cpu_peers(context, report, sets, count);
    if (peers.tbb_empty > 0) {
      report.add(Goal{"empty tasks, submit, against oneTBB", "x", reached.empty / peers.tbb_empty, 1});
      report.add(Goal{"empty tasks, submit_many, against oneTBB", "x", reached.empty_many / peers.tbb_empty, 1});
    }
  }
}

const Registration kRegistration{
    {20, "throughput", "many independent tasks from one host thread, first submitted to last complete, a task", 120, run}};

}  // namespace

}  // namespace dwell::bench
