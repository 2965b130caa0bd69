// How the host waits for the device.
#pragma once

#include <chrono>
#include <cstdint>
#include <thread>

#include "base/relax.hpp"

namespace dwell::runtime {

// Waits a moment for something that takes microseconds, longer the longer it has taken.
class Backoff {
 public:
  // `shared`: what is waited for may need this very processor.
  explicit Backoff(bool shared) : shared_(shared) {}

  // Whether so much time has gone by that dear checks are worth it.
  bool wait() {
    ++rounds_;
    if (rounds_ < 4096) {
      // A completion takes a few microseconds: the pause instruction alone would be a noticeable part of it.
      if (rounds_ > 1024) relax();
      if (shared_ && (rounds_ & 63U) == 0) std::this_thread::yield();
      return (rounds_ & 255U) == 0;
    }
    if (rounds_ < 4096 + 256)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    return true;
  }

 private:
  bool shared_;
  std::uint32_t rounds_ = 0;
};

}  // namespace dwell::runtime
