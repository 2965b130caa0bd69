// A lock for critical sections of tens of nanoseconds.
#pragma once

#include <atomic>
#include <cstdint>

#include <dwell/device/platform.hpp>

namespace dwell::runtime {

// Waits until `condition` holds: nanoseconds, unless the awaited thread is preempted.
template <class Condition>
void spin_until(Condition condition) {
  for (std::uint32_t round = 0; !condition(); ++round) device::relax(round);
}

// For std::lock_guard. Not recursive.
class SpinLock {
 public:
  bool try_lock() { return !held_.test(std::memory_order_relaxed) && !held_.test_and_set(std::memory_order_acquire); }
  void lock() {
    spin_until([this] { return try_lock(); });
  }
  void unlock() { held_.clear(std::memory_order_release); }

 private:
  std::atomic_flag held_;
};

}  // namespace dwell::runtime
