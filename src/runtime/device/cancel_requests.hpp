// Requests to the device to cancel tasks (device/cancels.hpp).
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "device/arena.hpp"
#include "runtime/device/spin_lock.hpp"

namespace dwell::runtime {

// Passes positions to the device in the order of the calls. The device's list is short: requests that do not fit are queued here and passed
// on later. Members may be called from any thread.
class CancelRequests {
 public:
  // Does not own the report, which outlives it.
  explicit CancelRequests(device::LeaseReport& report) : report_(report) {}
  CancelRequests(const CancelRequests&) = delete;
  CancelRequests& operator=(const CancelRequests&) = delete;

  // Requests the task at `position` if `wanted`, which is called once, returns true. Throws std::bad_alloc, before it calls `wanted`, and
  // whatever `wanted` throws; then nothing is requested.
  template <class Wanted>
  void add(std::uint64_t position, Wanted wanted) {
    const std::lock_guard guard(lock_);
    kept_.reserve(kept_.size() + 1);
    if (!wanted()) return;
    kept_.push_back(static_cast<std::uint32_t>(position));
    pass_on_locked();
  }
  // Passes on queued requests, as far as there is room. Costs a load when none is queued.
  void pass_on() noexcept {
    if (any_kept_.load(std::memory_order_relaxed)) pass_on_kept();
  }

 private:
  void pass_on_kept() noexcept;
  void pass_on_locked() noexcept;

  device::LeaseReport& report_;
  std::atomic<bool> any_kept_{false};
  SpinLock lock_;  // guards what follows
  std::vector<std::uint32_t> kept_;
  std::uint32_t asked_ = 0;  // requests passed on so far
};

}  // namespace dwell::runtime
