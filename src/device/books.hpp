// Closing the books: what the last worker to leave a lease does, so that the next lease finds the arena as if it were its own.
//
// When all have arrived at the gate nobody pushes, claims or fetches any more. Claims of places that nothing has filled are dropped;
// tasks at places that were claimed but not taken move to the tail; windows that are not wholly fetched are listed in ascending order.
// So neither claims nor windows name a worker between leases, and the next lease may have another number of workers.
#pragma once

#include "device/completion.hpp"

namespace dwell::device::books {

// Moves the tasks at claimed but unconsumed places to the tail and takes all claims back.
DWELL_DEVICE_COLD void close_ready_queue(const Lease& lease) {
  Control* const control = lease.control;
  const u32 tail = load<Order::relaxed, Scope::device>(&control->tail.value);
  const u32 head = load<Order::relaxed, Scope::device>(&control->head.value);
#if DWELL_ON_CUDA
  // A worker outside the crew leaves with one claim at most. When as many places are claimed but not filled, none has to be moved.
  if (head - tail == lease.workers - lease.crew) {
    if (lane() == 0) store<Order::relaxed, Scope::device>(&control->head.value, tail);
    return;
  }
#endif
  constexpr u32 kEach = 8;  // loads in flight: the whole pass is a few latencies
  for (u32 first = 0; first < lease.workers; first += kEach * kLanes) {
    u64 claim[kEach];
#if DWELL_ON_CUDA
#pragma unroll
#endif
    for (u32 i = 0; i < kEach; ++i) {
      const u32 worker = first + i * kLanes + lane();
      claim[i] = worker < lease.workers ? load<Order::relaxed, Scope::device>(lease.claims + worker) : 0;
    }
#if DWELL_ON_CUDA
#pragma unroll
#endif
    for (u32 i = 0; i < kEach; ++i) {
      const bool filled = (claim[i] & kClaimed) != 0 && static_cast<i32>(tail - static_cast<u32>(claim[i])) > 0;
      u32 lanes = ballot(filled);
      for (u32 from = 0; lanes != 0; ++from) {
        if ((lanes >> from & 1U) == 0) continue;
        lanes &= ~(1U << from);
        const u32 place = broadcast(static_cast<u32>(claim[i]), from);
        TaskQuads task;
        while (!ready_queue::poll(lease, place, &task)) {}
        ready_queue::push(lease, task);
      }
    }
  }
  // Claims that nothing filled lie at or behind the old tail, and the tasks that moved begin there too. Places from `head` on, if any
  // before the tail, were never claimed.
  const u32 first_unclaimed = static_cast<i32>(tail - head) > 0 ? head : tail;
  if (lane() == 0) store<Order::relaxed, Scope::device>(&control->head.value, first_unclaimed);
}

#if DWELL_ON_CUDA
// Lists the windows that are not wholly fetched: those that crew members held, and those left over from before that nobody took. A
// window on the list is taken before a fresh one, so there are never more than kMaxCrew.
DWELL_DEVICE_COLD void close_windows(const Lease& lease) {
  Control* const control = lease.control;
  const u32 turns = lease.crew + load<Order::relaxed, Scope::device>(&control->window_turns.value);
  const u32 open = control->open_count;
  const u32 me = lane();
  const bool is_held = me < lease.crew;
  const bool is_left = me >= turns && me < open;
  const OpenWindow held = is_held ? control->leaving[me] : OpenWindow{};
  const OpenWindow left = is_left ? control->open[me] : OpenWindow{};
  const u32 all_held = ballot(is_held);
  const u32 all_left = ballot(is_left);
  u32 held_rank = 0;
  u32 left_rank = 0;
  for (u32 from = 0; from < kLanes; ++from) {
    const u32 held_there = broadcast(held.number, from);
    const u32 left_there = broadcast(left.number, from);
    if ((all_held >> from & 1U) != 0) {
      held_rank += static_cast<i32>(held_there - held.number) < 0 ? 1 : 0;
      left_rank += static_cast<i32>(held_there - left.number) < 0 ? 1 : 0;
    }
    if ((all_left >> from & 1U) != 0) {
      held_rank += static_cast<i32>(left_there - held.number) < 0 ? 1 : 0;
      left_rank += static_cast<i32>(left_there - left.number) < 0 ? 1 : 0;
    }
  }
  if (is_held) control->open[held_rank] = held;
  if (is_left) control->open[left_rank] = left;
  if (me == 0) {
    control->window_base += turns > open ? turns - open : 0;
    control->open_count = static_cast<u32>(__popc(all_held) + __popc(all_left));
    control->window_turns.value = 0;
    control->crew.busy = 0;
  }
}
#endif

// Called by all lanes of the last worker to leave, after it has passed the gate.
DWELL_DEVICE void close(const Lease& lease) {
  // The host is told first: the next lease begins only when this worker has left too, and parking is quicker so. Pairs with the host's
  // acquire.
  if (lane() == 0) store<Order::release, Scope::system>(&lease.report->left, lease.number);
  close_ready_queue(lease);
#if DWELL_ON_CUDA
  close_windows(lease);
#endif
  // The next lease's gate. Nobody looks at it during this one.
  if (lane() == 0) store<Order::relaxed, Scope::device>(&lease.control->crew.gate[(lease.number + 1) & 1U], 0U);
}

}  // namespace dwell::device::books
