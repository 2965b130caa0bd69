// What workers note of their work for those who watch: counts, times, a timeline. Lease::counts and timed say what of it; a lease that
// notes nothing pays for a look at its parameter.
//
// Calls of operators are noted by kCountingThread. It adds to a row of its worker, without waiting for an answer. Nobody ever clears a
// counter: who wants an interval subtracts.
#pragma once

#include "device/ready_queue.hpp"
#include "device/worker_memory.hpp"

namespace dwell::device::observe {

DWELL_DEVICE u32 number_of([[maybe_unused]] const Worker* worker) {
#if DWELL_CONTROL_WARP
  return blockIdx.x;  // the same, without a way to shared memory
#else
  return worker->me;
#endif
}

// TimeHistogram::bucket_of.
DWELL_DEVICE u32 bucket_of(u32 ns) {
  if (ns < 4) return ns;
  const u32 power = 31 - leading_zeros(ns);
  return (power - 1) * 4 + (ns >> (power - 2) & 3U);
}

// Where the worker notes the times of an operator.
DWELL_DEVICE OperatorTimes* times_of(const Lease& lease, const Worker* worker, u32 opcode) {
  return lease.times + opcode * OperatorTimes::kShards + number_of(worker) % OperatorTimes::kShards;
}
DWELL_DEVICE void add_wait(OperatorTimes* times, u64 waited) {
  add<Order::relaxed>(&times->waits, static_cast<u64>(1));
  add<Order::relaxed>(&times->waited, waited);
  maximize<Order::relaxed>(&times->longest_wait, waited);
}

// Notes how long a task of the ring has waited, if the host has stamped it. Called by one thread.
DWELL_DEVICE void note_wait(OperatorTimes* times, const Quad* stamps, u32 ring_shift, u32 position, u64 begun) {
  // Written before the task was published, so that who has the task sees it; or of an earlier lap.
  const Quad stamp = load_quad<Scope::system>(stamps + index_of(position, ring_shift));
  if (stamp.lap != lap_of(position, ring_shift)) return;
  const u64 submitted = stamp.word[0] | static_cast<u64>(stamp.word[1]) << 32U;
  add_wait(times, begun > submitted ? begun - submitted : 0);  // the clocks may be a little off
}

// Notes how long the task with these words 0 and 1 has lain where it was put at that time, if it is a node or a task that an operator has
// made, and calls an operator. Called by one thread.
DWELL_DEVICE_COLD void note_queued(const Lease& lease, const Worker* worker, u32 word0, u32 word1, u64 put) {
  const u32 source = source_in(word1);
  if (source != source::node && source != source::spawned) return;
  const u64 now = now_ns();
  add_wait(times_of(lease, worker, word0 & Header::kOpcodeMask), now > put ? now - put : 0);  // multiprocessors may be some ns apart
}
// The same of a task that was taken from that place of the ready queue.
DWELL_DEVICE_COLD void note_queued_at(const Lease& lease, const Worker* worker, u32 word0, u32 word1, u32 place) {
  const Quad stamp = load_quad<Scope::device>(ready_queue::stamp(lease, place));
  if (stamp.lap == lap_of(place, lease.queue_shift))
    note_queued(lease, worker, word0, word1, stamp.word[0] | static_cast<u64>(stamp.word[1]) << 32U);
}
// Notes how many bytes the arguments of a task name that an operator has made with this opcode, if it is part of the sample. Called by one
// thread.
DWELL_DEVICE_COLD void note_named(const Lease& lease, Worker* worker, u32 opcode, u64 bytes) {
  if (!is_stamped(++worker->observed.made, kNamesBelow)) return;
  OperatorTimes* const times = times_of(lease, worker, opcode);
  add<Order::relaxed>(&times->named, static_cast<u64>(1));
  add<Order::relaxed>(&times->named_bytes, bytes);
}

// Calls between the least and the longest that the worker has put for the opcode, in this lease, change neither. One that does not fit 32
// bits is always put.
DWELL_DEVICE void put_extremes(OperatorTimes* times, Observed* observed, u32 opcode, u32 took, u64 all) {
  const bool same = observed->opcode == opcode;
  const u32 least = observed->least;
  const u32 most = observed->most;
  if (same && took >= least && took <= most && took != ~0U) return;
  maximize<Order::relaxed>(&times->most, all);
  maximize<Order::relaxed>(&times->least, ~all);
  observed->opcode = opcode;
  observed->least = same && least < took ? least : took;
  observed->most = same && most > took ? most : took;
}

// The time of a call. A timeline sets calls of several workers in order, for which their own clocks are too far apart.
DWELL_DEVICE u64 now_for([[maybe_unused]] Worker* worker, [[maybe_unused]] u32 of) {
#if !DWELL_CONTROL_WARP
  if ((of & timed::timeline) == 0) return worker_clock::now(&worker->clock);
#endif
  return now_ns();
}

// Adds to a counter, to which others add too unless the worker is alone.
DWELL_DEVICE void count(u64* at, u64 more, bool alone) {
  if (alone)
    store<Order::relaxed, Scope::device>(at, load<Order::relaxed, Scope::device>(at) + more);
  else
    add<Order::relaxed>(at, more);
}
// With what note_end is told: on a CPU, that no other worker counts in the same shard.
inline constexpr u32 kAlone = 0x80;

// Ends the note of a call, of the task with these words first. What the lease says is passed by value: out of line, its members would be
// loads of memory, one behind the other, where the loop has them in its instructions. Arguments of more than twelve words would go through
// memory. Called by one thread.
DWELL_DEVICE_COLD void note_end(Worker* worker, u32 timed_and_ring_shift, OperatorTimes* times, u64* busy, const Quad* stamps, u32 word0,
                                u32 word1, u32 word2) {
  Observed& observed = worker->observed;
  const u64 begun = observed.begun;
  const u64 all = now_for(worker, timed_and_ring_shift) - begun;
  const u32 took = all < ~0U ? static_cast<u32>(all) : ~0U;
  if ((timed_and_ring_shift & timed::times) != 0) {
    const u32 opcode = word0 & Header::kOpcodeMask;
    OperatorTimes* const its = times + opcode * OperatorTimes::kShards + number_of(worker) % OperatorTimes::kShards;
    const bool alone = kGroupThreads == 1 && (timed_and_ring_shift & kAlone) != 0;
    count(&its->total, all, alone);
    count(&its->bucket[bucket_of(took)], 1, alone);
    count(busy, all, kGroupThreads == 1);
    put_extremes(its, &observed, opcode, took, all);
    if (is_stamped(word2) && !is_made(word1)) note_wait(its, stamps, timed_and_ring_shift >> 8U, word2, begun);
  }
  if ((timed_and_ring_shift & timed::timeline) != 0) put_event(&worker->context.events, begun, took, word0, word1, word2);
  // Last: leave_seat waits for it.
  *const_cast<volatile u64*>(&observed.begun) = 0;
}

// The worker is about to call this operator, or is not after all, with `more` of -1. Called by all threads of the group with their ranks.
DWELL_DEVICE void call(const Lease& lease, const Worker* worker, u32 opcode, u32 rank, i64 more = 1) {
  if (!counts(lease) || rank != kCountingThread) return;
  u64* const at = lease.calls + static_cast<u64>(number_of(worker)) * lease.observed + opcode;
#if DWELL_CONTROL_WARP
  add<Order::relaxed>(at, static_cast<u64>(more));
#else
  store<Order::relaxed, Scope::device>(at, load<Order::relaxed, Scope::device>(at) + static_cast<u64>(more));  // nobody else writes there
#endif
}

// The steps of a chain begin with the node at `next`. Called by all threads of the group with their ranks.
DWELL_DEVICE void begin_steps([[maybe_unused]] Worker* worker, [[maybe_unused]] FramePlace next, [[maybe_unused]] u32 rank) {
#if DWELL_CONTROL_WARP
  if (rank == kCountingThread) *const_cast<volatile u32*>(&worker->observed.uncounted) = next;
#endif
}

#if DWELL_CONTROL_WARP
// Counts the calls of the nodes of a chain that were gone on with, up to the one at `at`; the one at `next` is still to be called. A step
// counts nothing, since each instruction makes it longer: this is called when they come to another block of those that are read ahead, and
// in the end. Called by the warp of kCountingThread; `at_worker` is the worker's address in shared memory.
DWELL_DEVICE_COLD void count_steps(u32 at_worker, FramePlace at, FramePlace next) {
  Worker* const worker = pointer_to_shared<Worker>(at_worker);
  u64* const row = worker->observed.row;
  const FramePlace from = *const_cast<volatile u32*>(&worker->observed.uncounted);
  sync_lanes();
  if (lane() == 0) worker->observed.uncounted = next;
  const u32 last = (at - from) & (kAheadSlots - 1);  // from the first to the last, in slots: within a block, or there is none
  if (row == nullptr || from >= kAheadSlots || last >= kAheadSlots / 2) return;
  const u32* const header = frame_at(worker, (from + lane()) & (kAheadSlots - 1))->word;
  const u32 opcode = header[0] & Header::kOpcodeMask;
  const u32 slots = header[1] & 0xFU;
  u32 nodes = (2U << last) - 1;  // a bit each, where it begins
  if (ballot(lane() <= last && slots != 1) != 0) {
    nodes = 0;
    for (u32 i = 0; i <= last; i += broadcast(slots, i)) nodes |= 1U << i;
  }
  if ((nodes >> lane() & 1U) != 0) add<Order::relaxed>(row + opcode, static_cast<u64>(1));
}
#endif

// It calls an operator. Called by all threads of the group with their ranks.
DWELL_DEVICE void begin(const Lease& lease, Worker* worker, u32 rank) {
  if (timed_by(lease) != 0 && rank == kCountingThread) worker->observed.begun = now_for(worker, lease.timed);
}

// The operator of the task with this header has returned in all threads of the group. Called by all of them, behind a barrier, before the
// next call. The rank is asked for behind the comparison: where nothing is timed, the loop does not wait for it.
DWELL_DEVICE void end(const Lease& lease, Worker* worker, const Header& header, u32 position) {
  if (timed_by(lease) == 0) return;
  if (thread_rank() != kCountingThread) return;
#if DWELL_CONTROL_WARP
  constexpr u32 alone = 0;
#else
  const u32 alone = lease.max_workers <= OperatorTimes::kShards ? kAlone : 0;
#endif
  note_end(worker, lease.timed | alone | lease.ring_shift << 8U, lease.times, &lease.worker_counts[number_of(worker)].busy_ns, lease.stamps,
           header.word0(), header.word1(), position);
}

// The operator of a task has failed, or that of a group of it. Called by one thread.
DWELL_DEVICE_COLD void failure(const Lease& lease, u32 opcode, i32 status) {
  if (counts(lease) && status != status::cancelled) add<Order::relaxed>(lease.failures + opcode, static_cast<u64>(1));
}

// The task with this header has ended, behind a barrier. Called by all threads of the group. Groups of wide tasks count when the worker
// draws the next, or where its share ends.
DWELL_DEVICE void ended(const Lease& lease, const Worker* worker, const Header& header) {
  // Thread 0, which clears the status behind this.
  if (!counts(lease) || thread_rank() != 0 || (header.flags & flag::share) != 0) return;
  const i32 status = *const_cast<const volatile i32*>(&worker->context.status);
  if (status != status::ok) failure(lease, header.opcode, status);
}

// An instant of the timeline. Called by one thread, as those below are.
DWELL_DEVICE_COLD void note_instant(Worker* worker, u32 word0, u32 word1, u32 word2) {
  put_event(&worker->context.events, now_ns(), 0, word0, word1, word2);
}

// A task of the ring completes that ended with no call of its own operator alone: the launch of a graph, a task of several groups, one that
// has made others.
DWELL_DEVICE void completes(const Lease& lease, Worker* worker, const Header& header, u32 position) {
  if ((timed_by(lease) & timed::timeline) != 0)
    note_instant(worker, Event::kComplete, position, (header.flags & flag::wide) != 0 ? header.groups : 0);
}

// The worker has taken `slots` slots out of the ring, from `position` on.
DWELL_DEVICE void fetched(const Lease& lease, Worker* worker, u32 position, u32 slots) {
  if (counts(lease)) add<Order::relaxed>(&lease.worker_counts[number_of(worker)].fetched, static_cast<u64>(slots));
  if ((timed_by(lease) & timed::timeline) != 0) note_instant(worker, Event::kFetch, position, slots);
}
// It has taken the task with these first words from this place of the ready queue. The timeline shows it of nodes and spawned tasks, which
// a worker has put there: those of the ring come through the queue as a rule.
DWELL_DEVICE void queued(const Lease& lease, Worker* worker, u32 word0, u32 word1, u32 word2, u32 place) {
  if (counts(lease)) add<Order::relaxed>(&lease.worker_counts[number_of(worker)].queued, static_cast<u64>(1));
  if ((timed_by(lease) & timed::times) != 0 && ready_queue::is_stamped(place)) note_queued_at(lease, worker, word0, word1, place);
  if ((timed_by(lease) & timed::timeline) != 0 && is_made(word1)) note_instant(worker, Event::kTake, word1, word2);
}
#if DWELL_DEQUES
// It has taken the node with these first words out of another worker's deque.
DWELL_DEVICE void stolen(const Lease& lease, Worker* worker, u32 word1, u32 word2) {
  if (counts(lease)) add<Order::relaxed>(&lease.worker_counts[number_of(worker)].stolen, static_cast<u64>(1));
  if ((timed_by(lease) & timed::timeline) != 0) note_instant(worker, Event::kTake, word1, word2);
}
#endif
DWELL_DEVICE void spawned(const Lease& lease, const Worker* worker, u32 tasks) {
  if (counts(lease)) add<Order::relaxed>(&lease.worker_counts[number_of(worker)].spawned, static_cast<u64>(tasks));
}

// The worker has its seat: it goes on with what the last holder has numbered. Called by one thread.
DWELL_DEVICE void take_seat(const Lease& lease, Worker* worker) {
  if (counts(lease)) add<Order::relaxed>(&lease.worker_counts[worker->me].leases, static_cast<u64>(1));
  const Notes notes = lease.seats[worker->me].notes;
  worker->context.events.next = notes.events;
  worker->flight_notes = notes.flight;
  worker->context.log.next = notes.log;
  worker->context.log.limit = notes.log_seen + log_room_of(0, 1U << lease.log_shift);
  worker->observed.stay = now_ns();
}
// Of so long a stay, notes what was not spent inside of operators. What the last call adds may come too late to be seen: it counts in the
// next stay.
DWELL_DEVICE_COLD void note_idle(WorkerCount* count, u64 stay) {
  const u64 busy = load<Order::relaxed, Scope::device>(&count->busy_ns);
  const u64 worked = busy - load<Order::relaxed, Scope::device>(&count->busy_before);
  if (stay > worked) add<Order::relaxed>(&count->idle_ns, stay - worked);
  store<Order::relaxed, Scope::device>(&count->busy_before, busy);
}
// It is about to give it up; its operator has returned. Called by one thread; perhaps again, when it keeps it.
DWELL_DEVICE_COLD void leave_seat(const Lease& lease, Worker* worker) {
  if (counts(lease) || timed_by(lease) != 0) {
    // The thread that notes may be about to end its note.
    while (*const_cast<const volatile u64*>(&worker->observed.begun) != 0) {}
    const u64 now = now_ns();
    const u64 stay = now - worker->observed.stay;
    if (counts(lease)) {
      WorkerCount& count = lease.worker_counts[worker->me];
      add<Order::relaxed>(&count.present_ns, stay);
      if ((timed_by(lease) & timed::times) != 0) note_idle(&count, stay);
      // Asked last, and only by one that need not wait for a successor: it is a look at memory.
      if (worker->way.may_free != 0 && !seat::has_successor(lease, worker->me)) add<Order::relaxed>(&count.parks, static_cast<u64>(1));
    }
    if ((timed_by(lease) & timed::timeline) != 0)
      put_event(&worker->context.events, worker->observed.stay, stay < ~0U ? static_cast<u32>(stay) : ~0U, Event::kStay, lease.number, 0);
    worker->observed.stay = now;
  }
  lease.seats[worker->me].notes = Notes{worker->context.events.next, worker->flight_notes, worker->context.log.next,
                                        worker->context.log.limit - log_room_of(0, 1U << lease.log_shift)};
}

}  // namespace dwell::device::observe
