// How tasks and launches have ended.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <dwell/error.hpp>

#include "runtime/complete/host_calls.hpp"
#include "runtime/device/keeper.hpp"
#include "runtime/device/submission_queue.hpp"
#include "runtime/generation/shell.hpp"
#include "runtime/kernels/launches.hpp"

namespace dwell::runtime {

// Words what the queue and the launches have noted of failures. Takes positions of complete tasks, and numbers of launches with
// detail::kLaunch. Owns none of the parts, which outlive it. Members may be called from any thread.
class Outcomes {
 public:
  struct Parts {
    SubmissionQueue& queue;
    const Keeper& keeper;
    const Launches& launches;
    const HostCalls& host_calls;
    std::uint32_t scratch_bytes;  // Options::scratch_bytes
    std::uint32_t most_spawned;   // tasks of operators that there may be at once
  };
  explicit Outcomes(const Parts& parts) : parts_(parts) {}
  Outcomes(const Outcomes&) = delete;
  Outcomes& operator=(const Outcomes&) = delete;

  // Ticket::status.
  int status_of(std::uint64_t position);
  // The error of one that has not succeeded.
  std::optional<Error> error_of(std::uint64_t position);

  // What a shell must know behind the end of its core. The tasks that are not complete and have not begun:
  void add_open(const Reaper::Begun& begun, detail::Shell::Ranges& open) const;
  // Those that did not succeed, and those that are not complete.
  void add_all(detail::Shell::TaskEnds& ended, detail::Shell::Ranges& open);

 private:
  // The words of an error for a task with this status, behind the task's name.
  std::string how_it_failed(int status, const std::string& why) const;

  const Parts parts_;
};

}  // namespace dwell::runtime
