// Observation of workers: counts, times, a timeline. Lease::counts and Lease::timed select them; a lease without any pays for one load of
// its parameter.
//
// kCountingThread notes calls of operators. It adds to its worker's row without waiting for a result. Counters are never cleared: subtract
// two readings for an interval.
#pragma once

#include "device/ready_queue.hpp"
#include "device/worker_memory.hpp"

namespace dwell::device::observe {

DWELL_DEVICE u32 number_of([[maybe_unused]] const Worker* worker) {
#if DWELL_CONTROL_WARP
  return blockIdx.x;  // the same, without a load from shared memory
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

// Returns the worker's shard of an operator's times.
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
  // Written before the task was published, so its holder sees it; else of an earlier lap.
  const Quad stamp = load_quad<Scope::system>(stamps + index_of(position, ring_shift));
  if (stamp.lap != lap_of(position, ring_shift)) return;
  const u64 submitted = stamp.word[0] | static_cast<u64>(stamp.word[1]) << 32U;
  add_wait(times, begun > submitted ? begun - submitted : 0);  // the clocks may be a little off
}

// Notes how long the task with these words 0 and 1 was queued since the time `put`, if it is a node with an operator or a spawned task.
// Called by one thread.
DWELL_DEVICE_COLD void note_queued(const Lease& lease, const Worker* worker, u32 word0, u32 word1, u64 put) {
  const u32 source = source_in(word1);
  if (source != source::node && source != source::spawned) return;
  const u64 now = now_ns();
  add_wait(times_of(lease, worker, word0 & Header::kOpcodeMask), now > put ? now - put : 0);  // multiprocessors may be some ns apart
}
// The same for a task from that place of the ready queue.
DWELL_DEVICE_COLD void note_queued_at(const Lease& lease, const Worker* worker, u32 word0, u32 word1, u32 place) {
  const Quad stamp = load_quad<Scope::device>(ready_queue::stamp(lease, place));
  if (stamp.lap == lap_of(place, lease.queue_shift))
    note_queued(lease, worker, word0, word1, stamp.word[0] | static_cast<u64>(stamp.word[1]) << 32U);
}
// Notes how many bytes the arguments of a spawned task with this opcode name, if it is sampled. Called by one thread.
DWELL_DEVICE_COLD void note_named(const Lease& lease, Worker* worker, u32 opcode, u64 bytes) {
  if (!is_stamped(++worker->observed.made, kNamesBelow)) return;
  OperatorTimes* const times = times_of(lease, worker, opcode);
  add<Order::relaxed>(&times->named, static_cast<u64>(1));
  add<Order::relaxed>(&times->named_bytes, bytes);
}

// Updates the least and the most time. Skips the atomics for a call between those that the worker has put for the opcode in this lease. A
// time that does not fit 32 bits is always put.
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

// Returns the time for a call. A timeline orders calls of several workers, whose own clocks differ too much for that.
DWELL_DEVICE u64 now_for([[maybe_unused]] Worker* worker, [[maybe_unused]] u32 of) {
#if !DWELL_CONTROL_WARP
  if ((of & timed::timeline) == 0) return worker_clock::now(&worker->clock);
#endif
  return now_ns();
}

// Adds to a counter. `alone`: no other worker adds to it.
DWELL_DEVICE void count(u64* at, u64 more, bool alone) {
  if (alone)
    store<Order::relaxed, Scope::device>(at, load<Order::relaxed, Scope::device>(at) + more);
  else
    add<Order::relaxed>(at, more);
}
// A bit in note_end's argument: on a CPU, no other worker counts in the same shard.
inline constexpr u32 kAlone = 0x80;

// Ends the note of a call, of the task with these first words. Takes the lease's members by value: out of line they would be serial loads
// of memory, while the loop has them in its instructions. More than twelve words of arguments would go through memory. Called by one
// thread.
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

// Counts a call of this operator that is about to begin, or takes it back (`more` is -1). Called by all threads of the group with their
// ranks.
DWELL_DEVICE void call(const Lease& lease, const Worker* worker, u32 opcode, u32 rank, i64 more = 1) {
  if (!counts(lease) || rank != kCountingThread) return;
  u64* const at = lease.calls + static_cast<u64>(number_of(worker)) * lease.observed + opcode;
#if DWELL_CONTROL_WARP
  add<Order::relaxed>(at, static_cast<u64>(more));
#else
  store<Order::relaxed, Scope::device>(at, load<Order::relaxed, Scope::device>(at) + static_cast<u64>(more));  // nobody else writes there
#endif
}

// Notes that the steps of a chain begin with the node at `next`. Called by all threads of the group with their ranks.
DWELL_DEVICE void begin_steps([[maybe_unused]] Worker* worker, [[maybe_unused]] FramePlace next, [[maybe_unused]] u32 rank) {
#if DWELL_CONTROL_WARP
  if (rank == kCountingThread) *const_cast<volatile u32*>(&worker->observed.uncounted) = next;
#endif
}

#if DWELL_CONTROL_WARP
// Counts the calls of a chain's uncounted nodes, up to the one at `at`; the one at `next` follows. Called when the steps enter another
// block of read-ahead slots, and at the end: steps do not count, since each instruction makes them longer. Called by the warp of
// kCountingThread. `at_worker`: the worker's address in shared memory.
DWELL_DEVICE_COLD void count_steps(u32 at_worker, FramePlace at, FramePlace next) {
  Worker* const worker = pointer_to_shared<Worker>(at_worker);
  u64* const row = worker->observed.row;
  const FramePlace from = *const_cast<volatile u32*>(&worker->observed.uncounted);
  sync_lanes();
  if (lane() == 0) worker->observed.uncounted = next;
  const u32 last = (at - from) & (kAheadSlots - 1);  // from the first to the last, in slots: within a block, or none
  if (row == nullptr || from >= kAheadSlots || last >= kAheadSlots / 2) return;
  const u32* const header = frame_at(worker, (from + lane()) & (kAheadSlots - 1))->word;
  const u32 opcode = header[0] & Header::kOpcodeMask;
  const u32 slots = header[1] & 0xFU;
  u32 nodes = (2U << last) - 1;  // a bit for the first slot of each
  if (ballot(lane() <= last && slots != 1) != 0) {
    nodes = 0;
    for (u32 i = 0; i <= last; i += broadcast(slots, i)) nodes |= 1U << i;
  }
  if ((nodes >> lane() & 1U) != 0) add<Order::relaxed>(row + opcode, static_cast<u64>(1));
}
#endif

// Notes the begin of a call. Called by all threads of the group with their ranks.
DWELL_DEVICE void begin(const Lease& lease, Worker* worker, u32 rank) {
  if (timed_by(lease) != 0 && rank == kCountingThread) worker->observed.begun = now_for(worker, lease.timed);
}

// Notes the end of a call for the task with this header. Called by all threads of the group, after a barrier, before the next call. Reads
// the rank after the comparison: where nothing is timed, the loop does not wait for it.
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

// Counts a failure of a task's operator, or of one of its groups. Called by one thread.
DWELL_DEVICE_COLD void failure(const Lease& lease, u32 opcode, i32 status) {
  if (counts(lease) && status != status::cancelled) add<Order::relaxed>(lease.failures + opcode, static_cast<u64>(1));
}

// Counts a failure of the ended task with this header. Groups of wide tasks are counted when the worker draws the next, or its share ends.
// Called by all threads of the group, after a barrier.
DWELL_DEVICE void ended(const Lease& lease, const Worker* worker, const Header& header) {
  // Thread 0, which later clears the status.
  if (!counts(lease) || thread_rank() != 0 || (header.flags & flag::share) != 0) return;
  const i32 status = *const_cast<const volatile i32*>(&worker->context.status);
  if (status != status::ok) failure(lease, header.opcode, status);
}

// Notes an instant in the timeline. Called by one thread, as those below are.
DWELL_DEVICE_COLD void note_instant(Worker* worker, u32 word0, u32 word1, u32 word2) {
  put_event(&worker->context.events, now_ns(), 0, word0, word1, word2);
}

// Notes the completion of a task of the ring that is not the end of a single call: the launch of a graph, a task of several groups, one
// that has made others.
DWELL_DEVICE void completes(const Lease& lease, Worker* worker, const Header& header, u32 position) {
  if ((timed_by(lease) & timed::timeline) != 0)
    note_instant(worker, Event::kComplete, position, (header.flags & flag::wide) != 0 ? header.groups : 0);
}

// Notes that the worker has fetched `slots` slots of the ring, from `position` on.
DWELL_DEVICE void fetched(const Lease& lease, Worker* worker, u32 position, u32 slots) {
  if (counts(lease)) add<Order::relaxed>(&lease.worker_counts[number_of(worker)].fetched, static_cast<u64>(slots));
  if ((timed_by(lease) & timed::timeline) != 0) note_instant(worker, Event::kFetch, position, slots);
}
// Notes that the worker has taken the task with these first words from this place of the ready queue. The timeline shows this for nodes and
// spawned tasks alone: tasks of the ring pass through the queue as a rule.
DWELL_DEVICE void queued(const Lease& lease, Worker* worker, u32 word0, u32 word1, u32 word2, u32 place) {
  if (counts(lease)) add<Order::relaxed>(&lease.worker_counts[number_of(worker)].queued, static_cast<u64>(1));
  if ((timed_by(lease) & timed::times) != 0 && ready_queue::is_stamped(place)) note_queued_at(lease, worker, word0, word1, place);
  if ((timed_by(lease) & timed::timeline) != 0 && is_made(word1)) note_instant(worker, Event::kTake, word1, word2);
}
#if DWELL_DEQUES
// Notes that the worker has stolen the node with these first words.
DWELL_DEVICE void stolen(const Lease& lease, Worker* worker, u32 word1, u32 word2) {
  if (counts(lease)) add<Order::relaxed>(&lease.worker_counts[number_of(worker)].stolen, static_cast<u64>(1));
  if ((timed_by(lease) & timed::timeline) != 0) note_instant(worker, Event::kTake, word1, word2);
}
#endif
DWELL_DEVICE void spawned(const Lease& lease, const Worker* worker, u32 tasks) {
  if (counts(lease)) add<Order::relaxed>(&lease.worker_counts[number_of(worker)].spawned, static_cast<u64>(tasks));
}

// Notes that the worker has its seat, and continues the numbers of the last holder. Called by one thread.
DWELL_DEVICE void take_seat(const Lease& lease, Worker* worker) {
  if (counts(lease)) add<Order::relaxed>(&lease.worker_counts[worker->me].leases, static_cast<u64>(1));
  const Notes notes = lease.seats[worker->me].notes;
  worker->context.events.next = notes.events;
  worker->flight_notes = notes.flight;
  worker->context.log.next = notes.log;
  worker->context.log.limit = notes.log_seen + log_room_of(0, 1U << lease.log_shift);
  worker->observed.stay = now_ns();
}
// Notes how much of a stay was spent outside of operators. The last call's time may be stored too late: then it counts in the next stay.
DWELL_DEVICE_COLD void note_idle(WorkerCount* count, u64 stay) {
  const u64 busy = load<Order::relaxed, Scope::device>(&count->busy_ns);
  const u64 worked = busy - load<Order::relaxed, Scope::device>(&count->busy_before);
  if (stay > worked) add<Order::relaxed>(&count->idle_ns, stay - worked);
  store<Order::relaxed, Scope::device>(&count->busy_before, busy);
}
// Notes that the worker is about to give up its seat; its operator has returned. Called by one thread; again if the worker keeps the seat.
DWELL_DEVICE_COLD void leave_seat(const Lease& lease, Worker* worker) {
  if (counts(lease) || timed_by(lease) != 0) {
    // The counting thread may still be ending its note.
    while (*const_cast<const volatile u64*>(&worker->observed.begun) != 0) {}
    const u64 now = now_ns();
    const u64 stay = now - worker->observed.stay;
    if (counts(lease)) {
      WorkerCount& count = lease.worker_counts[worker->me];
      add<Order::relaxed>(&count.present_ns, stay);
      if ((timed_by(lease) & timed::times) != 0) note_idle(&count, stay);
      // Checked last, and only if the worker need not wait for a successor: it costs a load.
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
