#include <atomic>
#include <span>
#include <vector>

#include "bench/benchmarks.hpp"
#include "bench/cpu_pool.hpp"
#include "bench/cuda_peer.hpp"
#include "bench/operators.hpp"
#include "bench/tbb_peer.hpp"
#include "bench/timing.hpp"

namespace dwell::bench {

namespace {

constexpr const char* kEmptyTask = "empty task";
constexpr const char* kOrderedTask = "empty task, memory named";
constexpr const char* kRareTask = "the same, at random gaps of 0 to 100 us";
constexpr const char* kAddTask = "add of 1024 floats";
constexpr const char* kHostTask = "add, sums in host memory";

// Adds ones to sums in turn, one task at a time, so that every sum counts its tasks.
class Counted {
 public:
  Counted(Runtime& runtime, Add add, std::size_t slices, Memory memory)
      : runtime_(runtime),
        add_(std::move(add)),
        ones_(runtime.allocate<float>(Adds::kFloats)),
        sums_(runtime.allocate<float>(slices * Adds::kFloats, memory)),
        counts_(slices) {
    if (memory == Memory::host) host_ = sums_.host();
    ones_.write(std::vector<float>(Adds::kFloats, 1.0F));
    sums_.write(std::vector<float>(sums_.size(), 0.0F));
  }

  void once(std::size_t i) {
    const std::size_t slice = i % counts_.size();
    const Slice<float> sums = sums_.slice(slice * Adds::kFloats, Adds::kFloats);
    runtime_.submit(add_, ones_, sums, sums).wait();
    ++counts_[slice];
  }

  // Returns the number of wrong elements.
  std::size_t wrong() const {
    std::vector<float> sums(sums_.size());
    sums_.read(sums);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < sums.size(); ++i) wrong += sums[i] == static_cast<float>(counts_[i / Adds::kFloats]) ? 0U : 1U;
    return wrong;
  }

  // For sums in host memory: whether the host sees the result of task `i`, the last one.
  bool is_fresh(std::size_t i) const {
    const std::size_t slice = i % counts_.size();
    return host_[(slice + 1) * Adds::kFloats - 1] == static_cast<float>(counts_[slice]);
  }

