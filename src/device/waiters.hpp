// Tasks that wait for others: where they are listed, and which thread releases them.
//
// A *link word* holds the state of a task on the device: not complete, with the list of its waiters, or done, each with the lap. The
// fetcher of a waiting task and the completer of its predecessor synchronise in that word. The fetcher puts the waiter at the head of the
// list by compare-and-swap, or sees "done". The completer exchanges the list for "done" or "failed". So each waiter is on exactly one list
// that a completer walks, or its fetcher knows that it need not wait.
//
// A task with one predecessor (flag::link) is released by that one's completer. A task with several (flag::after) has an entry on each of
// their lists, and a count of the missing arrivals in Lease::waits. The count is set before the first entry is on a list. It includes the
// fetcher until that has visited all lists. The one thread that brings it to 0 releases or cancels the task.
//
// Ownership and reuse:
//   link word    Each ring slot has two, which its laps use in turn, because a task may be complete, and its slot reused, before the
//                fetcher of a waiter reads the word. When the waiter was placed, its predecessor was not reaped, so that lies less than a
//                ring's length behind. The task two laps on is placed only when the waiter has been reaped, long after its fetch. So the
//                word is the task's own until all its waiters have read it.
//   entry        Of a waiter, in its held slots. Its fetcher writes `next` before the compare-and-swap that puts it on the list,
//                and nothing afterwards. The completer reads it before it arrives. The waiter cannot be complete before all have arrived,
//                so its slots are not reused, and a walk never reads an entry of the next lap.
//   count        The fetcher's until the first entry is on a list. Then changed by arrivals alone, with read-modify-writes. Nobody's at 0.
// A linked task has one entry. Its `next` is in Lease::waits in place of the count, and is read only if more waiters stand behind it
// (kMore), so a lone waiter costs no more than the link word. An untracked task writes its link word only if it has failed. Modelled in
// tests/model/link.pml (one waits for one) and tests/model/after.pml (lists).
//   link word: head of the list, or of a task that is done 1 if it has failed (32) | lap (31) | done (1)
//   waiter: index of the waiting task in the ring (24) | quad of its entry, 0 for a linked task (5) | more (1) | hard (1)
//   count: tasks that have failed, whose failure cancels the waiting one (16) | those that have not arrived (16)
#pragma once

#include "device/arena.hpp"

