// Tasks that the host asks the device to cancel (device/cancels.hpp).
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "device/arena.hpp"
#include "runtime/device/spin_lock.hpp"

namespace dwell::runtime {

// Passes positions on to the device in the order of the calls. The device's list is short: what finds no room there is kept here, and
// passed on later. Members may be called from any thread.
class CancelRequests {
 public:
  // Does not own the report, which outlives it.
  explicit CancelRequests(device::LeaseReport& report) : report_(report) {}
  CancelRequests(const CancelRequests&) = delete;
  CancelRequests& operator=(const CancelRequests&) = delete;

  // Asks for the task at `position` if `wanted` says so, which is called once. Throws std::bad_alloc, and what `wanted` throws; then
  // nothing is asked, and without memory `wanted` is not called.
  template <class Wanted>
  void add(std::uint64_t position, Wanted wanted) {
    const std::lock_guard guard(lock_);
    kept_.reserve(kept_.size() + 1);
    if (!wanted()) return;
    kept_.push_back(static_cast<std::uint32_t>(position));
    pass_on_locked();
  }
  // Passes on what is kept, as far as there is room. Costs a load when nothing is.
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
  std::uint32_t asked_ = 0;  // passed on so far
};

}  // namespace dwell::runtime
