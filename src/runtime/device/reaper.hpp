// The completion entries of the ring: which tasks are done, how those that failed have ended, and why others were cancelled.
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
  std::string ran;  // operator and version; of the launch of a graph, the node that failed first
  // What an operator, or the callback of a host node, has thrown; what a checked operator has asked a span for; of a task that was
  // interrupted: how far it came.
  std::string why;
  std::string graph;  // of a launch: title_of its graph; else empty
  // The node that failed first in launches of graphs by operators that descend from the task.
  struct Inside {
    std::string node;  // empty: none did, or its exec is gone
    std::int32_t status = 0;
    std::string why;  // as above
  };
  Inside inside;
  bool asked = false;  // cancelled, as the user has asked for

  // Of a task that is cancelled because one that it waited for has failed, or was cancelled for the same cause.
  struct Cause {
    std::uint64_t position = 0;
    std::int32_t status = 0;  // cancelled: as the user has asked for
    std::string ran;          // empty when it is no longer known
    std::string graph = {};   // as above
  };
  std::optional<Cause> cause;
};

// Reads completion entries in order and notes failures. Does not own the ring, in which it marks tasks that are cancelled. Members may be
// called from any thread.
//
// Invariant: the slots of a task at or behind `reaped` are its own, so that who holds lock_ can read what it waited for.
class Reaper {
 public:
  // `name_of` turns an opcode into the operator and version that it is while tasks of it are in flight; called from any member.
  using NameOf = std::function<std::string(std::uint32_t)>;
  // The node that failed first in a launch at a position, of the graph whose head has this offset: Failure::ran and Failure::why. `status`
  // is the launch's. Of a task that is no launch, `head` is 0, and the second alone is wanted.
  using FailedNode = std::function<std::pair<std::string, std::string>(std::uint64_t position, std::uint64_t head, std::int32_t status)>;
  // Failure::graph of the graph whose head has this offset.
  using TitleOf = std::function<std::string(std::uint64_t head)>;
  // Failure::inside of the task at a position, which has ended.
  using FailedInside = std::function<Failure::Inside(std::uint64_t position)>;
  Reaper(device::Slot* ring, device::Completion* completions, std::uint32_t shift, std::uint64_t first, NameOf name_of)
      : ring_(ring), completions_(completions), shift_(shift), name_of_(std::move(name_of)), reaped_(first) {}
  Reaper(const Reaper&) = delete;
  Reaper& operator=(const Reaper&) = delete;

  bool done(std::uint64_t position) const;
  // Whether a task that is done is known to have succeeded, without taking a lock; false says nothing.
  bool succeeded(std::uint64_t position) const;
  // How a task that is done has ended. Of very many that failed only the latest are known, until complete_all: then all that it has ended.
  Failure result(std::uint64_t position);

  // How a task has ended as far as is known; of one that has been reaped, whether it is known to have failed.
  enum class Outcome : std::uint8_t { pending, succeeded, failed };
  Outcome outcome(std::uint64_t position);
  // The tasks known to have failed, oldest first; of very many only the latest.
  std::vector<std::uint64_t> failed_positions();

  // One past the last of the unbroken run of completed ones.
  std::uint64_t reaped() const { return reaped_.load(std::memory_order_acquire); }
  // Reads completion entries in order up to `tail`, as far as they are there, and as there is memory to note failures.
  void reap(std::uint64_t tail) noexcept;
  // The same, unless another thread is at it.
  void try_reap(std::uint64_t tail) noexcept;

  // Marks the task at this position in the ring as cancelled, and notes that the user has asked for it. Throws std::bad_alloc; then nothing
  // has changed.
  enum class Cancel : std::uint8_t { done, asked_before, asked };
  Cancel cancel(std::uint64_t position);

  // Set before the first task.
  FailedNode failed_node = [](std::uint64_t, std::uint64_t, std::int32_t) { return std::pair<std::string, std::string>(); };
  TitleOf title_of_graph = [](std::uint64_t) { return std::string("a graph"); };
  FailedInside failed_inside = [](std::uint64_t) { return Failure::Inside(); };

  // Stores a completion entry, of a place that the device does not complete.
  void complete_here(std::uint64_t position, std::int32_t status);
  // How far a task that has begun came, and how it ends: with status::interrupted when it has not run to its end.
  struct Progress {
    std::int32_t status;
    std::string how_far;
  };
  using Begun = std::map<std::uint64_t, Progress>;  // by position
  // Ends what is in flight before `tail`: what has begun as `begun` says, the rest with status::cancelled. Without `begun` nobody knows,
  // and all is interrupted. The device no longer writes, and nothing is submitted any more.
  void complete_all(std::uint64_t tail, std::optional<Begun> begun) noexcept;

  // The opcode of the task in flight at this position. Only meaningful while it is in flight.
  std::uint32_t opcode_at(std::uint64_t position) const;

 private:
  std::uint32_t lap(std::uint64_t position) const { return device::lap_of(static_cast<std::uint32_t>(position), shift_); }
  std::uint32_t index(std::uint64_t position) const { return device::index_of(static_cast<std::uint32_t>(position), shift_); }
  device::Completion completion(std::uint64_t position) const;
  device::Quad quad_at(std::uint64_t position, std::uint32_t quad) const;

  // These need lock_.
  void reap_locked(std::uint64_t tail) noexcept;
  // The head of the graph whose launch is at this position; 0 of another task.
  std::uint64_t launched_at(std::uint64_t position) const;
  // Failure::ran, Failure::why and Failure::graph of a task that ended so.
  struct Ran {
    std::string ran;
    std::string why;
    std::string graph;
  };
  Ran ran_at(std::uint64_t position, std::int32_t status) const;
  // The failure of a task that ended so, and whose slots are still its own.
  Failure failure_at(std::uint64_t position, std::int32_t status) const;
  std::optional<Failure::Cause> cause_of(std::uint64_t position) const;
  // False when there is no memory for it.
  bool note_failure(std::uint64_t position, std::int32_t status) noexcept;

  device::Slot* ring_;
  device::Completion* completions_;
  std::uint32_t shift_;
  NameOf name_of_;

  alignas(64) SpinLock lock_;  // guards what follows
  std::map<std::uint64_t, Failure> failures_;
  std::set<std::uint64_t> asked_;            // tasks that the user has asked to cancel and that are not reaped
  std::optional<std::uint64_t> ended_from_;  // what complete_all has ended lies at or behind this, and its slots are its own for good
  std::optional<Begun> begun_;               // as complete_all was given it
  alignas(64) std::atomic<std::uint64_t> reaped_;
};

}  // namespace dwell::runtime
