// Finds out that nothing moves although work is pending.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <thread>

#include <dwell/error.hpp>

#include "base/mutex.hpp"
#include "runtime/device/running_clock.hpp"

namespace dwell::runtime {

// What a watchdog watches. All members are called by the watchdog's thread, but for look, which others call too.
class Watched {
 public:
  struct Look {
    bool pending;            // tasks are not complete
    bool excused;            // somebody outside is waited for: it is no stall, however long it takes
    std::uint64_t progress;  // another value when a task has ended, or a worker has taken something up
    std::uint64_t tail;      // one past the position of the last task
  };
  virtual ~Watched() = default;
  virtual Look look() = 0;
  // Takes all workers between two tasks, and makes `progress` tell from now on whether they take anything up: the value of that moment.
  // Nothing when a task runs.
  virtual std::optional<std::uint64_t> settle() = 0;
  // Whether workers have looked for tasks since settle().
  virtual bool has_resumed() = 0;
  // Whether all workers have, and none is inside of a task.
  virtual bool has_passed() = 0;
  // The error that names the tasks. Also tells who is to hear of it.
  virtual Error verdict() = 0;
};

// A watchdog tells a runtime that has stalled from one that is busy. Busy looks the same from outside: a graph may run for hours, and no
// completion, nor a worker's in-flight record, tells the host that it moves. So the proof is an experiment, in two halves of the timeout:
//
//   watching    nothing has ended for half of the timeout, and nobody outside is waited for
//               └─► settle: the loop leaves the device for a moment (a task that runs long keeps it there: not stalled), and all in-flight
//                   records are marked
//   proving     the loop is back. Whatever a worker takes up now overwrites a mark, or completes: not stalled. Nothing for another half:
//               └─► all workers pass into another lease, and the marks are looked at once more
//   stalled     every wait for a task that was submitted before ends with the error, until something moves after all; for tasks that come
//               later the proof is made once more
//
// Costs nothing but a thread that looks eight times in a timeout, and that moment. Members may be called from any thread.
class Watchdog {
 public:
  using Clock = std::chrono::steady_clock;

  // Starts its thread. `watched` outlives it. Throws errc::out_of_memory when there is no thread.
  Watchdog(Watched& watched, std::chrono::nanoseconds timeout);
  ~Watchdog() { stop(); }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // Ends the watch and lifts the verdict.
  void stop() noexcept;

  // Whether there is a verdict. Costs a load.
  bool stalled() const { return stalled_.load(std::memory_order_acquire); }
  // The verdict, if it stands and holds for the task at `position`: nothing has moved since, and the task was there.
  std::optional<Error> verdict_on(std::uint64_t position);
  // Somebody does something that may let tasks go on: the verdict is lifted.
  void moved() noexcept;

 private:
  void watch() noexcept;
  // One look. Returns when the next one is due.
  void step();
  void acquit() noexcept;

  Watched& watched_;
  const std::chrono::nanoseconds half_;
  const std::chrono::nanoseconds nap_;

  enum class Phase : std::uint8_t { watching, proving, stalled };
  // Of the thread.
  Phase phase_ = Phase::watching;
  RunningClock running_;
  Clock::duration since_{};  // when something last moved
  std::uint64_t progress_ = 0;
  std::uint64_t tail_ = 0;  // of the verdict

  std::atomic<bool> stalled_{false};
  Mutex mutex_;
  Condition changed_;
  bool stop_ DWELL_GUARDED_BY(mutex_) = false;
  struct Verdict {
    Error error;
    std::uint64_t progress;
    std::uint64_t tail;
  };
  std::optional<Verdict> verdict_ DWELL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace dwell::runtime
