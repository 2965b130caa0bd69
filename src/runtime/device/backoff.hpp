// How the host waits for the device.
#pragma once

#include <chrono>
#include <cstdint>
#include <thread>

#include "base/relax.hpp"

namespace dwell::runtime {

// Pauses between polls of something that takes microseconds; the pauses grow.
class Backoff {
 public:
  // `shared`: the awaited thread may need this processor.
  explicit Backoff(bool shared) : shared_(shared) {}

  // Pauses. Returns whether enough time has passed for expensive checks.
  bool wait() {
    ++rounds_;
    if (rounds_ < kSpins) {
      // A completion takes a few microseconds: the pause instruction alone would be a noticeable part of it.
      if (rounds_ > 1024) relax();
      if (shared_ && (rounds_ & 63U) == 0) std::this_thread::yield();
      return (rounds_ & 255U) == 0;
    }
    if (is_patient()) {
      std::this_thread::yield();
      return shared_ || (rounds_ & 63U) == 0;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    return true;
  }

 private:
  static constexpr std::uint32_t kSpins = 4096;

  // Returns whether it is too early to sleep. A sleep of 50 us takes twice as long: acceptable after milliseconds.
  bool is_patient() {
    if (shared_) return rounds_ < kSpins + 256;
    const auto now = std::chrono::steady_clock::now();
    if (rounds_ == kSpins) sleeps_from_ = now + std::chrono::milliseconds(2);
    return now < sleeps_from_;
  }

  bool shared_;
  std::uint32_t rounds_ = 0;
  std::chrono::steady_clock::time_point sleeps_from_;
};

}  // namespace dwell::runtime
