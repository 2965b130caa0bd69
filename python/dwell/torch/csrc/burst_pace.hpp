// When a burst starts before the last operation has been collected, so that the device works while the host collects more.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace dwell::pytorch {

// A burst costs the host some 10 us, on slow machines 50, and what the device would take for what is collected is not known. So bursts that
// nobody has asked for get a fixed part of the host's time: one starts when the device has nothing to do and the host has collected for
// kRest times as long as bursts take it. A device without work waits no longer than that. Belongs to a collector.
class BurstPace {
 public:
  using Clock = std::chrono::steady_clock;
  using Time = std::chrono::duration<double, std::nano>;

  static constexpr std::int64_t kLook = 16;  // operations that are collected between two looks at the device
  static constexpr int kRest = 32;
  static constexpr Time kAssumed{10'000};  // that a burst takes the host, before one has been seen

  // The first operation since the last burst is collected.
  void begins(Clock::time_point now) { since_ = now; }
  // A burst took the host so long. The mean of about eight; one that has waited for the driver counts as four at most.
  void took(Time burst) { cost_ += (std::min(burst, 4 * cost_) - cost_) / 8; }
  bool worth(Clock::time_point now) const { return now - since_ >= kRest * cost_; }

 private:
  Clock::time_point since_;
  Time cost_ = kAssumed;
};

}  // namespace dwell::pytorch
