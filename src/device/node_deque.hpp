// The deque of a CPU worker: nodes of the graph that it works on which are ready and not begun. The worker pushes and pops the newest,
// which its caches hold; a worker that has nothing to do steals the oldest, behind which most of the graph is still to come.
//
// Source: D. Chase, Y. Lev, Dynamic Circular Work-Stealing Deque, SPAA 2005; of one size here, since nodes that find no room go to the
// ready queue. Modelled in tests/model/deque.pml.
//
// Invariants: entries [oldest, newest) are nodes of one exec, whose launch each of them holds open until it has arrived at its successors:
// so whoever has taken one out may touch its record. A worker that leaves the graph leaves its deque empty (graph::hand_back).
#pragma once

#include "device/arena.hpp"

#if DWELL_DEQUES

namespace dwell::device::node_deque {

// Entry `place` is stamped with the time when it was put there (NodeDeque::stamp), if anybody asks.
inline u64 stamp_of(const NodeDeque& deque, u64 place) {
  return place % kStampedPlaces != 0 ? 0 : load<Order::relaxed, Scope::device>(&deque.stamp[place % NodeDeque::kMost / kStampedPlaces]);
}

// Called by the worker that it belongs to. False when it is full. What the node's predecessors did is released to whoever steals it. `now`:
// the time, or 0.
inline bool push(NodeDeque& deque, u32 node, u64 now = 0) {
  const u64 newest = load<Order::relaxed, Scope::device>(&deque.newest);
  // Acquire: a thief has read the entry that is written anew. Pairs with the exchange in steal.
  if (newest - load<Order::acquire, Scope::device>(&deque.oldest) == NodeDeque::kMost) return false;
  store<Order::relaxed, Scope::device>(&deque.node[newest % NodeDeque::kMost], node);
  if (newest % kStampedPlaces == 0) store<Order::relaxed, Scope::device>(&deque.stamp[newest % NodeDeque::kMost / kStampedPlaces], now);
  // Pairs with steal.
  store<Order::release, Scope::device>(&deque.newest, newest + 1);
  return true;
}

// Whether there is nothing in it. Called by the worker that it belongs to, or as advice.
inline bool is_empty(const NodeDeque& deque) {
  return load<Order::relaxed, Scope::device>(&deque.newest) == load<Order::relaxed, Scope::device>(&deque.oldest);
}

// Takes the newest out, and says when it was put there, or 0; 0 for none. Called by the worker that it belongs to.
inline u32 pop(NodeDeque& deque, u64* put) {
  *put = 0;
  if (is_empty(deque)) return 0;
  const u64 newest = load<Order::relaxed, Scope::device>(&deque.newest) - 1;
  // Sequentially consistent, as the loads of a thief: either it sees that the entry is gone, or this sees that the oldest is.
  __atomic_store_n(&deque.newest, newest, __ATOMIC_SEQ_CST);
  u64 oldest = __atomic_load_n(&deque.oldest, __ATOMIC_SEQ_CST);
  *put = stamp_of(deque, newest);
  if (oldest < newest) return load<Order::relaxed, Scope::device>(&deque.node[newest % NodeDeque::kMost]);
  // The last one, which a thief may be about to take, or has taken.
  const bool mine =
      oldest == newest && __atomic_compare_exchange_n(&deque.oldest, &oldest, newest + 1, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
  const u32 node = mine ? load<Order::relaxed, Scope::device>(&deque.node[newest % NodeDeque::kMost]) : 0;
  store<Order::release, Scope::device>(&deque.newest, newest + 1);
  return node;
}

// Takes the oldest out, as pop; 0 for none, or when others took it meanwhile. Called by other workers.
inline u32 steal(NodeDeque& deque, u64* put) {
  u64 oldest = __atomic_load_n(&deque.oldest, __ATOMIC_SEQ_CST);
  // Acquire: the entry, and what the node's predecessors did. Pairs with push.
  if (oldest >= __atomic_load_n(&deque.newest, __ATOMIC_SEQ_CST)) return 0;
  // Written anew only when `oldest` has passed it, and then the exchange fails.
  const u32 node = load<Order::relaxed, Scope::device>(&deque.node[oldest % NodeDeque::kMost]);
  *put = stamp_of(deque, oldest);
  return __atomic_compare_exchange_n(&deque.oldest, &oldest, oldest + 1, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED) ? node : 0;
}

}  // namespace dwell::device::node_deque

#endif
