// A worker's steps for a gang, a task of the ring or a node: put it in line, or join it, run one group, and leave.
#pragma once

#include "device/gangs.hpp"
#include "device/graph.hpp"
#include "device/source.hpp"

namespace dwell::device::members {

// Returns the worker's group at the first call, then kNoGroup. Called by one thread.
DWELL_DEVICE u32 take_group(Worker* worker) {
  const u32 group = worker->member;
  worker->member = kNoGroup;
  return group;
}

// The first slot of the task in `frame`. Called by all lanes.
DWELL_DEVICE TaskQuads first_slot(const Frame& frame) {
  TaskQuads task{};
  for (u32 i = 0; i < TaskQuads::kEach && i * kLanes + lane() < 4; ++i)
    for (u32 j = 0; j < 3; ++j) task.quad[i].word[j] = frame.word[(i * kLanes + lane()) * 3 + j];
  return task;
}

// Joins the gang in `frame` and waits for the others. Returns kFrame when the frame is now an ordinary share: of one group, or of none if
// the gang does not run. kNothing: the share was put back, or the gang is dissolved. Called by the lanes of warp 0.
DWELL_DEVICE Follows join(const Lease& lease, Worker* worker, Frame* frame) {
  const u32 groups = frame->header().groups;
  const u32 number = gangs::number_of(lease, *frame);
  Wide* const wide = gangs::wide_of(lease, number);
  u32 joined = 0;
  if (lane() == 0) joined = gangs::join(lease, wide, groups, worker->me);
  joined = broadcast(joined);
  if (joined == gangs::kPutBack) ready_queue::push(lease, first_slot(*frame));
  if (joined == gangs::kAssembles) gangs::assemble(lease, number, wide->memory);
  if (joined == gangs::kPutBack || joined == gangs::kAssembles || joined == gangs::kGone) return kNothing;
  if (joined == gangs::kLast || joined == gangs::kRefuses) gangs::assemble_next(lease, number);
  if (lane() == 0) {
    Context& context = worker->context;
    const bool runs = joined == gangs::kMember || joined == gangs::kLast;
    worker->member = runs ? fetch_add<Order::relaxed>(&wide->next, 1U) : kNoGroup;
    frame->word[1] &= ~(flag::member::joins << 4U);
    context.gang = gangs::memory_of(lease, *wide);
    context.gang_steps = 0;
    for (u32& passes : context.gang_passes) passes = 0;
    context.gang_asks = 0;
    context.yield = 0;
  }
  return kFrame;
}

// Saves the state of a gang that yields from its memory. Returns whether it yields. Called by all lanes of the worker whose share ended
// last.
DWELL_DEVICE_COLD bool takes_state(const Lease& lease, Worker* worker, u32 number) {
  u32 yields = 0;
  if (lane() == 0 && worker->context.status == status::ok) {
    const u32* const memory = gangs::memory_of(lease, *gangs::wide_of(lease, number));
    GangState* const state = gangs::state_of(lease, number);
    yields = load<Order::relaxed, Scope::device>(memory + kGangYields);
    for (u32 i = 0; i < kGangStateWords && yields != 0; ++i)
      store<Order::relaxed, Scope::device>(&state->word[i], load<Order::relaxed, Scope::device>(memory + kGangState + i));
    if (yields != 0) store<Order::relaxed, Scope::device>(&state->resumed, 1U);
  }
  return broadcast(yields) != 0;
}

// Leaves the gang after the group whose share is in `frame`. `last`: all groups have ended. Returns whether the task has ended too. Called
// by all lanes.
DWELL_DEVICE bool leave(const Lease& lease, Worker* worker, const Frame& frame, bool last) {
  const u32 number = gangs::number_of(lease, frame);
  const bool yields = last && takes_state(lease, worker, number);
  if (last) gangs::end(lease, gangs::wide_of(lease, number)->memory);
  sync_lanes();
  if (yields) {
    // Leases that are over end now, with or without successors. Where two generations of workers do not fit, the gang would else assemble
    // again in leases that wait for each other, and for it.
    if (lane() == 0) seat::call_over(lease, seat::crew_word(&lease.control->crew.over), true);
    if (gangs::is_node(number))
      gangs::line_up(lease, number);
    else
      gangs::stand_in_line(lease, first_slot(frame), frame.position());
  }
  if (lane() == 0) {
    worker->context.gang = nullptr;
    worker->context.yield = 0;
    if (!last || yields) reset(&worker->context);
  }
  return last && !yields;
}

// Continues with the gang's share in `frame`: puts the gang in line, joins it, or leaves it after the group. Behind a node the graph
// continues. `last`: all groups have ended. Called by the lanes of warp 0, after a barrier of the group.
DWELL_DEVICE_COLD Follows proceed(const Lease& lease, Worker* worker, Frame* frame, bool last) {
  const Header header = frame->header();
  if (header.source == source::gang) {
    gangs::stand_in_line(lease, first_slot(*frame), frame->position());
    return kNothing;
  }
  if ((header.flags & flag::member::joins) != 0) return join(lease, worker, frame);
  // A gang that was refused has one share, without groups.
  if (header.is_gang() && !leave(lease, worker, *frame, last)) return kNothing;
  if (!has(part::graphs) || header.source != source::node_member) return kLaunch;
  if (lane() == 0) frame->word[1] = with_source(frame->word[1] & ~(flag::share << 4U), source::node);
  sync_lanes();
  return graph::proceed(lease, worker, *frame, frame, true);
}

}  // namespace dwell::device::members

namespace dwell::device {

// Gangs, from the ring and in line, and of nodes in line. A cancelled gang of the ring is an ordinary task.
struct GangTasks : SourceVerbs {
  static constexpr u32 kSources = 1U << source::gang | 1U << source::member | 1U << source::node_member;
  static constexpr u32 kPart = part::gangs;

  static DWELL_DEVICE bool calls(const Header& header) {
    return !header.is_gang() || (header.source != source::gang && (header.flags & flag::member::joins) == 0);
  }
  static DWELL_DEVICE bool goes_on(const Header& header) { return header.source == source::node_member || header.is_gang(); }
  static DWELL_DEVICE Follows proceed(const Behind& at) { return members::proceed(at.lease, at.worker, at.from, at.completes); }
  static DWELL_DEVICE Slot* record(const Lease& lease, const Header& header, u32 word2) {
    return header.source == source::node_member ? pointer_to_global<Slot>(graph::address_of(lease, word2)) : nullptr;
  }
  static DWELL_DEVICE bool may_cancel(const Header& header) { return header.source == source::gang; }
};

}  // namespace dwell::device
