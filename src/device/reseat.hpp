// Lays out the seats anew. Done by the first worker of a lease with another number of workers than the lease before, or of the first lease.
//
// All earlier leases have left, so no worker pushes, claims or fetches. Claims of unfilled places are dropped. Tasks at claimed, unread
// places move to the tail. Partly fetched windows are listed in ascending order, and the new fetch crew begins with them.
#pragma once

#include "device/completion.hpp"
#include "device/records.hpp"

namespace dwell::device::reseat {

// Moves the tasks at claimed, unread places to the tail, and drops all claims.
DWELL_DEVICE_COLD void clear_claims(const Lease& lease) {
  Control* const control = lease.control;
  const u32 tail = load<Order::relaxed, Scope::device>(&control->tail.value);
  const u32 head = load<Order::relaxed, Scope::device>(&control->head.value);
  for (u32 first = 0; first < lease.former_workers; first += kLanes) {
    const u32 seat = first + lane();
    const u64 claim = seat < lease.former_workers ? load<Order::relaxed, Scope::device>(lease.claims + seat) : 0;
    u32 lanes = ballot((claim & kClaimed) != 0 && is_after(tail, static_cast<u32>(claim)));
    for (u32 from = 0; lanes != 0; ++from) {
      if ((lanes >> from & 1U) == 0) continue;
      lanes &= ~(1U << from);
      const u32 place = broadcast(static_cast<u32>(claim), from);
      TaskQuads task;
      while (!ready_queue::poll(lease, place, &task)) {}
      if (lane() == from) ready_queue::clear_claim(lease, seat);
      ready_queue::push(lease, task);
    }
    if (seat < lease.former_workers) ready_queue::clear_claim(lease, seat);
  }
  // Unfilled claims lie at or behind the old tail, where the moved tasks begin too. Places from `head` to the tail, if any, were never
  // claimed.
  if (lane() == 0) store<Order::relaxed, Scope::device>(&control->head.value, is_after(tail, head) ? head : tail);
}

#if DWELL_CONTROL_WARP
// Lists the partly fetched windows: those of the former crew, and untaken ones of the former list. The list is used before fresh windows,
// so it never has more than kMaxCrew.
DWELL_DEVICE_COLD void list_windows(const Lease& lease) {
  Control* const control = lease.control;
  const u32 turns = lease.former_crew + load<Order::relaxed, Scope::device>(&control->window_turns.value);
  const u32 open = control->open_count;
  const u32 me = lane();
  const bool is_held = me < lease.former_crew;
  const bool is_left = me >= turns && me < open;
  const OpenWindow held = is_held ? lease.seats[me].window : OpenWindow{};
  const OpenWindow left = is_left ? control->open[me] : OpenWindow{};
  const u32 all_held = ballot(is_held);
  const u32 all_left = ballot(is_left);
  u32 held_rank = 0;
  u32 left_rank = 0;
  for (u32 from = 0; from < kLanes; ++from) {
    const u32 held_there = broadcast(held.number, from);
    const u32 left_there = broadcast(left.number, from);
    if ((all_held >> from & 1U) != 0) {
      held_rank += is_after(held.number, held_there) ? 1 : 0;
      left_rank += is_after(left.number, held_there) ? 1 : 0;
    }
    if ((all_left >> from & 1U) != 0) {
      held_rank += is_after(held.number, left_there) ? 1 : 0;
      left_rank += is_after(left.number, left_there) ? 1 : 0;
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

// Gives the first windows of the list, or fresh ones, to the new crew.
DWELL_DEVICE_COLD void deal_windows(const Lease& lease) {
  const Control* const control = lease.control;
  const u32 count = control->open_count;
  const u32 me = lane();
  if (me >= lease.crew) return;
  Seat& seat = lease.seats[me];
  seat.window = me < count ? control->open[me] : OpenWindow{control->window_base + (me - count), 0};
  seat.reads = 0;
  seat.drains = control->crew.drains;
}
#endif

// Moves the free records of removed seats to the shared list.
DWELL_DEVICE_COLD void collect_records(const Lease& lease) {
  for (u32 seat = lease.workers + lane(); seat < lease.former_workers; seat += kLanes) {
    const u32 records = lease.seats[seat].records;
    lease.seats[seat].records = 0;
    if (records != 0) spawn::put(lease, &lease.control->lists.free, records, records);
  }
}

// Called by all lanes of the worker in seat 0, before it takes that seat. The others wait for it (await).
DWELL_DEVICE_COLD void lay_out(const Lease& lease) {
  clear_claims(lease);
  collect_records(lease);
#if DWELL_CONTROL_WARP
  list_windows(lease);
  sync_lanes();
  deal_windows(lease);
#endif
  sync_lanes();
  // Pairs with the acquire in await: all seats and claims.
  if (lane() == 0) {
    fence<Scope::device>();
    store<Order::release, Scope::device>(&lease.control->seated.value, lease.number);
  }
}

// Returns whether the worker `me` lays out the seats.
DWELL_DEVICE bool is_for(const Lease& lease, u32 me) { return me == 0 && lease.lays_out != 0; }

// Waits until the seats are laid out: before, a worker would use the former layout. The host starts no lease beside this one until then, so
// the first worker has room. Called by one thread of every other worker of a lease that lays them out.
DWELL_DEVICE_COLD void await(const Lease& lease) {
  for (u32 round = 0; load<Order::acquire, Scope::device>(&lease.control->seated.value) != lease.number; ++round) relax(round);
}

}  // namespace dwell::device::reseat
