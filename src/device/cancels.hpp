// Tasks that the host has cancelled (Runtime::cancel): their headers are marked, wherever they wait, so that no operator is called.
//
// A task that has not begun lies in one of three places, and moves in this order: in the ring, held, in the ready queue. The host marks the
// slot in the ring, which is the task's own until it is complete, and asks by LeaseReport::cancels for the other two. A member of the
// crew sees to it (on the CPU, a worker between two tasks): held tasks are found by their index, those in the ready queue, or on a level of
// their priority, by one walk over all places that may be unread, for all cancels at once. A task that somebody carries from one place to
// the next meanwhile is missed, and runs. Where it is marked, it stays cancelled.
//
// The mark changes one word of a header, flags, only while the word behind it is still the task's position: so it never meets the task that
// lies in that place next. A reader sees the flags of before or the marked ones, and nothing else that changes.
//
// A marked task ends when its turn comes: those that it waits for have ended by then. It goes the way of the cancelled (completion.hpp),
// or, if it is in the ready queue already, that of a share: next_group says that no group is left. The shares of a wide task draw for it:
// the first to draw, marked or not, decides whether the task runs. A gang that is first in line has begun, and so has one that has yielded.
//
// The host's place in the list of cancels is its own until the device has seen to it. Nothing is allocated, and the idle path is as it was.
// Modelled in tests/model/cancel.pml.
#pragma once

#include "device/sources.hpp"

namespace dwell::device::cancels {

inline constexpr u32 kMark = (flag::cancelled | flag::share) << 4U;
inline constexpr u32 kAllDrawn = 1U << 31U;  // in Wide::next: the task is cancelled, and no group runs

// Marks the task at `position` if `head` is its first quad. Called by one thread.
DWELL_DEVICE void mark(Quad* head, u32 position) {
  u64* const at = reinterpret_cast<u64*>(&head->word[1]);
  u64 now = load<Order::relaxed, Scope::device>(at);
  while (static_cast<u32>(now >> 32U) == position) {
    if (!sources::may_cancel(Header::from(0, static_cast<u32>(now)))) return;
    const u64 seen = compare_exchange<Order::relaxed>(at, now, now | kMark);
    if (seen == now) return;
    now = seen;
  }
}

// Marks the task whose first quad is `head` if its cancelling is noted. Called by one thread.
DWELL_DEVICE void mark_if_noted(const Lease& lease, Quad* head, const Quad& quad) {
  const u32 position = quad.word[2];
  if (is_made(quad.word[1])) return;
  const u32 noted = load<Order::relaxed, Scope::device>(&lease.wide[index_of(position, lease.ring_shift)].cancelled);
  if (noted == lap_of(position, lease.ring_shift)) mark(head, position);
}

// Marks the tasks in the ready queue, and those that wait by priority, whose cancelling is noted. Called by all lanes.
DWELL_DEVICE_COLD void mark_queued(const Lease& lease) {
  const u32 first = ready_queue::find_low_water(lease);
  const u32 end = broadcast(load<Order::relaxed, Scope::device>(&lease.control->tail.value));
  for (u32 at = first + lane(); is_after(end, at); at += kLanes) {
    Quad* const head = &ready_queue::slot(lease, at)->quad[0];
    const Quad quad = load_quad<Scope::device>(head);
    if (quad.lap == lap_of(at, lease.queue_shift)) mark_if_noted(lease, head, quad);
  }
  const u32 slots = sorts(lease) ? kPriorities << lease.level_shift : 0;
  for (u32 at = lane(); at < slots; at += kLanes) {
    // One that is taken meanwhile is read before or behind the mark, or is another task's by then.
    if (load<Order::acquire, Scope::device>(lease.level_states + at) != levels::kFull) continue;
    Quad* const head = &lease.level_slots[at].quad[0];
    mark_if_noted(lease, head, load_quad<Scope::device>(head));
  }
  sync_lanes();
}

// Sees to the cancels that the host asks for, unless another does. Called by all lanes.
DWELL_DEVICE_COLD void look(const Lease& lease) {
  CrewLine& crew = lease.control->crew;
  LeaseReport& report = *lease.report;
  u32 first = 0;
  u32 end = 0;
  if (lane() == 0 && exchange<Order::acq_rel>(&crew.marking, 1U) == 0) {
    first = load<Order::relaxed, Scope::device>(&crew.cancels);
    // Pairs with CancelRequests::pass_on: the positions.
    end = load<Order::acquire, Scope::system>(&report.cancels);
    if (first == end) store<Order::release, Scope::device>(&crew.marking, 0U);
  }
  first = broadcast(first);
  end = broadcast(end);
  if (first == end) return;
  for (u32 at = first + lane(); is_after(end, at); at += kLanes) {
    const u32 position = load<Order::relaxed, Scope::system>(&report.cancelled[at % kCancels]);
    const u32 index = index_of(position, lease.ring_shift);
    store<Order::relaxed, Scope::device>(&lease.wide[index].cancelled, lap_of(position, lease.ring_shift));
    Quad* const head = &lease.held[index].quad[0];
    if (load<Order::relaxed, Scope::device>(&head->lap) == lap_of(position, lease.ring_shift)) mark(head, position);
  }
  fence<Scope::device>();  // what is noted, for the other lanes
  sync_lanes();
  mark_queued(lease);
  if (lane() == 0) {
    // Behind the loads of the list: the host fills those places anew.
    store<Order::release, Scope::system>(&report.cancels_seen, end);
    store<Order::relaxed, Scope::device>(&crew.cancels, end);
    store<Order::release, Scope::device>(&crew.marking, 0U);
  }
  sync_lanes();
}

#if !DWELL_CONTROL_WARP
// The same where a look at the host's word costs next to nothing.
DWELL_DEVICE void look_if_asked(const Lease& lease) {
  if (load<Order::relaxed, Scope::system>(&lease.report->cancels) != load<Order::relaxed, Scope::device>(&lease.control->crew.cancels))
    look(lease);
}
#endif

// Whether a task with this header is cancelled and not shared out: it has no counters.
DWELL_DEVICE bool is_alone(const Header& header) { return (header.flags & (flag::cancelled | flag::wide)) == flag::cancelled; }

// Whether the share in hand is of a task that is cancelled, so that no group of it runs. `wide`: the task's counters. Called by one thread.
DWELL_DEVICE bool ends(const Header& header, Wide* wide) {
  if ((header.flags & flag::cancelled) == 0) return false;
  if (is_alone(header)) return true;
  const u32 drawn = compare_exchange<Order::relaxed>(&wide->next, 0U, kAllDrawn);
  return drawn == 0 || drawn >= kAllDrawn;
}

}  // namespace dwell::device::cancels
