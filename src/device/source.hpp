// The interface of a source of tasks to the loop, with defaults. The sources are in sources.hpp.
#pragma once

#include "device/parts.hpp"
#include "device/worker_memory.hpp"

namespace dwell::device {

// A worker's next step after a task, which one thread stores to Worker::follows for the others. kFrame: run the task in the frame. kLaunch:
// complete the task whose header is in the frame: an ended launch of a graph, or a task all of whose descendants have ended. It is of the
// ring, or made by an operator.
enum Follows : u32 { kNothing, kFrame, kLaunch };

// A task that has ended.
struct Behind {
  const Lease& lease;
  Worker* worker;
  Frame* from;     // the task's frame
  Frame* to;       // for the next task; the same or another
  bool completes;  // false when other workers still run groups of it
  bool whole;      // false when the frame has only its first three words: the task's children have ended elsewhere
};

// Defaults for tasks that complete in the ring when their operator has returned. A source has a struct that inherits from this one, names
// its numbers and its part, and hides the members that differ.
struct SourceVerbs {
  static constexpr u32 kPart = 0;

  // Returns whether the operator of a task is called. If not, the task has flag::share, and proceed does the work.
  static DWELL_DEVICE bool calls(const Header&) { return true; }
  // Called by one thread of a worker that has taken a task with this header from a queue, and has acquired.
  static DWELL_DEVICE void take_up(const Lease&, Worker*, const Header&, u32 /*word2*/) {}
  // The sources, a bit each, for which run_operator calls the operator again as soon as it has returned. Instead it calls proceed when the
  // task pauses, has failed, has made tasks or used scratch memory, and when its worker is to leave.
  static constexpr u32 kAgain = 0;
  // Returns whether proceed must run before the next call. Called by one thread, after a call.
  static DWELL_DEVICE bool pauses(const Lease&, const Header&) { return true; }
  // Notes the next call in the task's header. Called by one thread, before that call.
  static DWELL_DEVICE void begin_again(Worker*, Frame*) {}
  // Returns whether proceed is called after a task.
  static DWELL_DEVICE bool goes_on(const Header&) { return false; }
  // Continues after a task. Called by the lanes of warp 0, after a barrier of the group.
  static DWELL_DEVICE Follows proceed(const Behind&) { return kNothing; }
  // Returns the record with all slots of the task; null: they are in the ring, or held.
  static DWELL_DEVICE Slot* record(const Lease&, const Header&, u32 /*word2*/) { return nullptr; }
  // Returns whether the host may still cancel a queued task. `header` has no word 0. Called by one thread.
  static DWELL_DEVICE bool may_cancel(const Header& header) { return !header.is_made(); }
  // Does what a cancelled task must still do. Called by the lanes of warp 0.
  static DWELL_DEVICE void cancel(const Lease&, const Frame&) {}
};

}  // namespace dwell::device
