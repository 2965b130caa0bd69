// The ready queue: tasks that may run now, in device memory, in the ring's own slot format.
//
// A producer reserves places with one atomic and stores tagged quads; a consumer claims one place with one atomic and watches only
// that place, so idle workers never poll a line together. A claim may run ahead of the producers.
// Nobody looks whether a place is free before filling it. That it is rests on credit and on time. The ring's credit bounds the tasks in
// flight to one place a ring slot, and spare_shares the further shares of wide tasks; so for the queue to come round to a place that is
// filled but not yet read, kQueueSlack other places must be consumed meanwhile. A control warp looks at the place it has claimed every
// few microseconds, also while its operator runs, and at the gate no task is consumed. On the CPU, where a thread may lose its processor
// at any point, a place is claimed only once it has been read (try_take), so there is nothing to rest on time.
// Modelled in tests/model/ready_queue.pml.
#pragma once

#include "device/arena.hpp"

namespace dwell::device::ready_queue {

DWELL_DEVICE Slot* slot(const Lease& lease, u32 place) { return lease.queue + index_of(place, lease.queue_shift); }

// Stores one quad of the task at `place`.
DWELL_DEVICE void put_quad(const Lease& lease, u32 place, u32 index, Quad quad) {
  quad.lap = lap_of(place, lease.queue_shift);
  store_quad<Scope::device>(&slot(lease, place)->quad[index], quad);
}

// Adds a task's first slot. Called by all lanes; lane l passes quads l, l + kLanes, ... of the task.
DWELL_DEVICE void push(const Lease& lease, const TaskQuads& task) {
  u32 place = 0;
  if (lane() == 0) place = fetch_add<Order::relaxed>(&lease.control->tail.value, 1U);
  place = broadcast(place);
  for (u32 i = 0; i < TaskQuads::kEach; ++i) {
    const u32 index = i * kLanes + lane();
    if (index < 4) put_quad(lease, place, index, task.quad[i]);
  }
}

// Adds `count` copies of a task's first slot, with one reservation. Called by all lanes, as push is.
DWELL_DEVICE void push_copies(const Lease& lease, const TaskQuads& task, u32 count) {
  u32 place = 0;
  if (lane() == 0) place = fetch_add<Order::relaxed>(&lease.control->tail.value, count);
  place = broadcast(place);
#if DWELL_ON_CUDA
  // Eight copies at a time: lane l stores quad l % 4, which lane l % 4 holds.
  Quad quad;
  quad.lap = 0;
  for (u32 i = 0; i < 3; ++i) quad.word[i] = broadcast(task.quad[0].word[i], lane() % 4);
  for (u32 at = lane(); at < count * 4; at += kLanes) put_quad(lease, place + at / 4, at % 4, quad);
#else
  for (u32 at = 0; at < count * 4; ++at) put_quad(lease, place + at / 4, at % 4, task.quad[at % 4]);
#endif
}

// Claims the next place. Called by one thread.
DWELL_DEVICE u32 claim(const Lease& lease) { return fetch_add<Order::relaxed>(&lease.control->head.value, 1U); }

// Claims the next place only if it is filled or about to be. Called by one thread.
DWELL_DEVICE bool try_claim(const Lease& lease, u32* place) {
  const u32 head = load<Order::relaxed, Scope::device>(&lease.control->head.value);
  const u32 tail = load<Order::relaxed, Scope::device>(&lease.control->tail.value);
  if (static_cast<i32>(tail - head) <= 0) return false;
  *place = head;
  return compare_exchange<Order::relaxed>(&lease.control->head.value, head, head + 1) == head;
}

// Looks once at a claimed place. Called by all lanes; true in all of them once the task's first slot is there.
DWELL_DEVICE bool poll(const Lease& lease, u32 place, TaskQuads* task) {
  bool here = true;
  for (u32 i = 0; i < TaskQuads::kEach; ++i) {
    const u32 index = i * kLanes + lane();
    if (index >= 4) break;
    task->quad[i] = load_quad<Scope::device>(&slot(lease, place)->quad[index]);
    here = here && task->quad[i].lap == lap_of(place, lease.queue_shift);
  }
#if DWELL_ON_CUDA
  return __all_sync(~0U, here);
#else
  return here;
#endif
}

// Takes the next task only if its first slot is there: reads the place, then claims it. So a thread that loses its processor in between
// holds no place, which others' tasks could come round to. Called by a CPU worker.
DWELL_DEVICE bool try_take(const Lease& lease, TaskQuads* task) {
  const u32 head = load<Order::relaxed, Scope::device>(&lease.control->head.value);
  const u32 tail = load<Order::relaxed, Scope::device>(&lease.control->tail.value);
  if (static_cast<i32>(tail - head) <= 0 || !poll(lease, head, task)) return false;
  return compare_exchange<Order::relaxed>(&lease.control->head.value, head, head + 1) == head;
}

}  // namespace dwell::device::ready_queue
