// Records of spawned tasks: where free ones are kept, and the lists that all workers share.
//
// A worker caches free records, and leaves them at its seat. With too many it puts a batch on the shared list; with none it takes a batch
// there, or never used records. Lists are changed by bundles: one record that leads to others. Single records would make a list as slow as
// one worker, since each change takes a round trip to L2.
#pragma once

#include "device/worker_memory.hpp"

namespace dwell::device::spawn {

inline constexpr u32 kBatch = kFreeRecords / 2;  // free records that go to the list, or are first used, at once

DWELL_DEVICE Spawned* at(const Lease& lease, u32 number) { return lease.spawned + number; }
DWELL_DEVICE u32 get(const u32* from) { return load<Order::relaxed, Scope::device>(from); }
DWELL_DEVICE void set(u32* to, u32 value) { store<Order::relaxed, Scope::device>(to, value); }

// ---- Lists of bundles, of all workers. Called by one thread ----------------------------------------------------------------------

// Pushes bundles onto a list: `topmost` and those linked below it, up to `last`.
DWELL_DEVICE_COLD void put(const Lease& lease, u64* list, u32 topmost, u32 last) {
  u64 now = load<Order::relaxed, Scope::device>(list);
  for (;;) {
    set(&at(lease, last)->joins, static_cast<u32>(now >> 32U));
    // Release: the links, the tasks and their makers' effects. Pairs with take.
    const u64 seen = compare_exchange<Order::acq_rel>(list, now, static_cast<u64>(topmost) << 32U | (static_cast<u32>(now) + 1U));
    if (seen == now) return;
    now = seen;
  }
}

// Pops the topmost bundle; 0 for none. The count of changes prevents ABA when a record returns to the top.
DWELL_DEVICE_COLD u32 take(const Lease& lease, u64* list) {
  u64 now = load<Order::acquire, Scope::device>(list);
  while ((now >> 32U) != 0) {
    const u32 number = static_cast<u32>(now >> 32U);
    const u32 below = get(&at(lease, number)->joins);
    const u64 seen = compare_exchange<Order::acq_rel>(list, now, static_cast<u64>(below) << 32U | (static_cast<u32>(now) + 1U));
    if (seen == now) return number;
    now = seen;
  }
  return 0;
}

// ---- Records. Called by one thread -----------------------------------------------------------------------------------------------

// Refills the worker's free records. Prefers used ones, so few more are ever touched than were in use at once.
DWELL_DEVICE_COLD void refill(const Lease& lease, Worker* worker) {
  SpawnWork& work = worker->spawn;
  SpawnedLists& lists = lease.control->lists;
  u32* const left = &lease.seats[worker->me].records;
  u32 number = get(left);
  if (number != 0)
    set(left, 0);
  else
    number = take(lease, &lists.free);
  for (; number != 0; number = get(&at(lease, number)->next)) work.free[work.free_count++] = number;
  if (work.free_count == 0 && get(&lists.fresh) < lease.spawned_records) {
    const u32 first = fetch_add<Order::relaxed>(&lists.fresh, kBatch);
    for (u32 fresh = first; fresh < first + kBatch && fresh < lease.spawned_records; ++fresh) work.free[work.free_count++] = fresh;
  }
}

// Returns a bundle of the newest `count` free records of a worker.
DWELL_DEVICE_COLD u32 bundle_free(const Lease& lease, SpawnWork& work, u32 count) {
  u32 first = 0;
  for (; count != 0; --count) {
    const u32 number = work.free[--work.free_count];
    set(&at(lease, number)->next, first);
    first = number;
  }
  return first;
}

// The first words of a record after the task: one access on CUDA, since each is a trip to L2.
struct Head {
  u32 parent;
  u32 pending;
  u32 status;
  u32 shared;
};
DWELL_DEVICE Head load_head(const Spawned* record) {
#if DWELL_PARALLEL_GROUP
  const Quad quad = load_quad<Scope::device>(reinterpret_cast<const Quad*>(&record->parent));
  return Head{quad.lap, quad.word[0], quad.word[1], quad.word[2]};
#else
  return Head{get(&record->parent), get(&record->pending), get(&record->status), get(&record->shared)};
#endif
}
DWELL_DEVICE void store_head(Spawned* record, Head head) {
#if DWELL_PARALLEL_GROUP
  store_quad<Scope::device>(reinterpret_cast<Quad*>(&record->parent), Quad{head.parent, {head.pending, head.status, head.shared}});
#else
  set(&record->parent, head.parent);
  set(&record->pending, head.pending);
  set(&record->status, head.status);
  set(&record->shared, head.shared);
#endif
}

// A record as loaded for the worker that is to run its task.
struct Loaded {
#if DWELL_PARALLEL_GROUP
  Quad quad;  // in lanes 0 to 3 the task, in 4 its head, in 5 the words behind the head, in kIdleLane Control::idle
#else
  Quad task[4];
  Head head;
  u32 behind;
#endif
};
inline constexpr u32 kHeadLane = 4;
inline constexpr u32 kBehindLane = 5;
inline constexpr u32 kIdleLane = 6;

// Loads a record, and Control::idle, in one latency on CUDA. Called by all lanes.
DWELL_DEVICE Loaded load_ahead(const Lease& lease, u32 number) {
  const Spawned* const record = at(lease, number);
  Loaded loaded{};
#if DWELL_PARALLEL_GROUP
  const Quad* const from = lane() == kIdleLane ? reinterpret_cast<const Quad*>(&lease.control->idle) : record->task.quad + lane();
  if (lane() <= kIdleLane) loaded.quad = load_quad<Scope::device>(from);
#else
  for (u32 i = 0; i < 4; ++i) loaded.task[i] = load_quad<Scope::device>(record->task.quad + i);
  loaded.head = load_head(record);
  loaded.behind = get(&record->behind);
#endif
  return loaded;
}

// Puts the task into `frame`. Called by all lanes.
DWELL_DEVICE void put_into(Frame* frame, const Loaded& loaded) {
#if DWELL_PARALLEL_GROUP
  if (lane() >= 4) return;
  for (u32 j = 0; j < 3; ++j) frame->word[lane() * 3 + j] = loaded.quad.word[j];
#else
  for (u32 i = 0; i < 12; ++i) frame->word[i] = loaded.task[i / 3].word[i % 3];
#endif
}

// Returns the parent of a loaded record without children, a failure, or work behind its task; else 0. Called by all lanes.
DWELL_DEVICE u32 only_parent(const Loaded& loaded) {
  static_assert(status::ok == 0, "such a head has no bits but its parent's");
#if DWELL_PARALLEL_GROUP
  const u32* const word = loaded.quad.word;
  const bool more = lane() == kHeadLane ? (word[0] | word[1] | word[2]) != 0 : lane() == kBehindLane && word[0] != 0;
  return ballot(more) != 0 ? 0 : broadcast(loaded.quad.lap, kHeadLane);
#else
  return (loaded.head.pending | loaded.head.status | loaded.head.shared | loaded.behind) != 0 ? 0 : loaded.head.parent;
#endif
}

// Returns a record for a task with this parent; 0 when none is free.
DWELL_DEVICE u32 allocate(const Lease& lease, Worker* worker, u32 parent) {
  SpawnWork& work = worker->spawn;
  if (work.free_count == 0) refill(lease, worker);
  if (work.free_count == 0) return 0;
  const u32 number = work.free[--work.free_count];
  Spawned* const record = at(lease, number);
  store_head(record, Head{parent, 0, static_cast<u32>(status::ok), 0});
  set(&record->behind, 0);
  return number;
}

DWELL_DEVICE void release(const Lease& lease, SpawnWork& work, u32 number) {
  set(&at(lease, number)->parent, Spawned::kNobody);
  if (work.free_count == kFreeRecords) {
    const u32 batch = bundle_free(lease, work, kBatch);
    put(lease, &lease.control->lists.free, batch, batch);
  }
  work.free[work.free_count++] = number;
}

// Leaves the free records at the seat, for its next holder, or for this worker if it stays. Called by one thread of a worker that holds its
// seat and runs no task.
DWELL_DEVICE_COLD void give_up(const Lease& lease, Worker* worker) {
  if (worker->spawn.free_count == 0) return;
  u32* const left = &lease.seats[worker->me].records;
  const u32 batch = bundle_free(lease, worker->spawn, worker->spawn.free_count);
  if (get(left) == 0)
    set(left, batch);
  else
    put(lease, &lease.control->lists.free, batch, batch);
}

}  // namespace dwell::device::spawn
