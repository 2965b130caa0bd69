// The line of launches for one exec, which run one after the other.
//
// The host orders its launches by `after`; operators launch at any time (Group::launch). Each launch takes the exec when it begins. If the
// exec is taken, it waits in line and occupies no worker. The ender of a launch gives the exec to the first in line, and puts that into the
// ready queue with flag::launch::turn.
//
// One word holds this state, GraphHead::pending, which the end of a launch changes anyway:
//   0                  the exec is free: its memory may go, or a launch takes it (0 to 1)
//   lower half not 0   a launch has it, or has been given it
//   lower half 0 only  the launch that had it has ended; only its ender serves the line, which others may still join
// The upper half is a stack of arrivals: it names the last one, which leads to the one before. The ender takes the whole stack and reverses
// it once. Then GraphHead::first leads from the oldest to the newest, which kMore says. So the line is FIFO, at a constant cost for each
// launch.
//
// A launch of the ring stands in line with its slots held; it is named by its ring index. One of an operator is named by its record.
//
// The exec may be touched by the launch that has it, by the ender until the word is 0, and by launches in line, which are not complete. A
// launch that the host cancels in line is skipped at its turn. Modelled in tests/model/launch.pml.
#pragma once

#include "device/graph_places.hpp"
#include "device/held.hpp"
#include "device/in_flight.hpp"
#include "device/records.hpp"

