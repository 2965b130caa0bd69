// When to start a burst early, so that the device works while the host collects more.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace dwell::pytorch {

// A burst costs the host some 10 us, on slow machines 50. The time of the device is not known. So early bursts get a fixed share of the
// host's time: one starts when the device is idle and the host has collected for kRest times the cost of a burst. The device idles no
// longer than that. Belongs to a collector.
class BurstPace {
 public:
  using Clock = std::chrono::steady_clock;
  using Time = std::chrono::duration<double, std::nano>;

  static constexpr std::int64_t kLook = 16;  // operations between two checks whether the device is idle
  static constexpr int kRest = 32;
  static constexpr Time kAssumed{10'000};  // cost of a burst before the first is measured

  // Call for the first operation after a burst.
  void begins(Clock::time_point now) { since_ = now; }
  // Notes the host's time of a burst. Keeps the mean of about eight; a burst that waited for the driver counts as four at most.
  void took(Time burst) { cost_ += (std::min(burst, 4 * cost_) - cost_) / 8; }
  // Returns whether an early burst may start.
  bool worth(Clock::time_point now) const { return now - since_ >= kRest * cost_; }

 private:
  Clock::time_point since_;
  Time cost_ = kAssumed;
};

}  // namespace dwell::pytorch
