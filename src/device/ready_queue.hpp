// The ready queue: tasks that may run now, in device memory, in the ring's own slot format.
//
// A producer reserves places with one atomic and stores tagged quads; a consumer claims one place with one atomic and polls only that
// place, so idle workers never poll a line together. A claim may run ahead of the producers.
//
// Invariant: a place is filled only after the task of one lap ago has been read there. Lease::claims has, for each seat, the place that its
// worker has claimed and not yet read. Places from `head` on are unclaimed. The lowest of these places is the low-water mark: all below it
// are read. A producer compares its places with the mark that it knows, which is never too high, since the mark only grows. It computes the
// mark again when its places are a lap ahead; credit bounds the unread tasks to less, so this is rare. A consumer publishes its first claim
// before it claims (claim_first), so no scan misses it. Its last claim, which is lower, stays published until it stores the next one. No
// step depends on the speed of a thread. A waiting producer holds no claim on an unread place, so the holder of the lowest claim makes
// progress. Modelled in tests/model/ready_queue.pml.
#pragma once

#include "device/parts.hpp"

namespace dwell::device::ready_queue {

DWELL_DEVICE Slot* slot(const Lease& lease, u32 place) { return lease.queue + index_of(place, lease.queue_shift); }

// ---- Room ----------------------------------------------------------------------------------------------------------------------

// Computes the low-water mark from all claims, and raises it. Returns it. Called by all lanes.
DWELL_DEVICE_COLD u32 find_low_water(const Lease& lease) {
  // Load before the claims: pairs with claim_first. A claim that the scan misses is of a place from `head` on.
  const u32 head = broadcast(load<Order::acquire, Scope::device>(&lease.control->head.value));
  u32 below = 0;  // how far the lowest claim lies below `head`
  // While seats are laid out anew, those of the leases before count too.
  const u32 seats = lease.lays_out != 0 && lease.former_workers > lease.workers ? lease.former_workers : lease.workers;
  for (u32 seat = lane(); seat < seats; seat += kLanes) {
    const u64 claim = load<Order::relaxed, Scope::device>(lease.claims + seat);
    const u32 place = static_cast<u32>(claim);
    if ((claim & kClaimed) != 0 && is_after(head, place) && head - place > below) below = head - place;
  }
  for (u32 step = kLanes / 2; step > 0; step /= 2) {
    const u32 other = broadcast(below, lane() ^ step);
    if (other > below) below = other;
  }
  const u32 mark = head - below;
  if (lane() == 0) raise(&lease.control->crew.low_water, mark);
  return mark;
}

// Returns whether the reserved places before `end` may be filled. `known`: the caller's last view of the low-water mark. A no may be
// outdated.
DWELL_DEVICE bool has_room(const Lease& lease, u32 end, u32 known) {
  return static_cast<i32>(end - known) <= static_cast<i32>(1U << lease.queue_shift);
}
// Waits until the reserved places before `end` may be filled. Called by all lanes.
DWELL_DEVICE_COLD void wait_for_room(const Lease& lease, u32 end) {
  // Another producer may have raised the mark meanwhile.
  u32 known = broadcast(load<Order::relaxed, Scope::device>(&lease.control->crew.low_water));
  for (u32 round = 0; !has_room(lease, end, known); ++round) {
    known = find_low_water(lease);
    relax(round);
  }
}

// Reserves up to `wanted` places of the ready queue for shares. Returns how many. Called by one thread.
DWELL_DEVICE u32 take_spare(const Lease& lease, u32 wanted) {
  if (wanted == 0) return 0;
  u32* const at = &lease.control->spare_shares.value;
  // The excess is given back. Until then others see fewer places than are spare, never more.
  const i32 spare = static_cast<i32>(fetch_add<Order::relaxed>(at, 0U - wanted));
  const u32 taken = spare <= 0 ? 0 : static_cast<u32>(spare) < wanted ? static_cast<u32>(spare) : wanted;
  if (taken != wanted) fetch_add<Order::relaxed>(at, wanted - taken);
  return taken;
}

// ---- Producers -----------------------------------------------------------------------------------------------------------------

// Stores one quad of the task at `place`, for which there is room.
DWELL_DEVICE void put_quad(const Lease& lease, u32 place, u32 index, Quad quad) {
  quad.lap = lap_of(place, lease.queue_shift);
  store_quad<Scope::device>(&slot(lease, place)->quad[index], quad);
}

// While times are noted, some places are stamped: `queue_stamps` has the lap of each, and the time when it was filled. The taker of a node
// or of a spawned task computes from it how long that was queued. The stamp belongs to the task only if its lap matches.
DWELL_DEVICE bool is_stamped(u32 place) { return place % kStampedPlaces == 0; }
DWELL_DEVICE Quad* stamp(const Lease& lease, u32 place) { return lease.queue_stamps + index_of(place, lease.queue_shift) / kStampedPlaces; }
// Stamps those of `count` places. Called by all lanes.
DWELL_DEVICE_COLD void stamp_places(const Lease& lease, u32 place, u32 count) {
  const u32 before = (place + kStampedPlaces - 1) / kStampedPlaces * kStampedPlaces - place;  // the first one
  for (u32 at = before + lane() * kStampedPlaces; at < count; at += kLanes * kStampedPlaces) {
    const u64 now = now_ns();
    const Quad quad{lap_of(place + at, lease.queue_shift), {static_cast<u32>(now), static_cast<u32>(now >> 32U), 0}};
    store_quad<Scope::device>(stamp(lease, place + at), quad);
  }
}

// Reserves `count` places and waits until there is room. Called by all lanes, by no worker that holds an unread place.
DWELL_DEVICE u32 reserve(const Lease& lease, u32 count) {
  u32 place = 0;
  u32 known = 0;
  if (lane() == 0) {
    place = fetch_add<Order::relaxed>(&lease.control->tail.value, count);
    known = load<Order::relaxed, Scope::device>(&lease.control->crew.low_water);
  }
  place = broadcast(place);
  if (!has_room(lease, place + count, broadcast(known))) wait_for_room(lease, place + count);
  if ((timed_by(lease) & timed::times) != 0) stamp_places(lease, place, count);
  return place;
}

// Adds a task's first slot. Called by all lanes; lane l passes quads l, l + kLanes, ... of the task.
DWELL_DEVICE void push(const Lease& lease, const TaskQuads& task) {
  const u32 place = reserve(lease, 1);
  for (u32 i = 0; i < TaskQuads::kEach; ++i) {
    const u32 index = i * kLanes + lane();
    if (index < 4) put_quad(lease, place, index, task.quad[i]);
  }
}

// Adds `count` copies of a task's first slot, with one reservation. Called by all lanes, as push is.
DWELL_DEVICE void push_copies(const Lease& lease, const TaskQuads& task, u32 count) {
  const u32 place = reserve(lease, count);
#if DWELL_PARALLEL_GROUP
  // Eight copies at a time: lane l stores quad l % 4, which lane l % 4 holds.
  Quad quad;
  quad.lap = 0;
  for (u32 i = 0; i < 3; ++i) quad.word[i] = broadcast(task.quad[0].word[i], lane() % 4);
  for (u32 at = lane(); at < count * 4; at += kLanes) put_quad(lease, place + at / 4, at % 4, quad);
#else
  for (u32 at = 0; at < count * 4; ++at) put_quad(lease, place + at / 4, at % 4, task.quad[at % 4]);
#endif
}

// ---- Consumers -----------------------------------------------------------------------------------------------------------------

// Publishes the place that the worker of a seat has claimed and not yet read. Called by one thread.
DWELL_DEVICE void set_claim(const Lease& lease, u32 seat, u32 place) {
  store<Order::relaxed, Scope::device>(lease.claims + seat, kClaimed | place);
}
// Publishes that the worker holds no unread place. Called by one thread.
DWELL_DEVICE void clear_claim(const Lease& lease, u32 seat) {
  store<Order::relaxed, Scope::device>(lease.claims + seat, static_cast<u64>(0));
}

// Claims the next place, for a worker whose last claim still stands; set_claim follows. Called by one thread.
DWELL_DEVICE u32 claim_next(const Lease& lease) { return fetch_add<Order::relaxed>(&lease.control->head.value, 1U); }

// Claims a place for a worker that has none. Called by one thread.
DWELL_DEVICE u32 claim_first(const Lease& lease, u32 seat) {
  set_claim(lease, seat, load<Order::relaxed, Scope::device>(&lease.control->head.value));
  // Release: who reads the new head sees a claim no higher than this one. Pairs with find_low_water.
  const u32 place = fetch_add<Order::release>(&lease.control->head.value, 1U);
  set_claim(lease, seat, place);
  return place;
}

// Claims the next place only if it is filled or about to be, for a worker that has no claim; clear_claim follows when it has been read.
// Called by one thread.
DWELL_DEVICE bool try_claim(const Lease& lease, u32 seat, u32* place) {
  const u32 head = load<Order::relaxed, Scope::device>(&lease.control->head.value);
  const u32 tail = load<Order::relaxed, Scope::device>(&lease.control->tail.value);
  if (!is_after(tail, head)) return false;
  *place = head;
  set_claim(lease, seat, head);
  // Release: as in claim_first.
  if (compare_exchange<Order::acq_rel>(&lease.control->head.value, head, head + 1) == head) return true;
  clear_claim(lease, seat);
  return false;
}

// Polls a claimed place once. Returns true in all lanes if the task's first slot is written. Called by all lanes.
DWELL_DEVICE bool poll(const Lease& lease, u32 place, TaskQuads* task) {
  bool here = true;
  for (u32 i = 0; i < TaskQuads::kEach; ++i) {
    const u32 index = i * kLanes + lane();
    if (index >= 4) break;
    task->quad[i] = load_quad<Scope::device>(&slot(lease, place)->quad[index]);
    here = here && task->quad[i].lap == lap_of(place, lease.queue_shift);
  }
  return all_lanes(here);
}

// Returns whether the queue has unclaimed tasks, written or about to be.
DWELL_DEVICE bool has_unclaimed(const Lease& lease) {
  return is_after(load<Order::relaxed, Scope::device>(&lease.control->tail.value),
                  load<Order::relaxed, Scope::device>(&lease.control->head.value));
}

// Takes the next task if its first slot is written. Reads the place before it claims it, so a thread that is preempted in between holds no
// place. Sets `place` to it. Called by a CPU worker.
DWELL_DEVICE bool try_take(const Lease& lease, TaskQuads* task, u32* place = nullptr) {
  const u32 head = load<Order::relaxed, Scope::device>(&lease.control->head.value);
  if (place != nullptr) *place = head;
  const u32 tail = load<Order::relaxed, Scope::device>(&lease.control->tail.value);
  if (!is_after(tail, head) || !poll(lease, head, task)) return false;
  return compare_exchange<Order::acq_rel>(&lease.control->head.value, head, head + 1) == head;
}

}  // namespace dwell::device::ready_queue
