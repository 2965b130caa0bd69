// Handles of submitted tasks and launches of kernels.
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

// The word of a ticket: the position on its device in bits 0 to 55, the device's index in bits 56 to 61. On device 0 the word of a task is
// its position. At 10 ns a task, positions last for 22 years.
inline constexpr std::uint32_t kDeviceAt = 56;
inline constexpr std::uint32_t kMostDevices = 64;
inline constexpr std::uint64_t kPosition = (1ULL << kDeviceAt) - 1;
inline constexpr std::uint64_t kDevice = std::uint64_t{kMostDevices - 1} << kDeviceAt;
// Marks a launch; its position is its place among the device's launches.
inline constexpr std::uint64_t kLaunch = 1ULL << 63U;
// Both bits mark a captured task; its position is its node. It has no device.
inline constexpr std::uint64_t kCaptured = 3ULL << 62U;

constexpr std::uint32_t device_of(std::uint64_t word) { return static_cast<std::uint32_t>((word & kDevice) >> kDeviceAt); }
}  // namespace detail

// Names one submitted task, or one launch of a kernel. A launch behaves as a task: it is complete when its stream has passed it, and fails
// only with its device (errc::device_lost, which names the kernel). A small value that may be copied, kept and dropped freely. It keeps the
// result of its task, also after its runtime is closed or rebuilt. All members may be called from any thread.
class Ticket {
 public:
  // A ticket of no task: done, with status 0.
  Ticket() = default;

  // Returns once the task is complete and its effects are visible to this thread and to copies it makes. Throws dwell::Error:
  // errc::task_failed (with the operator's name and the code of Group::fail), errc::cancelled (a predecessor, which is named, failed;
  // Runtime::cancel was called; or the runtime was closed), errc::interrupted (the runtime was closed in the middle of it),
  // errc::task_timeout, errc::device_lost, errc::stale_handle (the task was lost with its device, and the runtime has been rebuilt since),
  // errc::stalled (no progress, see Options::stall_timeout; the task is not complete, and may be waited for again).
  void wait() const;

  // As wait, but gives up after `timeout`: returns whether the task is complete. The task goes on.
  bool wait_for(std::chrono::nanoseconds timeout) const;

  // Returns whether the task is complete, successful or not. Does not block.
  bool done() const;

  // As Runtime::cancel of the ticket's runtime. Also returns false when that was closed or rebuilt.
  bool cancel() const;

  // 0 for success, positive for the operator's own code, negative for one of dwell::status. Waits for completion. Does not throw for failed
  // tasks, but throws errc::stalled.
  int status() const;

  // Calls `f` once, with this ticket, when the task is complete, successful or not, on a thread of the runtime, which runs callbacks one
  // after the other. `f` may use the runtime and wait for tasks, but must not wait for other callbacks, nor close or rebuild
  // (errc::invalid_argument). It may destroy the runtime's last owner. Options::warn reports its exceptions. `f` is also called after a
  // stall (Options::stall_timeout): then the task is not complete, and `wait` throws errc::stalled. Runtime::close and rebuild call all
  // pending callbacks, whose tasks are complete, cancelled or lost by then, and wait for them. For an empty ticket, and one whose runtime
  // is closed or rebuilt already, `then` calls `f` itself and passes on its exceptions.
  // Costs nothing while unused. The first call starts the runtime's thread, which polls the pending tasks every 5 us to 1 ms (about an
  // eighth of the time it has waited) and sleeps otherwise. Throws errc::out_of_memory when no thread can be started, and std::bad_alloc;
  // then `f` is not called.
  void then(std::function<void(const Ticket&)> f) const;

  // Adds 1 to the eventfd Runtime::completion_fd when the task is complete, successful or not, cancelled or lost. Does nothing for an empty
  // ticket or one of a closed or rebuilt runtime. Same cost and errors as `then`.
  void notify() const;

  // co_await ticket: resumes the coroutine as `then` would call it, and throws as `wait` does. A task that is complete does not suspend it.
  bool await_ready() const { return done(); }
  template <class Coroutine>
  void await_suspend(Coroutine waiting) const {
    then([waiting](const Ticket&) { waiting.resume(); });
  }
  void await_resume() const { wait(); }

  // The device that runs the task, or the launch: its index among those of the runtime, from 0. 0 for an empty ticket and a captured task.
  // A runtime has one device.
  std::uint32_t device() const noexcept { return detail::device_of(word_); }
  // The task's place in its device's order of submission, a launch's among the device's launches.
  std::uint64_t position() const noexcept { return word_ & detail::kPosition; }

  // Returns whether it names a captured task (Runtime::capture); then it is valid only for `after` in the same capture.
  bool captured() const noexcept { return (word_ & detail::kCaptured) == detail::kCaptured; }

 private:
  friend class Runtime;
  friend struct detail::Shell;
  friend class detail::KernelBase;
  friend class detail::PreparedThen;
  friend struct detail::Waits;
  Ticket(detail::Shell* shell, std::uint64_t word) : shell_(shell), word_(word) {}

  detail::Shell* shell_ = nullptr;  // never freed: it outlives its runtime, so that a ticket cannot dangle
  std::uint64_t word_ = 0;          // {device, position}, as above
};

}  // namespace dwell
