// Completion of tasks and launches: queries and waits.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "runtime/complete/host_calls.hpp"
#include "runtime/complete/notifier.hpp"
#include "runtime/device/keeper.hpp"
#include "runtime/device/submission_queue.hpp"
#include "runtime/kernels/launches.hpp"
#include "runtime/watch/runtime_watch.hpp"

namespace dwell::runtime {

// Takes positions of tasks, and numbers of launches with detail::kLaunch. A waiting thread keeps the loop running, lets other threads lead
// the callbacks of graphs, and detects a stall. Does not own the parts, which outlive it. Members may be called from any thread. They throw
// errc::invalid_argument for a captured task, and for a wait that could never end because the calling thread runs a callback of the awaited
// task. Waits also throw the failure of the device and errc::stalled.
class Ends {
 public:
  using Clock = std::chrono::steady_clock;
  struct Parts {
    SubmissionQueue& queue;
    Keeper& keeper;
    Launches& launches;
    HostCalls& host_calls;
    Notifier& notifier;
    RuntimeWatch& watch;
    bool on_host;  // the loop may need the waiting thread's processor
  };
  explicit Ends(const Parts& parts) : parts_(parts) {}
  Ends(const Ends&) = delete;
  Ends& operator=(const Ends&) = delete;

  // Returns whether the task is complete, or lost with the device.
  bool done(std::uint64_t position);
  // Waits until `deadline`, if any; false at the deadline.
  bool wait(std::uint64_t position, std::optional<Clock::time_point> deadline);
  // Waits for all tasks before `position`.
  void wait_before(std::uint64_t position);
  // Waits for all tasks and launches so far.
  void wait_all();

  // Calls `callback` on a thread of the runtime once the task (or launch) at `position` is complete, or lost with the device. False when
  // the runtime is closed: then `callback` stays with the caller. `or_stalled`: also calls it once the watchdog reports a stall.
  bool when_done(std::uint64_t position, bool or_stalled, Notifier::Callback& callback);
  // when_done with `or_stalled` in two steps. The first also throws errc::closed; the second allocates nothing and throws only
  // errc::invalid_argument.
  struct Prepared {
    std::shared_ptr<std::uint64_t> position;
    Notifier::Prepared request;
  };
  Prepared prepare_when_done(Notifier::Callback callback);
  bool when_done(std::uint64_t position, Prepared& prepared);

 private:
  // Called by a thread before it waits: skips its unused places, so that nobody waits for these.
  void rest();
  // Throws errc::invalid_argument when the calling thread runs a callback of a launch before `position`, and would wait for it.
  void check_own_launch(std::uint64_t position) const;

  const Parts parts_;
};

}  // namespace dwell::runtime
