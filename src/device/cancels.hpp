// Cancelled tasks (Runtime::cancel): their headers are marked wherever they wait, so their operators are not called.
//
// A task that has not begun moves through three places: the ring, the held slots, the ready queue. The host marks the slot in the ring,
// which is the task's own until it is complete, and requests the other two by LeaseReport::cancels. A member of the crew processes the
// requests (on the CPU, a worker between two tasks). It finds held tasks by their index. For tasks in the ready queue, or on a level, it
// scans all places that may be unread, once for all cancels. A task in transit between two places is missed, and runs. A marked task stays
// cancelled.
//
// The mark changes one word of a header, the flags, and only while the next word is still the task's position. So it never marks the next
// task in that place. A reader sees the old or the marked flags, and no other change.
//
// A marked task ends in its turn, after its predecessors. It is shared out as cancelled (completion.hpp), or, if already in the ready
// queue, ends as a share: next_group returns that no group is left. Of a wide task the first share to draw, marked or not, decides whether
// the task runs. A gang that is first in line, or has yielded, counts as begun.
//
// A place in the list of cancels is the host's until the device has processed it. Nothing is allocated, and the idle path does not change.
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

// Marks the task whose first quad is `head` if Wide::cancelled notes it. Called by one thread.
DWELL_DEVICE void mark_if_noted(const Lease& lease, Quad* head, const Quad& quad) {
  const u32 position = quad.word[2];
  if (is_made(quad.word[1])) return;
  const u32 noted = load<Order::relaxed, Scope::device>(&lease.wide[index_of(position, lease.ring_shift)].cancelled);
  if (noted == lap_of(position, lease.ring_shift)) mark(head, position);
}

// Marks the noted tasks in the ready queue and on the levels. Called by all lanes.
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
    // A slot that is taken meanwhile is read before or after the mark, or belongs to another task by then.
    if (load<Order::acquire, Scope::device>(lease.level_states + at) != levels::kFull) continue;
    Quad* const head = &lease.level_slots[at].quad[0];
    mark_if_noted(lease, head, load_quad<Scope::device>(head));
  }
  sync_lanes();
}

// Processes the host's cancels, unless another worker does. Called by all lanes.
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
  fence<Scope::device>();  // the notes, for the other lanes
  sync_lanes();
  mark_queued(lease);
  if (lane() == 0) {
    // After the loads of the list: the host reuses those places.
    store<Order::release, Scope::system>(&report.cancels_seen, end);
    store<Order::relaxed, Scope::device>(&crew.cancels, end);
    store<Order::release, Scope::device>(&crew.marking, 0U);
  }
  sync_lanes();
}

#if !DWELL_CONTROL_WARP
// The same if the host has requested any, where its word is cheap to poll.
DWELL_DEVICE void look_if_asked(const Lease& lease) {
  if (load<Order::relaxed, Scope::system>(&lease.report->cancels) != load<Order::relaxed, Scope::device>(&lease.control->crew.cancels))
    look(lease);
}
#endif

// Returns whether a task with this header is cancelled and not shared out: it has no counters.
DWELL_DEVICE bool is_alone(const Header& header) { return (header.flags & (flag::cancelled | flag::wide)) == flag::cancelled; }

// Returns whether the share is of a cancelled task, none of whose groups runs. `wide`: the task's counters. Called by one thread.
DWELL_DEVICE bool ends(const Header& header, Wide* wide) {
  if ((header.flags & flag::cancelled) == 0) return false;
  if (is_alone(header)) return true;
  const u32 drawn = compare_exchange<Order::relaxed>(&wide->next, 0U, kAllDrawn);
  return drawn == 0 || drawn >= kAllDrawn;
}

}  // namespace dwell::device::cancels
