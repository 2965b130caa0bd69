// Held tasks: all slots of tasks that wait, or that several workers share, in device memory.
#pragma once

#include "device/arena.hpp"

namespace dwell::device {

// Stores all slots of a task under its ring position, for its later runners. Laps are stored too, so a reader needs no fence. Called by all
// lanes.
DWELL_DEVICE void hold(const Lease& lease, const TaskQuads& task, u32 position, u32 slots) {
  for (u32 i = 0; i < TaskQuads::kEach; ++i) {
    const u32 index = i * kLanes + lane();
    if (index >= slots * 4) break;
    Quad quad = task.quad[i];
    quad.lap = lap_of(position + index / 4, lease.ring_shift);
    store_quad<Scope::device>(&lease.held[index_of(position + index / 4, lease.ring_shift)].quad[index % 4], quad);
  }
}

// Loads slots [first, slots) of a held task. Waits for pending stores. Called by all lanes.
DWELL_DEVICE void load_held(const Lease& lease, TaskQuads* task, u32 position, u32 first, u32 slots) {
  for (u32 i = 0; i < TaskQuads::kEach; ++i) {
    const u32 index = i * kLanes + lane();
    if (index < first * 4 || index >= slots * 4) continue;
    const u32 at = position + index / 4;
    do task->quad[i] = load_quad<Scope::device>(&lease.held[index_of(at, lease.ring_shift)].quad[index % 4]);
    while (task->quad[i].lap != lap_of(at, lease.ring_shift));
  }
}

// Loads the first slot of a held task, and the next ones that fit into one load of the lanes. Those may belong to another task, or none:
// check their laps. Waits for pending stores of the first slot. Called by all lanes.
DWELL_DEVICE void load_first_held(const Lease& lease, TaskQuads* task, u32 position) {
#if DWELL_PARALLEL_GROUP
  const u32 at = position + lane() / 4;
  const Quad* const from = &lease.held[index_of(at, lease.ring_shift)].quad[lane() % 4];
  do task->quad[0] = load_quad<Scope::device>(from);
  while (lane() < 4 && task->quad[0].lap != lap_of(at, lease.ring_shift));
#else
  load_held(lease, task, position, 0, 1);
#endif
}

}  // namespace dwell::device
