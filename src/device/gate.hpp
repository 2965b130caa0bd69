// The gate through which all workers leave a lease together, or not at all.
//
// A lease can end only when no worker is inside an operator, and a worker that has left cannot come back before the next lease. So
// leaving is agreed on: somebody closes the gate, each worker whose operator has returned arrives at it, and when all have arrived all
// leave. If one is held up by a long task, those who wait open the gate again after kPatience and go on working: the long task stops
// nobody. The gate is one word, so that "the last has arrived" and "opened again" exclude each other by compare-and-swap.
// Modelled in tests/model/park.pml.
//
// When the host has asked for the end (to park, to change images, to close the runtime) nobody opens the gate again: what waits shall
// wait, and only what runs is let finish. Each worker then leaves as it arrives.
//   word: arrived (16) | closing (1) | firm (1) | attempt (14)
#pragma once

#include "device/arena.hpp"

namespace dwell::device::gate {

inline constexpr u32 kArrivedMask = 0xFFFFU;
inline constexpr u32 kClosing = 1U << 16U;
inline constexpr u32 kFirm = 1U << 17U;
inline constexpr u32 kAttempt = 1U << 18U;
inline constexpr u32 kPatience = 60;  // ticks a worker waits at the gate: longer than the crew's quiet rounds take
inline constexpr u32 kPause = 200;    // ticks between attempts, doubled with each up to eight times
inline constexpr u32 kMaxWorkers = 8192;

DWELL_DEVICE u32* word(const Lease& lease) { return &lease.control->crew.gate[lease.number & 1U]; }
DWELL_DEVICE bool closing(u32 value) { return (value & kClosing) != 0; }
DWELL_DEVICE u32 attempt(u32 value) { return value / kAttempt; }

// Says that the lease is over and closes the gate, if nobody has. `firm`: for good. Called by one thread.
DWELL_DEVICE void close(const Lease& lease, bool firm) {
  store<Order::relaxed, Scope::device>(&lease.control->crew.lease_over, lease.number);
  const u32 bits = firm ? kClosing | kFirm : kClosing;
  u32 value = load<Order::relaxed, Scope::device>(word(lease));
  while ((value & bits) != bits) {
    const u32 seen = compare_exchange<Order::relaxed>(word(lease), value, value | bits);
    if (seen == value) break;
    value = seen;
  }
}

// Decides when one worker closes the gate. Times are ticks.
struct Timer {
  u32 since;        // when this worker joined the lease, or saw the gate open again
  u32 quiet_since;  // when it last saw anything to do
  u32 attempt;      // the gate's attempt at `since`
  u32 over;         // 1: the last tick closed the gate

  static DWELL_DEVICE Timer start() {
    const u32 now = now_ticks();
    return Timer{now, now, 0, 0};
  }
};

// Closes the gate when the lease's time is over, when somebody has said so and the last attempt is long enough ago, or when the caller
// has had nothing to do for Lease::idle_ticks and `all_done` says that nothing else is under way. Called by all lanes,
// who look at the gate again next if it did.
// `value` is the gate's word and `lease_over` the crew line's, as the caller has just seen them.
DWELL_DEVICE_COLD Timer tick(const Lease& lease, Timer timer, u32 value, u32 lease_over, bool all_done) {
  const u32 now = broadcast(now_ticks());
  if (attempt(value) != timer.attempt) {
    timer.attempt = attempt(value);
    timer.since = now;
  }
  // Before the first attempt the lease has its time; after it, each attempt leaves a pause for work to go on.
  const u32 allowed = lease_over != lease.number ? lease.lease_ticks
                      : timer.attempt == 0       ? 0
                                                 : kPause << (timer.attempt < 3 ? timer.attempt : 3);
  const bool over = now - timer.since > allowed || (all_done && now - timer.quiet_since > lease.idle_ticks);
  if (over && lane() == 0) close(lease, false);
  timer.over = over ? 1 : 0;
  return timer;
}

enum class Passage : u8 { leave, leave_last, stay };

// Waits at a closed gate. The caller's operator has returned and its claim is stored; release for both. Called by one thread. `leave_last`
// goes to exactly one worker of a lease, once all have arrived: it closes the books.
DWELL_DEVICE Passage pass(const Lease& lease) {
  u32* const at = word(lease);
  // Pairs with itself in the last to arrive: it sees every other worker's claim and all they did before.
  const u32 before = fetch_add<Order::acq_rel>(at, 1U);
  if ((before & kArrivedMask) + 1 == lease.workers) return Passage::leave_last;
  if ((before & kFirm) != 0) return Passage::leave;
  const u32 start = now_ticks();
  for (u32 round = 0;; ++round) {
    const u32 value = load<Order::acquire, Scope::device>(at);
    if (attempt(value) != attempt(before)) return Passage::stay;
    if ((value & kArrivedMask) == lease.workers || (value & kFirm) != 0) return Passage::leave;
    // A gate that had just opened again when this worker arrived: nobody waits with it, and its claim is not watched meanwhile.
    if (!closing(value) || now_ticks() - start > kPatience) {
      const u32 open = (value & ~(kArrivedMask | kClosing)) + kAttempt;
      if (compare_exchange<Order::acq_rel>(at, value, open) == value) return Passage::stay;
    }
    relax(round);
  }
}

}  // namespace dwell::device::gate
