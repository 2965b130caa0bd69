// The executing half of a worker: runs tasks one after the other with all threads of its group.
#pragma once

#include "device/admission.hpp"
#include "device/cancels.hpp"
#include "device/chain.hpp"
#include "device/heap_context.hpp"
#include "device/in_flight.hpp"
#include "device/linked.hpp"
#include "device/observe.hpp"
#include "device/operator_table.hpp"
#include "device/sources.hpp"

namespace dwell::device {

// Prepares `worker`, whose number is set, for this lease, except what differs between devices. Called by one thread.
DWELL_DEVICE void set_up(const Lease& lease, Worker* worker) {
  worker->in_flight = lease.in_flight + worker->me;
  worker->flight = lease.flight == nullptr ? nullptr : lease.flight + (static_cast<u64>(worker->me) << kFlightShift);
  worker->observed.begun = 0;
  worker->observed.made = 0;
  worker->observed.opcode = ~0U;
  worker->observed.uncounted = chain::kNowhere;
  worker->observed.row = !counts(lease) ? nullptr : lease.calls + static_cast<u64>(worker->me) * lease.observed;
  Context& context = worker->context;
  context.scratch_bytes = lease.scratch_bytes;
  context.lease = lease.number;
  context.over = &lease.control->crew.over;
  context.overruns = lease.overruns + worker->me;
  context.overrun_count = 0;
  context.uses = uses_of(lease);
  context.arena = lease.arena;
  context.share = kWholeTask;
  heap::begin(&context, lease.heap, worker->me);
  context.log.slots = lease.log + (static_cast<u64>(worker->me) << lease.log_shift);
  context.log.read = lease.log_read + worker->me * 16;
  context.log.dropped = lease.worker_counts[worker->me].log_dropped;
  context.log.from = lease.log_from;
  context.log.mask = (1U << lease.log_shift) - 1;
  context.log.looked = 0;
  const bool timeline = (timed_by(lease) & timed::timeline) != 0;
  context.events.quads = timeline ? lease.timeline[static_cast<u64>(worker->me) << lease.timeline_shift].quad : nullptr;
  context.events.count = timeline ? lease.timeline_counts + worker->me : nullptr;
  context.events.shift = lease.timeline_shift;
  reset(&context);
}

// Stores the level of the task that is about to run. Called by one thread.
DWELL_DEVICE void set_level(const Lease& lease, Worker* worker, u32 word0) {
  if (sorts(lease)) worker->level = Header::from(word0, 0).level;
}

// Counts the failure of a group of a wide task. The first such failure is the task's. Called by one thread.
DWELL_DEVICE void note_failed_group(const Lease& lease, const Header& header, Wide* wide, i32 status) {
  compare_exchange<Order::relaxed>(reinterpret_cast<u32*>(&wide->status), 0U, static_cast<u32>(status));
  observe::failure(lease, header.opcode, status);
}

// Draws the next group of a wide task into `worker->group`. Called by all threads together.
DWELL_DEVICE_COLD u32 next_group(const Lease& lease, Worker* worker, const Frame& frame) {
  const Header header = frame.header();
  Wide* const wide = sources::counters(lease, header, frame.position());
  if (thread_rank() == 0) {
    const i32 before = worker->context.status;  // of the previous group, if any; not used before the draw returns
    if (cancels::ends(header, wide)) {
      worker->context.status = status::cancelled;
      worker->group = kNoGroup;
    } else {
      worker->group = header.is_gang() ? members::take_group(worker) : fetch_add<Order::acquire>(&wide->next, 1U);
      worker->context.share = (worker->group & 0xFFFFU) | header.groups << 16U;
      if (before != status::ok) {
        note_failed_group(lease, header, wide, before);
        worker->context.status = status::ok;
      }
    }
    worker->context.scratch_used = 0;
    worker->spawn.refused = 1;
  }
  Group(&worker->context, 0, 1).sync();
  return worker->group;
}

// Ends a share of a wide task. No group is left; only the last may have a failure that is not noted yet. True for the last share: then
// `context.status` holds the task's first failure. Called by all threads together.
DWELL_DEVICE_COLD bool end_share(const Lease& lease, Worker* worker, const Frame& frame) {
  const Header header = frame.header();
  Wide* const wide = sources::counters(lease, header, frame.position());
  const bool gang = header.is_gang();
  const Group all(&worker->context, 0, 1);
  all.sync();  // all have seen which group was drawn last
  if (thread_rank() == 0) {
    worker->context.share = kWholeTask;
    worker->spawn.refused = 0;
  }
  if (thread_rank() == 0 && cancels::is_alone(header)) {
    worker->group = 1;
  } else if (thread_rank() == 0) {
    if (const i32 status = worker->context.status; status != status::ok) note_failed_group(lease, header, wide, status);
    // Release: this share's effects. Acquire in the last share, which completes the task for all; its fence also publishes Scope::system
    // effects, since causality order is transitive. On CUDA the fence is the release half.
    fence<Scope::device>();
#if DWELL_FENCES
    constexpr Order kOrder = Order::acquire;
#else
    constexpr Order kOrder = Order::acq_rel;
#endif
    const bool last = fetch_add<kOrder>(&wide->shares, ~0U) == 1;
    // The task itself has a place of its own in the ready queue; every share beyond that gives its place back.
    if (!last && !gang) fetch_add<Order::relaxed>(&lease.control->spare_shares.value, 1U);
    worker->group = last ? 1 : 0;
    if (last) {
      worker->context.status = static_cast<i32>(load<Order::relaxed, Scope::device>(reinterpret_cast<u32*>(&wide->status)));
      if (!gang && header.groups != 0 && !header.is_node()) observe::completes(lease, worker, header, frame.position());
    }
  }
  all.sync();
  return worker->group != 0;
}

// The end of an operator's call.
struct Ended {
  Header header;   // the task's
  u32 position;    // the same
  bool completes;  // false when other workers still run groups of it
  bool spawned;    // it has made tasks
};

// Returns whether a chain continues after a stop: then only scratch memory was used, which is freed here. Called by all threads.
DWELL_DEVICE_COLD bool goes_on(Worker* worker) {
  const Group all(&worker->context, 0, 1);
  if (thread_rank() == 0) {
    const Context& context = worker->context;
    const bool goes = context.status == status::ok && context.spawned == 0 && *const_cast<const volatile u32*>(&context.yield) == 0;
    worker->follows = goes ? 1 : 0;
    if (worker->follows != 0) worker->context.scratch_used = 0;
  }
  all.sync();
  const bool goes = worker->follows != 0;
  all.sync();
  return goes;
}

// Begins the ready task of a run at `position`. Called by one thread.
DWELL_DEVICE void begin_linked(Worker* worker, u32 position) {
  const u32* const header = frame_at(worker, linked::place_of(position))->word;
  linked::set_running(worker, position, header[1] & 0xFU);
  worker->level = Header::from(header[0], 0).level;
  in_flight::note(worker, position, header[0] & Header::kOpcodeMask);
}

// go_into_block: the steps of a chain enter another block, from the node at `at` to the one at `next`. end_steps: they end after the one at
// `at`. Called by all threads of the group.
DWELL_DEVICE void go_into_block(const Lease& lease, [[maybe_unused]] const chain::Steps& steps, [[maybe_unused]] FramePlace at,
                                FramePlace next) {
  const u32 rank = thread_rank();
  if (rank < kLanes) {
    steps.read_ahead(lease, next);
    return;
  }
#if DWELL_CONTROL_WARP
  if (rank >= kCountingThread) observe::count_steps(steps.address(), at, next);
#endif
}
DWELL_DEVICE void end_steps([[maybe_unused]] const chain::Steps& steps, [[maybe_unused]] FramePlace at) {
#if DWELL_CONTROL_WARP
  static_assert(kCountingThread == kGroupThreads - kLanes, "the last warp counts");
  if (thread_rank() >= kCountingThread) observe::count_steps(steps.address(), at, chain::kNowhere);
#endif
}

// Returns whether run_operator does more for a task with this word 1 than a call and a check for a linked task. One comparison.
DWELL_DEVICE bool takes_more_than_a_call(u32 word1) {
  constexpr u32 marks = (has_shares() ? (flag::share | flag::node::chain) << 4U : 0U) | sources::kAgainMark;
  return (word1 & marks) != 0;
}

// Runs the operator of the task at `*place`: once, or for groups of a wide task until none is left, or for the nodes of a chain or the
// tasks of a run until something else is to be done. Then `*place` is the last one's. The operator is called at one place only, because a
// tier inlines all operators there. After the last barrier no thread reads the frame. Called by all threads together.
DWELL_DEVICE Ended run_operator(const Lease& lease, Worker* const runs, FramePlace* place) {
  const chain::Steps steps(runs);
  Worker* const worker = steps.worker();
  const Group all(&worker->context, 0, 1);
  FramePlace at = *place;
  u32 word1 = frame_at(worker, at)->word[1];
  u32 opcode = frame_at(worker, at)->word[0] & Header::kOpcodeMask;
  Callee callee = callee_of(lease, opcode);
  for (;;) {
    FramePlace next = chain::kNowhere;  // a chain's next node, or the next task of a run
    if (takes_more_than_a_call(word1)) {
      if (has_shares() && (word1 & flag::share << 4U) != 0) {
        const Frame& frame = *frame_at(worker, at);
        const Header header = frame.header();
        if (!sources::calls(header)) {
          const Ended none{header, frame.position(), true, false};
          all.sync();  // all have read the frame, into which warp 0 puts the next task
          return none;
        }
        const u32 index = next_group(lease, worker, frame);
        if (index >= header.groups) {
          const u32 position = frame.position();
          return Ended{header, position, end_share(lease, worker, frame), false};
        }
      } else if (sources::calls_again(word1)) {
        if (timed_by(lease) == 0) next = chain::kSame;
      } else if (!has(part::graphs)) {
      } else if (chain::is_ahead(at)) {
        // Timed calls take no steps, so steps need no timing code.
        if (timed_by(lease) == 0) next = steps.behind(at, word1);
        observe::begin_steps(worker, next, thread_rank());
      } else if (thread_rank() < kLanes) {
        chain::begin(lease, worker, at);
      }
    } else if (has(part::links) && (word1 & flag::tracked << 4U) != 0 && timed_by(lease) == 0) {
      next = linked::first(worker);
    }
    bool stops = false;
    {
      const u32 rank = thread_rank();
      observe::call(lease, worker, opcode, rank);
      observe::begin(lease, worker, rank);
    }
    for (;;) {
      steps.call(callee, opcode, at);
      // Nodes of a chain first, in one comparison, with a step of their own instead of branches: each branch costs a chain some nanoseconds
      // a node.
      if (has(part::graphs) && chain::is_ahead(next)) {
        // All this before the barrier: the next record is loaded, so its operator is looked up by the end of the barrier.
        const chain::Seen seen = steps.look(lease, next);
        opcode = seen.word0 & Header::kOpcodeMask;
        callee = callee_of(lease, opcode);
        if (chain::is_in_another_block(at, next)) go_into_block(lease, steps, at, next);
        stops = any_in_group(seen.stops || seen.yields);
        if (stops) break;
        at = next;
        next = steps.behind(at, seen.word1);
      } else if (!has(part::links) || next >= chain::kSame) {
        if (sources::All::kAgain == 0 || next == chain::kNowhere) break;
        const chain::Seen seen = steps.look(lease, at);
        const u32 rank = thread_rank();
        // The header changes between this barrier and the next, so only one thread reads it.
        const bool pauses = rank == 0 && sources::pauses(lease, frame_at(worker, at)->header());
        stops = any_in_group(seen.stops || seen.yields || pauses);
        if (stops) break;
        observe::call(lease, worker, opcode, rank);
        if (rank == 0) sources::begin_again(worker, frame_at(worker, at));
      } else {
        const linked::Step step = linked::look_behind(worker, at, next);
        chain::Seen seen = steps.look(lease, next);
        if (!step.ready) seen = chain::Seen{0, 0, true, false};
        opcode = seen.word0 & Header::kOpcodeMask;
        callee = callee_of(lease, opcode);
        const u32 rank = thread_rank();
        observe::call(lease, worker, opcode, rank);
        stops = any_in_group(seen.stops);
        if (stops) {
          observe::call(lease, worker, opcode, rank, -1);
          break;
        }
        if (rank == 0) {
          linked::note(worker, step);
          begin_linked(worker, step.position + (step.word1 & 0xFU));
        }
        at = next;
        next = linked::behind(at, seen.word1 & 0xFU);
      }
    }
    if (has(part::graphs) && chain::is_ahead(at)) end_steps(steps, at);
    // Read again rather than kept across the call, where each value would cost every operator a register.
    const Frame& frame = *frame_at(worker, at);
    const Ended ended{frame.header(), frame.position(), true, *const_cast<const volatile u32*>(&worker->context.spawned) != 0};
    if (has(part::graphs) && (ended.header.flags & flag::node::chain) != 0) {
      if (!stops) {  // the first node of a chain, or a timed call
        if (chain::is_ahead(at)) {
          const FramePlace behind = steps.behind(at, ended.header.word1());
          if (chain::is_in_another_block(at, behind) && thread_rank() < kLanes) steps.read_ahead(lease, behind);
        } else if (thread_rank() < kLanes) {
          chain::await_begin();
        }
        const chain::Seen seen = steps.look(lease, at);
        stops = any_in_group(seen.stops || seen.yields);
      }
      observe::end(lease, worker, ended.header, ended.position);
      if (!stops || goes_on(worker)) {
        at = chain::is_ahead(at) ? steps.behind(at, ended.header.word1()) : chain::first(lease, worker, at);
        word1 = frame_at(worker, at)->word[1];
        opcode = frame_at(worker, at)->word[0] & Header::kOpcodeMask;
        callee = callee_of(lease, opcode);
        continue;
      }
      *place = at;
      return ended;
    }
    all.sync();
    observe::end(lease, worker, ended.header, ended.position);
    if (has_shares() && (ended.header.flags & flag::share) != 0) {
      // Each group has a share of its own: other workers run the rest.
      if ((ended.header.flags & flag::single) != 0)
        return Ended{ended.header, ended.position, end_share(lease, worker, *frame_at(worker, at)), false};
      word1 = ended.header.word1();
      opcode = ended.header.opcode;
      callee = callee_of(lease, opcode);
      continue;
    }
    *place = at;
    return ended;
  }
}

// Loads the task at `position` into `frame`. `task` holds its first slot, and perhaps others. Called by all lanes.
DWELL_DEVICE void put_into(const Lease& lease, Worker* worker, TaskQuads* task, Frame* frame, u32 position) {
  const u32 slots = broadcast(task->quad[0].word[1]) & 0xFU;
  bool missing = false;
  for (u32 i = 0; i < TaskQuads::kEach; ++i) {
    const u32 index = i * kLanes + lane();
    if (index >= slots * 4) break;
    missing = missing || task->quad[i].lap != lap_of(position + index / 4, lease.ring_shift);
  }
  if (ballot(missing) != 0) load_held(lease, task, position, 1, slots);
  for (u32 i = 0; i < TaskQuads::kEach; ++i) {
    const u32 index = i * kLanes + lane();
    if (index >= slots * 4) break;
    for (u32 j = 0; j < 3; ++j) frame->word[index * 3 + j] = task->quad[i].word[j];
  }
  if (lane() == 0) {
    set_level(lease, worker, task->quad[0].word[0]);
    in_flight::note(worker, position, task->quad[0].word[0] & Header::kOpcodeMask);
  }
}

// Returns whether linked::look has found the task at `position`, and it only needs to run. Called by all lanes.
DWELL_DEVICE bool is_ready_made(const Lease& lease, const TaskQuads& task, u32 position) {
  bool hindered = lane() == 0 && (task.quad[0].word[1] & (flag::wide | flag::cancelled) << 4U) != 0;
  for (u32 i = 0; i < TaskQuads::kEach; ++i)
    hindered = hindered || (i * kLanes + lane() < 4 && task.quad[i].lap != lap_of(position, lease.ring_shift));
  return ballot(hindered) == 0;
}

// Whether tasks wait for the completed one, and its outcome. Broadcast by one thread.
enum Successor : u32 { kNone, kBehindSuccess, kBehindFailure };

// Releases the waiters of the ended task at `position`. `before`: its old link word; valid in lane 0, as `status` is. Returns the waiter
// that the caller runs. Called by all lanes.
DWELL_DEVICE Ready let_follow(const Lease& lease, u64 before, i32 status, u32 position) {
  const bool waited_for = link::has_waiter(before, lap_of(position, lease.ring_shift));
  const u32 successor = broadcast(!waited_for ? kNone : status == status::ok ? kBehindSuccess : kBehindFailure);
  if (successor == kNone) return Ready{Outcome::none, 0};
  const u32 first = broadcast(link::waiter(before));
  const bool failed = successor == kBehindFailure;
  if (!waiters::is_lone(first)) return let_go_on(lease, position, first, failed);
  return Ready{failed ? Outcome::failed : Outcome::succeeded, waiters::position(lease, first, position)};
}

// Loads the first slot of the held task at `next` into `task`. Returns whether the task runs here; else it was shared out. Called by all
// lanes.
DWELL_DEVICE bool take_over(const Lease& lease, TaskQuads* task, const Ready& next) {
  load_first_held(lease, task, next.position);
  const Header head = Header::from(broadcast(task->quad[0].word[0]), broadcast(task->quad[0].word[1]));
  const bool cancelled = head.is_cancelled(next.outcome == Outcome::failed);
  if (!cancelled && (head.flags & flag::wide) == 0) return true;
  share_out(lease, *task, head, next.position, cancelled);
  return false;
}

// Loads a waiter of the completed task into `frame`, if it runs here; as let_follow. Called by all lanes.
DWELL_DEVICE_COLD bool follow(const Lease& lease, Worker* worker, u64 before, i32 status, u32 position, Frame* frame) {
  const Ready next = let_follow(lease, before, status, position);
  TaskQuads task{};
  if (next.outcome == Outcome::none || !take_over(lease, &task, next)) return false;
  put_into(lease, worker, &task, frame, next.position);
  return true;
}

// Completes the noted tasks of a run of linked tasks, if the ended task belongs to one, and stops the run. Called by warp 0.
DWELL_DEVICE_COLD void end_run(const Lease& lease, Worker* worker) {
  if (broadcast(linked::is_on(worker) ? 1 : 0) == 0) return;
  linked::serve_oneself(lease, worker, linked::kNoTask);
  if (lane() == 0) linked::stop(worker);
}

// Completes a tracked task outside of runs, and loads its waiter into `frame`, if that runs here. Called by warp 0.
DWELL_DEVICE_COLD bool complete_and_follow(const Lease& lease, Worker* worker, Header header, u32 position, Frame* frame) {
  // The linked task, if any, is nearly always the next one in the ring. Its slot loads while this one completes, which takes as long. The
  // quads are not used after follow(), so they stay in registers: a spill to local memory would wait for them at once.
  const u32 expected = position + header.slots;
#if !DWELL_CONTROL_WARP
  // All other workers may be in tasks. On CUDA the crew does this meanwhile.
  cancels::look_if_asked(lease);
#endif
  const linked::Ahead ahead = linked::look(lease, expected);
  u64 before = 0;  // the old link word, and the task's outcome: in lane 0
  i32 status = status::ok;
  if (lane() == 0) {
    status = worker->context.status;
    reset(&worker->context);
    before = publish(lease, header, position, status);
  }
  const u64 lone = link::waiting(lap_of(position, lease.ring_shift), index_of(expected, lease.ring_shift));
  TaskQuads task = linked::first_of(ahead);
  const bool goes_on = is_ready_made(lease, task, expected) && broadcast(before == lone && status == status::ok ? 1 : 0) != 0;
  if (lane() == 0) settle(lease, header, position, status);
  if (!goes_on) return follow(lease, worker, before, status, position, frame);
  linked::begin(lease, worker, ahead, expected, (header.flags & (flag::memory | flag::system)) != 0);
  put_into(lease, worker, &task, frame, expected);
  return true;
}

// The same for a task of a run that has stopped, since no task was ready or `ended` was full. Returns the next task's place, or kNowhere.
// Called by warp 0.
DWELL_DEVICE_COLD FramePlace complete_and_go_on(const Lease& lease, Worker* worker, Header header, u32 position, FramePlace to) {
  Frame* const frame = frame_at(worker, to);
  const u32 behind = position + header.slots;
  if (broadcast(worker->context.status == status::ok ? 1 : 0) == 0) {
    end_run(lease, worker);
    return complete_and_follow(lease, worker, header, position, frame) ? to : chain::kNowhere;
  }
  const u64 before = linked::serve_oneself(lease, worker, linked::ended_as(position, header.word1()));
  const bool lone = before == link::waiting(lap_of(position, lease.ring_shift), index_of(behind, lease.ring_shift));
  u32 ready = 0;
  if (lane() == 0) {
    reset(&worker->context);
    ready = lone && linked::is_ready(worker, behind) ? 1 : 0;
    if (ready != 0)
      begin_linked(worker, behind);
    else
      linked::stop(worker);
  }
  if (broadcast(ready) != 0) return linked::place_of(behind);
  if (lane() == 0) fence<Scope::device>();  // the acquire, for the waiters
  sync_lanes();
  return follow(lease, worker, before, status::ok, position, frame) ? to : chain::kNowhere;
}

// Returns whether a task with this word 1 only needs to be run and completed: one slot, one group, no waiters.
DWELL_DEVICE bool is_plain(u32 word1) { return (word1 & 0xFFFFFU & ~((flag::system | flag::memory) << 4U)) == 1; }

// Returns the end of the plain task at `place`, whose operator was called elsewhere. Called by all threads of the group.
DWELL_DEVICE Ended ended_at(Worker* worker, FramePlace place) {
  const Frame& frame = *frame_at(worker, place);
  return Ended{frame.header(), frame.position(), true, *const_cast<const volatile u32*>(&worker->context.spawned) != 0};
}

// Continues after the task whose header is in `next`, which `source`'s proceed has ended, and after those that end with it. Called by warp
// 0.
DWELL_DEVICE_COLD Follows go_on_above(const Lease& lease, Worker* worker, Frame* next, u32 source) {
  for (;;) {
    // A launch by an operator ends as its task. A task that has made others continues after them.
    const Header header = next->header();
    const bool is_root = source == source::spawned || source == source::spawned_launch;
    if (!header.is_spawned() && (!is_root || !sources::goes_on(header))) return kLaunch;
    source = header.source;
    const Follows follows = sources::proceed(source, Behind{lease, worker, next, next, true, false});
    if (follows != kLaunch) return follows;
  }
}

// Continues after the task at `place`, whose header is `header`: by its source's proceed, or by that of spawned tasks if it has made some
// (`made`). Sets Worker::follows: what the frame at `to` then holds. Spawned tasks are called first, without the table: through it one of a
// fork-join tree takes 6 % longer on an H200. Called by warp 0.
DWELL_DEVICE void go_on_behind(const Lease& lease, Worker* worker, const Header& header, FramePlace place, FramePlace to, bool made,
                               bool completes) {
  Frame* const from = frame_at(worker, place);
  Frame* const next = frame_at(worker, to);
  const u32 source = made ? source::spawned : header.source;  // a maker of tasks ends as spawned tasks do
  Follows follows = kNothing;
  if (has(part::spawn) && source == source::spawned) {
    // A task that an operator has made belongs to no run.
    if (has(part::links) && !header.is_made()) end_run(lease, worker);
    follows = spawn::proceed(lease, worker, *from, next);
  } else {
    follows = sources::proceed(source, Behind{lease, worker, from, next, completes, true});
  }
  if (follows == kLaunch) follows = go_on_above(lease, worker, next, source);
  if (has(part::spawn) && follows != kFrame && worker->spawn.owes != 0) spawn::pay(lease, worker);
  if (lane() == 0) worker->follows = follows;
}

// Runs the task at `place`, then tasks linked to it, of the same graph or made by it, until none follows. `ran`: the task is plain, and its
// operator has returned. Called by all threads of the group.
DWELL_DEVICE void run(const Lease& lease, Worker* worker, FramePlace place, bool ran = false) {
  for (;; ran = false) {
    Ended ended = ran ? ended_at(worker, place) : run_operator(lease, worker, &place);
    observe::ended(lease, worker, ended.header);
    if ((has(part::spawn) && ended.spawned) || sources::goes_on(ended.header)) {
      // The next task takes a whole frame.
      const FramePlace to = chain::is_ahead(place) || linked::is_linked(place) ? kFrame0 : place;
      if (thread_rank() < kLanes) go_on_behind(lease, worker, ended.header, place, to, ended.spawned, ended.completes);
      Group(&worker->context, 0, 1).sync();
      place = to;
      const u32 follows = worker->follows;
      if (follows == kFrame) continue;
      if (follows == kNothing) break;
      ended = Ended{frame_at(worker, place)->header(), frame_at(worker, place)->position(), true, false};
      if (thread_rank() == 0) observe::completes(lease, worker, ended.header, ended.position);
      Group(&worker->context, 0, 1).sync();  // all have read the frame
    } else if (ended.header.runs_nothing()) {
      if (thread_rank() < kLanes) sources::cancel(lease, *frame_at(worker, place));
      Group(&worker->context, 0, 1).sync();
    }
    if (!has(part::links) || !ended.completes || (ended.header.flags & flag::tracked) == 0) {
      if (has(part::links) && linked::is_linked(place) && thread_rank() < kLanes) end_run(lease, worker);
      if (thread_rank() == 0) {
        const i32 status = worker->context.status;
        reset(&worker->context);
#if DWELL_CONTROL_WARP
        // Nothing can follow: the control warp may fill the other frame while this thread still completes.
        *const_cast<volatile u32*>(&worker->idle) = 1;
#endif
        u32 waiter;
        if (ended.completes) complete(lease, ended.header, ended.position, status, &waiter);
      }
      return;
    }
    FramePlace next = chain::kNowhere;
    if (thread_rank() < kLanes) {
      const FramePlace to = linked::is_linked(place) ? kFrame0 : place;
      if (broadcast(linked::is_on(worker) ? 1 : 0) != 0)
        next = complete_and_go_on(lease, worker, ended.header, ended.position, to);
      else if (complete_and_follow(lease, worker, ended.header, ended.position, frame_at(worker, to)))
        next = to;
      if (lane() == 0) worker->follows = next;
    }
    if (!any_in_group(next != chain::kNowhere)) break;
    place = *const_cast<const volatile u32*>(&worker->follows);
  }
#if DWELL_CONTROL_WARP
  if (thread_rank() == 0) *const_cast<volatile u32*>(&worker->idle) = 1;
#endif
}

}  // namespace dwell::device
