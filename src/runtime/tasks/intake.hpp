// Submission of tasks and launches of graphs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <dwell/detail/task.hpp>

#include "runtime/complete/host_calls.hpp"
#include "runtime/complete/launch_gates.hpp"
#include "runtime/device/devices.hpp"
#include "runtime/device/keeper.hpp"
#include "runtime/device/recorder.hpp"
#include "runtime/device/submission_queue.hpp"
#include "runtime/generation/open_check.hpp"
#include "runtime/memory/blocks.hpp"
#include "runtime/observe/host_counts.hpp"
#include "runtime/observe/host_events.hpp"
#include "runtime/program/registry.hpp"
#include "runtime/watch/runtime_watch.hpp"

namespace dwell::runtime {

// Submits tasks: checks them, passes them to the calling thread's recorder if it has one, replaces launches in their order by gates and
// long arguments by blocks, waits for room in the ring, and wakes the loop. Does not own the parts, which outlive it. Members may be called
// from any thread. They throw the failure of the device, errc::closed, and the errors of their checks.
class Intake {
 public:
  struct Parts {
    const Core* runtime;  // identifies the recorder; never dereferenced
    OpenCheck check_open;
    const Devices& devices;
    SubmissionQueue& queue;
    Keeper& keeper;
    LaunchGates& gates;
    Registry& code;
    Blocks& blocks;
    HostCalls& host_calls;
    RuntimeWatch& watch;
    HostCounts& counts;
    HostEvents& events;
    bool on_host;  // the loop may need the submitter's processor
    bool has_priorities;
  };
  explicit Intake(const Parts& parts) : parts_(parts) {}
  Intake(const Intake&) = delete;
  Intake& operator=(const Intake&) = delete;

  // Submit tasks, waiting while the ring is full. Return the last one's position.
  std::uint64_t enqueue_plain(detail::OperatorState& op, const detail::FirstSlot& slot) {
    parts_.check_open();
    if (parts_.events.wanted() != 0) [[unlikely]]
      return enqueue_plain(op, &slot, 1);
    const std::uint64_t position = parts_.queue.try_submit_plain(op.alias, slot);
    parts_.keeper.submitted();
    return position != SubmissionQueue::kNoRoom ? position : wait_for_room(op, slot);
  }
  // Several tasks. `follows`: the thread has just submitted others in the same call.
  std::uint64_t enqueue_plain(detail::OperatorState& op, const detail::FirstSlot* slots, std::size_t count, bool follows = false);
  // With `switches`, only if SubmissionQueue::switches() still has this value; else they return SubmissionQueue::kSwitched.
  std::uint64_t enqueue(detail::OperatorState& op, const detail::Task& task, std::uint64_t switches);
  // As enqueue, without waiting. Nothing when there is no room.
  std::optional<std::uint64_t> try_enqueue(detail::OperatorState& op, const detail::Task& task, std::uint64_t switches);

  // Submit the launch of a graph, whose nodes have the opcodes of `switches`. Return its position, or nothing when a version has changed
  // since. The second passes as many `changes` of words (device/graph_layout.hpp) as fit in memory beside the ring; `words` are the first
  // three of the launch and have room for two more. With no group it only changes the exec. `name`: of the graph.
  std::optional<std::uint64_t> launch_graph(const detail::Task& task, std::uint64_t switches, std::string_view name);
  std::optional<std::uint64_t> launch_graph(std::uint32_t* words, const std::vector<std::uint32_t>& changes, std::uint32_t flags,
                                            std::uint32_t groups, const detail::Waits* waits, std::uint64_t switches,
                                            std::string_view name);

  // As Runtime::cancel, for a position or the number of a launch.
  bool cancel(std::uint64_t position);

  // Throws errc::invalid_argument for a gang that has more groups than there are workers.
  void check_gang(std::uint32_t groups) const;

 private:
  // Calls try_submit, which places tasks, until it returns true.
  template <class TrySubmit>
  void retry(TrySubmit try_submit);
  // By value, so that a task stays in registers on the fast path.
  [[gnu::noinline, gnu::cold]] std::uint64_t wait_for_room(detail::OperatorState& op, detail::FirstSlot slot);
  std::uint64_t enqueue_block(detail::OperatorState& op, const detail::Task& task, std::uint64_t switches);
  // Throws errc::unsupported for a priority without Options::priorities, errc::invalid_argument for a captured ticket in `after` and one of
  // a device that the runtime does not have.
  void check(const detail::Task& task) const;

  const Parts parts_;
};

}  // namespace dwell::runtime
