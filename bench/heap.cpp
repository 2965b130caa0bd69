// Allocations by operators: of the heap, and of malloc, which is CUDA's on the device and the C library's on a CPU.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/benchmarks.hpp"
#include "bench/timing.hpp"
#if DWELL_WITH_CUDA
#include "bench/cuda_driver.hpp"
#endif

namespace dwell::bench {

namespace {

using u32 = std::uint32_t;
using u64 = std::uint64_t;

// Both programs are the same but for these.
constexpr const char* kHeapCalls = R"(
using Handle = dwell::Ref<dwell::u64>;
#define TAKE(bytes) g.try_allocate(bytes).as<dwell::u64>()
#define GIVE(handle) g.free(handle)
#define AT(handle) g.at(handle)
#define IS_THERE(handle) bool(handle)
)";
constexpr const char* kPeerCalls = R"(
#if !DWELL_PARALLEL_GROUP
#include <cstdlib>
#endif
using Handle = dwell::u64*;
#define TAKE(bytes) static_cast<dwell::u64*>(malloc(bytes))
#define GIVE(handle) free(handle)
#define AT(handle) (handle)
#define IS_THERE(handle) ((handle) != nullptr)
)";

// Each caller allocates, signs what it gets, and frees it behind the next allocation, when it has checked the signature. Cells: mistakes,
// failures.
constexpr const char* kPairs = R"(
DWELL_OPERATOR(pairs)(dwell::Group g, dwell::u32 bytes, dwell::u32 rounds, dwell::u32 alone, dwell::Span<dwell::u32> cells) {
  if (alone != 0 && g.rank() != 0) return;
  const dwell::u64 me = (dwell::u64(g.index()) * g.size() + g.rank()) << 32;
  Handle held{};
  dwell::u32 mistakes = 0;
  dwell::u32 failures = 0;
  for (dwell::u32 round = 0; round < rounds; ++round) {
    const Handle next = TAKE(bytes);
    if (IS_THERE(next)) *AT(next) = me + round; else ++failures;
    if (IS_THERE(held)) {
      if (*AT(held) != me + round - 1) ++mistakes;
      GIVE(held);
    }
    held = next;
  }
  if (IS_THERE(held)) GIVE(held);
  if (mistakes != 0) dwell::device::fetch_add<dwell::device::Order::relaxed>(&cells[0], mistakes);
  if (failures != 0) dwell::device::fetch_add<dwell::device::Order::relaxed>(&cells[1], failures);
}
)";

// Each thread holds sixteen allocations of random sizes, from 2^low to 2^high bytes; three quarters of its steps replace one of the first
// four, one in sixteen one of the last four.
constexpr const char* kChurn = R"(
struct alignas(16) Held { Handle handle; dwell::u32 bytes; };
DWELL_OPERATOR(churn)(dwell::Group g, dwell::u32 seed, dwell::u32 steps, float low, float high, dwell::Span<Held> all,
                      dwell::Span<dwell::u32> cells) {
  const dwell::u32 me = g.index() * g.size() + g.rank();
  const dwell::u32 threads = g.count() * g.size();
  dwell::u32 random = me * 0x9E3779B9u + seed;
  dwell::u32 mistakes = 0;
  dwell::u32 failures = 0;
  for (dwell::u32 step = 0; step < steps; ++step) {
    random = random * 1664525u + 1013904223u;
    const dwell::u32 pick = random >> 28;
    const dwell::u32 slot = pick < 12 ? pick & 3u : pick < 15 ? 4 + (random >> 24 & 7u) : 12 + (random >> 24 & 3u);
    Held& held = all[slot * threads + me];
    const dwell::u64 tag = dwell::u64(me) << 32 | slot << 16;
    if (IS_THERE(held.handle)) {
      if (*AT(held.handle) != tag + held.bytes) ++mistakes;
      GIVE(held.handle);
      held.handle = Handle{};
    }
    if (seed == 0) continue;  // only frees
    random = random * 1664525u + 1013904223u;
    const dwell::u32 bytes = dwell::u32(exp2f(low + (random >> 8) * (high - low) / 16777216.f));
    held.handle = TAKE(bytes);
    held.bytes = bytes;
    if (IS_THERE(held.handle)) *AT(held.handle) = tag + bytes; else ++failures;
  }
  if (mistakes != 0) dwell::device::fetch_add<dwell::device::Order::relaxed>(&cells[0], mistakes);
  if (failures != 0) dwell::device::fetch_add<dwell::device::Order::relaxed>(&cells[1], failures);
}
DWELL_OPERATOR(drain)(dwell::Group g, dwell::Span<Held> all) {
  for (dwell::u32 i : g.range(all.size())) {
    if (IS_THERE(all[i].handle)) GIVE(all[i].handle);
    all[i].handle = Handle{};
  }
}
)";
struct Held {
  u64 handle;
  u64 bytes;
};

