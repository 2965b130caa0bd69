// The ends of tasks and launches: whether they have come, and waiting for them.
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

// Takes positions of tasks, and numbers of launches with detail::kLaunch. Who waits keeps the loop coming, lets other threads lead the
// callbacks of graphs meanwhile, and hears of a stall. Owns none of the parts, which outlive it. Members may be called from any thread.
// They throw errc::invalid_argument for a captured task, and for a wait that could not end because the calling thread runs a callback of
// what it would wait for; waits throw the failure of the device and errc::stalled too.
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

  // Also true of a task that the device has taken with it.
  bool done(std::uint64_t position);
  // Waits until `deadline` if there is one; false when that comes first.
  bool wait(std::uint64_t position, std::optional<Clock::time_point> deadline);
  // Waits for all tasks before `position`.
  void wait_before(std::uint64_t position);
  // Waits for all tasks and launches so far.
  void wait_all();

  // Calls `callback` on a thread of the runtime once the task (or launch) at `position` is complete, or lost with the device. False when
  // the runtime is closed: then it does not, and leaves the callback to the caller. `or_stalled`: or once the watchdog says that it will
  // not be.
  bool when_done(std::uint64_t position, bool or_stalled, Notifier::Callback& callback);
  // The same in two steps, with `or_stalled`, of which the second takes no memory and throws errc::invalid_argument alone. The first
  // throws errc::closed too.
  struct Prepared {
    std::shared_ptr<std::uint64_t> position;
    Notifier::Prepared request;
  };
  Prepared prepare_when_done(Notifier::Callback callback);
  bool when_done(std::uint64_t position, Prepared& prepared);

 private:
  // The calling thread is about to wait: nobody waits for places that it has and does not use.
  void rest();
  // Throws errc::invalid_argument when the calling thread runs a callback of a launch before `position`, and would wait for it.
  void check_own_launch(std::uint64_t position) const;

  const Parts parts_;
};

}  // namespace dwell::runtime
