// What the loop asks of a source of tasks: the verbs, and what they are when a source says nothing else. The sources are in sources.hpp.
#pragma once

#include "device/parts.hpp"
#include "device/worker_memory.hpp"

namespace dwell::device {

// What a worker does behind a task: one thread tells the others in Worker::follows. kLaunch: the frame holds the header of a launch of a
// graph that has ended, or of a task all of whose descendants have, which is to be completed: in the ring, or where its operator has made
// it.
enum Follows : u32 { kNothing, kFrame, kLaunch };

// A task that has ended.
struct Behind {
  const Lease& lease;
  Worker* worker;
  Frame* from;     // the task's frame
  Frame* to;       // where the next task goes; the same or another
  bool completes;  // false when other workers still run groups of it
  bool whole;      // false when only the first three words of the frame are there: what it has made has ended elsewhere
};

// The verbs of a source that has tasks like those of the ring: complete when their operator has returned, in the ring. A source has a
// struct that inherits from this one, names its numbers and its part, and hides what is otherwise for it.
struct SourceVerbs {
  static constexpr u32 kPart = 0;

  // Whether the operator of a task is called. If not, the task has flag::share, and proceed does what is to be done.
  static DWELL_DEVICE bool calls(const Header&) { return true; }
  // A worker has taken a task with this header out of a queue, and has acquired. Called by one thread.
  static DWELL_DEVICE void take_up(const Lease&, Worker*, const Header&, u32 /*word2*/) {}
  // The sources, a bit each, of which run_operator calls the operator again as soon as it has returned. proceed goes on instead when the
  // task pauses, has failed, has made tasks or taken scratch memory, and when its worker is to leave.
  static constexpr u32 kAgain = 0;
  // Returns whether proceed has something to do before the next call. Called by one thread, behind a call.
  static DWELL_DEVICE bool pauses(const Lease&, const Header&) { return true; }
  // Notes the next call in the task's header. Called by one thread, before that call.
  static DWELL_DEVICE void begin_again(Worker*, Frame*) {}
  // Whether proceed is called behind a task.
  static DWELL_DEVICE bool goes_on(const Header&) { return false; }
  // Goes on behind a task. Called by the lanes of warp 0, behind a barrier of the group.
  static DWELL_DEVICE Follows proceed(const Behind&) { return kNothing; }
  // Where the task lies whole; null: in the ring, or held.
  static DWELL_DEVICE Slot* record(const Lease&, const Header&, u32 /*word2*/) { return nullptr; }
  // Whether the host may still cancel a task in a queue. `header` has no word 0. Called by one thread.
  static DWELL_DEVICE bool may_cancel(const Header& header) { return !header.is_made(); }
  // What a task does although it is cancelled. Called by the lanes of warp 0.
  static DWELL_DEVICE void cancel(const Lease&, const Frame&) {}
};

}  // namespace dwell::device
