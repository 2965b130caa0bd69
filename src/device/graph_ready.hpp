// Where ready nodes of a graph wait: in the ready queue, in the deque of a CPU worker, or on the overflow of their exec. How a worker takes
// one.
#pragma once

#include "device/graph_places.hpp"
#include "device/in_flight.hpp"
#include "device/node_deque.hpp"
#include "device/observe.hpp"
#include "device/worker_memory.hpp"

namespace dwell::device::graph {

// ---- Records -------------------------------------------------------------------------------------------------------------------

// The links of a record, the same in all lanes. Called by all lanes.
struct Links {
  u32 cell;
  u32 count;
  u32 first;
  u32 second;
};
DWELL_DEVICE Links links_of(const Slot* record) {
#if DWELL_PARALLEL_GROUP
  const u32 mine = load<Order::relaxed, Scope::device>(&record->quad[lane() & 3U].lap);
  return Links{broadcast(mine, 0), broadcast(mine, 1), broadcast(mine, 2), broadcast(mine, 3)};
#else
  return Links{record->quad[0].lap, record->quad[1].lap, record->quad[2].lap, record->quad[3].lap};
#endif
}

// ---- Ready nodes ---------------------------------------------------------------------------------------------------------------

// Loads slots [first, slots) of a record. Called by all lanes.
DWELL_DEVICE void load_record(const Slot* record, TaskQuads* task, u32 first, u32 slots) {
  for (u32 i = 0; i < TaskQuads::kEach; ++i) {
    const u32 index = i * kLanes + lane();
    if (index < first * 4 || index >= slots * 4) continue;
    task->quad[i] = load_quad<Scope::device>(&record[index / 4].quad[index % 4]);
  }
}

// Marks the header of a cancelled node: its operator is skipped.
DWELL_DEVICE u32 poison(u32 word1) {
  return with_source(word1 & ~(flag::node::chain << 4U), source::control) | (flag::cancelled | flag::share) << 4U;
}

// Loads a node into `frame`. Called by all lanes.
DWELL_DEVICE void load_frame(u64 base, u32 node, Frame* frame) {
  const Slot* const at = record(base, node & ~kPoisoned);
  TaskQuads task;
  load_record(at, &task, 0, 1);
  const u32 slots = broadcast(task.quad[0].word[1]) & 0xFU;
  if (slots > 1) load_record(at, &task, 1, slots);
  for (u32 i = 0; i < TaskQuads::kEach; ++i) {
    const u32 index = i * kLanes + lane();
    if (index >= slots * 4) break;
    for (u32 j = 0; j < 3; ++j) frame->word[index * 3 + j] = task.quad[i].word[j];
  }
  sync_lanes();
  if ((node & kPoisoned) != 0 && lane() == 0) frame->word[1] = poison(frame->word[1]);
  sync_lanes();
}

// Puts a ready node on top of the exec's overflow. Called by one thread.
DWELL_DEVICE_COLD void push_overflow(u64 base, u32 states, u32 node) {
  u64* const top = &head(base)->overflow;
  NodeState* const mine = state(base, states, node & ~kPoisoned);
  u64 now = load<Order::relaxed, Scope::device>(top);
  for (;;) {
    store<Order::relaxed, Scope::device>(&mine->next, static_cast<u32>(now >> 32U) | (node & kPoisoned));
    fence<Scope::device>();
    // Pairs with pop_overflow: the link below, and the effects of the node's predecessors.
    const u64 seen = compare_exchange<Order::acq_rel>(
        top, now, static_cast<u64>(node & ~kPoisoned) << 32U | static_cast<u32>(static_cast<u32>(now) + 1));
    if (seen == now) return;
    now = seen;
  }
}

// Takes the topmost node; 0 for none. The count of changes prevents ABA when a node returns to the top. Called by one thread.
DWELL_DEVICE u32 pop_overflow(u64 base) {
  GraphHead* const of = head(base);
  u64 now = load<Order::acquire, Scope::device>(&of->overflow);
  while ((now >> 32U) != 0) {
    const u32 cell = static_cast<u32>(now >> 32U);
    const u32 next = load<Order::relaxed, Scope::device>(&state(base, of->states, cell)->next);
    const u64 seen = compare_exchange<Order::acq_rel>(
        &of->overflow, now, static_cast<u64>(next & ~kPoisoned) << 32U | static_cast<u32>(static_cast<u32>(now) + 1));
    if (seen == now) {
      fence<Scope::device>();
      return cell | (next & kPoisoned);
    }
    now = seen;
  }
  return 0;
}

// Adds the ready nodes work.node[first .. first + count) to the ready queue. Called by all lanes, when there is room.
DWELL_DEVICE_COLD void add_ready(const Lease& lease, const GraphWork& work, u32 first, u32 count) {
  if (count == 0) return;
  const u32 level = level_of(lease, work.base);
  const auto quad_of = [&](u32 i, u32 quad) {
    const u32 node = work.node[first + i];
    Quad it = load_quad<Scope::device>(&record(work.base, node & ~kPoisoned)->quad[quad]);
    if (quad == 0) {
      it.word[0] |= level;
      it.word[1] |= flag::memory << 4U;  // whoever takes it acquires
      if ((node & kPoisoned) != 0) it.word[1] = poison(it.word[1]);
    }
    return it;
  };
  if (sorts(lease) && levels::add_waiting(lease, levels::priority_in(level), count, quad_of)) return;
  const u32 place = ready_queue::reserve(lease, count);
  for (u32 at = lane(); at < count * 4; at += kLanes) ready_queue::put_quad(lease, place + at / 4, at % 4, quad_of(at / 4, at % 4));
}

// Puts the same on the overflow. Called by all lanes, of a worker that holds the launch open.
DWELL_DEVICE_COLD void add_overflow(GraphWork& work, u32 first, u32 count) {
  if (lane() == 0 && work.ended == 0) {
    // Hold the launch open until this worker has found the overflow empty: see leave.
    fetch_add<Order::relaxed>(&head(work.base)->pending, static_cast<u64>(1));
    work.ended = 1;
  }
  const u32 states = head(work.base)->states;
  sync_lanes();
  for (u32 i = lane(); i < count; i += kLanes) push_overflow(work.base, states, work.node[first + i]);
  sync_lanes();
}

// Adds `count` shares of the record at `cell`, of its groups or its successors, to the ready queue. Their places were reserved. Called by
// all lanes.
DWELL_DEVICE void add_shares(const Lease& lease, u64 base, u32 cell, u32 source, u32 flags, u32 count) {
  if (count == 0) return;
  TaskQuads task;
  load_record(record(base, cell), &task, 0, 1);
  if (lane() == 0) {
    task.quad[0].word[0] |= level_of(lease, base);
    task.quad[0].word[1] = with_source(task.quad[0].word[1], source) | (flags | flag::share | flag::memory) << 4U;
  }
  sync_lanes();
  levels::push_copies(lease, task, count);
}

// ---- Deques --------------------------------------------------------------------------------------------------------------------

#if !DWELL_DEQUES

DWELL_DEVICE u32 push_deque(const Lease&, const Worker*, u32, u32) { return 0; }
DWELL_DEVICE u32 pop_deque(const Lease&, const Worker*) { return 0; }
DWELL_DEVICE void note_popped(Worker*, const Frame&) {}

#else

// Puts ready nodes work.node[first .. first + count) into the worker's deque, as many as it takes. Returns how many.
DWELL_DEVICE u32 push_deque(const Lease& lease, const Worker* worker, u32 first, u32 count) {
  if (lease.deques == nullptr) return 0;
  const GraphWork& work = worker->graph;
  const u64 now = (timed_by(lease) & timed::times) != 0 ? now_ns() : 0;
  const u32 exec = cell_of(lease, work.base);
  u32 done = 0;
  // The cell becomes the arena's; the mark kPoisoned stays.
  for (; done < count; ++done)
    if (!node_deque::push(lease.deques[worker->me], work.node[first + done] + exec, now)) break;
  return done;
}

// Pops a node from the worker's deque: cell | kPoisoned, or 0 for none.
DWELL_DEVICE u32 pop_deque(const Lease& lease, const Worker* worker) {
  u64 put = 0;
  const u32 entry = lease.deques == nullptr ? 0 : node_deque::pop(lease.deques[worker->me], &put);
  if (entry == 0) return 0;
  if (put != 0 && (entry & kPoisoned) == 0 && (timed_by(lease) & timed::times) != 0) {
    const Quad& head = record(lease.arena, entry)->quad[0];
    observe::note_queued(lease, worker, load<Order::relaxed, Scope::device>(&head.word[0]),
                         load<Order::relaxed, Scope::device>(&head.word[1]), put);
  }
  return entry - cell_of(lease, worker->graph.base);
}

// Notes a popped node that is about to run, as one from the ready queue is noted.
DWELL_DEVICE void note_popped(Worker* worker, const Frame& frame) {
  in_flight::note(worker, frame.word[0], frame.word[1], frame.position());
}

// Steals a node from another worker's deque, in the form that the ready queue has. Sets `put` to when it was pushed, or 0.
DWELL_DEVICE bool steal(const Lease& lease, u32 victim, TaskQuads* task, u64* put) {
  const u32 entry = node_deque::steal(lease.deques[victim], put);
  if (entry == 0) return false;
  if ((timed_by(lease) & timed::times) == 0) *put = 0;  // stamped under an earlier lease that noted times
  const Slot* const at = record(lease.arena, entry & ~kPoisoned);
  load_record(at, task, 0, 1);
  u32* const word1 = &task->quad[0].word[1];
  const u32 slots = *word1 & 0xFU;
  if (slots > 1) load_record(at, task, 1, slots);
  *word1 |= flag::memory << 4U;
  if ((entry & kPoisoned) != 0) *word1 = poison(*word1);
  return true;
}

#endif

}  // namespace dwell::device::graph
