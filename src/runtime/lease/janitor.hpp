// Gives back what must wait for the device, in a thread that may wait.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

namespace dwell::runtime {

// Destroys what it is given later: when the loop is off the device, or beside it when more than kMost things or kMostBytes wait, or one
// has waited for `longest`. So nobody who submits or starts leases waits for the driver. One thing at a time, and beside the loop with
// kBreak in between: unloading an image stops an H200 for a millisecond, whatever runs there. Members may be called from any thread; what
// it is given is destroyed at the latest with it.
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
  // These need mutex_.
  bool is_urgent() const;
  bool destroy_oldest(std::unique_lock<std::mutex>& lock, bool urgent);

  const Around around_;
  const std::chrono::milliseconds longest_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Waste> waste_;  // oldest first
  std::size_t bytes_ = 0;   // of all of it
  bool now_ = false;        // it is worth asking whether the loop is off the device
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace dwell::runtime
