// Events of the timeline. A worker writes them into its ring, from which the host copies them.
#pragma once

#include <dwell/device/group.hpp>

namespace dwell {
namespace device {

// One event, in two quads of its number's lap: begin in ns (64), how long in ns (32) | three words that say what it is.
//   a call of an operator: words 0 to 2 of the task's header
//   else one of the following, which no header begins with, and:
//   stay     number of the lease, 0
//   fetch    position of the first slot, how many                  (an instant)
//   take     words 1 and 2 of the header of the task               (an instant)
//   begin    position of the launch, GraphHead::number of its exec (an instant)
//   complete position of the task, its groups when it is wide, or 0 (an instant)
//   barrier  word 2 of the header of the gang's task, which barrier: 0 all, 1 + n the one of the name n, kNeighbours
struct alignas(32) Event {
  static constexpr u32 kStay = ~0U;
  static constexpr u32 kFetch = ~1U;
  static constexpr u32 kTake = ~2U;
  static constexpr u32 kBarrier = ~3U;
  static constexpr u32 kBegin = ~4U;
  static constexpr u32 kComplete = ~5U;
  static constexpr u32 kNeighbours = 1 + kGangBarriers;
  static constexpr u32 kOfNode = 1U << 31U;  // in the number of a barrier: the position names a node
  Quad quad[2];
};

// Writes an event. Called by one thread; other threads of the worker may call it concurrently.
DWELL_DEVICE void put_event(EventRing* ring, u64 begun, u32 took, u32 word0, u32 word1, u32 word2) {
#if DWELL_SHARED_MEMORY
  // Accesses through a generic address are slower.
  u32 number;
  u32 shift;
  u64 quads;
  u64 count;
  asm volatile("atom.relaxed.cta.shared.add.u32 %0, [%1], 1;" : "=r"(number) : "r"(address_in_shared(&ring->next)) : "memory");
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(shift) : "r"(address_in_shared(&ring->shift)));
  asm volatile("ld.shared.u64 %0, [%1];" : "=l"(quads) : "r"(address_in_shared(&ring->quads)));
  asm volatile("ld.shared.u64 %0, [%1];" : "=l"(count) : "r"(address_in_shared(&ring->count)));
  Quad* const first = reinterpret_cast<Quad*>(quads);
  u32* const counter = reinterpret_cast<u32*>(count);
#else
  const u32 number = ring->next++;
  const u32 shift = ring->shift;
  Quad* const first = ring->quads;
  u32* const counter = ring->count;
#endif
  Quad* const to = first + (number & ((1U << shift) - 1)) * 2;
  const u32 lap = (number >> shift) + 1;
  // The host takes an event whose quads are of one lap.
  store_quad<Scope::device>(to, Quad{lap, {static_cast<u32>(begun), static_cast<u32>(begun >> 32U), took}});
  store_quad<Scope::device>(to + 1, Quad{lap, {word0, word1, word2}});
  // A hint: of two threads the one with the lower number may store last.
  store<Order::relaxed, Scope::device>(counter, number + 1);
}

// Returns the time since `begun`, in an event's format.
DWELL_DEVICE u32 time_since(u64 begun) {
  const u64 all = now_ns() - begun;
  return all < ~0U ? static_cast<u32>(all) : ~0U;
}

}  // namespace device
}  // namespace dwell
