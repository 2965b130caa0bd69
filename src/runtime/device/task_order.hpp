// What a task waits for: from `after`, `link` and `drain` to its header.
#pragma once

#include <cstdint>

#include "device/header.hpp"
#include "runtime/device/reaper.hpp"
#include "runtime/device/ring_slots.hpp"
#include "runtime/device/submitter.hpp"

namespace dwell::runtime {

// Counts drains, and knows whether tasks leave word on the device. Members but drop_ended are called by who has the right to give out
// places, one at a time.
class TaskOrder {
 public:
  // Both outlive it.
  TaskOrder(const RingSlots& slots, Reaper& reaper) : slots_(slots), reaper_(reaper) {}
  TaskOrder(const TaskOrder&) = delete;
  TaskOrder& operator=(const TaskOrder&) = delete;

  // Takes out tasks that have ended, but for the first whose failure cancels. May be called from any thread.
  void drop_ended(WaitingFor& tasks) const;
  // Whether one of these leaves no word on the device when it completes: then only a drain waits for it. Their slots are their own.
  bool needs_drain(const WaitingFor& tasks) const;
  // Adds the task that the submitter's thread has submitted last. `drains` becomes true when only a drain waits for that.
  void wait_for_previous(const Submitter& me, bool hard, WaitingFor& tasks, bool& drains) const;

  // From now on tasks leave word on the device when they complete: links are in use.
  void track() { track_ = true; }
  bool tracks() const { return track_; }
  // Drains so far, as a header has it.
  std::uint32_t drains() const { return drains_; }
  // Header word 1 of tasks of one slot and no order.
  std::uint32_t plain_word1() const { return plain_word1_; }

  // The header of a task of so many argument words at `position`, the place just given, with what it waits for. It is a drain if its flags
  // say so; then no submitter has places before it. What is left in `tasks` is what its slots say.
  TaskHead head(std::uint64_t position, const device::Header& task, std::uint32_t words, WaitingFor& tasks);

 private:
  const RingSlots& slots_;
  Reaper& reaper_;
  bool track_ = false;
  std::uint32_t drains_ = 0;
  std::uint32_t plain_word1_ = 0;
};

}  // namespace dwell::runtime
