// The executing half of a worker: runs one task after the other with all threads of its group.
#pragma once

#include "device/admission.hpp"
#include "device/operator_table.hpp"

namespace dwell::device {

// A worker's own memory, shared by all its threads.
struct Worker {
  Frame frame[2];   // the task that runs, and the one handed over meanwhile
  Context context;  // what operators see of the worker
  u32 group;        // the group of a wide task that runs now
  u32 follows;      // 1: the task linked behind the last one is in the frame
  u32 idle;         // 1: the next task may be handed over
  // The control code's own, here rather than in registers, of which each would cost every operator one.
  seat::WayOut way;
  u32 since;        // when the worker took its seat, in ticks
  u32 quiet_since;  // when it last saw anything to do
  u32 low_water;    // of the ready queue, as last seen
  u32 drains;       // completed, as last seen
};

// Clears what the last task left in the context. Called by one thread.
DWELL_DEVICE void reset(Context* context) {
  context->status = status::ok;
  context->scratch_used = 0;
}

// Notes in host memory which task this worker is about to run.
DWELL_DEVICE void record_in_flight(const Lease& lease, u32 worker, u32 position, u32 opcode) {
  store<Order::relaxed, Scope::system>(&lease.in_flight[worker].word,
                                       static_cast<u64>(position) | (static_cast<u64>(opcode) << 32U) | InFlight::kValid);
}

// Draws the next group of a wide task into `worker->group`. Called by all threads together.
DWELL_DEVICE_COLD u32 next_group(const Lease& lease, Worker* worker, u32 position, u32 rank) {
  Wide* const wide = lease.wide + index_of(position, lease.ring_shift);
  if (rank == 0) {
    worker->group = fetch_add<Order::acquire>(&wide->next, 1U);
    worker->context.scratch_used = 0;
  }
  Group(&worker->context, 0, 1).sync();
  return worker->group;
}

// Ends a share of a wide task, whose groups have all been drawn. True when it was the last; `context.status` then holds the task's first
// failure. Called by all threads together.
DWELL_DEVICE_COLD bool end_share(const Lease& lease, Worker* worker, u32 position, u32 rank) {
  Wide* const wide = lease.wide + index_of(position, lease.ring_shift);
  const Group all(&worker->context, 0, 1);
  all.sync();  // all have seen which group was drawn last
  if (rank == 0) {
    if (worker->context.status != status::ok)
      compare_exchange<Order::relaxed>(reinterpret_cast<u32*>(&wide->status), 0U, static_cast<u32>(worker->context.status));
    // Release: this share's effects; acquire in the last one, which completes the task for all. Scope::system effects are made visible
    // by its fence too, since causality order is transitive.
    fence<Scope::device>();
    const bool last = fetch_add<Order::acq_rel>(&wide->shares, ~0U) == 1;
    // The task itself has a place of its own in the ready queue; every share beyond that gives its place back.
    if (!last) fetch_add<Order::relaxed>(&lease.control->spare_shares.value, 1U);
    worker->group = last ? 1 : 0;
    if (last) worker->context.status = static_cast<i32>(load<Order::relaxed, Scope::device>(reinterpret_cast<u32*>(&wide->status)));
  }
  all.sync();
  return worker->group != 0;
}

// How the operator of a task has ended.
struct Ended {
  Header header;   // the task's
  u32 position;    // the same
  bool completes;  // false when other workers still run groups of it
};

// Runs the operator of the task in `frame`: once, or for groups of a wide task until none is left. Called by all threads together. The
// operator is called at one place only, because a tier inlines all operators there. Behind its last barrier nobody reads the frame.
DWELL_DEVICE Ended run_operator(const Lease& lease, Worker* worker, const Frame& frame, u32 rank) {
  for (;;) {
    const Header header = frame.header();
    Group group(&worker->context, 0, 1, header.opcode);
    if ((header.flags & flag::share) != 0) {
      const u32 position = frame.position();
      const u32 index = next_group(lease, worker, position, rank);
      if (index >= header.groups) return Ended{header, position, end_share(lease, worker, position, rank)};
      group = Group(&worker->context, index, header.groups, header.opcode);
    }
    call_operator(lease, header.opcode, group, frame.arguments());
    // Read again rather than kept across the call, where each value would cost every operator a register.
    const Ended ended{frame.header(), frame.position(), true};
    group.sync();
    if ((ended.header.flags & flag::share) == 0) return ended;
  }
}

// Reads what is held for `position`, which may be anything, without waiting for it. Called by all lanes. Its laps make it
// valid, as they do for load_held.
DWELL_DEVICE void look_ahead(const Lease& lease, TaskQuads* task, u32 position) {
  for (u32 i = 0; i < TaskQuads::kEach; ++i) {
    const u32 index = i * kLanes + lane();
    if (index < 4) task->quad[i] = load_quad<Scope::device>(&lease.held[index_of(position, lease.ring_shift)].quad[index]);
  }
}
// Whether that has found the task.
DWELL_DEVICE bool is_there(const Lease& lease, const TaskQuads& task, u32 position) {
  bool missing = false;
  for (u32 i = 0; i < TaskQuads::kEach; ++i)
    missing = missing || (i * kLanes + lane() < 4 && task.quad[i].lap != lap_of(position, lease.ring_shift));
  return ballot(missing) == 0;
}

// Makes the task at `position`, of which `task` holds the first slot, the next one in `frame`; false if it has been shared out instead.
// `failed`: the task before has. Called by all lanes.
DWELL_DEVICE bool take_over(const Lease& lease, TaskQuads* task, Frame* frame, u32 position, u32 me, bool failed) {
  const Header head = Header::from(broadcast(task->quad[0].word[0]), broadcast(task->quad[0].word[1]));
  if (head.slots > 1) load_held(lease, task, position, 1, head.slots);
  const bool cancelled = failed && (head.flags & flag::hard) == 0;
  if (cancelled || (head.flags & flag::wide) != 0) {
    share_out(lease, *task, head, position, cancelled);
    return false;
  }
  for (u32 i = 0; i < TaskQuads::kEach; ++i) {
    const u32 index = i * kLanes + lane();
    if (index >= head.slots * 4) break;
    for (u32 j = 0; j < 3; ++j) frame->word[index * 3 + j] = task->quad[i].word[j];
  }
  if (lane() == 0) record_in_flight(lease, me, position, head.opcode);
  return true;
}

// Whether tasks wait for the one that is complete, and how that has ended: what one thread tells the others.
enum Follows : u32 { kNone, kBehindSuccess, kBehindFailure };

// Runs the task in `frame`, and those linked behind it, until none follows. Called by all threads of the group; `me` is the worker's
// number.
DWELL_DEVICE void run(const Lease& lease, Worker* worker, Frame* frame, u32 me, u32 rank) {
  for (;;) {
    const Ended ended = run_operator(lease, worker, *frame, rank);
    const bool chained = ended.completes && (ended.header.flags & flag::tracked) != 0;
    // The task linked behind this one, if there is any, nearly always stands right behind it: its slot is on its way while this one
    // completes, which takes as long.
    const u32 expected = ended.position + ended.header.slots;
    TaskQuads task;
    if (chained && rank < kLanes) look_ahead(lease, &task, expected);
    u32 follows = kNone;
    u32 next = 0;
    if (rank == 0) {
      const i32 status = worker->context.status;
      reset(&worker->context);
#if DWELL_ON_CUDA
      // Nothing can follow: the control warp may fill the other frame while this thread still completes.
      if (!chained) *const_cast<volatile u32*>(&worker->idle) = 1;
#endif
      if (ended.completes && complete(lease, ended.header, ended.position, status, &next))
        follows = status == status::ok ? kBehindSuccess : kBehindFailure;
    }
    if (!chained) return;
    if (rank < kLanes) {
      next = broadcast(next);
      follows = broadcast(follows);
      if (follows != kNone) {
        if (waiters::is_lone(next)) {
          next = waiters::position(lease, next, ended.position);
        } else {
          const Ready ready = let_go_on(lease, ended.position, next, follows == kBehindFailure);
          next = ready.position;
          follows = ready.outcome == Outcome::none ? kNone : ready.outcome == Outcome::failed ? kBehindFailure : kBehindSuccess;
        }
      }
      if (follows != kNone) {
        if (next != expected || !is_there(lease, task, next)) load_held(lease, &task, next, 0, 1);
        follows = take_over(lease, &task, frame, next, me, follows == kBehindFailure) ? 1 : 0;
      }
      if (lane() == 0) worker->follows = follows;
    }
    Group(&worker->context, 0, 1).sync();
    if (worker->follows == 0) break;
  }
#if DWELL_ON_CUDA
  if (rank == 0) *const_cast<volatile u32*>(&worker->idle) = 1;
#endif
}

}  // namespace dwell::device
