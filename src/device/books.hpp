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
  for (u32 first = 0; first < lease.workers; first += kLanes) {
    const u32 worker = first + lane();
    u32 filled = 0;
    u32 claim = 0;
    if (worker < lease.workers) {
      const Departure& departure = lease.departures[worker];
      claim = load<Order::relaxed, Scope::device>(&departure.claim);
      filled = load<Order::relaxed, Scope::device>(&departure.claimed) != 0 && static_cast<i32>(tail - claim) > 0 ? 1 : 0;
    }
    u32 lanes = ballot(filled != 0);
    for (u32 from = 0; from < kLanes && lanes != 0; ++from) {
      if ((lanes >> from & 1U) == 0) continue;
      const u32 place = broadcast(claim, from);
      TaskQuads task;
      while (!ready_queue::poll(lease, place, &task)) {}
      ready_queue::push(lease, task);
      lanes &= ~(1U << from);
    }
  }
  // Places from `head` on were never claimed; the claims before it that nothing filled lie at or behind the old tail. Those that moved
  // begin there too.
  const u32 first_unclaimed = static_cast<i32>(tail - head) > 0 ? head : tail;
  if (lane() == 0) store<Order::relaxed, Scope::device>(&control->head.value, first_unclaimed);
}

#if DWELL_ON_CUDA
// Lists the windows that are not wholly fetched: those that crew members held, and those left over from before that nobody took.
DWELL_DEVICE_COLD void close_windows(const Lease& lease) {
  Control* const control = lease.control;
  const u32 turns = load<Order::relaxed, Scope::device>(&control->window_turns.value);
  const u32 open_before = control->open_count;
  // Two candidates a lane, at most kMaxCrew in all: a window is either held by a member or still on the list.
  u32 number[2];
  u32 offset[2];
  u32 valid[2];
  for (u32 half = 0; half < 2; ++half) {
    const u32 index = half * kLanes + lane();
    valid[half] = 0;
    number[half] = offset[half] = 0;
    if (index < lease.crew && load<Order::relaxed, Scope::device>(&lease.departures[index].windowed) != 0) {
      valid[half] = 1;
      number[half] = load<Order::relaxed, Scope::device>(&lease.departures[index].window.number);
      offset[half] = load<Order::relaxed, Scope::device>(&lease.departures[index].window.offset);
    }
  }
  // Members beyond the list's length took fresh windows, so held and left over never exceed the larger of crew and list.
  u32 held = static_cast<u32>(__popc(ballot(valid[0] != 0)) + __popc(ballot(valid[1] != 0)));
  OpenWindow left_over[2];
  u32 left[2];
  for (u32 half = 0; half < 2; ++half) {
    const u32 index = half * kLanes + lane();
    left[half] = index >= turns && index < open_before ? 1 : 0;
    if (left[half] != 0) left_over[half] = control->open[index];
  }
  sync_lanes();
  const u32 fresh = turns > open_before ? turns - open_before : 0;
  // Held windows sort before the left-over ones only by number: rank every candidate among all of them.
  for (u32 half = 0; half < 2; ++half) {
    u32 rank_held = 0;
    u32 rank_left = 0;
    for (u32 other = 0; other < 2; ++other) {
      for (u32 from = 0; from < kLanes; ++from) {
        const u32 valid_there = broadcast(valid[other], from);
        const u32 number_there = broadcast(number[other], from);
        const u32 left_there = broadcast(left[other], from);
        const u32 left_number = broadcast(left_over[other].number, from);
        if (valid_there != 0 && static_cast<i32>(number_there - number[half]) < 0) ++rank_held;
        if (left_there != 0 && static_cast<i32>(left_number - number[half]) < 0) ++rank_held;
        if (valid_there != 0 && static_cast<i32>(number_there - left_over[half].number) < 0) ++rank_left;
        if (left_there != 0 && static_cast<i32>(left_number - left_over[half].number) < 0) ++rank_left;
      }
    }
    if (valid[half] != 0) control->open[rank_held] = OpenWindow{number[half], offset[half]};
    if (left[half] != 0) control->open[rank_left] = left_over[half];
  }
  const u32 leftovers = static_cast<u32>(__popc(ballot(left[0] != 0)) + __popc(ballot(left[1] != 0)));
  if (lane() == 0) {
    control->window_base += fresh;
    control->open_count = held + leftovers;
    control->window_turns.value = 0;
    control->crew.busy = 0;
  }
}
#endif

// Called by all lanes of the last worker to leave, after it has passed the gate; then reports to the host.
DWELL_DEVICE void close(const Lease& lease) {
  close_ready_queue(lease);
#if DWELL_ON_CUDA
  close_windows(lease);
#endif
  sync_lanes();
  if (lane() == 0) {
    // The next lease's gate. Nobody looks at it during this one.
    store<Order::relaxed, Scope::device>(&lease.control->crew.gate[(lease.epoch + 1) & 1U], 0U);
    // Pairs with the host's acquire: it may start the next lease as soon as it sees this.
    store<Order::release, Scope::system>(&lease.report->left, lease.epoch);
  }
}

}  // namespace dwell::device::books
