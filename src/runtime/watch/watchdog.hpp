// Detects that pending work makes no progress.
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

// The interface to a watched runtime. Called by the watchdog's thread; look also by others.
class Watched {
 public:
  struct Look {
    bool pending;            // tasks are not complete
    bool excused;            // waits for something outside of the runtime: never a stall
    std::uint64_t progress;  // changes when a task has ended, or a worker has started one
    std::uint64_t tail;      // one past the position of the last task
  };
  virtual ~Watched() = default;
  virtual Look look() = 0;
  // Brings all workers between two tasks, and returns `progress` at that moment; from then on it changes when a worker starts a task.
  // Nothing when a task runs.
  virtual std::optional<std::uint64_t> settle() = 0;
  // Returns whether workers have polled for tasks since settle().
  virtual bool has_resumed() = 0;
  // Returns whether all workers have, and none is inside a task.
  virtual bool has_passed() = 0;
  // Returns the error that names the tasks, and passes it to Options::warn.
  virtual Error verdict() = 0;
};

// Tells a stalled runtime from a busy one. Both look alike to the host: a graph may run for hours without a completion or a new in-flight
// record. So the proof is an experiment, in two halves of the timeout:
//
//   watching    nothing has ended for half of the timeout, and nobody outside is waited for
//               └─► settle: the loop leaves the device for a moment (a task that runs long keeps it there: not stalled), and all in-flight
//                   records are marked
//   proving     the loop is back. Any task that a worker starts now overwrites a mark, or completes: not stalled. None for another half:
//               └─► all workers pass into another lease, and the marks are checked once more
//   stalled     every wait for a task that was submitted before ends with the error, until there is progress after all; for tasks that come
//               later the proof is made once more
//
// Costs a thread that polls eight times per timeout, and that moment. Members may be called from any thread.
class Watchdog {
 public:
  using Clock = std::chrono::steady_clock;

  // Starts its thread. `watched` outlives it. Throws errc::out_of_memory when no thread can be started.
  Watchdog(Watched& watched, std::chrono::nanoseconds timeout);
  ~Watchdog() { stop(); }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // Ends the watch and lifts the verdict.
  void stop() noexcept;

  // Returns whether there is a verdict. Costs a load.
  bool stalled() const { return stalled_.load(std::memory_order_acquire); }
  // Returns the verdict if it holds for the task at `position`: no progress since, and the task was submitted before.
  std::optional<Error> verdict_on(std::uint64_t position);
  // Lifts the verdict; called before something that may let tasks continue.
  void moved() noexcept;

 private:
  void watch() noexcept;
  // Polls once. Returns when the next poll is due.
  void step();
  void acquit() noexcept;

  Watched& watched_;
  const std::chrono::nanoseconds half_;
  const std::chrono::nanoseconds nap_;

  enum class Phase : std::uint8_t { watching, proving, stalled };
  // Of the thread.
  Phase phase_ = Phase::watching;
  RunningClock running_;
  Clock::duration since_{};  // the time of the last progress
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
