// Levels: tasks sorted by priority while no worker is free, in a runtime with priorities (Options::priorities).
//
// A producer that finds idle workers puts its tasks into the ready queue. Else it puts them on their level, and a token for each into the
// ready queue. A token names no task: its taker takes a task from the highest level that has one. So the order is decided when a worker is
// free, and workers still wait at one queue. Invariant: there are as many tokens as tasks on the levels, and a task is on its level before
// its token is queued. So the taker of a token always finds a task.
//
// Ageing. A level that was passed over kAge times while tasks waited there goes first, once. So no level starves: of kAge + 7 tasks that
// begin, each level with waiting tasks has at least one.
//
// A level is an array of slots, each with a state, used as a queue (places grow at both ends) or as a stack (at one). The owner of a place
// waits until the last user of its slot has made that empty or full. `used` counts the slots in use. When all are, tasks go to the ready
// queue. Modelled in tests/model/levels.pml.
#pragma once

#include "device/ready_queue.hpp"

namespace dwell::device::levels {

inline constexpr u32 kAge = 64;
inline constexpr u32 kNormal = 3;  // the priority of level 0
inline constexpr u32 kNone = ~0U;

// Converts a header's level to its priority, 0 to 7 (most urgent), and back.
DWELL_HOST_DEVICE u32 priority_of(u32 level) { return level ^ kNormal; }
// The same out of word 0 of a header.
DWELL_DEVICE u32 priority_in(u32 word0) { return priority_of(word0 >> Header::kLevelShift & Header::kLevelMask); }
// The level bits of word 0 of a header.
DWELL_DEVICE u32 level_bits(u32 word0) { return word0 & (Header::kLevelMask << Header::kLevelShift); }

// A token in the ready queue.
DWELL_DEVICE Header token() { return Header{0, 0, 1, flag::share, 0, 0, source::token}; }
DWELL_DEVICE bool is_token(const Header& header) { return header.source == source::token; }

// ---- Slots ---------------------------------------------------------------------------------------------------------------------

enum State : u32 { kEmpty, kFilling, kFull, kTaking };

DWELL_DEVICE u32 slot_index(const Lease& lease, u32 priority, u32 place) {
  return (priority << lease.level_shift) + index_of(place, lease.level_shift);
}

// Acquires a slot: changes its state from `from` to `to`. False when it is in another state. Called by one thread.
DWELL_DEVICE bool win(u32* state, State from, State to) {
  // Acquire: the last user's stores or loads. Pairs with its release of the state.
  return compare_exchange<Order::acq_rel>(state, static_cast<u32>(from), static_cast<u32>(to)) == from;
}

// Returns a bit for each priority whose word is at least `least`. Called by all lanes.
DWELL_DEVICE u32 at_least(const u32* words, i32 least) {
#if DWELL_PARALLEL_GROUP
  const i32 mine = static_cast<i32>(load<Order::relaxed, Scope::device>(words + (lane() & (kPriorities - 1))));
  return ballot(lane() < kPriorities && mine >= least);
#else
  u32 bits = 0;
  for (u32 i = 0; i < kPriorities; ++i)
    if (static_cast<i32>(load<Order::relaxed, Scope::device>(words + i)) >= least) bits |= 1U << i;
  return bits;
#endif
}

// The highest bit of `bits`, which is not 0.
DWELL_DEVICE u32 highest(u32 bits) {
  u32 at = 0;
  while ((bits >>= 1U) != 0) ++at;
  return at;
}

// Returns whether tasks of this priority or a higher one wait. Called by all lanes.
DWELL_DEVICE_COLD bool has_from(const Lease& lease, u32 priority) { return at_least(lease.control->levels.waiting, 1) >> priority != 0; }

// ---- Producers -----------------------------------------------------------------------------------------------------------------

// Returns whether at least `count` workers wait at unfilled places of the ready queue. Called by all lanes.
DWELL_DEVICE bool has_idle(const Lease& lease, u32 count) {
  u32 idle = 0;
  if (lane() == 0) {
    const u32 tail = load<Order::relaxed, Scope::device>(&lease.control->tail.value);
    const u32 head = load<Order::relaxed, Scope::device>(&lease.control->head.value);
    idle = static_cast<i32>(head - tail) >= static_cast<i32>(count) ? 1 : 0;
  }
  return broadcast(idle) != 0;
}

// Stores quad `at` of `count` tasks in the slot `index`, once that is empty. Fills each slot as soon as it is empty: a stack can give two
// producers the same places, and with some slots acquired each would wait for the other. Called by all lanes, with the quads of whole
// slots.
template <class QuadOf>
DWELL_DEVICE void fill(const Lease& lease, u32 index, u32 at, u32 count, const QuadOf& quad_of) {
  u32* const state = lease.level_states + index;
#if DWELL_PARALLEL_GROUP
  bool waits = at < count * 4;
  for (u32 round = 0; ballot(waits) != 0; ++round) {
    const u32 won = ballot(waits && at % 4 == 0 && win(state, kEmpty, kFilling));
    const bool mine = (won >> (lane() & ~3U) & 1U) != 0;
    if (mine) store_quad<Scope::device>(&lease.level_slots[index].quad[at % 4], quad_of(at / 4, at % 4));
    sync_lanes();
    // Release: the quads. Pairs with win, in take.
    if (mine && at % 4 == 3) store<Order::release, Scope::device>(state, static_cast<u32>(kFull));
    waits = waits && !mine;
    if (won == 0) relax(round);
  }
#else
  for (u32 round = 0; at % 4 == 0 && !win(state, kEmpty, kFilling); ++round) relax(round);
  store_quad<Scope::device>(&lease.level_slots[index].quad[at % 4], quad_of(at / 4, at % 4));
  if (at % 4 == 3) store<Order::release, Scope::device>(state, static_cast<u32>(kFull));
  static_cast<void>(count);
#endif
}

// Puts `count` tasks on a level: quad_of(i, q) is quad q of the first slot of task i. False when there is no room. Called by all lanes, of
// a worker that holds no unread place of the ready queue.
template <class QuadOf>
DWELL_DEVICE bool add(const Lease& lease, u32 priority, u32 count, const QuadOf& quad_of) {
  Level* const level = lease.control->level + priority;
  u32 place = 0;
  u32 fits = 0;
  if (lane() == 0) {
    fits = fetch_add<Order::relaxed>(&level->used, count) + count <= 1U << lease.level_shift ? 1 : 0;
    if (fits != 0)
      place = fetch_add<Order::relaxed>(&level->tail, count);
    else
      fetch_add<Order::relaxed>(&level->used, 0U - count);
  }
  if (broadcast(fits) == 0) return false;
  place = broadcast(place);
  for (u32 at = lane(); at - lane() < count * 4; at += kLanes) fill(lease, slot_index(lease, priority, place + at / 4), at, count, quad_of);
  // Before the tokens, so that their takers find the tasks; after the states, so that the takers need not wait.
  sync_lanes();
  if (lane() == 0) fetch_add<Order::release>(&lease.control->levels.waiting[priority], count);
  sync_lanes();
  const u32 first = ready_queue::reserve(lease, count);
  const Header header = token();
  for (u32 at = lane(); at < count * 4; at += kLanes)
    ready_queue::put_quad(lease, first + at / 4, at % 4, Quad{0, {header.word0(), header.word1(), 0}});
  return true;
}

// The same, unless `count` workers are idle.
template <class QuadOf>
DWELL_DEVICE bool add_waiting(const Lease& lease, u32 priority, u32 count, const QuadOf& quad_of) {
  return !has_idle(lease, count) && add(lease, priority, count, quad_of);
}

// Puts copies of a task's first slot on its level. `waits`: even if workers seem idle. False if none was put. Called by all lanes; lane l
// passes quads l, l + kLanes, ...
DWELL_DEVICE_COLD bool add_copies(const Lease& lease, TaskQuads task, u32 count, bool waits) {
  const Header header = Header::from(broadcast(task.quad[0].word[0]), broadcast(task.quad[0].word[1]));
  if (is_token(header) || (!waits && has_idle(lease, count))) return false;
#if DWELL_PARALLEL_GROUP
  Quad mine;  // lane l stores quad l % 4
  mine.lap = 0;
  for (u32 i = 0; i < 3; ++i) mine.word[i] = broadcast(task.quad[0].word[i], lane() % 4);
  return add(lease, priority_of(header.level), count, [&](u32, u32) { return mine; });
#else
  return add(lease, priority_of(header.level), count, [&](u32, u32 quad) { return task.quad[quad]; });
#endif
}

// Queues a task's first slot, by its level or in the ready queue. Called by all lanes, as ready_queue::push is.
DWELL_DEVICE void push(const Lease& lease, const TaskQuads& task) {
  if (sorts(lease) && add_copies(lease, task, 1, false)) return;
  ready_queue::push(lease, task);
}
// Requeues a task that the caller has taken and cannot run. By its level even if workers seem idle: one that waits at a place may be as
// busy.
DWELL_DEVICE void pass_on(const Lease& lease, const TaskQuads& task) {
  if (sorts(lease) && add_copies(lease, task, 1, true)) return;
  ready_queue::push(lease, task);
}
// Adds `count` copies of it.
DWELL_DEVICE void push_copies(const Lease& lease, const TaskQuads& task, u32 count) {
  if (sorts(lease) && add_copies(lease, task, count, false)) return;
  ready_queue::push_copies(lease, task, count);
}

// Adds `count` tasks of one slot and normal priority, which lie in the ring from `position` on. Called by all lanes.
DWELL_DEVICE_COLD void push_ring(const Lease& lease, u32 position, u32 count) {
  const auto quad_of = [&](u32 i, u32 quad) {
    return load_quad<Scope::system>(&lease.ring[index_of(position + i, lease.ring_shift)].quad[quad]);
  };
  if (add_waiting(lease, kNormal, count, quad_of)) return;
  const u32 first = ready_queue::reserve(lease, count);
  for (u32 at = lane(); at < count * 4; at += kLanes) ready_queue::put_quad(lease, first + at / 4, at % 4, quad_of(at / 4, at % 4));
}

// ---- Workers -------------------------------------------------------------------------------------------------------------------

// Returns the level to take from: the highest with waiting tasks, or a lower one that has aged. kNone: others took them first. Called by
// all lanes.
DWELL_DEVICE u32 choose(const Lease& lease, u32* waiting) {
  const LevelLine& line = lease.control->levels;
  *waiting = at_least(line.waiting, 1);
  if (*waiting == 0) return kNone;
  const u32 aged = *waiting & at_least(line.passed, static_cast<i32>(kAge));
  return highest(aged != 0 ? aged : *waiting);
}

// Takes a task in exchange for a token. Called by all lanes; lane l gets quads l, l + kLanes, ... of its first slot.
DWELL_DEVICE_COLD void take(const Lease& lease, TaskQuads* task) {
  LevelLine& line = lease.control->levels;
  u32 priority = 0;
  for (u32 round = 0;; ++round) {
    u32 waiting = 0;
    priority = choose(lease, &waiting);
    if (priority == kNone) {
      relax(round);
      continue;
    }
    u32 got = 0;
    if (lane() == 0) {
      // Acquire: pairs with add.
      got = static_cast<i32>(fetch_add<Order::acq_rel>(&line.waiting[priority], ~0U)) > 0 ? 1 : 0;
      if (got == 0) fetch_add<Order::relaxed>(&line.waiting[priority], 1U);
    }
    if (broadcast(got) == 0) continue;
    if (lane() == 0) store<Order::relaxed, Scope::device>(&line.passed[priority], 0U);
    for (u32 i = lane(); i < priority; i += kLanes)
      if ((waiting >> i & 1U) != 0) fetch_add<Order::relaxed>(&line.passed[i], 1U);
    break;
  }
  Level* const level = lease.control->level + priority;
  const bool stack = (lease.levels >> priority & 1U) != 0;
  u32 index = 0;
  if (lane() == 0) {
    const u32 place = stack ? fetch_add<Order::relaxed>(&level->tail, ~0U) - 1 : fetch_add<Order::relaxed>(&level->head, 1U);
    index = slot_index(lease, priority, place);
    for (u32 round = 0; !win(lease.level_states + index, kFull, kTaking); ++round) relax(round);
  }
  index = broadcast(index);
  sync_lanes();
  for (u32 i = 0; i < TaskQuads::kEach; ++i) {
    const u32 quad = i * kLanes + lane();
    if (quad < 4) task->quad[i] = load_quad<Scope::device>(&lease.level_slots[index].quad[quad]);
  }
  sync_lanes();
  if (lane() == 0) {
    // Release: the slot has been read. Pairs with win, in add.
    store<Order::release, Scope::device>(lease.level_states + index, static_cast<u32>(kEmpty));
    fetch_add<Order::relaxed>(&level->used, ~0U);
  }
}

}  // namespace dwell::device::levels
