// The end of a task whose operator has returned: its effects become visible, its ticket completes, and the task linked behind it runs.
//
// A link word tells on the device how far a task is: waiting, with the position of a task linked to it, or done, each with the lap it
// speaks of. The fetcher of a linked task and the completer of the one before it meet in that word, and exactly one of them makes the
// linked task run. A ring slot has two such words, which its laps use in turn: a task may be complete, and its slot in use again, before
// the fetcher of the task linked to it looks; two laps later that one is complete too. A task that is not tracked leaves word only when it
// has failed. Modelled in tests/model/link.pml.
//   link word: successor's position, or of a task that is done 1 if it has failed (32) | lap (31) | done (1)
#pragma once

#include <dwell/device/status.hpp>

#include "device/ready_queue.hpp"

namespace dwell::device {

namespace link {

inline constexpr u64 kDone = 1;

// How a task has ended; none: it has not.
enum class Outcome : u8 { none, succeeded, failed };

DWELL_DEVICE u64* word(const Lease& lease, u32 position) { return lease.links + index_of(position, lease.ring_shift + 1); }
DWELL_DEVICE u64 waiting(u32 lap, u32 successor) { return (static_cast<u64>(successor) << 32U) | (static_cast<u64>(lap) << 1U); }
DWELL_DEVICE u64 done(u32 lap, bool failed) { return (static_cast<u64>(failed ? 1 : 0) << 32U) | (static_cast<u64>(lap) << 1U) | kDone; }
DWELL_DEVICE u32 lap(u64 value) { return static_cast<u32>(value) >> 1U; }
DWELL_DEVICE u32 successor(u64 value) { return static_cast<u32>(value >> 32U); }

// The outcome of the task of this lap, by its word.
DWELL_DEVICE Outcome outcome(u64 value, u32 lap) {
  if (value == done(lap, false)) return Outcome::succeeded;
  return value == done(lap, true) ? Outcome::failed : Outcome::none;
}

// Makes the task at `position` wait for the one at `before`, which is tracked, unless that has ended. Called by one thread, after the
// waiting task's slots are held.
DWELL_DEVICE Outcome wait_for(const Lease& lease, u32 before, u32 position) {
  u64* const at = word(lease, before);
  const u32 lap_before = lap_of(before, lease.ring_shift);
  u64 value = load<Order::acquire, Scope::device>(at);
  for (;;) {
    const Outcome ended = outcome(value, lap_before);
    if (ended != Outcome::none) return ended;
    // acq_rel: pairs with the exchange in complete(), which reads the held slots after it has seen this word.
    const u64 seen = compare_exchange<Order::acq_rel>(at, value, waiting(lap_before, position));
    if (seen == value) return Outcome::none;
    value = seen;
  }
}

// Whether the task at `position`, which is complete, has failed. Called by one thread that has synchronised with its completion.
DWELL_DEVICE bool has_failed(const Lease& lease, u32 position) {
  return load<Order::relaxed, Scope::device>(word(lease, position)) == done(lap_of(position, lease.ring_shift), true);
}

}  // namespace link

// Stores all slots of a task where those who run it later find them: under its ring position, laps included, so that a reader needs no
// fence. Called by all lanes.
DWELL_DEVICE void hold(const Lease& lease, const TaskQuads& task, u32 position, u32 slots) {
  for (u32 i = 0; i < TaskQuads::kEach; ++i) {
    const u32 index = i * kLanes + lane();
    if (index >= slots * 4) break;
    Quad quad = task.quad[i];
    quad.lap = lap_of(position + index / 4, lease.ring_shift);
    store_quad<Scope::device>(&lease.held[index_of(position + index / 4, lease.ring_shift)].quad[index % 4], quad);
  }
}

// Loads slots [first, slots) of a held task. Called by all lanes; waits for stores that are on their way.
DWELL_DEVICE void load_held(const Lease& lease, TaskQuads* task, u32 position, u32 first, u32 slots) {
  for (u32 i = 0; i < TaskQuads::kEach; ++i) {
    const u32 index = i * kLanes + lane();
    if (index < first * 4 || index >= slots * 4) continue;
    const u32 at = position + index / 4;
    do task->quad[i] = load_quad<Scope::device>(&lease.held[index_of(at, lease.ring_shift)].quad[index % 4]);
    while (task->quad[i].lap != lap_of(at, lease.ring_shift));
  }
}

// Shares a wide task out: up to `groups` places in the ready queue, each worker that takes one runs groups until none is left. A task that
// is cancelled goes the same way, as one share without any group, whose worker completes it. Called by all lanes.
DWELL_DEVICE_COLD void share_out(const Lease& lease, TaskQuads task, const Header& header, u32 position, bool cancelled) {
  Wide* const wide = lease.wide + index_of(position, lease.ring_shift);
  u32 shares = 1;
  if (lane() == 0) {
    const u32 wanted = cancelled ? 0 : (header.groups < lease.workers ? header.groups : lease.workers) - 1;
    u32 spare = load<Order::relaxed, Scope::device>(&lease.control->spare_shares.value);
    for (;;) {
      const u32 taken = wanted < spare ? wanted : spare;
      const u32 seen = compare_exchange<Order::relaxed>(&lease.control->spare_shares.value, spare, spare - taken);
      if (seen == spare) {
        shares += taken;
        break;
      }
      spare = seen;
    }
    store<Order::relaxed, Scope::device>(&wide->next, 0U);
    store<Order::relaxed, Scope::device>(&wide->shares, shares);
    store<Order::relaxed, Scope::device>(reinterpret_cast<u32*>(&wide->status),
                                         static_cast<u32>(cancelled ? status::cancelled : status::ok));
    // Pairs with the acquire in run_share: the taker of a share sees the counters as they are here.
    fence<Scope::device>();
  }
  shares = broadcast(shares);
  if (lane() == 0) {
    Header share = header;
    share.flags |= flag::share;
    if (cancelled) share.groups = 0;
    task.quad[0].word[0] = share.word0();
    task.quad[0].word[1] = share.word1();
  }
  sync_lanes();
  ready_queue::push_copies(lease, task, shares);
}

// Stores the completion entry of `position`: its slot is the host's again.
DWELL_DEVICE void give_back(const Lease& lease, u32 position, i32 status) {
  const u64 entry = static_cast<u64>(lap_of(position, lease.ring_shift)) | (static_cast<u64>(static_cast<u32>(status)) << 32U);
  u64* const at = reinterpret_cast<u64*>(lease.completions + index_of(position, lease.ring_shift));
#if DWELL_ON_CUDA
  // Ordered behind the task's effects by the caller's fence.
  store<Order::relaxed, Scope::system>(at, entry);
#else
  store<Order::release, Scope::system>(at, entry);
#endif
}

// Completes a task: called by one thread, after a barrier behind the last of the task's effects. Returns whether a linked task now runs
// on this worker, and its position.
DWELL_DEVICE bool complete(const Lease& lease, const Header& header, u32 position, i32 status, u32* successor) {
  // Effects before completion. At device scope when all results lie in device memory, since every engine reads that through L2;
  // docs/memory_model.md argues it. Pairs with the host's acquire of the completion entry. A task that no argument leads to memory has
  // no effects to order.
  if ((header.flags & flag::system) != 0)
    fence<Scope::system>();
  else if ((header.flags & flag::memory) != 0)
    fence<Scope::device>();
  // The link word before the completion entry: with the entry the slot is given back, and the word may soon speak of its next lap.
  bool follows = false;
  const u32 lap = lap_of(position, lease.ring_shift);
  if ((header.flags & flag::tracked) != 0 || status != status::ok) {
    const u64 before = exchange<Order::acq_rel>(link::word(lease, position), link::done(lap, status != status::ok));
    *successor = link::successor(before);
    follows = (before & link::kDone) == 0 && link::lap(before) == lap;
  }
  give_back(lease, position, status);
  // Pairs with the acquire in admission::drained. The fence above orders this task's effects before it.
  add<Order::release>(&lease.control->completed.value, header.slots);
  if ((header.flags & flag::drain) != 0)
    store<Order::release, Scope::device>(&lease.control->crew.drains, (header.drains + 1) & Header::kDrainMask);
  return follows;
}

}  // namespace dwell::device
