// The receipt for a submitted task, or for the launch of a kernel.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

namespace dwell {

namespace detail {
struct Shell;
class KernelBase;
class PreparedThen;
struct Waits;

// Set in the number that a ticket has of a launch; the rest is its place among launches.
inline constexpr std::uint64_t kLaunch = 1ULL << 63U;
// Both bits are set in the number that a ticket has of a task that was captured into a graph; the rest is its node. There are fewer
// launches than that.
inline constexpr std::uint64_t kCaptured = 3ULL << 62U;
}  // namespace detail

// Names one submitted task, or one launch of a kernel, of which all that is said of tasks holds: it is complete when its stream has come
// past it, and can fail only with its device (errc::device_lost, which names the kernel). A small value that may be copied, kept and
// dropped freely, also after its runtime is closed or rebuilt: it goes on telling what became of its task. All members may be called from
// any thread.
class Ticket {
 public:
  // A ticket of no task: done, with status 0.
  Ticket() = default;

  // Returns once the task is complete and its effects are visible to this thread and to copies it makes. Throws dwell::Error:
  // errc::task_failed (with the operator's name and the code it gave to Group::fail), errc::cancelled (a task that it was to start
  // after failed, and is named, Runtime::cancel was called, or the runtime was closed), errc::interrupted (the runtime was closed in the
  // middle of it), errc::task_timeout, errc::device_lost, errc::stale_handle (the task was lost with its device, and the runtime has been
  // rebuilt since), errc::stalled (nothing moves, see Options::stall_timeout: the task is not complete, and may be waited for again).
  void wait() const;

  // As wait, but gives up after `timeout`: returns whether the task is complete. The task goes on.
  bool wait_for(std::chrono::nanoseconds timeout) const;

  // Whether the task is complete, successful or not. Does not block.
  bool done() const;

  // As Runtime::cancel, of the runtime that the ticket is of. Returns false too when that is closed, or was rebuilt since.
  bool cancel() const;

  // 0 for success, positive for the operator's own code, negative for one of dwell::status. Waits for completion, does not throw for
  // failed tasks, but errc::stalled.
  int status() const;

  // Calls `f` once, with this ticket, when the task is complete, successful or not: on a thread of the runtime, which calls one after the
  // other. `f` may use the runtime and wait for tasks, but not for other callbacks, nor close or rebuild (errc::invalid_argument); the last
  // owner of the runtime may go there. Options::warn hears of its exceptions. It is called too when the runtime has stalled
  // (Options::stall_timeout): then the task is not complete, and `wait` throws errc::stalled. Runtime::close and rebuild call all that are
  // left, with tasks that are complete, cancelled or lost by then, and return when they have returned. Of a ticket whose runtime is closed
  // or rebuilt already, and of one of no task, `f` is called before `then` returns, on the calling thread, which gets its exceptions. Costs
  // nothing while unused; the runtime's thread starts with the first call, looks at the tasks that are asked for from time to time (every 5
  // us to 1 ms, about an eighth of the time that it has waited), and sleeps otherwise. Throws errc::out_of_memory when there is no thread
  // to be had, and std::bad_alloc; then `f` is not called.
  void then(std::function<void(const Ticket&)> f) const;

  // Adds 1 to the eventfd Runtime::completion_fd when the task is complete, successful or not, cancelled or lost. Nothing is added for a
  // ticket of no task or of a runtime that is closed or rebuilt. Costs, and throws, as `then`.
  void notify() const;

  // co_await ticket: resumes the coroutine as `then` would call it, and throws as `wait` does. A task that is complete does not suspend it.
  bool await_ready() const { return done(); }
  template <class Coroutine>
  void await_suspend(Coroutine waiting) const {
    then([waiting](const Ticket&) { waiting.resume(); });
  }
  void await_resume() const { wait(); }

  // The task's place in the order of submission, a launch's among the launches.
  std::uint64_t position() const noexcept { return position_ & ~detail::kLaunch; }

  // Whether it is of a captured task (Runtime::capture): it serves `after` inside of the same capture alone.
  bool captured() const noexcept { return (position_ & detail::kCaptured) == detail::kCaptured; }

 private:
  friend class Runtime;
  friend struct detail::Shell;
  friend class detail::KernelBase;
  friend class detail::PreparedThen;
  friend struct detail::Waits;
  Ticket(detail::Shell* shell, std::uint64_t position) : shell_(shell), position_(position) {}

  detail::Shell* shell_ = nullptr;  // never freed: it outlives its runtime, so that a ticket cannot dangle
  std::uint64_t position_ = 0;
};

}  // namespace dwell
