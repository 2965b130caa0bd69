#include "device/worker_clock.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <string>
#include <thread>

namespace dwell::device::worker_clock_test {
namespace {

using namespace std::chrono_literals;

bool runs_on_the_counter() {
  std::ifstream file("/sys/devices/system/clocksource/clocksource0/current_clocksource");
  std::string name;
  return kHasCycleCounter && file >> name && name == "tsc";
}

// The clock's distance from the system's, in ns.
u64 off(WorkerClock& clock) {
  u64 best = ~0ULL;
  for (int i = 0; i < 20; ++i) {
    const u64 before = now_ns();
    const u64 seen = worker_clock::now(&clock);
    const u64 behind = now_ns();
    const u64 far = seen < before ? before - seen : seen > behind ? seen - behind : 0;
    best = far < best ? far : best;
  }
  return best;
}

TEST(WorkerClock, WithoutACounterItIsTheSystemClock) {
  WorkerClock clock;
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(off(clock), 0U);
    std::this_thread::sleep_for(1ms);
  }
  EXPECT_EQ(clock.span, 0U);
}

TEST(WorkerClock, FollowsTheSystemClockAndIsMonotonic) {
  if (!runs_on_the_counter()) GTEST_SKIP() << "the system's clock is not the processor's counter";
  WorkerClock clock{.counts = true};
  u64 last = 0;
  u64 back = 0;
  u64 far = 0;
  const auto begun = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - begun < 100ms) {
    for (int i = 0; i < 1000; ++i) {
      const u64 now = worker_clock::now(&clock);
      back += now < last ? 1 : 0;
      last = now;
    }
    far = std::max(far, off(clock));
  }
  EXPECT_EQ(back, 0U);
  EXPECT_LE(far, 2000U);
  EXPECT_NE(clock.span, 0U) << "it reads the counter";
}

TEST(WorkerClock, IsAccurateAfterAPause) {
  if (!runs_on_the_counter()) GTEST_SKIP() << "the system's clock is not the processor's counter";
  WorkerClock clock{.counts = true};
  for (int i = 0; i < 5; ++i) {
    std::this_thread::sleep_for(5ms);
    EXPECT_LE(off(clock), 2000U);
  }
}

TEST(WorkerClock, CounterJumpsAreDetected) {
  if (!runs_on_the_counter()) GTEST_SKIP() << "the system's clock is not the processor's counter";
  WorkerClock clock{.counts = true};
  for (int i = 0; i < 3; ++i) {
    std::this_thread::sleep_for(1ms);
    worker_clock::now(&clock);
  }
  ASSERT_NE(clock.scale, 0U);
  const u64 scale = clock.scale;
  for (const auto rest : {0ms, 1ms}) {
    clock.counted += 1'000'000'000;  // as if the counter had gone back
    std::this_thread::sleep_for(rest);
    EXPECT_LE(off(clock), 2000U);
    EXPECT_NEAR(static_cast<double>(clock.scale), static_cast<double>(scale), static_cast<double>(scale) / 100);
  }
}

}  // namespace
}  // namespace dwell::device::worker_clock_test
