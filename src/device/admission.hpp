// Admission: decides which tasks that arrived in the ring may start.
//
// A fetched task runs now, waits, is shared out, or blocks the ring. A waiting task is held; the completer of its last predecessor runs or
// cancels it. Wide and cancelled tasks are shared out. A drain blocks until all tasks before it are complete, any task until the drain
// before it is. The end of a burst is a drain with a lease number: that lease and all before end there, and only a later one passes it.
#pragma once

#include "device/completion.hpp"
#include "device/gates.hpp"
#include "device/seat.hpp"

namespace dwell::device {

enum class Admission : u8 {
  run,      // may start now
  taken,    // the fetcher has nothing left to do
  not_yet,  // blocks the ring: poll again later
};

namespace admission {

// Returns whether all tasks before `position` are complete. Acquire: pairs with complete().
DWELL_DEVICE bool drained(const Lease& lease, u32 position) {
  return load<Order::acquire, Scope::device>(&lease.control->completed.value) == position;
}

// Makes a held task wait for the tasks that its word 2 named (`named`). Returns their outcome; none: another thread will release the task.
// Called by all lanes.
DWELL_DEVICE Outcome wait(const Lease& lease, const TaskQuads& task, const Header& header, u32 position, u32 named) {
  const bool drained = (header.flags & flag::drain) != 0;
  if ((header.flags & flag::failed) == flag::failed) return Outcome::failed;
  if ((header.flags & flag::after) != 0) return waiters::wait_for_all(lease, task, WaitList::from(named), position, drained);
  Outcome outcome = Outcome::succeeded;
  if (lane() == 0) {
    if (!drained)
      outcome = waiters::wait_for(lease, named, index_of(position, lease.ring_shift));
    else if (link::has_failed(lease, named))
      outcome = Outcome::failed;
  }
  return static_cast<Outcome>(broadcast(static_cast<u32>(outcome)));
}

// Decides about one task whose slots have all arrived. Sets word 2 of a task that may run to its position. `drains`: the caller's view of
// the completed drains, refreshed when it blocks the task. Called by all lanes with the same header.
DWELL_DEVICE_COLD Admission admit(const Lease& lease, TaskQuads* task, const Header& header, u32 position, u32* drains) {
  if (header.drains != *drains) {
    *drains = broadcast(load<Order::acquire, Scope::device>(&lease.control->crew.drains));
    if (header.drains != *drains) return Admission::not_yet;
  }
  if (header.source == source::pass) {
    const bool ends_burst = (header.flags & flag::pass::burst) != 0;
    if (ends_burst && broadcast(drained(lease, position) ? 1 : 0) == 0) return Admission::not_yet;
    if (const u32 last = broadcast(task->quad[0].word[2]); ends_burst && !is_after(lease.number, last)) {
      if (lane() == 0) seat::call_over(lease, last, true);
      return Admission::not_yet;
    }
    if (lane() == 0) {
      // The host may reuse these slots only now: before, it could overwrite this lap unread.
      store<Order::release, Scope::system>(reinterpret_cast<u64*>(lease.completions + index_of(position, lease.ring_shift)),
                                           static_cast<u64>(lap_of(position, lease.ring_shift)));
      fetch_add<Order::release>(&lease.control->completed.value, header.slots);
      if (ends_burst) store<Order::release, Scope::device>(&lease.control->crew.drains, (header.drains + 1) & Header::kDrainMask);
      if ((header.flags & flag::pass::close) != 0) seat::call_over(lease, task->quad[0].word[2], header.groups != 0);
    }
    return Admission::taken;
  }
  if ((header.flags & flag::drain) != 0 && broadcast(drained(lease, position) ? 1 : 0) == 0) return Admission::not_yet;
  bool cancelled = header.is_cancelled(false);
  if (has(part::links) && (header.flags & (flag::link | flag::after)) != 0) {
    const u32 named = broadcast(task->quad[0].word[2]);
    if (lane() == 0) task->quad[0].word[2] = position;
    hold(lease, *task, position, header.slots);
    sync_lanes();
    const Outcome outcome = wait(lease, *task, header, position, named);
    if (outcome == Outcome::none) return Admission::taken;
    cancelled = header.is_cancelled(outcome == Outcome::failed);
  } else if (has(part::gates) && header.source == source::gate) {
    hold(lease, *task, position, header.slots);
    sync_lanes();
    if (broadcast(task->quad[gates::kQuad / kLanes].word[0], gates::kQuad % kLanes) != gates::kOpen) {
      if (lane() == 0) gates::put(lease, position);
      return Admission::taken;
    }
  } else if (header.slots > 1) {
    hold(lease, *task, position, header.slots);
  }
  // Release to the runner of this task what was acquired from earlier tasks.
  if ((header.flags & (flag::drain | flag::link | flag::after)) != 0) fence<Scope::device>();
  if (has_shares() && (cancelled || (header.flags & flag::wide) != 0)) {
    share_out(lease, *task, header, position, cancelled);
    return Admission::taken;
  }
  return Admission::run;
}

}  // namespace admission

}  // namespace dwell::device
