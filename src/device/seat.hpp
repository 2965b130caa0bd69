// Seats: how each worker of a lease hands over to its successor in the next lease.
//
// A worker works only while it holds its seat. So a seat's in-flight record, claim and window have one user, however many leases are on the
// device. A successor that finds the seat held registers in the seat's word, and the holder hands the seat over directly. The holder's
// state goes with the seat: Seat::window, Seat::quiet_since, Lease::claims.
//
// The rule of leaving. The first member of the fetch crew whose time is up declares the lease over. From then on a worker leaves when its
// operator has returned and its successor waits, so a seat is empty only during a hand-over. After Lease::stretch_ticks a worker leaves
// without a successor: the device may lack room for two generations, and each worker that leaves makes room for one. A worker in a long
// task stays, and without successors the others stay with it, so a long task stops no other. Workers leave a lease that ends at once
// (CrewLine::end) as soon as their operators have returned. A successor whose own lease is over gives up if a long task holds the seat. A
// holder that was about to leave for it then stays, since a free seat may hold the claim of a task. Modelled in tests/model/roll.pml.
//   word: the lease that waits for the seat, or 0 (32) | the lease that holds it, or 0 (32)
#pragma once

#include "device/arena.hpp"

namespace dwell::device::seat {

DWELL_DEVICE u32 holder(u64 word) { return static_cast<u32>(word); }
DWELL_DEVICE u32 waiter(u64 word) { return static_cast<u32>(word >> 32U); }
DWELL_DEVICE u64 word_of(u32 holder, u32 waiter) { return static_cast<u64>(holder) | static_cast<u64>(waiter) << 32U; }

// The half of a seat's word with the waiting lease.
DWELL_DEVICE const u32* waiter_word(const Lease& lease, u32 me) { return reinterpret_cast<const u32*>(&lease.seats[me].word) + 1; }

inline constexpr u32 kLong = 4;     // ticks after which a task counts as long
inline constexpr u32 kGiveUp = 16;  // ticks that a worker waits at least for its seat after its lease is over

DWELL_DEVICE u32 crew_word(const u32* word) { return load<Order::relaxed, Scope::device>(word); }

// Waits for the seat of worker `me`. False when the lease was over before the seat was free. Acquires the last holder's effects. Called by
// one thread.
DWELL_DEVICE bool take(const Lease& lease, u32 me) {
  const Control& control = *lease.control;
  u64* const at = &lease.seats[me].word;
  const u32 mine = lease.number;
  const u32 came = now_ticks();
  bool over = false;
  for (u32 round = 0;; ++round) {
    // Acquire: pairs with leave() of the holder before.
    const u64 word = load<Order::acquire, Scope::device>(at);
    if (holder(word) == mine) return true;
    const bool first = waiter(word) == 0 || waiter(word) == mine;
    if (over) {
      if (waiter(word) != mine || compare_exchange<Order::relaxed>(at, word, word_of(holder(word), 0)) == word) return false;
      continue;  // it was handed over meanwhile
    }
    if (holder(word) == 0 && first) {
      if (compare_exchange<Order::acq_rel>(at, word, word_of(mine, 0)) == word) return true;
      continue;
    }
    if (waiter(word) == 0) compare_exchange<Order::relaxed>(at, word, word_of(holder(word), mine));
    pause_briefly(round);
    // Not at once: a holder without a task hands over within microseconds.
    over = round % 8 == 7 && !is_after(mine, crew_word(&control.crew.over)) && now_ticks() - came > kGiveUp;
  }
}

// Hands the seat to the waiting worker, or frees it. False, with the seat kept, when no worker waits any more and the seat must not be free
// (`may_free`). Called by one thread, after its last store of the state that goes with the seat.
DWELL_DEVICE bool leave(const Lease& lease, u32 me, bool may_free) {
  u64* const at = &lease.seats[me].word;
  // Guess the word instead of reading it: nearly always the next lease waits.
  u64 word = word_of(lease.number, lease.number + 1);
  while (waiter(word) != 0 || may_free) {
    const u64 seen = compare_exchange<Order::acq_rel>(at, word, word_of(waiter(word), 0));
    if (seen == word) return true;
    word = seen;
  }
  return false;
}

// Counts the calling worker out of the lease; the last one reports it to the host. Called by one thread of each worker, with or without a
// seat, after leave().
DWELL_DEVICE void count_out(const Lease& lease) {
  u32* const out = &lease.control->exits[lease.slot];
  // Pairs with itself in the last one.
  if (fetch_add<Order::acq_rel>(out, 1U) + 1 != lease.workers) return;
  store<Order::relaxed, Scope::device>(out, 0U);  // for the next lease with this slot, which the host starts after it sees this end
  store<Order::release, Scope::system>(&lease.report->left[lease.slot], lease.number);
}

// Reports that this lease works; one of its workers tells the host. Of two racing leases the earlier may store last: then the host counts
// the later one as waiting until that has left. Called by one thread of each worker that has its seat.
DWELL_DEVICE void begin(const Lease& lease) {
  if (raise(&lease.control->crew.begun, lease.number)) store<Order::relaxed, Scope::system>(&lease.report->begun, lease.number);
}

// Ends the lease: its workers leave as soon as their successors wait, or at once. Called by one thread.
DWELL_DEVICE void call_over(const Lease& lease, u32 number, bool at_once) {
  raise(&lease.control->crew.over, number);
  if (at_once) raise(&lease.control->crew.end, number);
}

// Returns whether this lease is over. `over`: the caller's view of CrewLine::over.
DWELL_DEVICE bool is_over(const Lease& lease, u32 over) { return !is_after(lease.number, over); }

// Returns whether a worker of a later lease waits for the seat.
DWELL_DEVICE bool has_successor(const Lease& lease, u32 me) {
#if DWELL_CONTROL_WARP
  return load<Order::relaxed, Scope::device>(waiter_word(lease, me)) != 0;
#else
  // The same thread serves the seat in the next lease.
  (void)me;
  return is_after(load<Order::relaxed, Scope::system>(&lease.report->launched), lease.number);
#endif
}

// A worker's way out of a lease that is over.
struct WayOut {
  u32 since;     // when the worker saw that the lease is over, in ticks
  u32 seen;      // 1: that it is over
  u32 overdue;   // 1: counted in CrewLine::overdue
  u32 may_free;  // 1: it may leave without a successor
};

// Returns whether a worker of the lease is in a long task.
DWELL_DEVICE_COLD bool is_overdue(const Lease& lease, [[maybe_unused]] u32 now) {
#if DWELL_CONTROL_WARP
  return crew_word(&lease.control->crew.overdue) != 0;
#else
  // A CPU worker itself runs the operator, so others check.
  for (u32 seat = 0; seat < lease.workers; ++seat) {
    u32* const at = &lease.seats[seat].running_since;
    const u32 since = crew_word(at);
    // Reading the clock would take longer than many tasks, so this check stamps the begin instead. A later store of the worker prevails.
    if (since == kRuns) compare_exchange<Order::relaxed>(at, kRuns, now | 1U);
    if (since > kRuns && is_after(now, since + kLong)) return true;  // a task that has just begun may be stamped with the next tick
  }
  return false;
#endif
}

// Returns whether a worker whose operator has returned may leave a lease that is over. Called by one thread.
DWELL_DEVICE_COLD bool may_leave(const Lease& lease, u32 me, WayOut* way) {
  const CrewLine& crew = lease.control->crew;
  const u32 now = now_ticks();
  if (way->seen == 0) *way = WayOut{now, 1, way->overdue, 0};
  if (way->overdue != 0) {
    fetch_add<Order::relaxed>(&lease.control->crew.overdue, ~0U);
    way->overdue = 0;
  }
  // Both loads in one latency.
  const u32 end = crew_word(&crew.end);
  const bool succeeded = has_successor(lease, me);
  way->may_free = !is_after(lease.number, end) || (now - way->since > lease.stretch_ticks && !is_overdue(lease, now)) ? 1 : 0;
  return succeeded || way->may_free != 0;
}

// Notes that a task keeps the worker in a lease that is over. Called by one thread, at times while the task runs.
DWELL_DEVICE_COLD void note_overdue(const Lease& lease, WayOut* way) {
  const u32 now = now_ticks();
  if (way->seen == 0) *way = WayOut{now, 1, 0, 0};
  if (way->overdue != 0 || now - way->since <= kLong) return;
  fetch_add<Order::relaxed>(&lease.control->crew.overdue, 1U);
  way->overdue = 1;
}

}  // namespace dwell::device::seat
