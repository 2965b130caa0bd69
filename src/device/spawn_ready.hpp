// Spawned tasks that may run: kept by the worker that has made them, stashed, shared out.
//
// A worker keeps the tasks that its operators make, and runs the newest when a task has ended. This depth-first order bounds their number.
// The oldest, which have the most descendants, go to the ready queue when workers wait there (Control::idle). A worker with too many
// stashes the oldest half. Once the operator has returned, it spills the stash into the overflow, a stack of all workers. So no child
// leaves the worker, or runs, before its maker has returned. A worker that has put tasks into the overflow takes from it before other work,
// or sends some through the ready queue (pass_on, flush), whose taker does the same. So no task is lost.
//
// Tasks are handed over in bundles: one task that leads to others, which the taker then keeps (records.hpp says why). At the end of a lease
// all tasks of a worker become one entry of the ready queue, and its taker resumes there.
//
// Credit does not bound these tasks' places in the ready queue. So a worker adds tasks there only for waiting workers, and one when it
// leaves, for the entry that it took. Control::idle is a hint: correctness does not depend on it.
#pragma once

#include "device/graph.hpp"
#include "device/records.hpp"

namespace dwell::device::spawn {

inline constexpr u32 kStashed = SpawnWork::kMost / 2;  // tasks that are stashed at once

// Marks the task's ancestors as shared: other workers may complete the task. Called by one thread.
DWELL_DEVICE void share(const Lease& lease, u32 number) {
  for (u32 above = get(&at(lease, number)->parent); above != 0 && get(&at(lease, above)->shared) == 0;
       above = get(&at(lease, above)->parent))
    set(&at(lease, above)->shared, 1);
}

// Bundles the `count` oldest tasks. Returns the newest of them, which leads to the others from the oldest on. Called by one thread.
DWELL_DEVICE u32 bundle(const Lease& lease, SpawnWork& work, u32 count) {
  const u32 first = work.ready[(work.oldest + count - 1) % SpawnWork::kMost];
  u32 last = first;
  share(lease, first);
  for (u32 i = 0; i + 1 < count; ++i) {
    const u32 number = work.ready[(work.oldest + i) % SpawnWork::kMost];
    share(lease, number);
    set(&at(lease, last)->next, number);
    last = number;
  }
  set(&at(lease, last)->next, 0);
  work.oldest += count;
  work.count -= count;
  return first;
}

// Keeps the tasks behind the first of a bundle, for a worker that keeps no task and runs the first. Called by one thread.
DWELL_DEVICE_COLD void unpack(const Lease& lease, SpawnWork& work, u32 first) {
  for (u32 number = get(&at(lease, first)->next); number != 0; number = get(&at(lease, number)->next))
    work.ready[(work.oldest + work.count++) % SpawnWork::kMost] = number;
}

// Stashes the oldest half. Called by one thread.
DWELL_DEVICE_COLD void stash(const Lease& lease, SpawnWork& work) {
  const u32 first = bundle(lease, work, kStashed);
  if (work.stashed == 0) work.stashed_last = first;
  set(&at(lease, first)->joins, work.stashed);
  work.stashed = first;
}

// Puts the stash into the overflow. Called by one thread, while no operator runs.
DWELL_DEVICE void spill(const Lease& lease, SpawnWork& work) {
  if (work.stashed == 0) return;
  put(lease, &lease.control->lists.overflow, work.stashed, work.stashed_last);
  work.stashed = 0;
}

// Keeps a task. Called by one thread.
DWELL_DEVICE void keep(const Lease& lease, SpawnWork& work, u32 number) {
  if (work.count == SpawnWork::kMost) stash(lease, work);
  work.ready[(work.oldest + work.count++) % SpawnWork::kMost] = number;
}

// Adds the `count` oldest tasks to the ready queue, with their bundles. Called by all lanes.
DWELL_DEVICE_COLD void add_ready(const Lease& lease, SpawnWork& work, u32 count) {
  if (lane() == 0) {
    for (u32 i = 0; i < count; ++i) share(lease, work.ready[(work.oldest + i) % SpawnWork::kMost]);
    fence<Scope::device>();
  }
  sync_lanes();
  const u32 oldest = work.oldest;
  const auto quad_of = [&](u32 i, u32 quad) {
    Quad it = load_quad<Scope::device>(&at(lease, work.ready[(oldest + i) % SpawnWork::kMost])->task.quad[quad]);
    if (quad == 0) it.word[1] |= flag::memory << 4U;  // whoever takes it acquires
    return it;
  };
  // All that a worker keeps descends from one root, and has its level.
  if (!sorts(lease) || !levels::add_waiting(lease, levels::priority_in(broadcast(quad_of(0, 0).word[0])), count, quad_of)) {
    const u32 place = ready_queue::reserve(lease, count);
    for (u32 i = lane(); i < count * 4; i += kLanes) ready_queue::put_quad(lease, place + i / 4, i % 4, quad_of(i / 4, i % 4));
  }
  sync_lanes();
  if (lane() == 0) {
    work.oldest = oldest + count;
    work.count -= count;
  }
  sync_lanes();
}

// Updates the hint Control::idle. Called by one thread.
DWELL_DEVICE void note_queued(const Lease& lease, u32 count) { add<Order::relaxed>(&lease.control->idle.value, 0U - count); }
DWELL_DEVICE void note_taken(const Lease& lease) { add<Order::relaxed>(&lease.control->idle.value, 1U); }

// Returns the workers that serve the ready queue but are never counted in Control::idle.
DWELL_DEVICE u32 spare_workers(const Lease& lease) {
#if DWELL_CONTROL_WARP
  return lease.crew;  // members poll it at times
#else
  return lease.workers - 1;  // no worker is counted
#endif
}

// Returns how many of `count` tasks to add to the ready queue: at most as many as workers wait there. Counts them as queued. Called by one
// thread.
DWELL_DEVICE u32 wanted(const Lease& lease, u32 count) {
  const u32 spare = spare_workers(lease);
  u32* const at = &lease.control->idle.value;
  const auto within = [count](i32 idle) { return idle <= 0 ? 0U : static_cast<u32>(idle) < count ? static_cast<u32>(idle) : count; };
  const u32 seen = within(static_cast<i32>(load<Order::relaxed, Scope::device>(at) + spare));
  if (seen == 0) return 0;
  // Others see the same idle workers.
  const u32 before = fetch_add<Order::relaxed>(at, 0U - seen);
  const u32 given = within(static_cast<i32>(before + spare));
  if (given >= seen) return seen;
  add<Order::relaxed>(at, seen - given);
  return given;
}

// Adds as many tasks to the ready queue as workers wait for there. `loaded` shows whether any may wait. Called by all lanes.
DWELL_DEVICE void offer(const Lease& lease, SpawnWork& work, [[maybe_unused]] const Loaded& loaded) {
  if (work.count == 0) return;
#if DWELL_PARALLEL_GROUP
  if (static_cast<i32>(broadcast(loaded.quad.lap, kIdleLane) + spare_workers(lease)) <= 0) return;
#endif
  u32 count = 0;
  if (lane() == 0) {
    count = wanted(lease, work.count);
    for (u32 i = 0; i < count; ++i) set(&at(lease, work.ready[(work.oldest + i) % SpawnWork::kMost])->next, 0);
  }
  count = broadcast(count);
  if (count != 0) add_ready(lease, work, count);
}

// Adds a bundle to the ready queue, if `first` is not 0 in lane 0. Called by all lanes of a worker that keeps no task.
DWELL_DEVICE void hand_on(const Lease& lease, SpawnWork& work, u32 first) {
  if (lane() == 0 && first != 0) {
    note_queued(lease, 1);
    keep(lease, work, first);
  }
  first = broadcast(first);
  sync_lanes();
  if (first != 0) add_ready(lease, work, 1);
}

// Moves a bundle from the overflow to the ready queue. Called by all lanes of a worker that keeps no task.
DWELL_DEVICE void pass_on(const Lease& lease, SpawnWork& work) {
  u32 first = 0;
  if (lane() == 0 && load<Order::relaxed, Scope::device>(&lease.control->lists.overflow) >> 32U != 0)
    first = take(lease, &lease.control->lists.overflow);
  hand_on(lease, work, first);
}

// Moves all kept tasks to the ready queue, as one bundle; without any, a bundle of the overflow. Called by all lanes.
DWELL_DEVICE_COLD void flush(const Lease& lease, SpawnWork& work) {
  u32 first = 0;
  if (lane() == 0) {
    spill(lease, work);
    first = work.count != 0 ? bundle(lease, work, work.count) : take(lease, &lease.control->lists.overflow);
  }
  sync_lanes();
  hand_on(lease, work, first);
}

// Gives away all tasks, for a worker that begins a graph. They go to the ready queue if nodes have room there. Else they go to the
// overflow, which the worker must serve later (SpawnWork::owes). Called by all lanes.
DWELL_DEVICE_COLD void part(const Lease& lease, SpawnWork& work) {
  if (graph::has_room(lease)) return flush(lease, work);
  if (lane() == 0) {
    spill(lease, work);
    if (work.count != 0) {
      const u32 first = bundle(lease, work, work.count);
      put(lease, &lease.control->lists.overflow, first, first);
    }
    work.owes = 1;
  }
  sync_lanes();
}

}  // namespace dwell::device::spawn
