// Spawned tasks: from the call in an operator to the end of the last descendant.
//
// A worker keeps those that may run, or shares them out (spawn_ready.hpp).
//
// A task is complete when its operator has returned and its children are complete: Spawned::pending is 0. The worker that brings it to 0
// runs the continuation, or completes the task, and so perhaps its parent, a node of a graph, or the task of the ring. A record whose
// descendants have all stayed with one worker (Spawned::shared is 0) is changed without atomics. A task with one child and nothing else
// left ends at once: its parent adopts the child. So a chain of any length takes two records.
//
// Spawned::arrivals counts what a task waits for before it starts: siblings that it follows (Group::spawn_after), or arrivals
// (Group::join). The worker that brings it to 0 keeps the task. A waiting join is not in its maker's `pending`. Only descendants of the
// maker may arrive, and they hold it open; the last arrival counts the join as a child. So when no child is left, no arrival can follow,
// and a join that still waits fails its maker (end_joins). Its record stays with the maker until then, so the list never holds a reused
// record.
//
// Launches of graphs (Group::launch) are tasks too. The worker that takes one begins the launch, or leaves it in line for its exec
// (launch_line.hpp). Before the begin it gives away all other tasks (part), since nodes make tasks of their own. The worker that ends the
// launch, which may be any, completes the task.
//
// Invariants: a worker that completes a root keeps no task, since all that it keeps descends from that root. No worker is in a graph while
// it runs spawned tasks.
//
// Effects. A worker releases them when it shares a task out or decrements `pending`. The taker, and the last to decrement, acquire them.
#pragma once

#include "device/graph.hpp"
#include "device/observe.hpp"
#include "device/records.hpp"
#include "device/spawn_ready.hpp"

