// Tasks that operators make: from the call in an operator to the end of the last descendant.
//
// A worker keeps the tasks that its operators make, and takes up the newest one when a task has ended: depth first, which bounds how many
// there are. The oldest ones, from which most descends, go to the ready queue when workers wait there. A worker that has too many puts the
// oldest half into the overflow, a stack of all workers. Whoever puts tasks there takes from it before it goes to other work, or sends one
// through the ready queue (pass_on, flush), whose taker does: so no task is forgotten.
//
// A task is complete when its operator has returned and its children are complete: Spawned::pending is 0. The worker that makes it so
// runs the continuation, or completes it: its parent in turn, a node of a graph, or the task of the ring. A record whose descendants have
// all stayed with one worker (Spawned::shared is 0) is changed without atomics.
//
// Invariants: a worker that completes a root keeps no task, since what it keeps descends from that root. No worker is in a graph while it
// runs spawned tasks. So many places of the ready queue as credit does not bound: a worker adds tasks there only while it holds less than
// waiting workers want, and one when it leaves, for the one that brought it there.
//
// Effects. They are released where a task is shared out or `pending` is taken down, and acquired by the taker and by the last one there.
#pragma once

#include "device/graph.hpp"

namespace dwell::device::spawn {

inline constexpr u32 kRoot = ~0U;                    // of end(): a root is complete
inline constexpr u32 kBatch = SpawnWork::kMost / 2;  // records that go to the lists, or come from them, at once

DWELL_DEVICE Spawned* at(const Lease& lease, u32 number) { return lease.spawned + number; }
DWELL_DEVICE u32 get(const u32* from) { return load<Order::relaxed, Scope::device>(from); }
DWELL_DEVICE void set(u32* to, u32 value) { store<Order::relaxed, Scope::device>(to, value); }

// ---- Lists of records, of all workers. Called by one thread ----------------------------------------------------------------------

// Puts the records numbers[(first + i) % kMost], i < count, on top of a list, the first one topmost.
DWELL_DEVICE_COLD void put(const Lease& lease, u64* list, const u32* numbers, u32 first, u32 count) {
  const u32 topmost = numbers[first % SpawnWork::kMost];
  u32 last = topmost;
  for (u32 i = 1; i < count; ++i) {
    const u32 number = numbers[(first + i) % SpawnWork::kMost];
    set(&at(lease, last)->next, number);
    last = number;
  }
  u64 now = load<Order::relaxed, Scope::device>(list);
  for (;;) {
    set(&at(lease, last)->next, static_cast<u32>(now >> 32U));
    // Release: the links, the tasks and all that their makers have done. Pairs with take.
    const u64 seen = compare_exchange<Order::acq_rel>(list, now, static_cast<u64>(topmost) << 32U | (static_cast<u32>(now) + 1U));
    if (seen == now) return;
    now = seen;
  }
}

// Takes the topmost record; 0 for none. The count of changes tells two visits of one record apart.
DWELL_DEVICE_COLD u32 take(const Lease& lease, u64* list) {
  u64 now = load<Order::acquire, Scope::device>(list);
  while ((now >> 32U) != 0) {
    const u32 number = static_cast<u32>(now >> 32U);
    const u32 next = get(&at(lease, number)->next);
    const u64 seen = compare_exchange<Order::acq_rel>(list, now, static_cast<u64>(next) << 32U | (static_cast<u32>(now) + 1U));
    if (seen == now) return number;
    now = seen;
  }
  return 0;
}

// ---- Records. Called by one thread -----------------------------------------------------------------------------------------------

// Gets free records.
DWELL_DEVICE_COLD void refill(const Lease& lease, SpawnWork& work) {
  SpawnedLists& lists = lease.control->lists;
  if (get(&lists.fresh) < lease.most_spawned) {
    const u32 first = fetch_add<Order::relaxed>(&lists.fresh, kBatch);
    for (u32 number = first; number < first + kBatch && number < lease.most_spawned; ++number) work.free[work.free_count++] = number;
  }
  while (work.free_count < kBatch) {
    const u32 number = take(lease, &lists.free);
    if (number == 0) return;
    work.free[work.free_count++] = number;
  }
}

// A record of a task with this parent; 0 when there is none.
DWELL_DEVICE u32 allocate(const Lease& lease, SpawnWork& work, u32 parent) {
  if (work.free_count == 0) refill(lease, work);
  if (work.free_count == 0) return 0;
  const u32 number = work.free[--work.free_count];
  Spawned* const record = at(lease, number);
  set(&record->parent, parent);
  set(&record->pending, 0);
  set(&record->status, static_cast<u32>(status::ok));
  set(&record->shared, 0);
  set(&record->follows, 0);
  return number;
}

DWELL_DEVICE void release(const Lease& lease, SpawnWork& work, u32 number) {
  if (work.free_count == SpawnWork::kMost) {
    work.free_count -= kBatch;
    put(lease, &lease.control->lists.free, work.free, work.free_count, kBatch);
  }
  work.free[work.free_count++] = number;
}

// ---- Tasks that may run ----------------------------------------------------------------------------------------------------------

// Says that other workers may complete the task. Called by one thread.
DWELL_DEVICE void share(const Lease& lease, u32 number) {
  for (u32 above = get(&at(lease, number)->parent); above != 0 && get(&at(lease, above)->shared) == 0;
       above = get(&at(lease, above)->parent))
    set(&at(lease, above)->shared, 1);
}

// Puts the `count` oldest tasks into the overflow. Called by one thread.
DWELL_DEVICE_COLD void spill(const Lease& lease, SpawnWork& work, u32 count) {
  if (count == 0) return;
  for (u32 i = 0; i < count; ++i) share(lease, work.ready[(work.oldest + i) % SpawnWork::kMost]);
  put(lease, &lease.control->lists.overflow, work.ready, work.oldest, count);
  work.oldest += count;
  work.count -= count;
}

// Keeps a task. Called by one thread.
DWELL_DEVICE void keep(const Lease& lease, SpawnWork& work, u32 number) {
  if (work.count == SpawnWork::kMost) spill(lease, work, kBatch);
  work.ready[(work.oldest + work.count++) % SpawnWork::kMost] = number;
}

// Adds the `count` oldest tasks to the ready queue. Called by all lanes.
DWELL_DEVICE_COLD void add_ready(const Lease& lease, SpawnWork& work, u32 count) {
  if (lane() == 0) {
    for (u32 i = 0; i < count; ++i) share(lease, work.ready[(work.oldest + i) % SpawnWork::kMost]);
    fence<Scope::device>();
  }
  sync_lanes();
  const u32 place = ready_queue::reserve(lease, count);
  const u32 oldest = work.oldest;
  for (u32 i = lane(); i < count * 4; i += kLanes) {
    const u32 number = work.ready[(oldest + i / 4) % SpawnWork::kMost];
    Quad quad = load_quad<Scope::device>(&at(lease, number)->task.quad[i % 4]);
    if (i % 4 == 0) quad.word[1] |= flag::memory << 4U;  // whoever takes it acquires
    ready_queue::put_quad(lease, place + i / 4, i % 4, quad);
  }
  sync_lanes();
  if (lane() == 0) {
    work.oldest = oldest + count;
    work.count -= count;
  }
  sync_lanes();
}

// Adds as many tasks to the ready queue as workers wait for there. Called by all lanes.
DWELL_DEVICE void offer(const Lease& lease, SpawnWork& work) {
  const u32 count = work.count;
  if (count == 0) return;
  u32 wanted = 0;
  if (lane() == 0) {
#if DWELL_ON_CUDA
    const u32 spare = lease.crew;  // they take only what nobody has claimed
#else
    const u32 spare = lease.workers - 1;  // nobody claims what is not there
#endif
    const u32 tail = load<Order::relaxed, Scope::device>(&lease.control->tail.value);
    const u32 head = load<Order::relaxed, Scope::device>(&lease.control->head.value);
    const u32 idle = head + spare - tail;
    if (static_cast<i32>(idle) > 0) wanted = idle < count ? idle : count;
  }
  wanted = broadcast(wanted);
  if (wanted != 0) add_ready(lease, work, wanted);
}

// Lets others go on with the overflow. Called by all lanes of a worker that keeps no task.
DWELL_DEVICE void pass_on(const Lease& lease, SpawnWork& work) {
  u32 more = 0;
  if (lane() == 0 && load<Order::relaxed, Scope::device>(&lease.control->lists.overflow) >> 32U != 0) {
    const u32 number = take(lease, &lease.control->lists.overflow);
    if (number != 0) keep(lease, work, number);
    more = number != 0 ? 1 : 0;
  }
  more = broadcast(more);
  sync_lanes();
  if (more != 0) add_ready(lease, work, 1);
}

// Lets others go on with all tasks. Called by all lanes.
DWELL_DEVICE_COLD void flush(const Lease& lease, SpawnWork& work) {
  if (lane() == 0 && work.count > 1) spill(lease, work, work.count - 1);
  sync_lanes();
  if (work.count != 0)
    add_ready(lease, work, 1);
  else
    pass_on(lease, work);
}

// ---- A task's life ---------------------------------------------------------------------------------------------------------------

// What Group::spawn and Group::then call.
DWELL_DEVICE_COLD void make(Context* context, u32 opcode, bool follows) {
  Worker* const worker = context->worker;
  const Lease& lease = *worker->lease;
  SpawnWork& work = worker->spawn;
  const Group group(context, 0, 1);
  if (work.refused != 0) return group.fail(status::spawn_refused);
  if (work.current == 0) work.current = allocate(lease, work, 0);
  if (work.current == 0) return group.fail(status::out_of_tasks);
  context->spawned = 1;
  u32 number = work.current;
  if (follows) {
    u32* const already = &at(lease, number)->follows;
    if (get(already) != 0) return group.fail(status::spawn_refused);
    set(already, 1);
  } else {
    number = allocate(lease, work, number);
    if (number == 0) return group.fail(status::out_of_tasks);
    ++work.made;
  }
  Quad* const quads = at(lease, number)->task.quad;
  const Header header{opcode, 1, 1, flag::spawned, 0};
  store_quad<Scope::device>(&quads[0], Quad{0, {header.word0(), header.word1(), number}});
  for (u32 i = 1; i < 4; ++i) {
    const u32* const words = context->task + (i - 1) * 3;
    store_quad<Scope::device>(&quads[i], Quad{0, {words[0], words[1], words[2]}});
  }
  if (!follows) keep(lease, work, number);
}

// Prepares a worker for a lease. Called by one thread.
DWELL_DEVICE void begin(const Lease& lease, Worker* worker) {
  worker->lease = &lease;
  worker->context.worker = worker;
#if !DWELL_ON_CUDA
  worker->context.spawn = &make;
#endif
  worker->context.gang = nullptr;
  worker->spawn.current = 0;
  worker->spawn.made = 0;
  worker->spawn.refused = 0;
  worker->spawn.oldest = 0;
  worker->spawn.count = 0;
  worker->spawn.free_count = 0;
}
// Gives back what a worker has at hand at the end of a lease. Called by one thread.
DWELL_DEVICE_COLD void give_up(const Lease& lease, Worker* worker) {
  SpawnWork& work = worker->spawn;
  if (work.free_count != 0) put(lease, &lease.control->lists.free, work.free, 0, work.free_count);
  work.free_count = 0;
}

// Takes up a task that came through the ready queue. Called by one thread.
DWELL_DEVICE void take_up(Worker* worker, const Frame& frame) {
  if (frame.header().is_spawned()) worker->spawn.current = frame.position();
}

// Notes a failure of a task, if it is the first. Called by one thread.
DWELL_DEVICE_COLD void note_failure(Spawned* record, u32 status) {
  compare_exchange<Order::relaxed>(&record->status, static_cast<u32>(status::ok), status);
}

// Ends the operator in `from`, which has made tasks or was made by one, and all tasks that are complete with that. Called by one thread.
// Returns the task whose continuation is to run; kRoot: a root is complete, whose header is then in `frame` and its status in the context;
// 0: neither.
DWELL_DEVICE_COLD u32 end(const Lease& lease, Worker* worker, const Frame& from, Frame* frame) {
  SpawnWork& work = worker->spawn;
  Context& context = worker->context;
  const i32 ended = context.status;
  const u32 made = work.made;
  u32 number = work.current;
  reset(&context);
  work.made = 0;
  work.current = 0;
  Spawned* record = at(lease, number);
  if (!from.header().is_spawned())
    for (u32 i = 0; i < 3; ++i) set(&record->root[i], from.word[i]);
  if (ended != status::ok) note_failure(record, static_cast<u32>(ended));
  u32 change = made;  // of `pending`
  for (;;) {
    if (change != 0) {
      u32 left;
      if (get(&record->shared) == 0) {
        left = get(&record->pending) + change;
        set(&record->pending, left);
      } else {
        // acq_rel: pairs with itself in the last one, which has seen what all others did.
        left = fetch_add<Order::acq_rel>(&record->pending, change) + change;
      }
      if (left != 0) return 0;
    }
    if (get(&record->follows) != 0) {
      set(&record->follows, 0);
      set(&record->shared, 0);  // it has no children now
      return number;
    }
    const u32 status = get(&record->status);
    const u32 parent = get(&record->parent);
    if (parent == 0) {
      for (u32 i = 0; i < 3; ++i) frame->word[i] = get(&record->root[i]);
      context.status = static_cast<i32>(status);
      release(lease, work, number);
      return kRoot;
    }
    release(lease, work, number);
    number = parent;
    record = at(lease, number);
    if (status != static_cast<u32>(status::ok)) note_failure(record, status);
    change = ~0U;
  }
}

// Goes on behind the operator in `from`, which has made tasks or was made by one. Called by the lanes of warp 0, behind a barrier of the
// group. Puts the next task into `frame`, which is the same or another.
DWELL_DEVICE_COLD Follows proceed(const Lease& lease, Worker* worker, const Frame& from, Frame* frame) {
  SpawnWork& work = worker->spawn;
  // A node's worker hands back what it still has to do of the graph. Where there is no room for that, others get its children.
  const bool in_graph = from.header().is_node() && worker->graph.base != 0;
  const bool stays = in_graph && !graph::hand_back(lease, worker);
  if (in_graph && !stays) graph::leave(lease, worker, frame);
  sync_lanes();
  u32 next = 0;
  if (lane() == 0) next = end(lease, worker, from, frame);
  next = broadcast(next);
  sync_lanes();
  if (next == kRoot) {
    pass_on(lease, work);
    return frame->header().is_node() ? graph::proceed(lease, worker, *frame, frame, true) : kLaunch;
  }
#if !DWELL_ON_CUDA
  graph::look_at_clock(lease, worker);
#endif
  if (stays || broadcast(*const_cast<const volatile u32*>(&worker->context.yield)) != 0) {
    if (lane() == 0 && next != 0) keep(lease, work, next);
    sync_lanes();
    flush(lease, work);
    if (stays) return graph::proceed(lease, worker, from, frame, false);
    if (lane() == 0) worker->context.yield = 0;
    return kNothing;
  }
  if (next == 0) {
    if (lane() == 0)
      next = work.count != 0 ? work.ready[(work.oldest + --work.count) % SpawnWork::kMost] : take(lease, &lease.control->lists.overflow);
    next = broadcast(next);
    if (next == 0) return kNothing;
  }
  sync_lanes();
  TaskQuads task;
  graph::load_record(&at(lease, next)->task, &task, 0, 1);
  offer(lease, work);
  for (u32 i = 0; i < TaskQuads::kEach; ++i) {
    const u32 index = i * kLanes + lane();
    if (index >= 4) break;
    for (u32 j = 0; j < 3; ++j) frame->word[index * 3 + j] = task.quad[i].word[j];
  }
  if (lane() == 0) work.current = next;
  sync_lanes();
  return kFrame;
}

}  // namespace dwell::device::spawn
