// Addresses of the parts of an exec (graph_layout.hpp). Room for nodes in the ready queue, and their level.
#pragma once

#include "device/graph_layout.hpp"
#include "device/levels.hpp"
#include "device/ring_range.hpp"

namespace dwell::device::graph {

// The address of a cell of the arena, and the cell at an address.
DWELL_DEVICE u64 address_of(const Lease& lease, u32 cell) { return lease.arena + offset_of(cell); }
DWELL_DEVICE u32 cell_of(const Lease& lease, u64 address) { return static_cast<u32>((address - lease.arena) / kCell); }
DWELL_DEVICE Slot* record(u64 base, u32 cell) { return pointer_to_global<Slot>(base + static_cast<u64>(cell) * kCell); }
// The address of the exec that has a record.
DWELL_DEVICE u64 base_of(const Slot* record) {
  return address_in_global(record) - static_cast<u64>(load<Order::relaxed, Scope::device>(&record->quad[0].lap)) * kCell;
}
DWELL_DEVICE GraphHead* head(u64 base) { return pointer_to_global<GraphHead>(base); }
DWELL_DEVICE NodeState* state(u64 base, u32 states, u32 cell) {
  return pointer_to_global<NodeState>(base + static_cast<u64>(states) * kCell) + (cell - kFirstRecord);
}
DWELL_DEVICE NodeShares* shares(Slot* record, u32 slots) { return reinterpret_cast<NodeShares*>(record + slots); }
DWELL_DEVICE NodeGang* gang(Slot* record, u32 slots) { return reinterpret_cast<NodeGang*>(record + slots); }

// Returns whether nodes may be added to the ready queue. Called by all lanes.
DWELL_DEVICE bool has_room(const Lease& lease) {
  u32 room = 0;
  if (lane() == 0) {
    const u32 tail = load<Order::relaxed, Scope::device>(&lease.control->tail.value);
    const u32 at = load<Order::relaxed, Scope::device>(&lease.control->head.value);
    // Each worker adds at most kNodesAtOnce beyond this. So all that credit bounds has a place, and reserve() never waits for a thread that
    // waits for this worker.
    room = static_cast<i32>(tail - at) < static_cast<i32>(kMostQueuedNodes) ? 1 : 0;
  }
  return broadcast(room) != 0;
}

#if !DWELL_CONTROL_WARP
// Returns whether the ring has a task for any worker, at its next place or in a range. A hint: another worker may take it first.
DWELL_DEVICE bool ring_has_next(const Lease& lease) {
  if (range::are_there(lease)) return true;
  const u32 next = load<Order::relaxed, Scope::device>(&lease.control->fetch_position);
  return load<Order::relaxed, Scope::system>(&lease.ring[index_of(next, lease.ring_shift)].quad[0].lap) == lap_of(next, lease.ring_shift);
}
#endif

// The level bits of word 0 of a launch, for its nodes in the queues.
DWELL_DEVICE u32 level_of(const Lease& lease, u64 base) { return sorts(lease) ? levels::level_bits(head(base)->word0) : 0; }

}  // namespace dwell::device::graph
