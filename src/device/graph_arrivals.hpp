// How nodes of a graph become ready: arrivals at the successors of an ended node. How many successors, or many groups, are shared out.
#pragma once

#include "device/graph_ready.hpp"

namespace dwell::device::graph {

// GraphWork::spread_flags.
inline constexpr u32 kFailed = 1;  // the node whose successors are drawn has failed
inline constexpr u32 kQueued = 2;  // the share has a place of its own in the ready queue
inline constexpr u32 kOwn = 4;     // the worker ran the node itself: what it drew from before is kept at the record

// Counts the end of a node at the successor behind `edge`. Returns whether the successor is ready, and sets `node` to it. Called by one
// thread, which has fenced.
DWELL_DEVICE bool arrive(u64 base, u32 states, u32 edge, bool failed, u32* node) {
  const u32 cell = edge & ~kOnly;
  *node = cell | (failed ? kPoisoned : 0U);
  if ((edge & kOnly) != 0) return true;
  NodeState* const at = state(base, states, cell);
  const u32 in_degree = at->in_degree;  // on its way beside the atomic
  // acq_rel: pairs with the other arrivals. The last one sees the effects of all predecessors.
  const u64 before = fetch_add<Order::acq_rel>(&at->arrivals, ~0ULL << 32U | (failed ? 1U : 0U));
  if (static_cast<u32>(before >> 32U) != 1) return false;
  *node = cell | (failed || static_cast<u32>(before) != 0 ? kPoisoned : 0U);
  store<Order::relaxed, Scope::device>(&at->arrivals, arrivals(in_degree));
  return true;
}

// Prefetches the records and states of these successors, where one thread arrives at one after the other.
DWELL_DEVICE void expect_arrivals([[maybe_unused]] u64 base, [[maybe_unused]] u32 states, [[maybe_unused]] const Links& links,
                                  [[maybe_unused]] const u32* edges) {
#if !DWELL_PARALLEL_GROUP
  for (u32 i = 0; i < links.count; ++i) {
    const u32 edge = links.count > 2 ? edges[i] : i == 0 ? links.first : links.second;
    prefetch(record(base, edge & ~kOnly));
    if ((edge & kOnly) == 0) prefetch_to_write(state(base, states, edge & ~kOnly));
  }
#endif
}

// Adds the successors that are ready to work.node. Called by all lanes, with their own edges.
DWELL_DEVICE void arrive_all(GraphWork& work, u32 states, bool mine, u32 edge, bool failed) {
  u32 node = 0;
  const bool ready = mine && arrive(work.base, states, edge, failed, &node);
  const u32 all = ballot(ready);
#if DWELL_PARALLEL_GROUP
  const u32 kept = work.kept;
  sync_lanes();
  if (ready) work.node[kept + ones(all & ((1U << lane()) - 1))] = node;
  if (lane() == 0) work.kept = kept + ones(all);
  // After the last arrivals: passes on what they acquired to the other threads of the group.
  if (ballot(ready && (edge & kOnly) == 0) != 0) fence<Scope::device>();
#else
  if (all != 0) work.node[work.kept++] = node;
#endif
  sync_lanes();
}

// The counters for the shared-out successors of the node at `cell`. `next`: how many were drawn. `shares`, `status`: the spread and
// spread_flags that the node's own worker had before.
DWELL_DEVICE Wide* drawn(u64 base, u32 cell) {
  Slot* const of = record(base, cell);
  return &shares(of, load<Order::relaxed, Scope::device>(&of->quad[0].word[1]) & 0xFU)->successors;
}

// Draws a batch of the shared-out successors. False when none is left. Called by all lanes.
DWELL_DEVICE bool draw(const Lease& lease, GraphWork& work) {
  const Links links = links_of(record(work.base, work.spread));
  const GraphHead* const head_of = head(work.base);
  // Small batches, so that all workers end together.
  const u32 even = links.count / (lease.workers * 4);
  const u32 most = even < 1 ? 1 : even > 8 ? 8 : even;
  u32 first = 0;
  if (lane() == 0) first = fetch_add<Order::relaxed>(&drawn(work.base, work.spread)->next, most);
  first = broadcast(first);
  if (first >= links.count) return false;
  const u32* const edges = pointer_to_global<const u32>(work.base + static_cast<u64>(head_of->edges) * kCell) + links.first;
  const bool failed = (work.spread_flags & kFailed) != 0;
  fence<Scope::device>();  // each arrival releases what was acquired from the node
  for (u32 at = lane(); at - lane() < most; at += kLanes) {
    const bool mine = at < most && first + at < links.count;
    arrive_all(work, head_of->states, mine, mine ? edges[first + at] : 0, failed);
  }
  return true;
}

// Restores what the worker drew from before. Called by one thread.
DWELL_DEVICE void close_draw(GraphWork& work) {
  const Wide* const wide = (work.spread_flags & kOwn) != 0 ? drawn(work.base, work.spread) : nullptr;
  work.spread = wide != nullptr ? wide->shares : 0;
  work.spread_flags = wide != nullptr ? static_cast<u32>(wide->status) : 0;
}

// Ends the share that the worker draws from. Called by one thread.
DWELL_DEVICE void end_draw(const Lease& lease, GraphWork& work) {
  if ((work.spread_flags & kQueued) != 0) fetch_add<Order::relaxed>(&lease.control->spare_shares.value, 1U);
  ++work.ended;
  close_draw(work);
}

// Lets all workers draw the successors of a node that has ended, this one first. Called by all lanes.
DWELL_DEVICE_COLD void spread(const Lease& lease, GraphWork& work, const Links& links, bool failed) {
  u32 others = 0;
  if (lane() == 0) {
    GraphHead* const of = head(work.base);
    Wide* const wide = drawn(work.base, links.cell);
    const u32 wanted = links.count / 8 < lease.workers ? links.count / 8 : lease.workers;
    others = ready_queue::take_spare(lease, wanted - 1);
    store<Order::relaxed, Scope::device>(&wide->next, 0U);
    wide->shares = work.spread;
    wide->status = static_cast<i32>(work.spread_flags);
    fetch_add<Order::relaxed>(&of->pending, static_cast<u64>(1) + others);
    // Release to the takers of shares: the counter and this node's effects. Pairs with their acquire.
    fence<Scope::device>();
    work.spread = links.cell;
    work.spread_flags = kOwn | (failed ? kFailed : 0U);
  }
  others = broadcast(others);
  sync_lanes();
  add_shares(lease, work.base, links.cell, source::control, flag::control::spread | (failed ? flag::cancelled : 0U), others);
}

// Shares out the groups of the node in `frame`, of which this worker runs one share. Called by all lanes.
DWELL_DEVICE_COLD void share_groups(const Lease& lease, Frame* frame, u64 base, u32 cell) {
  const Header header = frame->header();
  u32 others = 0;
  u32 flags = flag::wide;
  if (lane() == 0) {
    Wide* const wide = &shares(record(base, cell), header.slots)->groups;
    others = ready_queue::take_spare(lease, (header.groups < lease.workers ? header.groups : lease.workers) - 1);
    store<Order::relaxed, Scope::device>(&wide->next, 0U);
    store<Order::relaxed, Scope::device>(&wide->shares, 1 + others);
    store<Order::relaxed, Scope::device>(reinterpret_cast<u32*>(&wide->status), static_cast<u32>(status::ok));
    fence<Scope::device>();  // as in share_out
    if (header.groups == 1 + others) flags |= flag::single;
    frame->word[1] = with_source(frame->word[1], source::node) | (flags & flag::single) << 4U;
  }
  others = broadcast(others);
  sync_lanes();
  add_shares(lease, base, cell, source::node, broadcast(flags), others);
}

}  // namespace dwell::device::graph