namespace dwell::device::line {

inline constexpr u32 kMore = 1U << 31U;          // GraphHead::first leads to launches, or has led
inline constexpr u32 kFailed = 1U << 30U;        // GraphHead::failure is set
inline constexpr u32 kOfRing = 1U << 29U;        // of a launch in line: its index in the ring; else the number of its record
inline constexpr u32 kNewest = kOfRing * 2 - 1;  // the bits of the launch that came last
inline constexpr u64 kUpper = 32;                // where the upper half begins
DWELL_HOST_DEVICE u64 upper(u32 bits) { return static_cast<u64>(bits) << kUpper; }

// The link of a launch: to the next in line, or, on the stack, to the one before; 0 for none.
DWELL_DEVICE u32* next_of(const Lease& lease, u32 launch) {
  return (launch & kOfRing) != 0 ? &lease.wide[launch & ~kOfRing].behind : &spawn::at(lease, launch)->next;
}

// Takes an exec if it is free. Called by one thread.
DWELL_DEVICE bool take(GraphHead* of) {
  // acq_rel: pairs with the end of the launch before (graph::leave, next).
  return compare_exchange<Order::acq_rel>(&of->pending, static_cast<u64>(0), static_cast<u64>(1)) == 0;
}

// Puts a launch in line for a taken exec. False if the exec is free by now: then the caller has it. A launch in line may be run by others.
// Called by one thread, which has fenced.
DWELL_DEVICE_COLD bool stand(const Lease& lease, GraphHead* of, u32 launch) {
  u64 now = load<Order::relaxed, Scope::device>(&of->pending);
  for (;;) {
    u64 then = 1;
    if (now != 0) {
      spawn::set(next_of(lease, launch), static_cast<u32>(now >> kUpper) & kNewest);
      then = (now & ~upper(kNewest)) | upper(launch);
    }
    // acq_rel: pairs with next(), which reads the link and releases the launch; and as in take().
    const u64 seen = compare_exchange<Order::acq_rel>(&of->pending, now, then);
    if (seen == now) return now != 0;
    now = seen;
  }
}

// Gives the exec to the first launch in line, and returns that. 0: none waits; the exec is free, and its memory may go. Called by one
// thread, the ender, when launches are in line or a failure is noted.
DWELL_DEVICE_COLD u32 next(const Lease& lease, GraphHead* of) {
  u64 now = load<Order::acquire, Scope::device>(&of->pending);
  u32 first = (now & upper(kMore)) != 0 ? load<Order::relaxed, Scope::device>(&of->first) : 0;
  if (first != 0) {
    store<Order::relaxed, Scope::device>(&of->first, spawn::get(next_of(lease, first)));
    fetch_add<Order::relaxed>(&of->pending, 1 - (now & upper(kFailed)));
    return first;
  }
  u32 newest = 0;
  for (;;) {
    newest = static_cast<u32>(now >> kUpper) & kNewest;
    // acq_rel: pairs with stand(), and with take().
    const u64 seen = compare_exchange<Order::acq_rel>(&of->pending, now, newest == 0 ? 0 : upper(kMore) | 1);
    if (seen == now) break;
    now = seen;
  }
  for (u32 launch = newest; launch != 0;) {
    const u32 older = spawn::get(next_of(lease, launch));
    spawn::set(next_of(lease, launch), first);
    first = launch;
    launch = older;
  }
  if (first != 0) store<Order::relaxed, Scope::device>(&of->first, spawn::get(next_of(lease, first)));
  return first;
}

// Takes the exec back from a launch that is not to run. Called by one thread, which is the ender again.
DWELL_DEVICE void skip(GraphHead* of) { fetch_add<Order::acq_rel>(&of->pending, ~static_cast<u64>(0)); }

// Holds the slots of the launch in `frame`, a task of the ring, and puts it in line; false as for stand(). Called by all lanes.
DWELL_DEVICE_COLD bool stand_ring(const Lease& lease, Worker* worker, GraphHead* of, const Frame& frame) {
  const u32 position = frame.position();
  const u32 slots = frame.header().slots;
  for (u32 index = lane(); index < slots * 4; index += kLanes) {
    const u32 at = position + index / 4;
    const u32* const words = frame.word + index * 3;
    store_quad<Scope::device>(&lease.held[index_of(at, lease.ring_shift)].quad[index % 4],
                              Quad{lap_of(at, lease.ring_shift), {words[0], words[1], words[2]}});
  }
  fence<Scope::device>();
  sync_lanes();
  u32 stands = 0;
  if (lane() == 0) {
    stands = stand(lease, of, kOfRing | index_of(position, lease.ring_shift)) ? 1 : 0;
    // The launch continues without this worker.
    if (stands != 0) in_flight::clear(worker);
  }
  return broadcast(stands) != 0;
}

// Queues a launch that now has its exec. False if the host has cancelled it: then it is queued as cancelled, without the exec. Called by
// all lanes.
DWELL_DEVICE bool go_on(const Lease& lease, Worker* worker, u32 launch) {
  constexpr u32 kTurn = (flag::launch::turn | flag::memory) << 4U;  // whoever takes it acquires
  if ((launch & kOfRing) != 0) {
    TaskQuads task;
    const u32 index = launch & ~kOfRing;
    load_held(lease, &task, broadcast(load<Order::relaxed, Scope::device>(&lease.held[index].quad[0].word[2])), 0, 1);
    const bool cancelled = (broadcast(task.quad[0].word[1]) & flag::cancelled << 4U) != 0;
    if (lane() == 0 && !cancelled) task.quad[0].word[1] |= kTurn;
    fence<Scope::device>();
    sync_lanes();
    levels::push(lease, task);
    return !cancelled;
  }
  Spawned* const record = spawn::at(lease, launch);
  const bool room = graph::has_room(lease);
  if (lane() == 0) {
    Quad head = load_quad<Scope::device>(&record->task.quad[0]);
    head.word[1] |= kTurn;
    store_quad<Scope::device>(&record->task.quad[0], head);
    spawn::set(&record->next, 0);  // a bundle of its own
    fence<Scope::device>();
    if (room) {
      add<Order::relaxed>(&lease.control->idle.value, ~0U);  // as spawn::note_queued
    } else {
      spawn::put(lease, &lease.control->lists.overflow, launch, launch);
      worker->spawn.owes = 1;
    }
  }
  sync_lanes();
  if (!room) return true;
  TaskQuads task;
  for (u32 i = 0; i < TaskQuads::kEach; ++i) {
    const u32 index = i * kLanes + lane();
    if (index < 4) task.quad[i] = load_quad<Scope::device>(&record->task.quad[index]);
  }
  levels::push(lease, task);
  return true;
}

// Serves the line of an exec after the end of a launch, with others in line or a failure noted. Called by all lanes of the ender.
DWELL_DEVICE_COLD void pass_on(const Lease& lease, Worker* worker, GraphHead* of) {
  for (;;) {
    u32 launch = 0;
    if (lane() == 0) launch = next(lease, of);
    launch = broadcast(launch);
    sync_lanes();
    if (launch == 0 || go_on(lease, worker, launch)) return;
    if (lane() == 0) skip(of);
    sync_lanes();
  }
}

}  // namespace dwell::device::line
