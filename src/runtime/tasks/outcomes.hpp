// Results of tasks and launches.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include <dwell/error.hpp>

#include "runtime/complete/host_calls.hpp"
#include "runtime/device/keeper.hpp"
#include "runtime/device/submission_queue.hpp"
#include "runtime/generation/shell.hpp"
#include "runtime/kernels/launches.hpp"

namespace dwell::runtime {

// Formats the failures recorded by the queue and the launches. Takes positions of complete tasks, and numbers of launches with
// detail::kLaunch. Does not own the parts, which outlive it. Members may be called from any thread.
class Outcomes {
 public:
  struct Parts {
    SubmissionQueue& queue;
    const Keeper& keeper;
    const Launches& launches;
    const HostCalls& host_calls;
    std::uint32_t scratch_bytes;             // Options::scratch_bytes
    std::uint32_t most_spawned;              // limit of concurrent tasks of operators
    std::function<std::string()> heap_room;  // as HeapMemory::room
  };
  explicit Outcomes(const Parts& parts) : parts_(parts) {}
  Outcomes(const Outcomes&) = delete;
  Outcomes& operator=(const Outcomes&) = delete;

  // Ticket::status.
  int status_of(std::uint64_t position);
  // Returns the error of a task or launch that has not succeeded.
  std::optional<Error> error_of(std::uint64_t position);

  // For a shell after the end of its core. Adds the incomplete tasks that have not begun.
  void add_open(const Reaper::Begun& begun, detail::Shell::Ranges& open) const;
  // Adds the failed tasks, and the incomplete ones.
  void add_all(detail::Shell::TaskEnds& ended, detail::Shell::Ranges& open);

 private:
  // The state of the heap, read for the first message that has it.
  class HeapRoom;
  std::optional<Error> error_of(std::uint64_t position, HeapRoom& room);
  // Returns the error's text after the task's name, for this status. Without `room` it tells nothing of the heap's state.
  std::string how_it_failed(int status, const std::string& why, HeapRoom* room) const;

  const Parts parts_;
};

}  // namespace dwell::runtime
