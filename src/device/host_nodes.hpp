// Host nodes: callbacks of the host among the nodes of a graph. No worker waits for them.
//
// An exec with host nodes has two rings in host memory. A worker stores the call of a host node in the first, and turns to other work. The
// node has not ended, so the launch stays open. The host runs the callback and stores an answer in the second. A member of the fetch crew
// reads the answer and puts the node into the ready queue again, with flag::control::answered. Its taker continues the graph.
//   call: lap | number of the host node | lap | position of the launch, or of the task of the ring that it descends from
//      answer: lap | cell | 1 if the callback has thrown | 0
// The lap validates each place, as in the ring of tasks. A call has one in each half, since the host reads 8 bytes of the device at once,
// as in completion entries. Each ring has a place for every host node. A node is called again only after its answer was read. So unread
// calls or answers never exceed the places, and neither side checks for room.
//
// Execs that wait for answers are on a list, whose head is in the crew's line. The thread that raises GraphHead::unanswered from 0 puts the
// exec on it, and no other. A member of the crew takes the whole list by exchange, so an exec has one holder at a time. It reads the
// available answers, and puts back the execs with unanswered calls.
//
// Access to the exec: a worker until it has stored its call, since the launch may end with the answer; the holder of the list while a call
// is unanswered, or an answered node is not in the ready queue yet. Modelled in tests/model/host.pml.
#pragma once

#include "device/graph_places.hpp"
#include "device/ready_queue.hpp"

namespace dwell::device::host_nodes {

DWELL_HOST_DEVICE u64 rings_bytes(u32 shift) { return 2 * sizeof(Quad) << shift; }

// Puts an exec on the list. Called by one thread.
DWELL_DEVICE void put(const Lease& lease, u64 base) {
  u32* const at = &lease.control->crew.callers;
  u32 first = load<Order::relaxed, Scope::device>(at);
  for (;;) {
    store<Order::relaxed, Scope::device>(&graph::head(base)->next_caller, first);
    // acq_rel: pairs with the exchange in look(), which reads the link.
    const u32 seen = compare_exchange<Order::acq_rel>(at, first, graph::cell_of(lease, base));
    if (seen == first) return;
    first = seen;
  }
}

// Calls the host for the host node `number`. Afterwards the exec may be freed. Called by one thread, which has acquired the effects of the
// node's predecessors.
DWELL_DEVICE void call(const Lease& lease, u64 base, u32 number) {
  GraphHead* const of = graph::head(base);
  Quad* const calls = pointer_to_global<Quad>(of->calls);
  const u32 shift = of->calls_shift;
  const u32 ticket = of->ticket;
  // acq_rel: pairs with look(): what the last holder of the exec has written.
  if (fetch_add<Order::acq_rel>(&of->unanswered, 1U) == 0) put(lease, base);
  const u32 at = fetch_add<Order::relaxed>(&of->called, 1U);
  // Release the predecessors' effects before the call. Pairs with the host's read of it.
  fence<Scope::system>();
  const u32 lap = lap_of(at, shift);
  store_quad<Scope::system>(calls + index_of(at, shift), Quad{lap, {number, lap, ticket}});
}

// Reads answer `at`. Acquires what the host did before it.
DWELL_DEVICE Quad read_answer(const GraphHead* of, u32 at) {
  const u32 shift = of->calls_shift;
  const Quad* const from = pointer_to_global<const Quad>(of->calls) + (1U << shift) + index_of(at, shift);
  return acquire_quad(from);
}

// Reads a batch of answers of an exec from the list, and puts it back while calls are unanswered. Called by all lanes of a worker that
// holds no unread place of the ready queue.
DWELL_DEVICE void take_answers(const Lease& lease, u64 base) {
  GraphHead* const of = graph::head(base);
  const u32 first = load<Order::relaxed, Scope::device>(&of->answered);
  const u32 at = first + lane();
  const Quad answer = read_answer(of, at);
  const u32 here = ballot(answer.lap == lap_of(at, of->calls_shift));
  u32 count = here == ~0U ? kLanes : trailing_zeros(~here);
  if (count != 0 && !graph::has_room(lease)) count = 0;
  if (lane() == 0) {
    store<Order::relaxed, Scope::device>(&of->answered, first + count);
    // acq_rel: pairs with call(), which may put the exec on the list anew.
    if (count == 0 || fetch_add<Order::acq_rel>(&of->unanswered, 0U - count) != count) put(lease, base);
    fence<Scope::device>();  // hands on what the host did
  }
  sync_lanes();
  if (count == 0) return;
  const u32 place = ready_queue::reserve(lease, count);
  if (lane() >= count) return;
  const Slot* const node = graph::record(base, answer.word[0]);
  const u32 flags = flag::control::answered | flag::memory | flag::system | (answer.word[1] != 0 ? flag::cancelled : 0U);
  for (u32 i = 0; i < 4; ++i) {
    Quad quad = load_quad<Scope::device>(&node->quad[i]);
    if (i == 0) {
      quad.word[0] |= graph::level_of(lease, base);
      quad.word[1] |= flags << 4U;
    }
    ready_queue::put_quad(lease, place + lane(), i, quad);
  }
}

// Polls all waiting execs, and queues their answered host nodes. Called as take_answers is.
DWELL_DEVICE_COLD void look(const Lease& lease) {
  u32 next = 0;
  if (lane() == 0) next = exchange<Order::acq_rel>(&lease.control->crew.callers, 0U);
  for (;;) {
    next = broadcast(next);
    if (next == 0) return;
    const u64 base = graph::address_of(lease, next);
    if (lane() == 0) next = load<Order::relaxed, Scope::device>(&graph::head(base)->next_caller);
    take_answers(lease, base);
    sync_lanes();
  }
}

}  // namespace dwell::device::host_nodes
