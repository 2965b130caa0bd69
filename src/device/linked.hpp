// Runs of linked tasks: consecutive tasks of the ring, each of which waits only for the one before. The worker steps through them as
// through a chain of a graph. Next tasks are read ahead into its own memory, and ended ones are completed meanwhile, several with one
// fence. Else each step would pay for a fence, and for loads of the link word and the next slots.
//
// The executing warps end a task, note it in `ended`, and begin the next one if it is in `ready`. A *server* completes noted tasks, and
// reads ahead: the control warp while operators run, or warp 0 when `ended` is full or nothing is ready. Invariants:
//   - Only who holds `busy` serves, and only a server completes noted tasks or writes slots that are read ahead.
//   - A task is published in `ready` only if the link word of the one before named it as the only waiter. Only a server of this worker
//     exchanges that word, so no other thread releases the task. Waiters that joined the list since are released by the server.
//   - Slots that a server writes are not shown for this run, and the task that runs is. A server that knows an older task writes none that
//     is ahead of what was shown to it, and fewer slots than would come around to the running task's.
//   - A run begins under `busy`, so that no server still writes slots for the one before.
//   - All noted tasks are complete before the worker does anything but continue the run, and before the task that has ended the run.
// A task that is cancelled after it was read ahead runs, unless a server's pass before its turn takes it back. Modelled in
// tests/model/linked.pml.
#pragma once

#include "device/chain.hpp"
#include "device/completion.hpp"

