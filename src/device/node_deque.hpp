// The deque of a CPU worker: ready nodes of its graph that have not begun. The owner pushes and pops the newest, which its caches hold. An
// idle worker steals the oldest, which most of the remaining graph descends from.
//
// Source: D. Chase, Y. Lev, Dynamic Circular Work-Stealing Deque, SPAA 2005; of one size here, since nodes that find no room go to the
// ready queue. Modelled in tests/model/deque.pml.
//
// Invariants: entries [oldest, newest) are nodes of one exec. Each holds the launch open until it has arrived at its successors, so whoever
// has taken it out may touch its record. A worker empties its deque before it leaves the graph (graph::hand_back).
#pragma once

#include "device/arena.hpp"

#if DWELL_DEQUES

namespace dwell::device::node_deque {

// Returns the time when entry `place` was pushed (NodeDeque::stamp); 0: not stamped.
inline u64 stamp_of(const NodeDeque& deque, u64 place) {
  return place % kStampedPlaces != 0 ? 0 : load<Order::relaxed, Scope::device>(&deque.stamp[place % NodeDeque::kMost / kStampedPlaces]);
}

// Pushes a node; false when the deque is full. Releases the effects of the node's predecessors to its thief. `now`: the time, or 0. Called
// by the owner.
inline bool push(NodeDeque& deque, u32 node, u64 now = 0) {
  const u64 newest = load<Order::relaxed, Scope::device>(&deque.newest);
  // Acquire: a thief has read the entry before it is overwritten. Pairs with the exchange in steal.
  if (newest - load<Order::acquire, Scope::device>(&deque.oldest) == NodeDeque::kMost) return false;
  store<Order::relaxed, Scope::device>(&deque.node[newest % NodeDeque::kMost], node);
  if (newest % kStampedPlaces == 0) store<Order::relaxed, Scope::device>(&deque.stamp[newest % NodeDeque::kMost / kStampedPlaces], now);
  // Pairs with steal.
  store<Order::release, Scope::device>(&deque.newest, newest + 1);
  return true;
}

// Returns whether the deque is empty. Exact for the owner, a hint for others.
inline bool is_empty(const NodeDeque& deque) {
  return load<Order::relaxed, Scope::device>(&deque.newest) == load<Order::relaxed, Scope::device>(&deque.oldest);
}

// Takes the newest out; 0 for none. Sets `put` to when it was pushed, or 0. Called by the owner.
inline u32 pop(NodeDeque& deque, u64* put) {
  *put = 0;
  if (is_empty(deque)) return 0;
  const u64 newest = load<Order::relaxed, Scope::device>(&deque.newest) - 1;
  // Sequentially consistent, as the loads of a thief: either the thief sees the new `newest`, or this thread sees the thief's `oldest`.
  __atomic_store_n(&deque.newest, newest, __ATOMIC_SEQ_CST);
  u64 oldest = __atomic_load_n(&deque.oldest, __ATOMIC_SEQ_CST);
  *put = stamp_of(deque, newest);
  if (oldest < newest) return load<Order::relaxed, Scope::device>(&deque.node[newest % NodeDeque::kMost]);
  // The last entry: a thief may take it at the same time, or has taken it.
  const bool mine =
      oldest == newest && __atomic_compare_exchange_n(&deque.oldest, &oldest, newest + 1, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
  const u32 node = mine ? load<Order::relaxed, Scope::device>(&deque.node[newest % NodeDeque::kMost]) : 0;
  store<Order::release, Scope::device>(&deque.newest, newest + 1);
  return node;
}

// Takes the oldest out, as pop; 0 for none, or if another thread took it first. Called by other workers.
inline u32 steal(NodeDeque& deque, u64* put) {
  u64 oldest = __atomic_load_n(&deque.oldest, __ATOMIC_SEQ_CST);
  // Acquire: the entry, and the effects of the node's predecessors. Pairs with push.
  if (oldest >= __atomic_load_n(&deque.newest, __ATOMIC_SEQ_CST)) return 0;
  // Overwritten only after `oldest` has passed it, and then the exchange fails.
  const u32 node = load<Order::relaxed, Scope::device>(&deque.node[oldest % NodeDeque::kMost]);
  *put = stamp_of(deque, oldest);
  return __atomic_compare_exchange_n(&deque.oldest, &oldest, oldest + 1, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED) ? node : 0;
}

}  // namespace dwell::device::node_deque

#endif
