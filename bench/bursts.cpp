// What a burst adds to a stream of kernels: the time before its first task, and behind its last one.
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <dwell/stream.hpp>

#include "bench/benchmarks.hpp"
#include "bench/timing.hpp"

namespace dwell::bench {

namespace {

constexpr const char* kOperator = R"(
DWELL_OPERATOR(stamp)(dwell::Group g, dwell::Span<dwell::u64> at, dwell::u32 i) {
  if (g.rank() != 0) return;
  dwell::u64 now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now)::"memory");
  at[i] = now;
}
)";
constexpr const char* kKernel = R"(
__global__ void stamp(unsigned long long* at) {
  unsigned long long now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now)::"memory");
  *at = now;
}
)";

// Clocks of the device in a run: those of a kernel before, of tasks, of a kernel behind.
struct Stamps {
  std::vector<std::uint64_t> values;
  double before() const { return static_cast<double>(first_task() - values.front()); }
  double behind() const { return static_cast<double>(values.back() - *std::max_element(values.begin() + 1, values.end() - 1)); }
  std::uint64_t first_task() const { return *std::min_element(values.begin() + 1, values.end() - 1); }
};

void run(const Context& context, Report& report) {
  if (!context.cuda) return report.note("bursts are leases in the order of a CUDA stream: nothing to time on a CPU");
  const auto count = context.pick<std::size_t>(2000, 50);
  Options options = context.options();
  options.bursts = true;
  Runtime runtime(options);
  const auto task = runtime.define<void(Span<std::uint64_t>, std::uint32_t)>("stamp", kOperator);
  const Module module = runtime.compile({kKernel, "stamp.cu"});
  const auto kernel = module.kernel<void(unsigned long long*)>("stamp");
  const Stream own = runtime.make_stream();
  void* const stream = own.handle();
  std::size_t wrong = 0;
  double first = 0;
  for (const std::size_t tasks : {std::size_t{1}, std::size_t{32}, std::size_t{1024}}) {
    auto at = runtime.allocate<std::uint64_t>(tasks + 2, Memory::host);
    const auto stamps_of = [&] { return Stamps{{at.host().begin(), at.host().end()}}; };
    std::vector<double> before;
    std::vector<double> behind;
    std::vector<double> calls;
    std::vector<double> empty;
    const std::string with = std::to_string(tasks) + (tasks == 1 ? " task" : " tasks");
    const auto whole = time_at_random(
        count,
        [&](std::size_t) {
          std::ranges::fill(at.host(), std::uint64_t{0});
          kernel.launch({.stream = stream}, at.slice(0, 1));
          for (std::size_t i = 0; i < tasks; ++i) runtime.submit(task, at, static_cast<std::uint32_t>(i + 1));
          const Clock::time_point start = Clock::now();
          runtime.burst(stream);
          calls.push_back(nanoseconds_since(start));
          kernel.launch({.stream = stream}, at.data() + 1 + tasks).wait();
        },
        [&](std::size_t) {
          const Stamps stamps = stamps_of();
          wrong += static_cast<std::size_t>(std::ranges::count(stamps.values, std::uint64_t{0}));
          before.push_back(stamps.before());
          behind.push_back(stamps.behind());
        });
    const Spread spread = spread_of(before);
    if (tasks == 1) first = spread.p50;
    report.add({"a burst of " + with + ", from the kernel before to the first task", "dwell", true, "ns", spread});
    report.add({"a burst of " + with + ", from its last task to the kernel behind", "dwell", true, "ns", spread_of(behind)});
    report.add({"a burst of " + with + ", the host's call", "dwell", true, "ns", spread_of(calls)});
    report.add({"a kernel, a burst of " + with + ", a kernel, a wait", "dwell", true, "ns", spread_of(whole)});
  }
  {
    auto at = runtime.allocate<std::uint64_t>(2, Memory::host);
    std::vector<double> between;
    time_at_random(
        count,
        [&](std::size_t) {
          kernel.launch({.stream = stream}, at.slice(0, 1));
          kernel.launch({.stream = stream}, at.data() + 1).wait();
        },
        [&](std::size_t) { between.push_back(static_cast<double>(at.host()[1] - at.host()[0])); });
    report.add({"from a kernel to the next one", "kernels in a stream", false, "ns", spread_of(between)});
  }
  {
    auto at = runtime.allocate<std::uint64_t>(1, Memory::host);
    report.add(
        {"a burst of 1 task in no stream, from submit to its end", "dwell", true, "ns", spread_of(time_at_random(count, [&](std::size_t) {
           const Ticket ticket = runtime.submit(task, at, 0U);
           runtime.burst();
           ticket.wait();
         }))});
  }
  report.check_none("clocks that no task or kernel has written", wrong);
  report.add(Goal{"before the first task of a burst", "ns", first, 12'000, 25'000});
}

const Registration kRegistration{{36, "bursts", "bursts between the kernels of a stream", 60, run}};

}  // namespace

}  // namespace dwell::bench
