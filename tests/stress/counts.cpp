// A hundred million tasks through rolls, parks and swaps: every counter adds up.
#include <algorithm>
#include <thread>

#include "tests/conformance/suite.hpp"

namespace dwell::test {
namespace {

class CountsTest : public DeviceTest {
 protected:
  std::chrono::seconds limit() const override { return 300s; }
};
DWELL_ON_EVERY_DEVICE(CountsTest);

TEST_P(CountsTest, EveryCounterAddsUpThroughRollsParksAndSwaps) {
  const bool brief = environment("DWELL_STRESS") == "short";
  const std::uint64_t all = brief ? 100'000 : on_cpu() ? 4'000'000 : 100'000'000;
  constexpr std::uint32_t kSources = 4;  // compiled once each; versions take them in turn
  constexpr std::uint32_t kSwaps = 5;    // at least
  Options short_leases = options();
  short_leases.lease = on_cpu() ? 2ms : 500us;
  Runtime runtime(short_leases);
  const auto source = [](std::uint32_t number) { return std::string(kNothing) + "// " + std::to_string(number) + "\n"; };
  auto first = runtime.define<void()>("nothing", source(0));
  for (std::uint32_t i = 1; i < kSources; ++i) first.redefine(source(i));
  const auto second = runtime.define<void(u32)>("other", "DWELL_OPERATOR(other)(dwell::Group, dwell::u32) {}\n");

  std::atomic<std::uint64_t> submitted[2] = {};
  std::atomic<bool> over{false};
  std::atomic<std::uint32_t> swaps{0};
  {
    const std::jthread submitter([&] {
      std::uint64_t sum = 0;
      for (std::uint64_t i = 0; sum < all; ++i) {
        const std::uint64_t count = std::min<std::uint64_t>(all - sum, i % 7 == 0 ? 1 : 1'000 + i % 1'000);
        if (i % 3 == 0)
          runtime.submit_many(second, count, [](std::size_t at, auto put) { put(static_cast<u32>(at)); });
        else
          runtime.submit_many(first, count, [](std::size_t, auto put) { put(); });
        submitted[i % 3 == 0 ? 1 : 0] += count;
        sum += count;
        // Swaps keep up with the tasks, however loaded the machine is.
        while (swaps * all < sum * kSwaps) std::this_thread::sleep_for(100us);
      }
      over = true;
    });
    while (!over) {
      first.redefine(source(++swaps % kSources));
      if (swaps % 5 == 0) {
        runtime.park();
        runtime.resume();
      }
      std::this_thread::sleep_for(2ms);
    }
  }
  runtime.wait_all();

  const Metrics metrics = runtime.metrics();
  std::uint64_t by_operator[2] = {};
  std::uint64_t failures = 0;
  for (const OperatorMetrics& op : metrics.operators) {
    by_operator[op.name == "other" ? 1 : 0] += op.tasks;
    failures += op.failures;
  }
  EXPECT_EQ(by_operator[0], submitted[0]);
  EXPECT_EQ(by_operator[1], submitted[1]);
  EXPECT_EQ(by_operator[0] + by_operator[1], all);
  EXPECT_EQ(failures, 0U);
  std::uint64_t tasks = 0;
  std::uint64_t fetched = 0;
  for (const WorkerMetrics& worker : metrics.workers) {
    tasks += worker.tasks;
    fetched += worker.fetched;
  }
  EXPECT_EQ(tasks, all);
  EXPECT_GE(fetched, all) << "a slot each, and those of drains";
  EXPECT_EQ(metrics.submitted, all);
  EXPECT_GT(metrics.leases, 2U);
  EXPECT_GT(metrics.parks, 0U);
  EXPECT_GE(swaps, kSwaps);
  std::printf("%llu tasks, %u swaps, %llu leases, %llu parks\n", static_cast<unsigned long long>(all), swaps.load(),
              static_cast<unsigned long long>(metrics.leases), static_cast<unsigned long long>(metrics.parks));
}

}  // namespace
}  // namespace dwell::test
