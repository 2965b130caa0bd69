// Destroys device resources on a thread that may wait for the device.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <thread>
#include <utility>

#include "base/mutex.hpp"

namespace dwell::runtime {

// Defers destruction until the loop is off the device. Destroys beside the loop if more than kMost things or kMostBytes are queued, or one
// is older than `longest`. So threads that submit or start leases do not wait for the driver. Destroys one thing at a time, beside the loop
// with pauses of kBreak: unloading an image stops an H200, with everything that runs there, for a millisecond. Members may be called from
// any thread. The destructor destroys all that remain.
class Janitor {
 public:
  static constexpr std::size_t kMost = 64;
  static constexpr std::size_t kMostBytes = 64U << 20U;
  static constexpr std::chrono::seconds kLongest{10};
  static constexpr std::chrono::milliseconds kBreak{50};

  // Called by the janitor's thread: calls `destroy` when that blocks nobody. `urgent`: waits for that moment; otherwise returns false at
  // once, without calling it, when the loop is on the device. May throw before it calls `destroy`.
  using Around = std::function<bool(bool urgent, const std::function<void()>& destroy)>;
  explicit Janitor(Around around = {}, std::chrono::milliseconds longest = kLongest) : around_(std::move(around)), longest_(longest) {}
  ~Janitor();
  Janitor(const Janitor&) = delete;
  Janitor& operator=(const Janitor&) = delete;

  // Takes the last reference to something of `bytes`. Destroys it at once if there is no memory or thread to defer it.
  void take(std::shared_ptr<void> thing, std::size_t bytes = 0) noexcept;
  // Reports that the loop has left the device.
  void now() noexcept;

 private:
  using Clock = std::chrono::steady_clock;
  struct Waste {
    std::shared_ptr<void> thing;
    std::size_t bytes;
    Clock::time_point since;
  };

  void work();
  bool is_urgent() const DWELL_REQUIRES(mutex_);
  // Releases the mutex meanwhile. False when the loop is on the device, and it is not urgent.
  bool destroy_oldest(bool urgent) DWELL_REQUIRES(mutex_);

  const Around around_;
  const std::chrono::milliseconds longest_;
  Mutex mutex_;
  Condition changed_;
  std::list<Waste> waste_ DWELL_GUARDED_BY(mutex_);  // oldest first
  std::size_t bytes_ DWELL_GUARDED_BY(mutex_) = 0;   // of everything in waste_
  bool now_ DWELL_GUARDED_BY(mutex_) = false;        // the loop may be off the device
  bool stop_ DWELL_GUARDED_BY(mutex_) = false;
  std::thread thread_ DWELL_GUARDED_BY(mutex_);
};

}  // namespace dwell::runtime
