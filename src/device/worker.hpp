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
  u32 follows;      // 1: `successor` runs next
  u32 successor;    // position of a linked task
  u32 idle;         // 1: the next task may be handed over
};

// Clears what the last task left in the context. Called by one thread.
DWELL_DEVICE void reset(Context* context) {
  context->status = status::ok;
  context->scratch_used = 0;
}

// Notes in host memory which task this worker is about to run.
DWELL_DEVICE void blame(const Lease& lease, u32 worker, u32 position, u32 entry) {
  store<Order::relaxed, Scope::system>(&lease.blame[worker].word,
                                       static_cast<u64>(position) | (static_cast<u64>(entry) << 32U) | Blame::kValid);
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
    release_fence<Scope::device>();
    const bool last = fetch_add<Order::acq_rel>(&wide->shares, ~0U) == 1;
    // The task itself has a place of its own in the ready queue; every share beyond that gives its place back.
    if (!last) fetch_add<Order::relaxed>(&lease.control->spare_shares.value, 1U);
    worker->group = last ? 1 : 0;
    if (last) worker->context.status = static_cast<i32>(load<Order::relaxed, Scope::device>(reinterpret_cast<u32*>(&wide->status)));
  }
  all.sync();
  return worker->group != 0;
}

// Runs the operator of the task in `frame`: once, or for groups of a wide task until none is left. False when other workers still run
// groups of it. Called by all threads together. The operator is called at one place only, because a tier inlines all operators there.
DWELL_DEVICE bool run_operator(const Lease& lease, Worker* worker, const Frame& frame, u32 rank) {
  const Group all(&worker->context, 0, 1);
  for (;;) {
    Group group = all;
    const Header header = frame.header();
    if ((header.flags & flag::share) != 0) {
      const u32 index = next_group(lease, worker, frame.position(), rank);
      if (index >= header.groups) return end_share(lease, worker, frame.position(), rank);
      group = Group(&worker->context, index, header.groups);
    }
    call_operator(lease, header.entry, group, frame.arguments());
    all.sync();
    // Read again rather than kept across the call, where each value would cost every operator a register.
    if ((frame.header().flags & flag::share) == 0) return true;
  }
}

// Runs the task in `frame`, and those linked behind it, until none follows. Called by all threads of the group; `me` is the worker's
// number. `free_early` says that the worker may be handed its next task as soon as no other can follow.
DWELL_DEVICE void run(const Lease& lease, Worker* worker, Frame* frame, u32 me, u32 rank) {
  const Group group(&worker->context, 0, 1);
  for (;;) {
    const bool completes = run_operator(lease, worker, *frame, rank);
    const Header header = frame->header();
    const bool chained = completes && (header.flags & flag::tracked) != 0;
    if (rank == 0) {
      const i32 status = worker->context.status;
      reset(&worker->context);
#if DWELL_ON_CUDA
      // Nothing can follow: the control warp may fill the other frame while this thread still completes.
      if (!chained) *const_cast<volatile u32*>(&worker->idle) = 1;
#endif
      if (completes) worker->follows = complete(lease, header, frame->position(), status, &worker->successor) ? 1 : 0;
    }
    if (!chained) return;
    group.sync();
    if (worker->follows == 0) break;
    const u32 next = worker->successor;
    bool shared_out = false;
    if (rank < kLanes) {
      TaskQuads task;
      load_held(lease, &task, next, 0, 1);
      const Header head = Header::from(broadcast(task.quad[0].word[0]), broadcast(task.quad[0].word[1]));
      if (head.slots > 1) load_held(lease, &task, next, 1, head.slots);
      shared_out = (head.flags & flag::wide) != 0;
      if (shared_out) {
        share_out(lease, task, head, next);
      } else {
        for (u32 i = 0; i < TaskQuads::kEach; ++i) {
          const u32 index = i * kLanes + lane();
          if (index >= head.slots * 4) break;
          for (u32 j = 0; j < 3; ++j) frame->word[index * 3 + j] = task.quad[i].word[j];
        }
        if (lane() == 0) blame(lease, me, next, head.entry);
      }
      if (lane() == 0) worker->follows = shared_out ? 0 : 1;
    }
    group.sync();
    if (worker->follows == 0) break;
  }
#if DWELL_ON_CUDA
  if (rank == 0) *const_cast<volatile u32*>(&worker->idle) = 1;
#endif
}

}  // namespace dwell::device