namespace dwell::device::linked {

#if DWELL_CONTROL_WARP

inline constexpr u32 kQuietLooks = 16;  // polls that the control warp skips while one task runs
static_assert(kLookahead % 8 == 0 && kLookahead < kLanes && kLookahead + 2 < kLinkedSlots && LinkedWork::kMost < kLanes);

// Accesses to memory of the worker that two warps share.
DWELL_DEVICE u32 see(const u32* at) {
  u32 value;
  asm volatile("ld.acquire.cta.shared.u32 %0, [%1];" : "=r"(value) : "r"(address_in_shared(at)) : "memory");
  return value;
}
DWELL_DEVICE u64 see(const u64* at) {
  u64 value;
  asm volatile("ld.acquire.cta.shared.u64 %0, [%1];" : "=l"(value) : "r"(address_in_shared(at)) : "memory");
  return value;
}
DWELL_DEVICE void show(u32* at, u32 value) {
  asm volatile("st.release.cta.shared.u32 [%0], %1;" ::"r"(address_in_shared(at)), "r"(value) : "memory");
}
DWELL_DEVICE void show(u64* at, u64 value) {
  asm volatile("st.release.cta.shared.u64 [%0], %1;" ::"r"(address_in_shared(at)), "l"(value) : "memory");
}
// Becomes the server, unless there is one. Called by all lanes, as end_serving is.
DWELL_DEVICE bool try_to_serve(LinkedWork* work) {
  u32 before = 1;
  if (lane() == 0)
    asm volatile("atom.acquire.cta.shared.exch.b32 %0, [%1], 1;" : "=r"(before) : "r"(address_in_shared(&work->busy)) : "memory");
  return broadcast(before) == 0;
}
DWELL_DEVICE void end_serving(LinkedWork* work) {
  sync_lanes();
  if (lane() == 0) show(&work->busy, 0U);
}

// The running task, in one access: a server never sees a torn value.
struct Running {
  u32 run;
  u32 position;
  u32 behind;
  u32 on;
};
// Returns lane 0's view in all lanes. Called by all lanes.
DWELL_DEVICE Running running(const LinkedWork& work) {
  Running is;
  asm volatile("ld.volatile.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(is.run), "=r"(is.position), "=r"(is.behind), "=r"(is.on)
               : "r"(address_in_shared(&work.run))
               : "memory");
  return Running{broadcast(is.run), broadcast(is.position), broadcast(is.behind), broadcast(is.on)};
}
DWELL_DEVICE void set_running(LinkedWork* work, u32 run, u32 position, u32 slots) {
  asm volatile("st.volatile.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(address_in_shared(&work->run)), "r"(run), "r"(position),
               "r"(position + slots), "r"(1)
               : "memory");
}

// Returns whether the running task belongs to a run, so there may be work for a server.
DWELL_DEVICE bool is_on(const Worker* worker) { return *const_cast<const volatile u32*>(&worker->linked.on) != 0; }

// The entry in `ready` of a task that may begin. The run's number distinguishes it from a task 2^32 slots before.
DWELL_DEVICE u64 ready_as(u32 position, u32 run) { return static_cast<u64>(position) << 32U | run; }
DWELL_DEVICE u32 place_in_ready(u32 position) { return position & (kLinkedSlots - 1); }
DWELL_DEVICE FramePlace place_of(u32 position) { return kLinked + place_in_ready(position); }
DWELL_DEVICE bool is_linked(FramePlace place) { return place >= kLinked; }

// Returns whether a task only needs to be run and completed, by word 1 of its header; it may be linked. Two slots at most: the first slot
// is repeated once, so those of a task are adjacent.
DWELL_DEVICE bool is_plain(u32 word1) {
  constexpr u32 ignored = flag::system | flag::tracked | flag::memory | flag::link | flag::hard;
  const u32 slots = word1 & 0xFU;
  return (word1 & 0xFFFF0U & ~(ignored << 4U)) == 0 && (slots == 1 || slots == 2);
}

// What was read from a position on: slots, spread over the lanes as those of a task, and link word i in lane i.
struct Ahead {
  static constexpr u32 kEach = kLookahead * 4 / kLanes;
  Quad quad[kEach];
  u64 word;
};
// Starts the reads. The laps validate the slots; the caller acquires. Called by all lanes.
DWELL_DEVICE Ahead look(const Lease& lease, u32 behind) {
  Ahead ahead;
#pragma unroll
  for (u32 i = 0; i < Ahead::kEach; ++i) {
    const u32 index = i * kLanes + lane();
    ahead.quad[i] = load_quad<Scope::device>(&lease.held[index_of(behind + index / 4, lease.ring_shift)].quad[index % 4]);
  }
  ahead.word = lane() < kLookahead ? load<Order::relaxed, Scope::device>(link::word(lease, behind + lane())) : 0;
  return ahead;
}

DWELL_DEVICE TaskQuads first_of(const Ahead& ahead) { return TaskQuads{{ahead.quad[0]}}; }

// Keeps, of the slots read from `behind` on, the consecutive tasks that may begin in this run. `leads`: only the first of them waits for
// the task before. Returns how many. Called by all lanes.
DWELL_DEVICE u32 keep(const Lease& lease, Worker* worker, const Ahead& ahead, u32 behind, u32 run, bool leads) {
  LinkedWork& work = worker->linked;
  const u32 shift = lease.ring_shift;
  // Lanes 0 to kLookahead - 1 process a slot each.
  const u32 at = behind + lane();
  u32 word1 = 0;  // of the task that begins there
  bool whole = false;
#pragma unroll
  for (u32 i = 0; i < Ahead::kEach; ++i) {
    const u32 votes = ballot(ahead.quad[i].lap == lap_of(behind + i * 8 + lane() / 4, shift));
    const u32 word = broadcast(ahead.quad[i].word[1], lane() * 4 & 31U);
    if (lane() / 8 != i) continue;
    whole = (votes >> lane() % 8 * 4 & 15U) == 15U;
    word1 = word;
  }
  const u32 slots = word1 & 0xFU;
  const u32 wholes = ballot(whole);
  const u32 plain = ballot(whole && is_plain(word1));
  const u32 twos = ballot(slots == 2);
  const u32 leaders = ballot(lane() < kLookahead && ahead.word == link::waiting(lap_of(at, shift), index_of(at + slots, shift)));
  // Heads: tasks whose predecessor is a leader, up to the first slot that belongs to none.
  u32 heads = plain & (((leaders & ~twos) << 1U) | ((leaders & twos) << 2U) | (leads ? 1U : 0U));
  heads &= ~(heads & twos & ~(wholes >> 1U));
  const u32 gap = ~(heads | (heads & twos) << 1U);
  heads &= (gap & (0U - gap)) - 1;
  u64* const ready = &work.ready[place_in_ready(at)];
  const u64 mine = ready_as(at, run);
  const bool known = lane() < kLookahead && see(ready) == mine;
  const u32 fresh = heads & ~ballot(known);
  const u32 copied = fresh | (fresh & twos) << 1U;
#pragma unroll
  for (u32 i = 0; i < Ahead::kEach; ++i) {
    const u32 slot = i * 8 + lane() / 4;
    if ((copied >> slot & 1U) == 0) continue;
    const u32 place = place_in_ready(behind + slot);
    u32* const to = worker->slots + (kLinked + place) * kSlotWords + (lane() & 3U) * 3;
    for (u32 k = 0; k < 3; ++k) to[k] = ahead.quad[i].word[k];
    if (place == 0)
      for (u32 k = 0; k < 3; ++k) to[kLinkedSlots * kSlotWords + k] = ahead.quad[i].word[k];
  }
  sync_lanes();
  if ((fresh >> lane() & 1U) != 0) show(ready, mine);
  if (known && (plain >> lane() & 1U) == 0) show(ready, static_cast<u64>(0));  // cancelled
  return static_cast<u32>(__popc(heads));
}

// A task that has ended: position (32) | word 1 of its header (32).
DWELL_DEVICE u64 ended_as(u32 position, u32 word1) { return static_cast<u64>(position) << 32U | word1; }
constexpr u64 kNoTask = 0;  // no header is 0

// One pass of a server: reads ahead, and completes the noted tasks, whose successors have begun. Also completes `last`, if any, whose
// successor has not, and returns its old link word in all lanes. Called by all lanes.
DWELL_DEVICE u64 serve_once(const Lease& lease, Worker* worker, u64 last) {
  LinkedWork& work = worker->linked;
  const Running is = running(work);
  const u32 shift = lease.ring_shift;
  const Ahead ahead = look(lease, is.behind);
  u64 leader = 0;
  if (lane() == 0) leader = load<Order::relaxed, Scope::device>(link::word(lease, is.position));

  const u32 first = broadcast(see(&work.completed));
  const u32 noted = broadcast(see(&work.noted)) - first;
  const u32 all = noted + (last == kNoTask ? 0 : 1);
  const bool mine = lane() < all;
  const u64 ended = lane() < noted ? see(&work.ended[(first + lane()) % LinkedWork::kEnded]) : mine ? last : kNoTask;
  const u32 position = static_cast<u32>(ended >> 32U);
  const u32 word1 = static_cast<u32>(ended);
  const u32 behind = position + (word1 & 0xFU);
  // One fence for all. Release: the effects of the ended tasks, as in publish. Acquire: the tasks ahead see what was written before their
  // submission, whatever this multiprocessor's L1 held.
  bool system = (word1 & flag::system << 4U) != 0;
#pragma unroll
  for (u32 i = 0; i < Ahead::kEach; ++i) system = system || ((lane() & 3U) == 0 && (ahead.quad[i].word[1] & flag::system << 4U) != 0);
  system = ballot(system) != 0;
  if (lane() == 0 && system) fence<Scope::system>();
  if (lane() == 0 && !system) fence<Scope::device>();
  sync_lanes();
  u64 before = 0;
  if (mine) before = exchange<Order::relaxed>(link::word(lease, position), link::done(lap_of(position, shift), false));
  // If the task has ended meanwhile, its word is done, and `leader` proves nothing.
  const u64 lone = link::waiting(lap_of(is.position, shift), index_of(is.behind, shift));
  if (is.on != 0) keep(lease, worker, ahead, is.behind, is.run, broadcast(leader == lone ? 1 : 0) != 0);
  if (all == 0) return 0;
  // After the exchange, as in settle.
  if (mine) give_back(lease, position, status::ok);
  const u32 slots = broadcast(behind, all - 1) - broadcast(position);
  // The fence above is the release.
  if (lane() == 0) add<Order::relaxed>(&lease.control->completed.value, slots);
  const u32 others = ballot(mine && before != link::waiting(lap_of(position, shift), index_of(behind, shift)));
  if (others != 0) fence<Scope::device>();  // the acquire: their lists
  for (u32 left = others & ((1U << noted) - 1); left != 0; left &= left - 1) {
    const u32 from = static_cast<u32>(__ffs(static_cast<int>(left))) - 1;
    let_others_go_on(lease, broadcast(position, from), broadcast(link::waiter(before), from), broadcast(behind, from));
  }
  sync_lanes();
  if (lane() == 0 && noted != 0) show(&work.completed, first + noted);
  return static_cast<u64>(broadcast(static_cast<u32>(before >> 32U), all - 1)) << 32U | broadcast(static_cast<u32>(before), all - 1);
}

// One pass of the control warp while an operator runs, if there is work. Called by all lanes.
DWELL_DEVICE_COLD void serve(const Lease& lease, Worker* worker) {
  LinkedWork& work = worker->linked;
  const Running is = running(work);
  if (is.on == 0) return;
  // During a long task, only some passes run, to find cancels: each empties the multiprocessor's L1.
  u32 leaves_out = 0;
  if (lane() == 0 && is.behind == work.served && see(&work.noted) == see(&work.completed) && work.quiet < kQuietLooks) {
    ++work.quiet;
    leaves_out = 1;
  }
  if (broadcast(leaves_out) != 0 || !try_to_serve(&work)) return;
  serve_once(lease, worker, kNoTask);
  if (lane() == 0) {
    work.served = is.behind;
    work.quiet = 0;
  }
  end_serving(&work);
}

// Begins a run with the next task, at `position`, the only waiter of the one before, if others are ready behind it. `ahead`: read from
// there on. `acquired`: a fence followed those reads. Called by warp 0.
DWELL_DEVICE_COLD void begin(const Lease& lease, Worker* worker, Ahead ahead, u32 position, bool acquired) {
  LinkedWork& work = worker->linked;
  // A server may still be storing slots of the last run.
  if (!try_to_serve(&work)) return;
  const u32 run = broadcast(work.run) + 1;
  const u32 count = keep(lease, worker, ahead, position, run, true);
  if (lane() == 0 && count > 1) {
    if (!acquired) fence<Scope::device>();
    set_running(&work, run, position, ahead.quad[0].word[1] & 0xFU);
  }
  end_serving(&work);
}

// Returns the place of the task behind the one that is about to run, if that belongs to a run; else kNowhere. Called by all threads.
DWELL_DEVICE FramePlace first(const Worker* worker) { return is_on(worker) ? place_of(worker->linked.behind) : chain::kNowhere; }
// Returns the place `slots` behind a place of a run.
DWELL_DEVICE FramePlace behind(FramePlace place, u32 slots) { return kLinked + ((place - kLinked + slots) & (kLinkedSlots - 1)); }

// What all threads read after an operator, before their barrier.
struct Step {
  u32 position;  // of the task that has ended
  u32 word1;     // of its header
  u32 run;
  u32 noted;
  bool ready;  // the next task is in `ready`, and `ended` has room
};
DWELL_DEVICE Step look_behind(Worker* worker, FramePlace at, FramePlace next) {
  const volatile u32* const frame = worker->slots + at * kSlotWords;
  const LinkedWork& work = worker->linked;
  Step step{frame[2], frame[1], *const_cast<const volatile u32*>(&work.run), *const_cast<const volatile u32*>(&work.noted), false};
  const u64 shown = see(&work.ready[next - kLinked]);
  step.ready = shown == ready_as(step.position + (step.word1 & 0xFU), step.run) && step.noted - see(&work.completed) != LinkedWork::kMost;
  return step;
}
// Notes the end of the task of `step`, whose successor begins. Called by one thread, after the barrier.
DWELL_DEVICE void note(Worker* worker, const Step& step) {
  LinkedWork& work = worker->linked;
  // No release: it would wait for all stores of this thread, also for those to the host. Accesses to shared memory are in order, and the
  // server's fence covers the multiprocessor's stores, as that of one thread covers those of its group.
  *const_cast<volatile u64*>(&work.ended[step.noted % LinkedWork::kEnded]) = ended_as(step.position, step.word1);
  *const_cast<volatile u32*>(&work.noted) = step.noted + 1;
}
// Returns whether the task at `position`, the only waiter of the one before, may begin. Called by one thread.
DWELL_DEVICE bool is_ready(const Worker* worker, u32 position) {
  const LinkedWork& work = worker->linked;
  return see(&work.ready[place_in_ready(position)]) == ready_as(position, work.run);
}
// Sets the running task of the run. Called by one thread.
DWELL_DEVICE void set_running(Worker* worker, u32 position, u32 slots) {
  set_running(&worker->linked, worker->linked.run, position, slots);
}

// One pass of warp 0, as serve_once. Afterwards all noted tasks are complete.
DWELL_DEVICE_COLD u64 serve_oneself(const Lease& lease, Worker* worker, u64 last) {
  while (!try_to_serve(&worker->linked)) {}
  const u64 before = serve_once(lease, worker, last);
  end_serving(&worker->linked);
  return before;
}

// Ends the run. All its tasks are complete, except perhaps the last one. Called by lane 0 of warp 0.
DWELL_DEVICE void stop(Worker* worker) { worker->linked.on = 0; }

#else

// No runs: a completion is a store. Each task is completed before the next one runs.
struct Ahead {
  TaskQuads task;
};
DWELL_DEVICE Ahead look(const Lease& lease, u32 behind) {
  Ahead ahead{};
  for (u32 i = 0; i < 4; ++i) ahead.task.quad[i] = load_quad<Scope::device>(&lease.held[index_of(behind, lease.ring_shift)].quad[i]);
  return ahead;
}
DWELL_DEVICE TaskQuads first_of(const Ahead& ahead) { return ahead.task; }
DWELL_DEVICE bool is_linked(FramePlace) { return false; }
struct Step {
  u32 position;
  u32 word1;
  bool ready;
};
DWELL_DEVICE FramePlace first(const Worker*) { return chain::kNowhere; }
DWELL_DEVICE FramePlace behind(FramePlace place, u32) { return place; }
DWELL_DEVICE Step look_behind(Worker*, FramePlace, FramePlace) { return Step{0, 0, false}; }
DWELL_DEVICE void note(Worker*, const Step&) {}
DWELL_DEVICE bool is_ready(const Worker*, u32) { return false; }
DWELL_DEVICE void begin(const Lease&, Worker*, const Ahead&, u32, bool) {}
DWELL_DEVICE bool is_on(const Worker*) { return false; }
constexpr u64 kNoTask = 0;
DWELL_DEVICE u64 ended_as(u32, u32) { return kNoTask; }
DWELL_DEVICE u64 serve_oneself(const Lease&, Worker*, u64) { return 0; }
DWELL_DEVICE void set_running(Worker*, u32, u32) {}
DWELL_DEVICE FramePlace place_of(u32) { return kFrame0; }
DWELL_DEVICE void stop(Worker*) {}

#endif

}  // namespace dwell::device::linked
