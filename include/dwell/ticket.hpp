// The receipt for a submitted task, or for the launch of a kernel.
#pragma once

#include <chrono>
#include <cstdint>

namespace dwell {

namespace detail {
struct Shell;
class KernelBase;

// Set in the number that a ticket has of a launch; the rest is its place among launches.
inline constexpr std::uint64_t kLaunch = 1ULL << 63U;
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
  // errc::task_failed (with the operator's name and the code it gave to Group::fail), errc::cancelled, errc::task_timeout,
  // errc::device_lost, errc::stale_handle (the task was lost with its device, and the runtime has been rebuilt since).
  void wait() const;

  // As wait, but gives up after `timeout`: returns whether the task is complete. The task goes on.
  bool wait_for(std::chrono::nanoseconds timeout) const;

  // Whether the task is complete, successful or not. Does not block.
  bool done() const;

  // 0 for success, positive for the operator's own code, negative for one of dwell::status. Waits for completion, does not throw for
  // failed tasks.
  int status() const;

  // The task's place in the order of submission, a launch's among the launches.
  std::uint64_t position() const noexcept { return position_ & ~detail::kLaunch; }

 private:
  friend class Runtime;
  friend struct detail::Shell;
  friend class detail::KernelBase;
  Ticket(detail::Shell* shell, std::uint64_t position) : shell_(shell), position_(position) {}

  detail::Shell* shell_ = nullptr;  // never freed: it outlives its runtime, so that a ticket cannot dangle
  std::uint64_t position_ = 0;
};

}  // namespace dwell
