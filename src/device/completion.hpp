// Completion of a task whose operator has returned: publishes its effects, completes its ticket, and releases its waiters.
#pragma once

#include <dwell/device/status.hpp>

#include "device/held.hpp"
#include "device/levels.hpp"
#include "device/ready_queue.hpp"
#include "device/waiters.hpp"

namespace dwell::device {

// Shares a wide task out: puts up to `groups` shares into the ready queue. The taker of a share runs groups until none is left. A cancelled
// task, or one without groups, gets one share, whose worker completes it. So does a gang, whose worker puts it in line (members.hpp).
// Called by all lanes.
DWELL_DEVICE_COLD void share_out(const Lease& lease, TaskQuads task, const Header& header, u32 position, bool cancelled) {
  const bool gang = header.is_gang() && !cancelled;
  Wide* const wide = lease.wide + index_of(position, lease.ring_shift);
  u32 shares = 1;
  if (lane() == 0) {
    const u32 most = header.groups < lease.workers ? header.groups : lease.workers;
    shares += ready_queue::take_spare(lease, cancelled || gang || most == 0 ? 0 : most - 1);
    store<Order::relaxed, Scope::device>(&wide->next, 0U);
    store<Order::relaxed, Scope::device>(&wide->shares, shares);
    if (gang) store<Order::relaxed, Scope::device>(&lease.gang_states[index_of(position, lease.ring_shift)].resumed, 0U);
    store<Order::relaxed, Scope::device>(reinterpret_cast<u32*>(&wide->status),
                                         static_cast<u32>(cancelled ? status::cancelled : status::ok));
    // Pairs with the acquire of the shares' takers: they see the counters as set here.
    fence<Scope::device>();
  }
  shares = broadcast(shares);
  if (lane() == 0) {
    Header share = header;
    share.flags |= flag::share;
    if (cancelled) share.groups = 0;
    if (share.source == source::ring && share.groups == shares) share.flags |= flag::single;
    task.quad[0].word[0] = share.word0();
    task.quad[0].word[1] = share.word1();
  }
  sync_lanes();
  levels::push_copies(lease, task, shares);
}

// Stores the completion entry of `position`: returns its slots to the host.
DWELL_DEVICE void give_back(const Lease& lease, u32 position, i32 status) {
  const u64 entry = static_cast<u64>(lap_of(position, lease.ring_shift)) | (static_cast<u64>(static_cast<u32>(status)) << 32U);
  u64* const at = reinterpret_cast<u64*>(lease.completions + index_of(position, lease.ring_shift));
#if DWELL_FENCES
  // The caller's fence orders it after the task's effects.
  store<Order::relaxed, Scope::system>(at, entry);
#else
  store<Order::release, Scope::system>(at, entry);
#endif
}

// The first half of a completion. Returns the old link word, the list of waiters, which the caller releases; 0 if the task is not tracked
// and has not failed. Called by one thread, after a barrier behind the task's last effects.
DWELL_DEVICE u64 publish(const Lease& lease, const Header& header, u32 position, i32 status) {
  // Effects before completion. Pairs with the host's acquire of the completion entry. Device scope suffices when all results lie in device
  // memory, since every engine reads that through L2 (docs/memory_model.md). A task with no argument in memory has no effects to order.
  if ((header.flags & flag::system) != 0)
    fence<Scope::system>();
  else if ((header.flags & flag::memory) != 0)
    fence<Scope::device>();
  if ((header.flags & flag::tracked) == 0 && status == status::ok) return 0;
#if DWELL_FENCES
  constexpr Order kOrder = Order::acquire;
#else
  constexpr Order kOrder = Order::acq_rel;
#endif
  // Acquire: the list. Release: the fence above. A task without effects relies on the fences of the tasks whose effects it may have seen.
  return exchange<kOrder>(link::word(lease, position), link::done(lap_of(position, lease.ring_shift), status != status::ok));
}

// The second half: returns the slots to the host. Called by the same thread, after the first half, since the link word may then belong to
// the slot's next lap.
DWELL_DEVICE void settle(const Lease& lease, const Header& header, u32 position, i32 status) {
  give_back(lease, position, status);
  // Pairs with the acquire in admission::drained. The fence in publish orders this task's effects before it.
  add<Order::release>(&lease.control->completed.value, header.slots);
  if ((header.flags & flag::drain) != 0)
    store<Order::release, Scope::device>(&lease.control->crew.drains, (header.drains + 1) & Header::kDrainMask);
}

// Both halves. Returns whether tasks wait for this one, and sets `waiter` to the first on their list.
DWELL_DEVICE bool complete(const Lease& lease, const Header& header, u32 position, i32 status, u32* waiter) {
  const u64 before = publish(lease, header, position, status);
  settle(lease, header, position, status);
  *waiter = link::waiter(before);
  return link::has_waiter(before, lap_of(position, lease.ring_shift));
}

// Queues a held task that waits for nothing any more. Called by all lanes, of which one has synchronised with all its predecessors.
DWELL_DEVICE void release(const Lease& lease, u32 position, bool failed) {
  TaskQuads task;
  load_held(lease, &task, position, 0, 1);
  const Header header = Header::from(broadcast(task.quad[0].word[0]), broadcast(task.quad[0].word[1]));
  const bool cancelled = header.is_cancelled(failed);
  if (cancelled || (header.flags & flag::wide) != 0) {
    share_out(lease, task, header, position, cancelled);
    return;
  }
  // Release to the task's runner what was acquired, as the fence of share_out does.
  fence<Scope::device>();
  levels::push(lease, task);
}

// A task that the caller may run, and the outcome of its predecessors; none: there is no task.
struct Ready {
  Outcome outcome;
  u32 position;
};

// Arrives at all tasks on the list from `waiter` on, which wait for the complete task at `before`. Calls `go_on`, in all lanes, for each
// that waits for nothing any more. Called by all lanes.
template <class F>
DWELL_DEVICE void arrive_at_all(const Lease& lease, u32 before, u32 waiter, bool failed, F go_on) {
  for (bool more = true; more;) {
    more = (waiter & waiters::kMore) != 0;
    Outcome outcome = failed ? Outcome::failed : Outcome::succeeded;
    u32 next = 0;
    if (lane() == 0) {
      // Before the waiter is released: then its entry may be reused.
      if (more) next = load<Order::relaxed, Scope::device>(waiters::next(lease, waiter));
      const bool cancels = failed && (waiter & waiters::kHard) == 0;
      if (waiters::quad(waiter) != 0)
        outcome = waiters::arrive(lease, index_of(waiter, lease.ring_shift), waiters::kArrived + (cancels ? waiters::kFailure : 0));
    }
    outcome = static_cast<Outcome>(broadcast(static_cast<u32>(outcome)));
    const u32 position = waiters::position(lease, waiter, before);
    waiter = broadcast(next);
    if (outcome != Outcome::none) go_on(Ready{outcome, position});
  }
}

// The same, for any outcome. Returns the first released waiter to the caller; others go to the ready queue.
DWELL_DEVICE Ready let_go_on(const Lease& lease, u32 before, u32 waiter, bool failed) {
  Ready first{Outcome::none, 0};
  arrive_at_all(lease, before, waiter, failed, [&](Ready next) {
    if (first.outcome == Outcome::none)
      first = next;
    else
      release(lease, next.position, next.outcome == Outcome::failed);
  });
  return first;
}

// The same for a success, when the worker itself runs the linked task at `mine`: all others go to the ready queue.
DWELL_DEVICE_COLD void let_others_go_on(const Lease& lease, u32 before, u32 waiter, u32 mine) {
  arrive_at_all(lease, before, waiter, false, [&](Ready next) {
    if (next.position != mine) release(lease, next.position, next.outcome == Outcome::failed);
  });
}

}  // namespace dwell::device
