#include "runtime/observe/device_clock.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <thread>

#include "runtime/observe/host_events.hpp"

namespace dwell::runtime {
namespace {

using namespace std::chrono_literals;

// A device whose clock is 5 s behind the host's, and loses `drift` ns a ns.
class FarClock {
 public:
  explicit FarClock(double drift) : drift_(drift) {}

  std::int64_t device_at(std::int64_t host) const {
    return host - 5'000'000'000 - static_cast<std::int64_t>(drift_ * static_cast<double>(host - begun_));
  }
  ClockReading read() {
    ++readings;
    const std::int64_t now = HostEvents::now();
    return {now, now - device_at(now), 500};
  }
  int readings = 0;

 private:
  const double drift_;
  const std::int64_t begun_ = HostEvents::now();
};

TEST(DeviceClock, SharedClockNeedsNoReading) {
  DeviceClock clock(nullptr);
  clock.align(0);
  EXPECT_EQ(clock.to_host(17), 17);
  EXPECT_EQ(clock.error_ns(), 0);
}

TEST(DeviceClock, ConvertsTimesBothWays) {
  FarClock far(1e-5);
  DeviceClock clock([&] { return far.read(); });
  clock.align(0);
  std::this_thread::sleep_for(20ms);
  clock.align(0);
  const std::int64_t now = HostEvents::now() + 1'000'000'000;
  EXPECT_NEAR(static_cast<double>(clock.to_host(clock.to_device(now)) - now), 0, 2);
  EXPECT_NEAR(static_cast<double>(static_cast<std::int64_t>(clock.to_device(now)) - far.device_at(now)), 0, 100'000);
}

TEST(DeviceClock, IsReadWhenTheErrorMayBeTooLarge) {
  FarClock far(0);
  DeviceClock clock([&] { return far.read(); });
  clock.align(1000);
  EXPECT_EQ(far.readings, 1);
  EXPECT_GE(clock.error_ns(), 500);
  clock.align(1e9);
  EXPECT_EQ(far.readings, 1) << "near enough";
  // The drift is not known yet: 10^-4 of 20 ms are 2 us.
  std::this_thread::sleep_for(20ms);
  EXPECT_GE(clock.error_ns(), 2500);
  clock.align(1000);
  EXPECT_EQ(far.readings, 2);
  const std::int64_t now = HostEvents::now();
  EXPECT_NEAR(static_cast<double>(clock.to_host(static_cast<std::uint64_t>(far.device_at(now))) - now), 0, 1500);
}

TEST(DeviceClock, IsNotReadIfNoReadingIsMoreAccurate) {
  FarClock far(0);
  DeviceClock clock([&] { return far.read(); });
  const auto begun = std::chrono::steady_clock::now();
  clock.align(100);  // each reading is 500 ns off
  clock.align(100);
  if (std::chrono::steady_clock::now() - begun > 2ms) GTEST_SKIP() << "the machine was busy: the clocks may have drifted apart";
  EXPECT_EQ(far.readings, 1);
  std::this_thread::sleep_for(10ms);
  clock.align(100);
  EXPECT_EQ(far.readings, 2) << "by now it may be 1500 ns off";
}

TEST(DeviceClock, FollowsADrift) {
  FarClock far(5e-5);
  DeviceClock clock([&] { return far.read(); });
  clock.align(0);
  std::this_thread::sleep_for(100ms);
  clock.align(0);  // bounds the drift to 10^-5
  std::this_thread::sleep_for(100ms);
  const std::int64_t now = HostEvents::now();
  const auto off = static_cast<double>(clock.to_host(static_cast<std::uint64_t>(far.device_at(now))) - now);
  EXPECT_LE(std::abs(off), 1500) << "without the drift it would be 5000";
  EXPECT_LE(std::abs(off), clock.error_ns() + 100);
}

}  // namespace
}  // namespace dwell::runtime
