// Destroys things that must wait for the device, in a thread that may wait.
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

// Destroys the things that it is given later: when the loop is off the device, or beside it when more than kMost things or kMostBytes wait,
// or one has waited for `longest`. So no thread that submits or starts leases waits for the driver. One thing at a time, and beside the
// loop with kBreak in between: unloading an image stops an H200 for a millisecond, together with all that runs there. Members may be called
// from any thread. The janitor's destructor destroys all that is left.
class Janitor {
 public:
  static constexpr std::size_t kMost = 64;
  static constexpr std::size_t kMostBytes = 64U << 20U;
  static constexpr std::chrono::seconds kLongest{10};
  static constexpr std::chrono::milliseconds kBreak{50};

  // Called by the janitor's thread around `destroy`: calls it when that blocks nobody. `urgent`: waits until it does not; otherwise it
  // returns false at once when the loop is on the device, with nothing destroyed. It may throw before it calls `destroy`.
  using Around = std::function<bool(bool urgent, const std::function<void()>& destroy)>;
  explicit Janitor(Around around = {}, std::chrono::milliseconds longest = kLongest) : around_(std::move(around)), longest_(longest) {}
  ~Janitor();
  Janitor(const Janitor&) = delete;
  Janitor& operator=(const Janitor&) = delete;

  // Takes a last reference to something of so many bytes. Destroys it here and now where there is no memory or thread left to put it off.
  void take(std::shared_ptr<void> thing, std::size_t bytes = 0) noexcept;
  // The loop has left the device: now is a good time.
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
  // Lets go of the mutex meanwhile. False when the loop is on the device, and it is not urgent.
  bool destroy_oldest(bool urgent) DWELL_REQUIRES(mutex_);

  const Around around_;
  const std::chrono::milliseconds longest_;
  Mutex mutex_;
  Condition changed_;
  std::list<Waste> waste_ DWELL_GUARDED_BY(mutex_);  // oldest first
  std::size_t bytes_ DWELL_GUARDED_BY(mutex_) = 0;   // of all of it
  bool now_ DWELL_GUARDED_BY(mutex_) = false;        // it is worth asking whether the loop is off the device
  bool stop_ DWELL_GUARDED_BY(mutex_) = false;
  std::thread thread_ DWELL_GUARDED_BY(mutex_);
};

}  // namespace dwell::runtime
