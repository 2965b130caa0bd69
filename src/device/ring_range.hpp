// Ranges: tasks of the ring that a CPU worker claims under one hold of the fetch lock, and runs one after the other.
//
// All are simple (Header::simple), and stay in the ring until they run, so the host can still mark those that it cancels. A worker takes
// the next from its own range. An idle worker takes from another's, so a long task delays no other. The taker of the last one decrements
// Control::ranges. A range belongs to the seat: it outlives the lease.
// Modelled in tests/model/range.pml.
//   Seat::range: position of the next task (32) | of the one behind the last (32)
#pragma once

#include "device/arena.hpp"

#if !DWELL_CONTROL_WARP

namespace dwell::device::range {

inline constexpr u32 kMost = 16;

DWELL_DEVICE u32 next(u64 word) { return static_cast<u32>(word); }
DWELL_DEVICE u32 end(u64 word) { return static_cast<u32>(word >> 32U); }
DWELL_DEVICE u64 word_of(u32 next, u32 end) { return static_cast<u64>(next) | static_cast<u64>(end) << 32U; }

// Returns whether a seat has tasks left. Others only remove tasks, so a no is final for its worker; else a hint.
DWELL_DEVICE bool has_any(const Lease& lease, u32 seat) {
  const u64 word = load<Order::relaxed, Scope::device>(&lease.seats[seat].range);
  return next(word) != end(word);
}

// Returns whether any range has tasks. A hint.
DWELL_DEVICE bool are_there(const Lease& lease) { return load<Order::relaxed, Scope::device>(&lease.control->ranges.value) != 0; }

// Sets the empty range of worker `me` to `count` tasks from `position` on. Called by that worker.
DWELL_DEVICE void put(const Lease& lease, u32 me, u32 position, u32 count) {
  add<Order::relaxed>(&lease.control->ranges.value, 1U);
  // Pairs with take(): what the fetch lock and admission have acquired.
  store<Order::release, Scope::device>(&lease.seats[me].range, word_of(position, position + count));
}

// Takes the next task out of the range of a seat. Called by any worker.
DWELL_DEVICE bool take(const Lease& lease, u32 seat, u32* position) {
  u64* const at = &lease.seats[seat].range;
  u64 now = load<Order::relaxed, Scope::device>(at);
  for (;;) {
    if (next(now) == end(now)) return false;
    const u64 left = word_of(next(now) + 1, end(now));
    if (lease.max_workers == 1) {
      store<Order::relaxed, Scope::device>(at, left);  // nobody else takes
      break;
    }
    const u64 seen = compare_exchange<Order::acq_rel>(at, now, left);
    if (seen == now) break;
    now = seen;
  }
  *position = next(now);
  if (next(now) + 1 == end(now)) add<Order::relaxed>(&lease.control->ranges.value, ~0U);
  return true;
}

}  // namespace dwell::device::range

#endif