// Raises the heap of CUDA's malloc, which has 8 MiB by itself, for modules that are loaded afterwards.
void raise_limit(const Context& context) {
#if DWELL_WITH_CUDA
  if (!context.cuda) return;
  const CudaDriver& driver = CudaDriver::get();
  CUdevice device = 0;
  CUcontext primary = nullptr;
  DWELL_BENCH_CUDA(driver, cuDeviceGet, &device, context.ordinal);
  DWELL_BENCH_CUDA(driver, cuDevicePrimaryCtxRetain, &primary, device);
  DWELL_BENCH_CUDA(driver, cuCtxSetCurrent, primary);
  DWELL_BENCH_CUDA(driver, cuCtxSetLimit, CU_LIMIT_MALLOC_HEAP_SIZE, std::size_t{4} << 30U);
#else
  static_cast<void>(context);
#endif
}

class HeapBenchmark {
 public:
  HeapBenchmark(const Context& context, Report& report, bool ours, HeapChecks checks)
      : context_(context), report_(report), ours_(ours), runtime_(options(checks)), cells_(runtime_.allocate<u32>(2)) {
    const std::string calls = ours ? kHeapCalls : kPeerCalls;
    by_ = !ours ? (context.cuda ? "CUDA's malloc" : "malloc") : checks == HeapChecks::off ? "dwell, without checks" : "dwell";
    pairs_ = runtime_.define("pairs", calls + kPairs);
    churn_ = runtime_.define("churn", calls + kChurn);
    drain_ = runtime_.define("drain", calls + kChurn);
    workers_ = runtime_.info().workers;
    threads_ = workers_ * (context.cuda ? 128 : 1);
  }

  // ns a pair, over all callers.
  double pairs(u32 bytes, bool alone) {
    const u64 callers = alone ? workers_ : threads_;
    // CUDA's malloc is a thousand times slower.
    u32 rounds = static_cast<u32>(context_.cuda ? (ours_ ? (alone ? 4000 : bytes > 1024 ? 60 : 400) : 2) : 1'000'000);
    if (context_.brief) rounds = std::min(rounds, 20U);
    std::vector<double> times;
    for (int round = 0; round < (context_.brief || !ours_ ? 2 : 5); ++round) {
      const Clock::time_point start = Clock::now();
      // More groups than workers, so that all of these work to the end.
      constexpr u32 kGroups = 4;
      runtime_.submit(pairs_, Arguments().add(bytes).add(rounds).add(u32{alone ? 1U : 0U}).add(cells_).add(groups(workers_ * kGroups)))
          .wait();
      times.push_back(nanoseconds_since(start) / static_cast<double>(callers * rounds * kGroups));
    }
    const Spread spread = spread_of(times);
    const std::string who = alone ? "one thread of each worker" : "all threads";
    report_.add({"make and free " + std::to_string(bytes) + " B, " + who + ", a pair", by_, ours_, "ns", spread});
    return spread.p50;
  }

  // ns a step, of a free and an allocation, over all threads; and live bytes by bytes taken.
  std::pair<double, double> churn(float low, float high, bool begins, const std::string& name) {
    if (begins) held_.emplace(runtime_.allocate<Held>(std::size_t{threads_} * 16));
    u32 steps = context_.cuda ? (ours_ ? 200 : 2) : 200'000;
    if (context_.brief) steps = 20;
    std::vector<double> times;
    for (u32 round = 0; round < (ours_ ? 4U : 1U); ++round) {
      const Clock::time_point start = Clock::now();
      runtime_.submit(churn_, Arguments().add(++seed_).add(steps).add(low).add(high).add(*held_).add(cells_).add(groups(workers_))).wait();
      times.push_back(nanoseconds_since(start) / (static_cast<double>(threads_) * steps));
    }
    const Spread spread = spread_of(times);
    report_.add({"free and make of " + name + ", all threads, a step", by_, ours_, "ns", spread});
    if (!ours_) return {spread.p50, 0};
    const HeapStatistics now = runtime_.heap().statistics();
    return {spread.p50, static_cast<double>(now.live_bytes()) / static_cast<double>(now.used)};
  }
  void end_churn() {
    runtime_.submit(drain_, Arguments().add(*held_)).wait();
    held_.reset();
  }

