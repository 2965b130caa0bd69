// Gangs: tasks whose groups all run at once, each on a worker of its own (dwell/device/gang.hpp has what they see).
//
// One gang at a time is assembled. The ready queue has a share for each of its groups. A worker that takes a share joins, and waits for the
// others; all begin when the last one has joined. Free workers take the remaining shares, and workers become free: other tasks end, and
// gangs that run have all their workers. Two gangs assembled at once could each wait for workers of the other. So the others wait in line,
// as threads do at the lock of Mellor-Crummey and Scott ("Algorithms for scalable synchronization", 1991): each arrival links itself behind
// the last one, and the last worker to join the first gang assembles the next.
//
// A waiting worker puts its share back when its successor (the next lease's worker of its seat) waits, or when its lease ends at once: the
// successor joins. Without a successor, since workers keep their seats while others are busy (seat.hpp), the gang is assembled in the lease
// that is over. But the driver may delay the next lease until all workers of this one have left the device, while a gang waits for workers
// that have left. Then a waiting worker dissolves the gang. All its members stop waiting. Shares taken later, also in another lease, end at
// once, and with the last one the gang is assembled anew.
// A lease with too few workers refuses a gang, whose shares then run nothing. A running gang has one of kMostGangs memories. If none is
// free, the first gang in line waits for one, and the next gang to end hands its own over.
//
// A gang is a task of the ring, or a node of a graph. The line names it by a number: the ring index of a task, kOfNode and the cell of a
// node's record. A node has counters and state beside its record instead of at a ring index, and its record is its held task.
//
// Room: the ready queue has a place for the shares of one gang, beyond those that other tasks may take.
// Modelled in tests/model/gangs.pml.
#pragma once

#include "device/graph_places.hpp"
#include "device/held.hpp"
#include "device/ready_queue.hpp"
#include "device/seat.hpp"

