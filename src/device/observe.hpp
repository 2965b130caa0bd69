// What workers note of their work for those who watch: counts, times, a timeline. Lease::counts and timed say what of it; a lease that
// notes nothing pays for a look at its parameter.
//
// Calls of operators are noted by a thread of a warp that has nothing else to do around them. It adds to a row of its worker, without
// waiting for an answer. Nobody ever clears a counter: who wants an interval subtracts.
#pragma once

#include "device/worker_memory.hpp"

namespace dwell::device::observe {

// Which thread of the group that is. Warp 0 reads ahead, and completes.
#if DWELL_ON_CUDA
inline constexpr u32 kThread = kGroupThreads - kLanes;
#else
inline constexpr u32 kThread = 0;
#endif

DWELL_DEVICE u32 number_of([[maybe_unused]] const Worker* worker) {
#if DWELL_ON_CUDA
  return blockIdx.x;  // the same, without a way to shared memory
#else
  return worker->me;
#endif
}

// TimeHistogram::bucket_of.
DWELL_DEVICE u32 bucket_of(u32 ns) {
  if (ns < 4) return ns;
#if DWELL_ON_CUDA
  const u32 power = 31 - static_cast<u32>(__clz(static_cast<int>(ns)));
#else
  const u32 power = 31 - static_cast<u32>(__builtin_clz(ns));
#endif
  return (power - 1) * 4 + (ns >> (power - 2) & 3U);
}

// The two halves of a timed call. They ask for the rank themselves: the loop, which rarely comes here, would wait for it at each call.
DWELL_DEVICE_COLD void note_begin(Worker* worker, FramePlace at) {
  if (thread_rank() != kThread) return;
  const u32* const header = frame_at(worker, at)->word;
  for (u32 i = 0; i < 3; ++i) worker->observed.word[i] = header[i];
  worker->observed.begun = now_ns();
}

// Writes an event. Called by one thread, of a worker that runs no operator but the one that this is about.
DWELL_DEVICE void put_event(const Lease& lease, Worker* worker, u64 begun, u32 took, const u32* word) {
  const u32 number = worker->observed.events++;
  Event* const event =
      lease.timeline + (static_cast<u64>(number_of(worker)) << lease.timeline_shift) + (number & ((1U << lease.timeline_shift) - 1));
  const u32 lap = lap_of(number, lease.timeline_shift);
  // The host takes an event whose quads are of one lap, and reads the first one once more behind the second.
  store_quad<Scope::device>(&event->quad[0], Quad{lap, {static_cast<u32>(begun), static_cast<u32>(begun >> 32U), took}});
  store_quad<Scope::device>(&event->quad[1], Quad{lap, {word[0], word[1], word[2]}});
}

DWELL_DEVICE_COLD void note_end(const Lease& lease, Worker* worker) {
  if (thread_rank() != kThread) return;
  Observed& observed = worker->observed;
  const u64 begun = observed.begun;
  if (begun == 0) return;
  const u64 all = now_ns() - begun;
  const u32 took = all < ~0U ? static_cast<u32>(all) : ~0U;
  if ((lease.timed & timed::times) != 0) {
    OperatorTimes& times =
        lease.times[(observed.word[0] & Header::kOpcodeMask) * OperatorTimes::kShards + number_of(worker) % OperatorTimes::kShards];
    add<Order::relaxed>(&times.timed, static_cast<u64>(1));
    add<Order::relaxed>(&times.total, all);
    maximize<Order::relaxed>(&times.most, all);
    maximize<Order::relaxed>(&times.least, ~all);
    add<Order::relaxed>(&times.bucket[bucket_of(took)], static_cast<u64>(1));
    add<Order::relaxed>(&lease.worker_counts[number_of(worker)].busy_ns, all);
  }
  if ((lease.timed & timed::timeline) != 0) put_event(lease, worker, begun, took, observed.word);
  // Last: leave_seat waits for it.
  *const_cast<volatile u64*>(&observed.begun) = 0;
}

// The worker is about to call this operator, or is not after all, with `more` of -1. Called by all threads of the group with their ranks.
DWELL_DEVICE void call(const Lease& lease, const Worker* worker, u32 opcode, u32 rank, i64 more = 1) {
  if (lease.counts == 0 || rank != kThread) return;
  u64* const at = lease.calls + static_cast<u64>(number_of(worker)) * lease.observed + opcode;
#if DWELL_ON_CUDA
  add<Order::relaxed>(at, static_cast<u64>(more));
#else
  store<Order::relaxed, Scope::device>(at, load<Order::relaxed, Scope::device>(at) + static_cast<u64>(more));  // nobody else writes there
#endif
}

// It calls the operator of the task at `at`. Called by all threads of the group.
DWELL_DEVICE void begin(const Lease& lease, Worker* worker, FramePlace at) {
  if (lease.timed != 0) note_begin(worker, at);
}

// The operator has returned in all threads of the group. Called by all of them, behind a barrier, before the next call.
DWELL_DEVICE void end(const Lease& lease, Worker* worker) {
  if (lease.timed != 0) note_end(lease, worker);
}

// The operator of a task has failed, or that of a share of it. Called by one thread.
DWELL_DEVICE_COLD void failure(const Lease& lease, u32 opcode, i32 status) {
  if (lease.counts != 0 && status != status::cancelled) add<Order::relaxed>(lease.failures + opcode, static_cast<u64>(1));
}

// The task with this header has ended, behind a barrier. Called by all threads of the group. Shares of tasks count where they end.
DWELL_DEVICE void ended(const Lease& lease, const Worker* worker, const Header& header) {
  // Thread 0, which clears the status behind this.
  if (lease.counts == 0 || thread_rank() != 0 || (header.flags & flag::share) != 0) return;
  const i32 status = *const_cast<const volatile i32*>(&worker->context.status);
  if (status != status::ok) failure(lease, header.opcode, status);
}

// Called by one thread, as those below are.
DWELL_DEVICE void fetched(const Lease& lease, const Worker* worker, u32 slots) {
  if (lease.counts != 0) add<Order::relaxed>(&lease.worker_counts[number_of(worker)].fetched, static_cast<u64>(slots));
}
DWELL_DEVICE void queued(const Lease& lease, const Worker* worker) {
  if (lease.counts != 0) add<Order::relaxed>(&lease.worker_counts[number_of(worker)].queued, static_cast<u64>(1));
}
DWELL_DEVICE void spawned(const Lease& lease, const Worker* worker, u32 tasks) {
  if (lease.counts != 0) add<Order::relaxed>(&lease.worker_counts[number_of(worker)].spawned, static_cast<u64>(tasks));
}

// The worker has its seat: it goes on with what the last holder has numbered. Called by one thread.
DWELL_DEVICE void take_seat(const Lease& lease, Worker* worker) {
  if (lease.counts != 0) add<Order::relaxed>(&lease.worker_counts[worker->me].leases, static_cast<u64>(1));
  const Notes notes = lease.seats[worker->me].notes;
  worker->observed.events = notes.events;
  worker->flight_notes = notes.flight;
  worker->context.log.next = notes.log;
  worker->context.log.seen = notes.log_seen;
  worker->observed.stay = now_ns();
}
// It is about to give it up; its operator has returned. Called by one thread; perhaps again, when it keeps it.
DWELL_DEVICE_COLD void leave_seat(const Lease& lease, Worker* worker) {
  if ((lease.counts | lease.timed) != 0) {
    // The thread that notes may be about to end its note.
    while (*const_cast<const volatile u64*>(&worker->observed.begun) != 0) {}
    const u64 now = now_ns();
    const u64 stay = now - worker->observed.stay;
    if (lease.counts != 0) add<Order::relaxed>(&lease.worker_counts[worker->me].present_ns, stay);
    if ((lease.timed & timed::timeline) != 0) {
      const u32 word[3] = {Event::kStay, lease.number, 0};
      put_event(lease, worker, worker->observed.stay, stay < ~0U ? static_cast<u32>(stay) : ~0U, word);
    }
    worker->observed.stay = now;
  }
  lease.seats[worker->me].notes = Notes{worker->observed.events, worker->flight_notes, worker->context.log.next, worker->context.log.seen};
}

}  // namespace dwell::device::observe
