// When a burst starts before the last operation has been collected, so that the device works while the host collects more.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

namespace dwell::pytorch {

// Estimates what operations take the device, from bursts that were under way while more were collected. A burst costs some 10 us, of the
// host and of the device: it is worth that when the device has nothing to do and would work for ten times as long. Belongs to a collector.
class BurstPace {
 public:
  using Clock = std::chrono::steady_clock;
  using Time = std::chrono::duration<double, std::nano>;

  static constexpr std::int64_t kLook = 16;  // operations that are collected between two looks at the device
  static constexpr Time kWorth{100'000};     // of the device's time
  static constexpr Time kAssumed{1000};      // that an operation takes, before anything is known

  // A burst of so many operations has started, behind those under way.
  void started(Clock::time_point now, std::int64_t operations) {
    if (under_way_ == 0) first_ = last_ = now;
    under_way_ += operations;
  }
  // Whether the bursts so far have ended. How long ago is not known: what they took counts until they were last seen under way.
  void looked(Clock::time_point now, bool ended) {
    if (under_way_ == 0) return;
    if (ended)
      each_ = (last_ - first_) / static_cast<double>(std::exchange(under_way_, 0));
    else
      last_ = now;
  }
  // The bursts so far end while nobody looks, and something else may follow.
  void interrupted() {
    under_way_ = 0;
    each_ = std::max(each_, kAssumed);
  }
  bool worth(std::int64_t operations) const { return each_ * static_cast<double>(operations) >= kWorth; }

 private:
  std::int64_t under_way_ = 0;  // operations of the bursts that are, as far as is known
  Clock::time_point first_;     // the first of these started
  Clock::time_point last_;      // and was seen under way
  Time each_ = kAssumed;
};

}  // namespace dwell::pytorch
