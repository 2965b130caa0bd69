// Time in which the process was running.
#pragma once

#include <algorithm>
#include <chrono>

namespace dwell::runtime {

// A clock that stands still while the process is stopped (Ctrl-Z, a debugger's breakpoint, a frozen container) or the machine is suspended.
// It is read again and again; the time between two readings counts for `longest_step` at most. One thread reads it.
class RunningClock {
 public:
  using Clock = std::chrono::steady_clock;

  explicit constexpr RunningClock(Clock::duration longest_step) : longest_step_(longest_step) {}

  // The time that has passed since the first reading, as of `now`.
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