namespace dwell::device::gangs {

inline constexpr u32 kRefused = 1U << 31U;    // in Wide::joined: the gang does not run
inline constexpr u32 kDissolved = 1U << 30U;  // the same: it is assembled anew when all shares are gone
inline constexpr u32 kWanted = 1U << 31U;     // in GangLine::memories
inline constexpr u32 kNoMemory = ~0U;
inline constexpr u32 kOfNode = 1U << 31U;  // in a gang's number

// ---- Gangs by their numbers ------------------------------------------------------------------------------------------------------

DWELL_DEVICE bool is_node(u32 number) { return has(part::graphs) && (number & kOfNode) != 0; }
DWELL_DEVICE Slot* record_of(const Lease& lease, u32 number) {
  return pointer_to_global<Slot>(graph::address_of(lease, number & ~kOfNode));
}
DWELL_DEVICE NodeGang* node_of(const Lease& lease, u32 number) {
  Slot* const record = record_of(lease, number);
  return graph::gang(record, load<Order::relaxed, Scope::device>(&record->quad[0].word[1]) & 0xFU);
}
// The first quad of its task.
DWELL_DEVICE const Quad& head_of(const Lease& lease, u32 number) {
  return is_node(number) ? record_of(lease, number)->quad[0] : lease.held[number].quad[0];
}
DWELL_DEVICE Wide* wide_of(const Lease& lease, u32 number) {
  return is_node(number) ? &node_of(lease, number)->shares.groups : lease.wide + number;
}
DWELL_DEVICE GangState* state_of(const Lease& lease, u32 number) {
  return is_node(number) ? &node_of(lease, number)->state : lease.gang_states + number;
}
// The number of the gang whose share is in `frame`.
DWELL_DEVICE u32 number_of(const Lease& lease, const Frame& frame) {
  return frame.header().source == source::node_member ? kOfNode | frame.position() : index_of(frame.position(), lease.ring_shift);
}

DWELL_DEVICE u32* memory_of(const Lease& lease, const Wide& wide) {
  return lease.gang_memory + static_cast<u64>(wide.memory) * gang_words(lease.max_workers);
}

// ---- Memories. Called by one thread ----------------------------------------------------------------------------------------------

// Takes a memory for the gang with this number, the first in line. kNoMemory: the next gang to end hands its own over.
DWELL_DEVICE u32 take_memory(const Lease& lease, u32 number) {
  GangLine& line = lease.control->gangs;
  u32 now = load<Order::relaxed, Scope::device>(&line.memories);
  for (;;) {
    u32 memory = 0;
    while (memory < kMostGangs && (now >> memory & 1U) != 0) ++memory;
    if (memory == kMostGangs) store<Order::relaxed, Scope::device>(&line.first, number);
    // acq_rel: acquires the effects of the memory's last gang; releases `first`, and the held task. Pairs with give_memory.
    const u32 seen = compare_exchange<Order::acq_rel>(&line.memories, now, now | (memory == kMostGangs ? kWanted : 1U << memory));
    if (seen == now) return memory == kMostGangs ? kNoMemory : memory;
    now = seen;
  }
}

// Gives back the memory of an ended gang. True if the first in line has it now, whose number is stored to `number`.
DWELL_DEVICE bool give_memory(const Lease& lease, u32 memory, u32* number) {
  GangLine& line = lease.control->gangs;
  u32 now = load<Order::relaxed, Scope::device>(&line.memories);
  for (;;) {
    const bool wanted = (now & kWanted) != 0;
    const u32 seen = compare_exchange<Order::acq_rel>(&line.memories, now, wanted ? now & ~kWanted : now & ~(1U << memory));
    if (seen == now) {
      if (wanted) *number = load<Order::relaxed, Scope::device>(&line.first);
      return wanted;
    }
    now = seen;
  }
}

// ---- The line --------------------------------------------------------------------------------------------------------------------

// Removes the gang with this number, whose assembly is over, from the line. Returns the next one's number plus 1, or 0. Called by one
// thread.
DWELL_DEVICE u32 leave_line(const Lease& lease, u32 number) {
  u32* const behind = &wide_of(lease, number)->behind;
  if (load<Order::relaxed, Scope::device>(behind) == 0 &&
      compare_exchange<Order::acq_rel>(&lease.control->gangs.last, number + 1, 0U) == number + 1)
    return 0;
  // Acquire: the held task of the next gang. Pairs with line_up, whose caller is at most between two stores.
  for (u32 round = 0;; ++round) {
    const u32 next = load<Order::acquire, Scope::device>(behind);
    if (next != 0) return next;
    relax(round);
  }
}

// Returns why the gang with this number does not run: it is cancelled, or has more groups than there are workers. Called by one thread.
DWELL_DEVICE i32 why_refused(const Lease& lease, u32 number) {
  const Quad& head = head_of(lease, number);
  if ((load<Order::relaxed, Scope::device>(&head.word[1]) & flag::cancelled << 4U) != 0) return status::cancelled;
  return load<Order::relaxed, Scope::device>(&head.word[0]) >> 16U > lease.workers ? status::too_large : status::ok;
}

// Loads the first slot of the gang with this number, with its level. Called by all lanes.
DWELL_DEVICE void load_first(const Lease& lease, u32 number, TaskQuads* task) {
  // Of a held task word 2 is the position.
  if (!is_node(number))
    return load_held(lease, task, broadcast(load<Order::relaxed, Scope::device>(&head_of(lease, number).word[2])), 0, 1);
  const Slot* const record = record_of(lease, number);
  for (u32 i = 0; i < TaskQuads::kEach && i * kLanes + lane() < 4; ++i)
    task->quad[i] = load_quad<Scope::device>(&record->quad[i * kLanes + lane()]);
  if (lane() == 0) task->quad[0].word[0] |= graph::level_of(lease, graph::base_of(record));
  sync_lanes();
}

// Adds the shares of the gang with this number to the ready queue, to be assembled in `memory`. A refused gang, which is out of line, gets
// one share that runs nothing. Called by all lanes.
DWELL_DEVICE_COLD void share_out(const Lease& lease, u32 number, u32 memory, i32 why) {
  Wide* const wide = wide_of(lease, number);
  TaskQuads task;
  load_first(lease, number, &task);
  Header share = Header::from(broadcast(task.quad[0].word[0]), broadcast(task.quad[0].word[1]));
  const u32 groups = share.groups;
  const bool runs = why == status::ok;
  if (runs) {
    u32* const words = lease.gang_memory + static_cast<u64>(memory) * gang_words(lease.max_workers);
    for (u32 i = lane(); i <= kGangBarriers; i += kLanes) store<Order::relaxed, Scope::device>(words + i * kGangLine, 0U);
    for (u32 i = lane(); i < groups; i += kLanes) store<Order::relaxed, Scope::device>(gang_member(words, i), 0U);
    if (lane() == 0) {
      store<Order::relaxed, Scope::device>(words + kGangYields, 0U);
      const GangState* const state = state_of(lease, number);
      store<Order::relaxed, Scope::device>(words + kGangResumed, load<Order::relaxed, Scope::device>(&state->resumed));
      for (u32 i = 0; i < kGangStateWords; ++i)
        store<Order::relaxed, Scope::device>(words + kGangState + i, load<Order::relaxed, Scope::device>(&state->word[i]));
    }
    sync_lanes();
  }
  if (is_node(number)) {
    share.source = source::node_member;
    share.flags = (share.flags & ~flag::control::gang) | flag::memory;  // whoever takes it acquires
  } else {
    share.source = source::member;
    share.flags &= ~(flag::order | flag::cancelled);  // too late to cancel it now
  }
  if (runs)
    share.flags |= flag::member::joins;
  else
    share.groups = 0;
  if (lane() == 0) {
    store<Order::relaxed, Scope::device>(&wide->next, 0U);
    store<Order::relaxed, Scope::device>(&wide->shares, runs ? groups : 1U);
    store<Order::relaxed, Scope::device>(reinterpret_cast<u32*>(&wide->status), static_cast<u32>(why));
    store<Order::relaxed, Scope::device>(&wide->joined, 0U);
    store<Order::relaxed, Scope::device>(&wide->memory, memory);
    task.quad[0].word[0] = share.word0();
    task.quad[0].word[1] = share.word1();
  }
  // Release to the takers of shares. Pairs with their acquire.
  fence<Scope::device>();
  sync_lanes();
  ready_queue::push_copies(lease, task, runs ? groups : 1);
}

// Assembles the gang with this number, the first in line, in `memory`, or in one that it takes (kNoMemory). Called by all lanes.
DWELL_DEVICE_COLD void assemble(const Lease& lease, u32 number, u32 memory) {
  for (;;) {
    i32 why = status::ok;
    u32 next = 0;  // in line, plus 1
    if (lane() == 0) {
      if (memory == kNoMemory) memory = take_memory(lease, number);
      if (memory != kNoMemory) why = why_refused(lease, number);
      // Leave the line before the share is queued: once that has ended, the number is another task's.
      if (why != status::ok) next = leave_line(lease, number);
    }
    memory = broadcast(memory);
    if (memory == kNoMemory) return;
    why = static_cast<i32>(broadcast(static_cast<u32>(why)));
    share_out(lease, number, memory, why);
    if (why == status::ok) return;
    // None is in line; but a gang may arrive meanwhile, and wait for the memory.
    u32 wanted = 0;
    if (lane() == 0 && next == 0 && give_memory(lease, memory, &wanted)) next = wanted + 1;
    next = broadcast(next);
    if (next == 0) return;
    number = next - 1;
  }
}

// Appends the gang with this number to the line. Called by all lanes.
DWELL_DEVICE_COLD void line_up(const Lease& lease, u32 number) {
  sync_lanes();
  u32 first = 0;
  if (lane() == 0) {
    store<Order::relaxed, Scope::device>(&wide_of(lease, number)->behind, 0U);
    fence<Scope::device>();  // the held task, which other lanes have stored, and what it has waited for
    const u32 before = exchange<Order::acq_rel>(&lease.control->gangs.last, number + 1);
    if (before != 0)
      store<Order::release, Scope::device>(&wide_of(lease, before - 1)->behind, number + 1);
    else
      first = 1;
  }
  if (broadcast(first) != 0) assemble(lease, number, kNoMemory);
}

// The same for the gang of the ring at `position`, of which `task` holds the first slot.
DWELL_DEVICE_COLD void stand_in_line(const Lease& lease, const TaskQuads& task, u32 position) {
  hold(lease, task, position, 1);
  line_up(lease, index_of(position, lease.ring_shift));
}

// The same for the gang that runs the node whose record is at this cell of the arena, which has not yielded in this run.
DWELL_DEVICE_COLD void stand_in_line(const Lease& lease, u32 cell) {
  if (lane() == 0) store<Order::relaxed, Scope::device>(&state_of(lease, kOfNode | cell)->resumed, 0U);
  line_up(lease, kOfNode | cell);
}

// ---- Workers. Called by one thread -----------------------------------------------------------------------------------------------

enum Joined : u32 {
  kMember,     // all have joined
  kLast,       // the same; this worker removes the gang from the line
  kPutBack,    // the worker is to leave its seat: the share goes back to the ready queue
  kGone,       // the gang is dissolved
  kAssembles,  // the same; this worker assembles it anew
  kNoGang,     // the gang does not run
  kRefuses,    // the same; this worker removes it from the line
};

// Returns whether workers have left while no later lease works yet: their seats may have no worker.
DWELL_DEVICE_COLD bool is_deserted(const Lease& lease) {
  const Control& control = *lease.control;
  if (is_after(seat::crew_word(&control.crew.begun), seat::crew_word(&control.crew.over))) return false;
  u32 left = 0;
  for (const u32& exits : control.exits) left += seat::crew_word(&exits);
  return left != 0;
}

// Returns whether a waiting worker is to leave its seat now. Not as soon as the lease is over: its workers, which stay while others are
// busy, would pass the share around. Polls the host's word at times, since all other pollers may have left.
DWELL_DEVICE bool is_to_leave(const Lease& lease, u32 me, u32 round) {
  const CrewLine& crew = lease.control->crew;
  if (!seat::is_over(lease, seat::crew_word(&crew.over))) return false;
  if (seat::has_successor(lease, me) || seat::is_over(lease, seat::crew_word(&crew.end))) return true;
  return round % 16 == 15 && seat::is_over(lease, load<Order::relaxed, Scope::system>(&lease.report->end));
}

// Ends a share of a dissolved gang. The share's last access to the counters, which the next assembly resets.
DWELL_DEVICE Joined end_dissolved(Wide* wide, u32 groups) {
  // acq_rel: pairs with itself in the last one.
  return fetch_add<Order::acq_rel>(&wide->next, 1U) + 1 == groups ? kAssembles : kGone;
}

// Joins a gang of `groups` groups, and waits until all have joined. `me`: the worker's number.
DWELL_DEVICE_COLD Joined join(const Lease& lease, Wide* wide, u32 groups, u32 me) {
  u32 now = 0;
  if (groups > lease.workers) {
    for (now = load<Order::relaxed, Scope::device>(&wide->joined); (now & (kRefused | kDissolved)) == 0;) {
      const u32 seen = compare_exchange<Order::acq_rel>(&wide->joined, now, now | kRefused);
      if (seen != now) {
        now = seen;
        continue;
      }
      compare_exchange<Order::relaxed>(reinterpret_cast<u32*>(&wide->status), 0U, static_cast<u32>(status::too_large));
      return kRefuses;
    }
    if ((now & kRefused) != 0) return kNoGang;
  }
  // acq_rel: pairs with itself: each member sees what earlier members had seen. The count does not matter for a gang that does not run.
  now = fetch_add<Order::acq_rel>(&wide->joined, 1U);
  if ((now & kRefused) != 0) return kNoGang;
  if ((now & kDissolved) != 0) return end_dissolved(wide, groups);
  if (now + 1 == groups) return kLast;
  const u32 came = now_ticks();
  for (u32 round = 0;; ++round) {
    now = load<Order::acquire, Scope::device>(&wide->joined);
    if (now == groups) return kMember;
    if ((now & kRefused) != 0) return kNoGang;
    if ((now & kDissolved) != 0) return end_dissolved(wide, groups);
    if (round % 4 == 3 && is_to_leave(lease, me, round) && compare_exchange<Order::acq_rel>(&wide->joined, now, now - 1) == now)
      return kPutBack;
    if (round % 256 == 255 && now_ticks() - came > lease.lease_ticks && is_deserted(lease) &&
        compare_exchange<Order::acq_rel>(&wide->joined, now, now | kDissolved) == now)
      return end_dissolved(wide, groups);
    relax(round);
  }
}

// Assembles the next gang in line. Called by all lanes of the worker that joined last.
DWELL_DEVICE_COLD void assemble_next(const Lease& lease, u32 number) {
  u32 next = 0;
  if (lane() == 0) next = leave_line(lease, number);
  next = broadcast(next);
  if (next != 0) assemble(lease, next - 1, kNoMemory);
}

// Gives back the memory of an ended gang, and assembles the gang that waits for it. Called by all lanes.
DWELL_DEVICE_COLD void end(const Lease& lease, u32 memory) {
  u32 number = 0;
  u32 assembles = 0;
  if (lane() == 0) assembles = give_memory(lease, memory, &number) ? 1 : 0;
  assembles = broadcast(assembles);
  number = broadcast(number);
  if (assembles != 0) assemble(lease, number, memory);
}

}  // namespace dwell::device::gangs
