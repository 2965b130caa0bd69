// Holds the execs that a task may launch, while it is placed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <dwell/ticket.hpp>

#include "base/mutex.hpp"
#include "runtime/graphs.hpp"

namespace dwell::runtime {
class Core;
}

namespace dwell::detail {

struct ExecState;

// Returns these execs and all that their nodes may launch, without duplicates, by number: an exec has a higher number than those that its
// nodes launch.
std::vector<std::shared_ptr<ExecState>> with_launched(std::span<const std::shared_ptr<ExecState>> execs);

// Locks the execs that a task may launch while it is placed, so that nothing changes between the launches that update them for the task and
// the task itself. One at a time in a runtime.
class Launching {
 public:
  Launching(runtime::Core& core, std::span<const std::shared_ptr<ExecState>> execs);
  ~Launching();
  Launching(const Launching&) = delete;
  Launching& operator=(const Launching&) = delete;

  // Places the task, which waits for `waits`, by `attempt`, which receives the number of switches and all predecessors. It returns the
  // position, SubmissionQueue::kSwitched, or nothing when there is no room.
  using Attempt = std::function<std::optional<std::uint64_t>(std::uint64_t switches, const Waits& waits)>;
  std::optional<std::uint64_t> place(const Waits& waits, const Attempt& attempt);

 private:
  runtime::Core& core_;
  std::vector<std::shared_ptr<ExecState>> execs_;
  std::deque<Lock> locks_;  // of the execs, by number
  runtime::Graphs::Flight flight_;
  std::size_t asked_ = 0;  // number of execs announced to HostCalls
  std::optional<std::uint64_t> position_;
};

}  // namespace dwell::detail
