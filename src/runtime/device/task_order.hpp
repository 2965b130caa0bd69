// Encodes a task's order (`after`, `link`, `drain`) in its header.
#pragma once

#include <cstdint>

#include "device/header.hpp"
#include "runtime/device/reaper.hpp"
#include "runtime/device/ring_slots.hpp"
#include "runtime/device/submitter.hpp"

namespace dwell::runtime {

// Counts drains, and stores whether tasks record their completion on the device. Called by the holder of the right to assign places, one at
// a time; drop_ended by any thread.
class TaskOrder {
 public:
  // Both outlive it.
  TaskOrder(const RingSlots& slots, Reaper& reaper) : slots_(slots), reaper_(reaper) {}
  TaskOrder(const TaskOrder&) = delete;
  TaskOrder& operator=(const TaskOrder&) = delete;

  // Removes ended tasks, except the first one whose failure cancels. May be called from any thread.
  void drop_ended(WaitingFor& tasks) const;
  // Whether one of these does not record its completion on the device: then only a drain can wait for it. Their slots are their own.
  bool needs_drain(const WaitingFor& tasks) const;
  // Adds the thread's previous task. Sets `drains` if only a drain can wait for it.
  void wait_for_previous(const Submitter& me, bool hard, WaitingFor& tasks, bool& drains) const;

  // Makes later tasks record their completion on the device: links are in use.
  void track() { track_ = true; }
  bool tracks() const { return track_; }
  // The number of drains so far, as in a header.
  std::uint32_t drains() const { return drains_; }
  // Header word 1 of tasks of one slot and no order.
  std::uint32_t plain_word1() const { return plain_word1_; }

  // Returns the header of a task with this many argument words at `position`, the place just assigned, with its predecessors. If its flags
  // make it a drain, no submitter has places before it. Leaves in `tasks` the predecessors that its slots must list.
  TaskHead head(std::uint64_t position, const device::Header& task, std::uint32_t words, WaitingFor& tasks);

 private:
  const RingSlots& slots_;
  Reaper& reaper_;
  bool track_ = false;
  std::uint32_t drains_ = 0;
  std::uint32_t plain_word1_ = 0;
};

}  // namespace dwell::runtime