 private:
  Runtime& runtime_;
  Add add_;
  Buffer<float> ones_;
  Buffer<float> sums_;
  std::span<float> host_;
  std::vector<std::size_t> counts_;
};

// The figures that have goals.
struct Reached {
  Spread empty;
  Spread ordered;  // memory named
  Spread rare;     // the same, at long gaps
};

Reached add_ours(const Context& context, Report& report, std::size_t count) {
  Reached reached;
  Runtime runtime(context.options());
  const auto empty = runtime.define<void()>("empty", kEmpty);
  const auto touch = runtime.define<void(Span<float>)>("touch", kTouch);
  const auto add = runtime.define<void(Span<const float>, Span<const float>, Span<float>)>("add", kAdd);
  const Buffer<float> memory = runtime.allocate<float>(Adds::kFloats);

  const std::uint64_t before = runtime.metrics().submitted;
  const auto timed = [&](auto once) { return spread_of(time_at_random(count, once)); };
  reached.empty = timed([&](std::size_t) { runtime.submit(empty).wait(); });
  report.add({kEmptyTask, "dwell", true, "ns", reached.empty});
  reached.ordered = timed([&](std::size_t) { runtime.submit(touch, memory).wait(); });
  report.add({kOrderedTask, "dwell", true, "ns", reached.ordered});
  const std::size_t fewer = count / 4;
  reached.rare = spread_of(time_with_pauses(
      fewer, std::chrono::microseconds(100), [&](std::size_t) { runtime.submit(touch, memory).wait(); }, [](std::size_t) {}));
  report.add({kRareTask, "dwell", true, "ns", reached.rare});

  Counted counted(runtime, add, context.pick<std::size_t>(2048, 256), Memory::device);
  report.add({kAddTask, "dwell", true, "ns", timed([&](std::size_t i) { counted.once(i); })});

  Counted in_host(runtime, add, 64, Memory::host);
  std::size_t stale = 0;
  report.add({kHostTask, "dwell", true, "ns",
              spread_of(time_at_random(
                  count, [&](std::size_t i) { in_host.once(i); }, [&](std::size_t i) { stale += in_host.is_fresh(i) ? 0U : 1U; }))});

  const std::uint64_t expected = 4 * calls_at_random(count) + calls_at_random(fewer);
  const std::uint64_t submitted = runtime.metrics().submitted - before;
  report.check(text_of_count(submitted) + " tasks acknowledged without an error, of " + text_of_count(expected), submitted == expected);
  report.check_none("wrong sums in device memory", counted.wrong());
  report.check_none("wrong sums in host memory", in_host.wrong());
  report.check_none("sums in host memory that were stale when their ticket was acknowledged", stale);
  return reached;
}

// Shows how much of the tail the ends of leases cause.
void add_ours_on_a_long_lease(const Context& context, Report& report, std::size_t count) {
  dwell::Options options = context.options();
  options.lease = std::chrono::milliseconds(100);
  Runtime runtime(std::move(options));
  const auto empty = runtime.define<void()>("empty", kEmpty);
  report.add({kEmptyTask, "dwell, lease of 100 ms", true, "ns",
              spread_of(time_at_random(count, [&](std::size_t) { runtime.submit(empty).wait(); }))});
}

void add_cuda_peers(const Context& context, Report& report, std::size_t count) {
  std::string why;
  const auto peer = open_cuda_peer(context.ordinal, &why);
  if (!peer) {
    report.note("no CUDA peers: " + why);
    return;
  }
  report.add({kEmptyTask, "launch + synchronise", false, "ns",
              spread_of(time_at_random(count, [&](std::size_t) { peer->launch_and_synchronise(); }))});
  {
    const auto flag = peer->ping_pong();
    report.add({kEmptyTask, "bare flag, host to device to host", false, "ns",
                spread_of(time_at_random(count, [&](std::size_t) { flag->round(); }))});
  }
  const auto adds = peer->adds(context.pick<std::size_t>(2048, 256) * Adds::kFloats);
  report.add({kAddTask, "launch + synchronise", false, "ns", spread_of(time_at_random(count, [&](std::size_t i) {
                adds->launch(i);
                adds->synchronise();
              }))});
  report.check_none("wrong sums of the peer", adds->wrong(adds->slices(), 1));
}

void add_cpu_peers(const Context& context, Report& report, std::size_t count, const Reached& reached) {
  const auto add = [&](const char* by, std::size_t times, auto once) {
    const Spread spread = spread_of(time_at_random(times, once));
    report.add({kEmptyTask, by, false, "ns", spread});
    return spread.p50;
  };
  std::atomic<std::size_t> ran{0};
  std::size_t expected = 0;
  {
    // Do fewer rounds: waking a thread is slow.
    const std::size_t fewer = count / 5;
    CpuPool pool(context.info.workers);
    const double time = add("thread pool, condition variables", fewer, [&](std::size_t) {
      pool.run([&] { ran.fetch_add(1, std::memory_order_relaxed); });
      pool.wait();
    });
    expected += calls_at_random(fewer);
    report.add(Goal{"empty task, p50, against the thread pool", "x", reached.empty.p50 / time, 1});
  }
  std::string why;
  if (const auto tbb = TbbPeer::open(static_cast<int>(context.info.workers) + 1, &why)) {
    auto task = [&](std::size_t) { ran.fetch_add(1, std::memory_order_release); };
    const double time = add("oneTBB task_arena::enqueue, until seen", count, [&](std::size_t i) {
      tbb->enqueue(task, i);
      ++expected;
      spin_until([&] { return ran.load(std::memory_order_acquire) == expected; });
    });
    report.add(Goal{"empty task, p50, against oneTBB's enqueue", "x", reached.empty.p50 / time, 1});
    add("oneTBB task_group, run by who waits", count, [&](std::size_t i) {
      tbb->run_and_wait(task, i);
      ++expected;
    });
  } else {
    report.note("no oneTBB: " + why);
  }
  {
    FlagThread flag;
    add("bare flag between two threads", count, [&](std::size_t) { flag.round(); });
  }
  report.check(text_of_count(ran.load()) + " tasks of peers ran, of " + text_of_count(expected), ran.load() == expected);
}

void run(const Context& context, Report& report) {
  const auto count = context.pick<std::size_t>(100'000, 2'000);
  const Reached reached = add_ours(context, report, count);
  if (context.cuda) {
    add_ours_on_a_long_lease(context, report, count);
    add_cuda_peers(context, report, count);
    report.add(Goal{"empty task, memory named, p50", "ns", reached.ordered.p50, 2800, 3000});
    report.add(Goal{"empty task, memory named, p99", "ns", reached.ordered.p99, 4000, 4400});
    report.add(Goal{"empty task, memory named, p99.9", "ns", reached.ordered.p999, 8000, 29000});
    report.add(Goal{"empty task, memory named, longest", "ns", reached.ordered.most, 60e3, 153e3});
    report.add(Goal{"the same at random gaps of 0 to 100 us, p99", "ns", reached.rare.p99, 6000, 13500});
  } else {
    add_cpu_peers(context, report, count, reached);
  }
}

const Registration kRegistration{{10, "latency", "one task, submitted to acknowledged, at random intervals of 0 to 10 us", 90, run}};

}  // namespace

}  // namespace dwell::bench
