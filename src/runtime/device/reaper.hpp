// The completion entries of the ring: which tasks are done, and why tasks failed or were cancelled.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "device/ring.hpp"
#include "runtime/device/spin_lock.hpp"

namespace dwell::runtime {

// The end of a task that did not succeed.
struct Failure {
  std::int32_t status = 0;
  std::string ran;  // operator and version; for the launch of a graph, the node that failed first
  // The exception of an operator or of a host node's callback; a checked operator's access out of bounds; or how far an interrupted task
  // came.
  std::string why;
  std::string graph;  // for a launch title_of its graph; else empty
  // The first failed node in graphs launched by the task's descendants.
  struct Inside {
    std::string node;  // empty: none failed, or its exec no longer exists
    std::int32_t status = 0;
    std::string why;  // as above
  };
  Inside inside;
  bool asked = false;  // cancelled by the user

  // The failed predecessor of a cancelled task, direct or through other cancelled tasks.
  struct Cause {
    std::uint64_t position = 0;
    std::int32_t status = 0;  // cancelled: by the user
    std::string ran;          // empty if no longer known
    std::string graph = {};   // as above
  };
  std::optional<Cause> cause;
};

// Reads completion entries in order and notes failures. Does not own the ring, in which it marks tasks that are cancelled. Members may be
// called from any thread.
//
// Invariant: the slots of a task at or after `reaped` are its own, so a holder of lock_ can read the task's predecessors.
class Reaper {
 public:
  // Returns the operator and version of an opcode while tasks with it are in flight; called from any member.
  using NameOf = std::function<std::string(std::uint32_t)>;
  // Returns Failure::ran and Failure::why of the first failed node in the launch at a position, of the graph whose head has this offset.
  // `status`: the launch's. For a task that is no launch, `head` is 0 and only the second is used.
  using FailedNode = std::function<std::pair<std::string, std::string>(std::uint64_t position, std::uint64_t head, std::int32_t status)>;
  // Returns Failure::graph of the graph whose head has this offset.
  using TitleOf = std::function<std::string(std::uint64_t head)>;
  // Returns Failure::inside of the ended task at a position.
  using FailedInside = std::function<Failure::Inside(std::uint64_t position)>;
  Reaper(device::Slot* ring, device::Completion* completions, std::uint32_t shift, std::uint64_t first, NameOf name_of)
      : ring_(ring), completions_(completions), shift_(shift), name_of_(std::move(name_of)), reaped_(first) {}
  Reaper(const Reaper&) = delete;
  Reaper& operator=(const Reaper&) = delete;

  bool done(std::uint64_t position) const;
  // Returns whether a complete task is known to have succeeded. Lock-free; false means unknown.
  bool succeeded(std::uint64_t position) const;
  // Returns the result of a complete task. Keeps only the latest of very many failures, but all that complete_all has ended.
  Failure result(std::uint64_t position);

  // The known outcome of a task; for a reaped one, whether it is known to have failed.
  enum class Outcome : std::uint8_t { pending, succeeded, failed };
  Outcome outcome(std::uint64_t position);
  // Returns the tasks known to have failed, oldest first; of very many only the latest.
  std::vector<std::uint64_t> failed_positions();

  // Returns one past the last position before which all are complete.
  std::uint64_t reaped() const { return reaped_.load(std::memory_order_acquire); }
  // Reads completion entries in order up to `tail`. Stops at an incomplete one, or when there is no memory to record a failure.
  void reap(std::uint64_t tail) noexcept;
  // As reap, unless another thread holds the lock.
  void try_reap(std::uint64_t tail) noexcept;

  // Marks the task at this position in the ring as cancelled by the user. Throws std::bad_alloc; then nothing has changed.
  enum class Cancel : std::uint8_t { done, asked_before, asked };
  Cancel cancel(std::uint64_t position);

  // Set before the first task.
  FailedNode failed_node = [](std::uint64_t, std::uint64_t, std::int32_t) { return std::pair<std::string, std::string>(); };
  TitleOf title_of_graph = [](std::uint64_t) { return std::string("a graph"); };
  FailedInside failed_inside = [](std::uint64_t) { return Failure::Inside(); };

  // Stores the completion entry of a place that the device does not complete.
  void complete_here(std::uint64_t position, std::int32_t status);
  // The progress of a begun task, and its result: status::interrupted if it has not run to its end.
  struct Progress {
    std::int32_t status;
    std::string how_far;
  };
  using Begun = std::map<std::uint64_t, Progress>;  // by position
  // Ends all tasks in flight before `tail`: those in `begun` with the status there, the rest with status::cancelled. Without `begun` all
  // are interrupted. Called when the device no longer writes and nothing is submitted any more.
  void complete_all(std::uint64_t tail, std::optional<Begun> begun) noexcept;

  // Returns the opcode of the task at this position. Valid only while it is in flight.
  std::uint32_t opcode_at(std::uint64_t position) const;

 private:
  std::uint32_t lap(std::uint64_t position) const { return device::lap_of(static_cast<std::uint32_t>(position), shift_); }
  std::uint32_t index(std::uint64_t position) const { return device::index_of(static_cast<std::uint32_t>(position), shift_); }
  device::Completion completion(std::uint64_t position) const;
  device::Quad quad_at(std::uint64_t position, std::uint32_t quad) const;

  // These need lock_.
  void reap_locked(std::uint64_t tail) noexcept;
  // Returns the head of the graph whose launch is at this position; 0 for other tasks.
  std::uint64_t launched_at(std::uint64_t position) const;
  // Failure::ran, Failure::why and Failure::graph of a task with this status.
  struct Ran {
    std::string ran;
    std::string why;
    std::string graph;
  };
  Ran ran_at(std::uint64_t position, std::int32_t status) const;
  // Returns the failure of a task with this status, whose slots are still its own.
  Failure failure_at(std::uint64_t position, std::int32_t status) const;
  std::optional<Failure::Cause> cause_of(std::uint64_t position) const;
  // Records a failure; false without memory.
  bool note_failure(std::uint64_t position, std::int32_t status) noexcept;

  device::Slot* ring_;
  device::Completion* completions_;
  std::uint32_t shift_;
  NameOf name_of_;

  alignas(64) SpinLock lock_;  // guards what follows
  std::map<std::uint64_t, Failure> failures_;
  std::set<std::uint64_t> asked_;            // tasks cancelled by the user and not reaped
  std::optional<std::uint64_t> ended_from_;  // the first task that complete_all has ended; the slots from here on are never reused
  std::optional<Begun> begun_;               // argument of complete_all
  alignas(64) std::atomic<std::uint64_t> reaped_;
};

}  // namespace dwell::runtime
