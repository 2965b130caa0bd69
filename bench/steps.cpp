#include <algorithm>
#include <atomic>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "bench/benchmarks.hpp"
#include "bench/cuda_peer.hpp"
#include "bench/dag.hpp"
#include "bench/operators.hpp"
#include "bench/timing.hpp"

namespace dwell::bench {

namespace {

constexpr const char* kEmptyStep = "empty step";
constexpr const char* kAddStep = "step that adds 1024 floats";
constexpr const char* kEmptyRun = "empty run of a repeated task";
constexpr const char* kAddRun = "run that adds 1024 floats, of a repeated task";

// Runs until the host has set `turn`, for at most ten seconds.
constexpr const char* kHold = R"(
#include <dwell/device.hpp>
DWELL_OPERATOR(hold)(dwell::Group g, dwell::Span<unsigned> cell, unsigned turn) {
  using namespace dwell::device;
  if (g.rank() == 0) {
    const dwell::u64 start = now_ns();
    for (dwell::u32 round = 0; load<Order::acquire, Scope::system>(&cell[0]) != turn; ++round) {
      if (now_ns() - start > 10000000000ull) {
        g.fail(1);
        break;
      }
      relax(round);
    }
  }
  g.sync();
}
)";

const char* text_of(Tier tier) { return tier == Tier::lto ? "dwell, lto" : "dwell, relocatable"; }

// Times chains of linked tasks on one worker. A task holds them back until all are fetched, so that only the device's time is measured.
class Chains {
 public:
  Chains(Runtime& runtime, std::size_t steps)
      : runtime_(runtime),
        hold_(runtime.define<void(Span<unsigned>, unsigned)>("hold", kHold)),
        cell_(runtime.allocate<unsigned>(1, Memory::host)),
        steps_(steps) {
    cell_.host()[0] = 0;
  }

  // Returns the nanoseconds per step of each of `count` chains, after an untimed one. step() submits one step.
  template <class Step>
  std::vector<double> time(std::size_t count, Step step) {
    return time(count, step, steps_);
  }
  // As above, for calls of `step` that submit several steps; `calls` make a chain.
  template <class Step>
  std::vector<double> time(std::size_t count, Step step, std::size_t calls) {
    std::vector<double> times;
    for (std::size_t chain = 0; chain <= count; ++chain) {
      runtime_.submit(hold_, cell_, ++turn_);
      for (std::size_t i = 0; i + 1 < calls; ++i) step();
      const Ticket last = step();
      std::this_thread::sleep_for(kFetched);
      const Clock::time_point start = Clock::now();
      std::atomic_ref<unsigned>(cell_.host()[0]).store(turn_, std::memory_order_release);
      spin_until([&] { return last.done(); });
      const double time = nanoseconds_since(start);
      last.wait();
      if (chain != 0) times.push_back(time / static_cast<double>(steps_));
    }
    return times;
  }

 private:
  // More than enough for the crew to fetch a chain.
  static constexpr std::chrono::milliseconds kFetched{20};

  Runtime& runtime_;
  Operator<void(Span<unsigned>, unsigned)> hold_;
  Buffer<unsigned> cell_;
  std::size_t steps_;
  unsigned turn_ = 0;
};

std::size_t wrong_sums(std::span<const float> sums, std::size_t steps) {
  const auto expected = static_cast<float>(steps);  // exact: below 2^24
  return static_cast<std::size_t>(std::count_if(sums.begin(), sums.end(), [&](float sum) { return sum != expected; }));
}

void add_ours(const Context& context, Report& report, Tier tier, std::size_t chains, std::size_t steps) {
  dwell::Options options = context.options();
  options.tier = tier;
  options.lease = std::chrono::seconds(1);  // keeps ends of leases out of the measurement
  options.parts = Parts::all;               // links are submitted while a task is held
  Runtime runtime(std::move(options));
  const auto empty = runtime.define<void()>("empty", kEmpty);
  const Add add = runtime.define<void(Span<const float>, Span<const float>, Span<float>)>("add", kAdd);
  Chains all(runtime, steps);
  report.check(std::string("the image is of the tier asked for, ") + text_of(tier), runtime.info().tier == tier);
  report.add({kEmptyStep, text_of(tier), true, "ns", spread_of(all.time(chains, [&] { return runtime.submit(empty, link); }))});

  const auto runs = static_cast<std::uint32_t>(steps);
  report.add({kEmptyRun, text_of(tier), true, "ns",
              spread_of(all.time(
                  chains, [&] { return runtime.submit(empty, link, repeat(runs)); }, 1))});

  Buffer<float> ones = runtime.allocate<float>(Adds::kFloats);
  Buffer<float> sums = runtime.allocate<float>(Adds::kFloats);
  ones.write(std::vector<float>(Adds::kFloats, 1.0F));
  sums.write(std::vector<float>(Adds::kFloats, 0.0F));
  report.add(
      {kAddStep, text_of(tier), true, "ns", spread_of(all.time(chains, [&] { return runtime.submit(add, ones, sums, sums, link); }))});
  report.add({kAddRun, text_of(tier), true, "ns",
              spread_of(all.time(
                  chains, [&] { return runtime.submit(add, ones, sums, sums, link, repeat(runs)); }, 1))});
  std::vector<float> result(Adds::kFloats);
  sums.read(result);
  report.check_none(std::string("wrong sums, ") + text_of(tier), wrong_sums(result, 2 * (chains + 1) * steps));
}

void add_cuda_peers(const Context& context, Report& report, std::size_t chains, std::size_t steps) {
  std::string why;
  const auto peer = open_cuda_peer(context.ordinal, &why);
  if (!peer) {
    report.note("no CUDA peers: " + why);
    return;
  }
  const Dag dag = chain_of(steps);
  const auto side = peer->graphs(CudaGraphs::graph, {1, Adds::kFloats});
  side->write_first(std::vector<float>(Adds::kFloats, 1.0F));
  std::vector<float> sums(Adds::kFloats, 0.0F);
  side->write_sums(sums);
  for (const bool adds : {false, true}) {
    const auto graph = side->make(dag, adds ? Work::sum : Work::empty);
    std::vector<double> times;
    for (std::size_t i = 0; i <= chains; ++i) {
      const Clock::time_point start = Clock::now();
      graph->launch();
      graph->wait();
      if (i != 0) times.push_back(nanoseconds_since(start) / static_cast<double>(steps));
    }
    report.add({adds ? kAddStep : kEmptyStep, "CUDA graph, a chain of nodes", false, "ns", spread_of(std::move(times))});
  }
  side->read_sums(sums);
  report.check_none("wrong sums of the peer", wrong_sums(sums, (chains + 1) * steps));
}

void run(const Context& context, Report& report) {
  const auto chains = context.pick<std::size_t>(20, 2);
  const auto length = context.pick<std::size_t>(2'000, 200);
  add_ours(context, report, Tier::relocatable, chains, length);
  if (!context.cuda) return;
  add_ours(context, report, Tier::lto, chains, length);
  add_cuda_peers(context, report, chains, length);
}

const Registration kRegistration{{30, "steps", "a chain of linked tasks on one worker, all fetched before it starts, a step", 60, run}};

}  // namespace

}  // namespace dwell::bench
