// Between the ring and the workers: which of the tasks that have arrived may start.
//
// A fetched task either runs now, waits for the one it is linked to (it is held, and whoever completes that one runs it), is shared out
// (a wide task), or must not be passed yet: a drain until all before it are complete, any task until the drain before it is.
#pragma once

#include "device/completion.hpp"
#include "device/seat.hpp"

namespace dwell::device {

enum class Admission : u8 {
  run,      // may start now
  taken,    // nothing left to do for the fetcher
  not_yet,  // must not be passed: look again later
};

namespace admission {

// Whether all tasks before `position` are complete. Pairs with complete().
DWELL_DEVICE bool drained(const Lease& lease, u32 position) {
  return load<Order::acquire, Scope::device>(&lease.control->completed.value) == position;
}

// Decides about one task whose slots have all arrived. Called by all lanes with the same header. `drains` is the caller's view of the
// drains completed, and is refreshed when it hinders.
DWELL_DEVICE_COLD Admission admit(const Lease& lease, const TaskQuads& task, const Header& header, u32 position, u32* drains) {
  if (header.drains != *drains) {
    *drains = broadcast(load<Order::acquire, Scope::device>(&lease.control->crew.drains));
    if (header.drains != *drains) return Admission::not_yet;
  }
  if ((header.flags & flag::skip) != 0) {
    if (lane() == 0) {
      // Only now may the host use these slots again: had it done so before, this lap would never be seen.
      store<Order::release, Scope::system>(reinterpret_cast<u64*>(lease.completions + index_of(position, lease.ring_shift)),
                                           static_cast<u64>(lap_of(position, lease.ring_shift)));
      fetch_add<Order::release>(&lease.control->completed.value, header.slots);
      if ((header.flags & flag::close) != 0) seat::call_over(lease, header.lease_near(lease.number), header.groups != 0);
    }
    return Admission::taken;
  }
  if ((header.flags & flag::drain) != 0 && broadcast(drained(lease, position) ? 1 : 0) == 0) return Admission::not_yet;
  if ((header.flags & flag::link) != 0) {
    hold(lease, task, position, header.slots);
    sync_lanes();
    u32 waits = 0;
    if (lane() == 0) waits = link::wait_for(lease, position - header.back, position) ? 1 : 0;
    if (broadcast(waits) != 0) return Admission::taken;
  } else if (header.slots > 1) {
    hold(lease, task, position, header.slots);
  }
  // What was acquired from the tasks before goes on to whoever runs this one.
  if ((header.flags & (flag::drain | flag::link)) != 0) fence<Scope::device>();
  if ((header.flags & flag::wide) != 0) {
    share_out(lease, task, header, position);
    return Admission::taken;
  }
  return Admission::run;
}

}  // namespace admission

}  // namespace dwell::device