namespace dwell::device::spawn {

inline constexpr u32 kRoot = ~0U;           // of end(): a root is complete
inline constexpr u64 kRound = 1ULL << 32U;  // of Spawned::arrivals

// Counts an arrival at a waiting task, a child of `maker`. Returns whether it was the last. Refused unless the record is in this round and
// waits for more. Called by one thread.
enum class Arrival : u8 { refused, more, last };
DWELL_DEVICE_COLD Arrival count_arrival(const Lease& lease, u32 number, u32 maker, u32 round) {
  u64* const arrivals = &at(lease, number)->arrivals;
  const bool shared = get(&at(lease, maker)->shared) != 0;
  u64 now = load<Order::relaxed, Scope::device>(arrivals);
  for (;;) {
    if (static_cast<u32>(now >> 32U) != round || static_cast<u32>(now) == 0) return Arrival::refused;
    const bool last = static_cast<u32>(now) == 1;
    const u64 next = last ? (now & ~(kRound - 1)) + kRound : now - 1;
    u64 seen = now;
    if (shared)
      // acq_rel: pairs with itself in the last one, which sees the effects of all others.
      seen = compare_exchange<Order::acq_rel>(arrivals, now, next);
    else
      store<Order::relaxed, Scope::device>(arrivals, next);
    if (seen == now) return last ? Arrival::last : Arrival::more;
    now = seen;
  }
}

// Makes a new task wait for so many arrivals. Returns the round. Called by one thread.
DWELL_DEVICE u32 expect(Spawned* record, u32 count) {
  const u64 now = load<Order::relaxed, Scope::device>(&record->arrivals);
  store<Order::relaxed, Scope::device>(&record->arrivals, now + count);
  return static_cast<u32>(now >> 32U);
}

// Implements Group::arrive, with the join's number and round in the context. False: refused.
DWELL_DEVICE_COLD bool arrive(const Lease& lease, Context* context, SpawnWork& work) {
  const u32 number = context->task[0];
  if (number == 0 || number >= lease.spawned_records) return false;
  // The record of a finished join may be reused: then this finds no ancestor, or the round differs.
  const u32 maker = get(&at(lease, number)->parent);
  u32 above = work.current;
  while (above != 0 && above != maker) above = get(&at(lease, above)->parent);
  if (above == 0) return false;
  const Arrival arrival = count_arrival(lease, number, maker, context->task[1]);
  if (arrival == Arrival::last) {
    u32* const pending = &at(lease, maker)->pending;
    if (maker == work.current)
      ++work.made;
    else if (get(&at(lease, maker)->shared) != 0)
      fetch_add<Order::relaxed>(pending, 1U);  // this task holds the maker open
    else
      set(pending, get(pending) + 1);
    context->spawned = 1;
    keep(lease, work, number);
  }
  return arrival != Arrival::refused;
}

// Returns whether all tasks that Group::spawn_after names are children by this operator, each with room for one more follower.
DWELL_DEVICE_COLD bool may_follow(const Lease& lease, const Context* context, u32 maker) {
  for (u32 i = 0; i < context->count; ++i) {
    const u32 before = context->before[i];
    if (before == 0 || before >= lease.spawned_records || get(&at(lease, before)->parent) != maker) return false;
    u32 followers = get(&at(lease, before)->behind) / Spawned::kFollower;
    for (u32 j = 0; j < i; ++j) followers += context->before[j] == before ? 1 : 0;
    if (followers >= Spawned::kMostFollowers) return false;
  }
  return true;
}
DWELL_DEVICE_COLD void follow(const Lease& lease, const Context* context, u32 number) {
  for (u32 i = 0; i < context->count; ++i) {
    Spawned* const before = at(lease, context->before[i]);
    const u32 behind = get(&before->behind);
    set(&before->words[behind / Spawned::kFollower], number);
    set(&before->behind, behind + Spawned::kFollower);
  }
  expect(at(lease, number), context->count);
}

DWELL_DEVICE void refuse(Context* context, i32 status) {
  context->task[0] = 0;
  Group(context, 0, 1).fail(status);
}

// Stores a task to its record. Called by one thread.
DWELL_DEVICE void put_task(Spawned* record, const Header& header, u32 number, const u32* arguments) {
  Quad* const quads = record->task.quad;
  store_quad<Scope::device>(&quads[0], Quad{0, {header.word0(), header.word1(), number}});
  for (u32 i = 1; i < 4; ++i) {
    const u32* const words = arguments + (i - 1) * 3;
    store_quad<Scope::device>(&quads[i], Quad{0, {words[0], words[1], words[2]}});
  }
}

// As make, for a child of a maker that has a record. Returns false, and changes nothing, if more than that is to be done. Called by the
// lanes of warp 0.
DWELL_DEVICE bool make_child(Context* context, u32 opcode, Make how) {
  Worker* worker = context->worker;
#if DWELL_SHARED_MEMORY
  // Their addresses there: through generic ones each of these accesses would take longer.
  context = pointer_to_shared<Context>(address_in_shared(context));
  worker = pointer_to_shared<Worker>(address_in_shared(context->worker));
#endif
  SpawnWork& work = worker->spawn;
  const u32 maker = work.current;
  const u32 free = work.free_count;
  const u32 kept = work.count;
  const u32 more = work.refused | work.counts_bytes;
  if (how != Make::child || opcode == kLaunchOpcode || maker == 0 || free == 0 || kept == SpawnWork::kMost || more != 0) return false;
  const u32 number = work.free[free - 1];
  const u32 place = (work.oldest + kept) % SpawnWork::kMost;
  Spawned* const record = work.records + number;
  const Header header{opcode, 1, 1, 0, 0, worker->level, source::spawned};
#if DWELL_PARALLEL_GROUP
  // A quad a lane: header, arguments, head, no work behind the task.
  Quad quad{0, {0, 0, 0}};
  if (lane() == 0)
    quad = Quad{0, {header.word0(), header.word1(), number}};
  else if (lane() < kHeadLane)
    for (u32 j = 0; j < 3; ++j) quad.word[j] = context->task[(lane() - 1) * 3 + j];
  else if (lane() == kHeadLane)
    quad.lap = maker;
  if (lane() <= kBehindLane) store_quad<Scope::device>(record->task.quad + lane(), quad);
#else
  put_task(record, header, number, context->task);
  store_head(record, Head{maker, 0, static_cast<u32>(status::ok), 0});
  set(&record->behind, 0);
#endif
  sync_lanes();  // all have read the arguments
  if (lane() == 0) {
    work.free_count = free - 1;
    work.ready[place] = number;
    work.count = kept + 1;
    work.newest = number;
    ++work.made;
    context->spawned = 1;
    context->task[0] = number;
  }
  sync_lanes();
  return true;
}

// Makes a task in any case. Called by one thread.
DWELL_DEVICE_COLD void make_any(Context* context, u32 opcode, Make how, u64 bytes) {
  Worker* const worker = context->worker;
  const Lease& lease = *worker->lease;
  SpawnWork& work = worker->spawn;
  if (work.refused != 0) return refuse(context, status::spawn_refused);
  if (how == Make::arrival) {
    if (!arrive(lease, context, work)) refuse(context, status::join_refused);
    return;
  }
  if (work.current == 0) work.current = allocate(lease, worker, 0);
  if (work.current == 0) return refuse(context, status::out_of_tasks);
  context->spawned = 1;
  const u32 maker = work.current;
  u32 number = maker;
  if (how == Make::continuation || how == Make::join) work.parent = 0;
  if (how == Make::continuation) {
    u32* const behind = &at(lease, number)->behind;
    if ((get(behind) & Spawned::kContinues) != 0) return refuse(context, status::spawn_refused);
    set(behind, get(behind) | Spawned::kContinues);
  } else {
    if (how == Make::follower && !may_follow(lease, context, maker)) return refuse(context, status::spawn_refused);
    number = allocate(lease, worker, maker);
    if (number == 0) return refuse(context, status::out_of_tasks);
  }
  Spawned* const record = at(lease, number);
  const bool launches = opcode == kLaunchOpcode;
  if ((timed_by(lease) & timed::times) != 0 && !launches) observe::note_named(lease, worker, opcode, bytes);
  const Header header{
      launches ? 0 : opcode, 1, 1, launches ? flag::share : 0U, 0, worker->level, launches ? source::spawned_launch : source::spawned};
  put_task(record, header, number, context->task);
  if (how == Make::continuation) return;
  context->task[0] = number;
  if (how == Make::join) context->task[1] = context->count != 0 ? expect(record, context->count) : expect(record, 0) - 1;
  if (how == Make::join && context->count != 0) {
    u32* const behind = &at(lease, maker)->behind;
    set(&record->behind, Spawned::kIsJoin);
    set(&record->beside, (get(behind) & Spawned::kHasJoins) != 0 ? get(&at(lease, maker)->joins) : 0);
    set(&at(lease, maker)->joins, number);
    set(behind, get(behind) | Spawned::kHasJoins);
    return;
  }
  ++work.made;
  work.newest = number;
  if (how == Make::follower)
    follow(lease, context, number);
  else
    keep(lease, work, number);
}

// Makes a task for an operator, and names it in `task` of the context, or 0. `bytes`: how many its arguments name. Called by Group, in the
// lanes of warp 0.
DWELL_DEVICE void make(Context* context, u32 opcode, Make how, u64 bytes) {
  if (make_child(context, opcode, how)) return;
  if (lane() == 0) make_any(context, opcode, how, bytes);
  sync_lanes();
}

// Prepares a worker for a lease. Called by one thread.
DWELL_DEVICE void begin(const Lease& lease, Worker* worker) {
  worker->lease = &lease;
  worker->context.worker = worker;
#if !DWELL_LINKED_OPERATORS
  worker->context.spawn = &make;
#endif
  worker->context.gang = nullptr;
  worker->spawn.current = 0;
  worker->spawn.parent = 0;
  worker->spawn.counts_bytes = (timed_by(lease) & timed::times) != 0 ? 1 : 0;
  worker->spawn.records = lease.spawned;
  worker->spawn.made = 0;
  worker->spawn.refused = 0;
  worker->spawn.owes = 0;
  worker->spawn.oldest = 0;
  worker->spawn.count = 0;
  worker->spawn.free_count = 0;
  worker->spawn.stashed = 0;
}
// Takes a task from the ready queue, with its bundle. Called by one thread, which has acquired, of a worker that keeps no task.
DWELL_DEVICE_COLD void take_up(const Lease& lease, Worker* worker, u32 number) {
  note_taken(lease);
  worker->spawn.current = number;
  worker->spawn.parent = 0;
  unpack(lease, worker->spawn, number);
}

// Notes a failure of a task, if it is the first. Called by one thread.
DWELL_DEVICE_COLD void note_failure(Spawned* record, u32 status) {
  compare_exchange<Order::relaxed>(&record->status, static_cast<u32>(status::ok), status);
}

// Counts the end of a complete task at its followers, and keeps those that are ready. Called by one thread.
DWELL_DEVICE_COLD void let_follow(const Lease& lease, SpawnWork& work, const Spawned* record, u32 maker) {
  const u32 count = get(&record->behind) / Spawned::kFollower;
  for (u32 i = 0; i < count; ++i) {
    const u32 number = get(&record->words[i]);
    const u32 round = static_cast<u32>(load<Order::relaxed, Scope::device>(&at(lease, number)->arrivals) >> 32U);
    if (count_arrival(lease, number, maker, round) == Arrival::last) keep(lease, work, number);
  }
}

// Ends the joins of a task whose children have ended. No arrival at a waiting join can follow. Called by one thread.
DWELL_DEVICE_COLD void end_joins(const Lease& lease, SpawnWork& work, Spawned* record) {
  for (u32 number = get(&record->joins); number != 0;) {
    Spawned* const join = at(lease, number);
    const u64 arrivals = load<Order::relaxed, Scope::device>(&join->arrivals);
    if (static_cast<u32>(arrivals) != 0) {
      store<Order::relaxed, Scope::device>(&join->arrivals, (arrivals & ~(kRound - 1)) + kRound);
      note_failure(record, static_cast<u32>(status::join_starved));
    }
    const u32 next = get(&join->beside);
    release(lease, work, number);
    number = next;
  }
  set(&record->behind, get(&record->behind) & ~Spawned::kHasJoins);
}

// Gives the only child of a task with nothing else left a new parent. Called by one thread.
DWELL_DEVICE void adopt(const Lease& lease, SpawnWork& work, u32 parent) {
  set(&at(lease, work.newest)->parent, parent);
  work.adopter = parent;
}

// Ends the task in `from`, which has made tasks or was spawned, and all tasks that are then complete. Returns the task whose continuation
// is to run; kRoot: a root is complete, with its header in `frame` and its status in the context; 0: neither. Called by one thread.
DWELL_DEVICE u32 end(const Lease& lease, Worker* worker, const Frame& from, Frame* frame) {
  SpawnWork& work = worker->spawn;
  Context& context = worker->context;
  const i32 ended = context.status;
  const u32 made = work.made;
  observe::spawned(lease, worker, made);
  u32 number = from.header().is_spawned() ? from.position() : work.current;  // work.current is not set for the launch of a graph
  const u32 parent = work.parent;
  reset(&context);
  work.made = 0;
  work.current = 0;
  work.parent = 0;
  Spawned* record = at(lease, number);
  if (!from.header().is_spawned())
    for (u32 i = 0; i < 3; ++i) set(&record->words[i], from.word[i]);
  if (ended != status::ok) note_failure(record, static_cast<u32>(ended));
  u32 change = made;  // of `pending`
  if (parent != 0 && ended == status::ok) {
    // The record need not be loaded.
    if (made > 1) {
      set(&record->pending, made);
      return 0;
    }
    if (made == 1) adopt(lease, work, parent);
    release(lease, work, number);
    if (made == 1) return 0;
    number = parent;
    record = at(lease, number);
    change = ~0U;
  }
  for (;;) {
    Head head = load_head(record);
    u32 behind = get(&record->behind);
    if (change == 1 && head.parent != 0 && behind == 0) {
      adopt(lease, work, head.parent);
      if (head.status != static_cast<u32>(status::ok)) note_failure(at(lease, head.parent), head.status);
      release(lease, work, number);
      return 0;
    }
    if (change != 0) {
      u32 left;
      if (head.shared == 0) {
        left = head.pending + change;
        set(&record->pending, left);
      } else {
        // acq_rel: pairs with itself in the last one, which sees the effects of all others.
        left = fetch_add<Order::acq_rel>(&record->pending, change) + change;
      }
      if (left != 0) return 0;
      if (head.shared != 0) head.status = get(&record->status);
    }
    if (behind != 0) {
      if ((behind & Spawned::kHasJoins) != 0) {
        end_joins(lease, work, record);
        behind &= ~Spawned::kHasJoins;
        head.status = get(&record->status);
      }
      if ((behind & Spawned::kContinues) != 0) {
        set(&record->behind, behind & ~Spawned::kContinues);
        set(&record->shared, 0);  // the task has no children now
        return number;
      }
    }
    if (head.parent == 0) {
      for (u32 i = 0; i < 3; ++i) frame->word[i] = get(&record->words[i]);
      context.status = static_cast<i32>(head.status);
      // Notes of its failure are visible before the completion entry: see graph::note_inside.
      if (head.status != static_cast<u32>(status::ok)) fence<Scope::system>();
      release(lease, work, number);
      return kRoot;
    }
    if (behind / Spawned::kFollower != 0) let_follow(lease, work, record, head.parent);
    if ((behind & Spawned::kIsJoin) == 0) release(lease, work, number);
    number = head.parent;
    record = at(lease, number);
    if (head.status != static_cast<u32>(status::ok)) note_failure(record, head.status);
    change = ~0U;
  }
}

// How a launch by an operator starts.
enum Start : u32 { kBegins, kStands, kRefused };

// Starts the launch in `from`, puts it in line, or refuses it. Called by all lanes.
DWELL_DEVICE_COLD Start start(const Lease& lease, Worker* worker, const Frame& from) {
  u32 how = kBegins;
  if (lane() == 0) {
    const u32 number = from.position();
    const u64 base = graph::exec_of(lease, from);
    worker->spawn.current = 0;
    worker->spawn.parent = 0;
    share(lease, number);       // any worker may end it
    if (base == lease.arena) {  // of an Exec that names none
      how = kRefused;
    } else if ((from.header().flags & flag::launch::turn) == 0 && !line::take(graph::head(base))) {
      // Refuse if an ancestor has the exec: it stays open until this launch has ended, a deadlock.
      bool own = false;
      graph::ticket_of(lease, number, base, &own);
      fence<Scope::device>();
      how = own ? kRefused : line::stand(lease, graph::head(base), number) ? kStands : kBegins;
    }
    if (how == kRefused) worker->context.status = status::launch_refused;
  }
  return static_cast<Start>(broadcast(how));
}

// Continues after the task in `from`, which has made tasks or was spawned. Puts the next task into `frame`, which is the same or another.
// Called by the lanes of warp 0, after a barrier of the group.
DWELL_DEVICE_COLD Follows proceed(const Lease& lease, Worker* worker, const Frame& from, Frame* frame) {
  SpawnWork& work = worker->spawn;
  // A node's worker hands its remaining work on the graph back. Without room for that, it gives away the node's children instead.
  const bool in_graph = from.header().is_node() && worker->graph.base != 0;
  const bool stays = in_graph && !graph::hand_back(lease, worker);
  if (in_graph && !stays) graph::leave(lease, worker, frame);
  sync_lanes();
  const Start how = from.header().launches() ? start(lease, worker, from) : kRefused;
  if (how == kBegins) {
    part(lease, work);
    if (lane() == 0) frame->word[1] |= flag::launch::turn << 4U;
    sync_lanes();
    return graph::proceed(lease, worker, *frame, frame, true);
  }
  // The newest task is the next one, unless this end makes another one ready. Its record loads meanwhile.
  const u32 newest = work.count != 0 ? work.ready[(work.oldest + work.count - 1) % SpawnWork::kMost] : 0;
  Loaded loaded = newest != 0 ? load_ahead(lease, newest) : Loaded{};
  sync_lanes();  // all have read the count
  u32 next = 0;
  if (lane() == 0) {
    work.adopter = 0;  // also behind a launch that stands in line, which does not end here
    if (how != kStands) next = end(lease, worker, from, frame);
    spill(lease, work);
  }
  next = broadcast(next);
  sync_lanes();
  if (next == kRoot) {
    pass_on(lease, work);
    return kLaunch;
  }
#if !DWELL_CONTROL_WARP
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
    if (lane() == 0) {
      if (work.count != 0) {
        next = work.ready[(work.oldest + --work.count) % SpawnWork::kMost];
      } else {
        next = take(lease, &lease.control->lists.overflow);
        if (next != 0) unpack(lease, work, next);
      }
    }
    next = broadcast(next);
    if (next == 0) return kNothing;
  }
  sync_lanes();
  if (next != newest) loaded = load_ahead(lease, next);
  offer(lease, work, loaded);
  put_into(frame, loaded);
  const u32 parent = only_parent(loaded);
  if (lane() == 0) {
    work.current = next;
    // A record that was loaded before its adoption names the parent before.
    work.parent = parent != 0 && work.adopter != 0 ? work.adopter : parent;
  }
  sync_lanes();
  return kFrame;
}

// Serves the overflow, where this worker has left tasks for a graph (SpawnWork::owes). Called by all lanes of a worker that keeps no task
// and turns to other work.
DWELL_DEVICE_COLD void pay(const Lease& lease, Worker* worker) {
  sync_lanes();
  if (lane() == 0) worker->spawn.owes = 0;
  pass_on(lease, worker->spawn);
}

}  // namespace dwell::device::spawn

namespace dwell::device {

// Spawned tasks, and launches by operators.
struct SpawnedTasks : SourceVerbs {
  static constexpr u32 kSources = 1U << source::spawned | 1U << source::spawned_launch;
  static constexpr u32 kPart = part::spawn;

  static DWELL_DEVICE bool calls(const Header& header) { return !header.launches(); }
  static DWELL_DEVICE void take_up(const Lease& lease, Worker* worker, const Header&, u32 word2) { spawn::take_up(lease, worker, word2); }
  static DWELL_DEVICE bool goes_on(const Header&) { return true; }
  static DWELL_DEVICE Follows proceed(const Behind& at) { return spawn::proceed(at.lease, at.worker, *at.from, at.to); }
};

}  // namespace dwell::device
