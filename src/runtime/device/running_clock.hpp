// A clock of the process's running time.
#pragma once

#include <algorithm>
#include <chrono>

namespace dwell::runtime {

// A clock that stands still while the process is stopped (Ctrl-Z, a debugger's breakpoint, a frozen container) or the machine is suspended.
// Must be read regularly: the time between two readings counts for at most `longest_step`. One thread reads it.
class RunningClock {
 public:
  using Clock = std::chrono::steady_clock;

  explicit constexpr RunningClock(Clock::duration longest_step) : longest_step_(longest_step) {}

  // Returns the running time from the first reading to `now`.
  Clock::duration read(Clock::time_point now) {
    if (last_ != Clock::time_point{}) passed_ += std::clamp(now - last_, Clock::duration::zero(), longest_step_);
    last_ = now;
    return passed_;
  }

 private:
  const Clock::duration longest_step_;
  Clock::duration passed_{};
  Clock::time_point last_{};
};

}  // namespace dwell::runtime