namespace dwell::device {

// The outcome of a task; none: it has not ended.
enum class Outcome : u8 { none, succeeded, failed };

namespace link {

inline constexpr u64 kDone = 1;

DWELL_DEVICE u64* word(const Lease& lease, u32 position) { return lease.links + index_of(position, lease.ring_shift + 1); }
DWELL_DEVICE u64 waiting(u32 lap, u32 waiter) { return (static_cast<u64>(waiter) << 32U) | (static_cast<u64>(lap) << 1U); }
DWELL_DEVICE u64 done(u32 lap, bool failed) { return (static_cast<u64>(failed ? 1 : 0) << 32U) | (static_cast<u64>(lap) << 1U) | kDone; }
DWELL_DEVICE u32 waiter(u64 value) { return static_cast<u32>(value >> 32U); }
// Returns whether the word is of an incomplete task of this lap with a waiter.
DWELL_DEVICE bool has_waiter(u64 value, u32 lap) { return static_cast<u32>(value) == lap << 1U; }

// The outcome of the task of this lap, by its word.
DWELL_DEVICE Outcome outcome(u64 value, u32 lap) {
  if (value == done(lap, false)) return Outcome::succeeded;
  return value == done(lap, true) ? Outcome::failed : Outcome::none;
}

// Returns whether the complete task at `position` has failed. Called by one thread that has synchronised with its completion.
DWELL_DEVICE bool has_failed(const Lease& lease, u32 position) {
  return load<Order::relaxed, Scope::device>(word(lease, position)) == done(lap_of(position, lease.ring_shift), true);
}

}  // namespace link

namespace waiters {

inline constexpr u32 kQuadShift = 24;
inline constexpr u32 kMore = 1U << 29U;  // others stand behind it on the list
inline constexpr u32 kHard = 1U << 30U;  // a failure of its predecessor does not cancel it; a linked task has this in its header

// A linked task that waits alone.
DWELL_DEVICE bool is_lone(u32 waiter) { return waiter >> kQuadShift == 0; }
DWELL_DEVICE u32 quad(u32 waiter) { return waiter >> kQuadShift & 31U; }

// The position of a waiter, by that of the task that it waits for: less than a ring's length behind.
DWELL_DEVICE u32 position(const Lease& lease, u32 waiter, u32 before) { return before + index_of(waiter - before, lease.ring_shift); }

// The address of the next waiter on the list.
DWELL_DEVICE u32* next(const Lease& lease, u32 waiter) {
  const u32 index = index_of(waiter, lease.ring_shift);
  const u32 at = quad(waiter);
  if (at == 0) return lease.waits + index;
  return &lease.held[index + at / 4].quad[at % 4].word[2];
}

// Puts a waiter on the list of the tracked task at `before`, unless that has ended. Called by one thread, after the waiting task's slots
// are held.
DWELL_DEVICE Outcome wait_for(const Lease& lease, u32 before, u32 waiter) {
  u64* const at = link::word(lease, before);
  const u32 lap = lap_of(before, lease.ring_shift);
  u64 value = load<Order::acquire, Scope::device>(at);
  for (;;) {
    const Outcome ended = link::outcome(value, lap);
    if (ended != Outcome::none) return ended;
    u32 head = waiter;
    if (link::has_waiter(value, lap)) {
      store<Order::relaxed, Scope::device>(next(lease, waiter), link::waiter(value));
      head |= kMore;
    }
    // acq_rel: pairs with the exchange in complete(), whose walk then reads entry, count and held slots.
    const u64 seen = compare_exchange<Order::acq_rel>(at, value, link::waiting(lap, head));
    if (seen == value) return Outcome::none;
    value = seen;
  }
}

inline constexpr u32 kArrived = ~0U;        // added to the count: one less to come
inline constexpr u32 kFailure = 1U << 16U;  // added to the count
DWELL_DEVICE u32 to_come(u32 count) { return count & 0xFFFFU; }

// Adds arrivals, summed up in `arriving`, to a task that waits for several. Returns its outcome if they were the last.
DWELL_DEVICE Outcome arrive(const Lease& lease, u32 index, u32 arriving) {
  // acq_rel: the last arrival sees the effects of all predecessors, and passes them on.
  const u32 count = fetch_add<Order::acq_rel>(lease.waits + index, arriving) + arriving;
  if (to_come(count) != 0) return Outcome::none;
  return count >= kFailure ? Outcome::failed : Outcome::succeeded;
}

// Makes a task, whose slots are held, wait for all on its list that have not ended. `drained`: all have ended. Returns Outcome::none when
// another thread will release the task. Called by all lanes with the same list, and the quads of the task.
DWELL_DEVICE_COLD Outcome wait_for_all(const Lease& lease, const TaskQuads& task, WaitList list, u32 position, bool drained) {
  const u32 index = index_of(position, lease.ring_shift);
  // Count the fetcher too, so that no arrival releases the task before all lists are visited.
  if (lane() == 0) store<Order::relaxed, Scope::device>(lease.waits + index, list.count + 1);
  sync_lanes();
  u32 arriving = 0;
  for (u32 i = 0; i < TaskQuads::kEach; ++i) {
    const u32 quad = i * kLanes + lane();
    if (quad < list.first || quad >= list.first + list.count) continue;
    const u32 before = task.quad[i].word[0];
    const bool hard = task.quad[i].word[2] == WaitList::hard;
    Outcome ended = Outcome::failed;
    if (task.quad[i].word[2] != WaitList::failed) {
      if (!drained)
        ended = wait_for(lease, before, index | (quad << kQuadShift) | (hard ? kHard : 0));
      else if (!link::has_failed(lease, before))
        ended = Outcome::succeeded;
    }
    if (ended != Outcome::none) arriving += kArrived;
    if (ended == Outcome::failed && !hard) arriving += kFailure;
  }
  for (u32 step = kLanes / 2; step > 0; step /= 2) arriving += broadcast(arriving, lane() ^ step);
  Outcome outcome = Outcome::none;
  if (lane() == 0) outcome = arrive(lease, index, arriving + kArrived);
  return static_cast<Outcome>(broadcast(static_cast<u32>(outcome)));
}

}  // namespace waiters

}  // namespace dwell::device