  void check() {
    std::vector<u32> cells(2);
    cells_.read(std::span(cells));
    report_.check_none("allocations without their owner's tag, " + by_, cells[0]);
    if (ours_)
      report_.check_none("allocations that failed, " + by_, cells[1]);
    else if (cells[1] != 0)
      report_.note(by_ + ": " + text_of_count(cells[1]) + " allocations failed, which makes it look faster");
    if (!ours_) return;
    const HeapVerification verified = runtime_.heap().verify();
    report_.check_none("contradictions in the heap's tables, " + by_, verified.mistakes);
    report_.check_none("allocations left, " + by_, verified.live);
  }

 private:
  Options options(HeapChecks checks) const {
    Options options = context_.options();
    options.heap.checks = checks;
    options.heap.grow = context_.cuda ? std::size_t{8} << 30U : 0;
    options.parts = Parts::all;
    return options;
  }

  const Context& context_;
  Report& report_;
  bool ours_;
  std::string by_;
  Runtime runtime_;
  Buffer<u32> cells_;
  Operator<> pairs_;
  Operator<> churn_;
  Operator<> drain_;
  std::optional<Buffer<Held>> held_;
  u32 workers_ = 0;
  u32 threads_ = 0;
  u32 seed_ = 1;
};

void run(const Context& context, Report& report) {
  raise_limit(context);
  const auto goal = [&](const std::string& what, double ns, double goal_g, double least_g) {
    if (context.cuda) report.add(Goal{what, "G a second", 1 / ns, goal_g, least_g, true});
  };
  for (const HeapChecks checks : {HeapChecks::light, HeapChecks::off}) {
    HeapBenchmark ours(context, report, true, checks);
    const bool quoted = checks == HeapChecks::light;
    double slowest = 0;
    for (const u32 bytes : {16U, 64U, 256U, 1024U}) slowest = std::max(slowest, ours.pairs(bytes, true));
    if (quoted) goal("pairs of one thread a worker, 16 B to 1 KiB", slowest, 0.8, 0.4);
    if (context.cuda) {
      const struct {
        u32 bytes;
        double goal;
        double least;
      } sizes[] = {{16, 8, 5}, {64, 7, 4}, {256, 5, 3}, {1024, 2, 1}, {8192, 0.5, 0.2}};
      for (const auto& one : sizes) {
        const double ns = ours.pairs(one.bytes, false);
        if (quoted) goal("pairs of all threads, " + std::to_string(one.bytes) + " B", ns, one.goal, one.least);
      }
    }
    ours.churn(4, 13, true, "16 B to 8 KiB, from empty");
    const auto [steady, efficiency] = ours.churn(4, 13, false, "16 B to 8 KiB, steady");
    ours.churn(4, 8, false, "16 to 256 B behind that");
    const auto [again, later] = ours.churn(4, 13, false, "16 B to 8 KiB behind that");
    if (quoted && context.cuda) {  // few threads fill no slabs
      goal("churn of 16 B to 8 KiB, steady", steady, 1, 0.4);
      report.add(Goal{"live bytes of those in slabs, steady", "", efficiency, 0.88, 0.8, true});
      report.add(Goal{"the same when the mix has changed and come back", "", later, 0.85, 0.8, true});
    }
    static_cast<void>(again);
    ours.end_churn();
    ours.check();
  }
  HeapBenchmark peer(context, report, false, HeapChecks::off);
  for (const u32 bytes : {16U, 64U, 256U, 1024U}) peer.pairs(bytes, true);
  if (context.cuda)
    for (const u32 bytes : {16U, 64U, 256U, 1024U, 8192U}) peer.pairs(bytes, false);
  peer.churn(4, 13, true, "16 B to 8 KiB, from empty");
  peer.end_churn();
  peer.check();
}

const Registration kRegistration{{39, "heap", "memory that operators allocate", 120, run}};

}  // namespace

}  // namespace dwell::bench
