#include "runtime/device/running_clock.hpp"

#include <gtest/gtest.h>

namespace dwell::runtime {
namespace {

using namespace std::chrono_literals;

TEST(RunningClock, CountsTheTimeBetweenReadings) {
  RunningClock clock(100ms);
  const RunningClock::Clock::time_point start(1h);
  EXPECT_EQ(clock.read(start), 0ms);
  EXPECT_EQ(clock.read(start + 5ms), 5ms);
  EXPECT_EQ(clock.read(start + 65ms), 65ms);
}

TEST(RunningClock, AStopCountsAsOneStep) {
  RunningClock clock(100ms);
  const RunningClock::Clock::time_point start(1h);
  clock.read(start);
  EXPECT_EQ(clock.read(start + 3s), 100ms);
  EXPECT_EQ(clock.read(start + 3s + 5ms), 105ms);
}

TEST(RunningClock, NeverGoesBack) {
  RunningClock clock(100ms);
  const RunningClock::Clock::time_point start(1h);
  clock.read(start);
  clock.read(start + 10ms);
  EXPECT_EQ(clock.read(start + 2ms), 10ms);
}

}  // namespace
}  // namespace dwell::runtime
