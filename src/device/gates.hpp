// Gates: tasks of no group that are complete when the host has opened them. Others wait for them as for any task (waiters.hpp), so the
// device can wait for what only the host sees, the end of a kernel's launch.
//
// A gate takes one slot. The host opens it by storing kOpen into the last quad of that slot, in the ring: the slot is the gate's own until
// it is complete. A gate that is not open when it is fetched is put on a list, whose head is in the crew's line and whose links are in
// Lease::waits. A member of the crew that sees a head now and then takes the whole list, by exchange, so that one at a time has it; looks
// at each gate's slot; makes those that are open complete, and puts the others back. Nobody but the holder of the list touches a gate on
// it, and no gate is missed: the host's store stands until the gate is complete.
#pragma once

#include "device/completion.hpp"

namespace dwell::device::gates {

inline constexpr u32 kQuad = 3;  // of the slot
inline constexpr u32 kOpen = 1;  // its first word

// Puts a held gate on the list. Called by one thread.
DWELL_DEVICE void put(const Lease& lease, u32 position) {
  const u32 index = index_of(position, lease.ring_shift);
  u32 head = load<Order::relaxed, Scope::device>(&lease.control->crew.gates);
  for (;;) {
    store<Order::relaxed, Scope::device>(lease.waits + index, head);
    // acq_rel: pairs with the exchange in look(), which reads link and held slot.
    const u32 seen = compare_exchange<Order::acq_rel>(&lease.control->crew.gates, head, index + 1);
    if (seen == head) return;
    head = seen;
  }
}

// Whether the host has opened the gate in this slot of the ring: then what the host had seen before is seen too.
DWELL_DEVICE bool is_open(const Lease& lease, u32 index) { return acquire_quad(&lease.ring[index].quad[kQuad]).word[0] == kOpen; }

// Lets those go on that the host has opened. Called by all lanes, of a worker that holds no unread place of the ready queue.
DWELL_DEVICE_COLD void look(const Lease& lease) {
  u32 next = 0;
  if (lane() == 0) next = exchange<Order::acq_rel>(&lease.control->crew.gates, 0U);
  next = broadcast(next);
  while (next != 0) {
    const u32 index = next - 1;
    u32 position = 0;
    u32 open = 0;
    if (lane() == 0) {
      next = load<Order::relaxed, Scope::device>(lease.waits + index);
      position = load<Order::relaxed, Scope::device>(&lease.held[index].quad[0].word[2]);
      open = is_open(lease, index) ? 1 : 0;
      if (open == 0) put(lease, position);
    }
    next = broadcast(next);
    position = broadcast(position);
    if (broadcast(open) != 0) release(lease, position, false);
  }
}

}  // namespace dwell::device::gates
