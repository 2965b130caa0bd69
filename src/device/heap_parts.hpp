// The parts of a collection, and of a move of objects, that the host asks for: Collect::verb.
#pragma once

#include "device/heap_pages.hpp"

namespace dwell::device::heap {

namespace verb {

inline constexpr u32 phase = 0;  // sets the phase to `first`
inline constexpr u32 clear = 1;  // removes the marks in pages [first, end), a part each group, and forgets what was to be visited
// Marks `units`, which may be any numbers, the handles in [first, end), and what the arena's tasks name. While objects move: makes them
// stay.
inline constexpr u32 roots = 2;
inline constexpr u32 visit = 3;      // visits objects for a while; until time is over
inline constexpr u32 sweep = 4;      // frees objects without a mark in pages [first, end)
inline constexpr u32 hold = 5;       // stores `units` in the handles from `first` on
inline constexpr u32 scan = 6;       // as `roots` what words of the arena name, from byte `first` to `end`
inline constexpr u32 look = 7;       // only tells, as all do: see collect
inline constexpr u32 threshold = 8;  // sets HeapHeader::threshold to `first`
// Those from here on are parts of a move (heap_move.hpp).
inline constexpr u32 first_of_move = 9;
// Of pages [first, end): removes the marks and chooses slabs of whose slots units[0] hundredths at most are used, every units[1]-th one at
// most; moves their objects; changes the references to these; gives back what they have left (heap_move.hpp).
inline constexpr u32 choose = 9;
inline constexpr u32 move = 10;
inline constexpr u32 renew = 11;
inline constexpr u32 release = 12;
inline constexpr u32 trim = 13;  // gives back the pages of empty slabs; by one group

}  // namespace verb

// What a part tells the host: objects to be visited, about; objects marked and freed, and bytes of the slots that were freed; pages in use;
// HeapHeader::top, leaving, moved, moved_bytes, movable, types.
inline constexpr u32 kTold = 11;
DWELL_DEVICE void tell(const Heap& heap, u64 left, u64* to) {
  const HeapHeader& header = heap.header();
  to[0] = left;
  to[1] = load<Order::relaxed, Scope::device>(&header.marked);
  to[2] = load<Order::relaxed, Scope::device>(&header.freed);
  to[3] = load<Order::relaxed, Scope::device>(&header.freed_bytes);
  to[4] = load<Order::relaxed, Scope::device>(&header.used);
  to[5] = load<Order::relaxed, Scope::device>(&header.top);
  to[6] = load<Order::relaxed, Scope::device>(&header.leaving);
  to[7] = load<Order::relaxed, Scope::device>(&header.moved);
  to[8] = load<Order::relaxed, Scope::device>(&header.moved_bytes);
  to[9] = load<Order::relaxed, Scope::device>(&header.movable);
  to[10] = load<Order::relaxed, Scope::device>(&header.types);
}

}  // namespace dwell::device::heap
