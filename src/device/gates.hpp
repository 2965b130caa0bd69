// Gates: tasks without groups that complete when the host opens them. Other tasks wait for them as for any task (waiters.hpp). So the
// device can wait for an event that only the host sees: the end of a kernel's launch.
//
// A gate takes one slot. The host opens it by storing kOpen into the last quad of that slot in the ring, which is the gate's own until it
// is complete. A closed gate is put on a list when it is fetched. The list's head is in the crew's line, its links are in Lease::waits. At
// times a member of the crew that sees a head takes the whole list by exchange, so it has one holder. The holder polls each gate's slot,
// releases open gates, and puts the others back. Only the holder touches a gate on the list. No gate is missed: the host's store stands
// until the gate is complete.
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

// Returns whether the host has opened the gate in this slot of the ring. Acquires what the host did before.
DWELL_DEVICE bool is_open(const Lease& lease, u32 index) { return acquire_quad(&lease.ring[index].quad[kQuad]).word[0] == kOpen; }

// Polls all listed gates, and releases those that the host has opened. Called by all lanes of a worker that holds no unread place of the
// ready queue.
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
