// Collections of the heap: the parts of one that groups of ordinary tasks do beside all other work.
//
// A collection marks what was reachable when its marking began (a snapshot), and what was made since; the rest is freed. The host leads it
// through the phases (heap_layout.hpp), with a handshake before some of them: all tasks that ran before it have ended.
//
//   clearing   handshake, then all marks are removed. What workers that have not seen the end of the last collection have marked goes with
//              them
//   guarding   three handshakes: all workers mark references before they overwrite them (a deletion barrier: Yuasa, Real-time garbage
//              collection on general-purpose machines, 1990), those that they store (Dijkstra et al., On-the-fly garbage collection, 1978),
//              and those that their tasks get as arguments. A worker reads the phase at its first call of a lease: the second and third
//              handshake make sure that no load of a reference came before it
//   marking    handshake: all objects are born marked. Then the roots are marked: handles of the host, and what the arguments of tasks in
//              flight name. Objects are visited until none is left, and none was added until another handshake: a task may have marked an
//              object that it had not yet put where it is found
//   sweeping   slots of objects without a mark are given back
//   rest
//
// A task has no references of its own between two handshakes but those that it loads from objects, has got as arguments, or makes. So what
// it can reach was in the snapshot, or is new: the barrier keeps the first, birth the second. Workers begin to bear marked objects at
// different times, so what is stored is marked too: an object that was born without a mark may go into one that was born with it.
//
// The model tests/model/heap_collect.pml shows what is lost without each of these.
#pragma once

#include <dwell/device/heap.hpp>

#include "device/arena.hpp"
#include "device/heap_move.hpp"

namespace dwell::device::heap {

// ---- Objects to be visited ----

inline constexpr u32 kPublished = 32;    // objects of a chain that a thread leaves to others
inline constexpr u32 kVisitsAtOnce = 8;  // between looks at the clock
inline constexpr u32 kLooks = 16;        // of a warp at the table, before it goes on without
inline constexpr u32 kAlone = 64;        // elements of an array that a thread visits alone
inline constexpr u32 kIdleLooks = 24;    // of a warp without work, before it leaves

// Leaves a chain to others. False: the table is full.
DWELL_DEVICE bool publish(const Heap& heap, u32 chain, u32 seed, u32 tries) {
  HeapHeader& header = heap.header();
  u32* const table = heap.table<u32>(header.chain_table);
  for (u32 i = 0; i < tries; ++i) {
    u32* const at = table + ((seed + i) & (header.chains - 1));
    if (load<Order::relaxed, Scope::device>(at) != 0) continue;
    // Releases the links; pairs with take_chain.
    if (compare_exchange<Order::acq_rel>(at, 0U, chain) != 0) continue;
    add<Order::relaxed>(&header.published, 1U);
    return true;
  }
  return false;
}

// Takes a chain; 0: none was found. Lanes of a warp with the same seed look at neighbouring places.
DWELL_DEVICE u32 take_chain(const Heap& heap, u32 seed) {
  HeapHeader& header = heap.header();
  if (load<Order::relaxed, Scope::device>(&header.published) == 0) return 0;
  u32* const table = heap.table<u32>(header.chain_table);
  for (u32 i = 0; i < kLooks; ++i) {
    u32* const at = table + ((seed + i * kLanes + lane()) & (header.chains - 1));
    if (load<Order::relaxed, Scope::device>(at) == 0) continue;
    const u32 chain = exchange<Order::acq_rel>(at, 0U);
    if (chain == 0) continue;
    add<Order::relaxed>(&header.published, ~0U);
    return chain;
  }
  return 0;
}

// Takes what tasks have marked by a line; 0: nothing.
DWELL_DEVICE u32 take_line(const Heap& heap, u32 line) {
  u32* const first = &heap.table<MarkLine>(heap.header().line_table)[line].first;
  return load<Order::relaxed, Scope::device>(first) == 0 ? 0 : exchange<Order::acq_rel>(first, 0U);
}

// One thread that visits objects: a chain of its own, and one that it will leave to others.
struct Visitor {
  const Heap& heap;
  u32 most_pages;
  u32 seed;
  u32 own = 0;
  u32 shared = 0;
  u32 shared_last = 0;
  u32 shared_count = 0;
  u64 marked = 0;

  DWELL_DEVICE Visitor(const Heap& of, u32 pages, u32 number) : heap(of), most_pages(pages), seed(number) {}

  DWELL_DEVICE void found(u32 unit) {
    if (!mark(heap, unit, most_pages)) return;
    ++marked;
    prefetch(heap.at_unit(unit));
    set_link(heap, unit, shared);
    if (shared == 0) shared_last = unit;
    shared = unit;
    if (++shared_count >= kPublished) let_go(4);
  }
  // Leaves the shared chain to others, or keeps it.
  DWELL_DEVICE void let_go(u32 tries) {
    if (shared == 0) return;
    seed += 0x9E3779B9U;
    if (!publish(heap, shared, seed, tries)) {
      set_link(heap, shared_last, own);
      own = shared;
    }
    shared = 0;
    shared_count = 0;
  }
  // Returns an object to be visited; 0: none was found. `turn`: the same for all lanes of a warp, another each time.
  DWELL_DEVICE u32 next(u32 turn) {
    if (own == 0) {
      own = shared;
      shared = 0;
      shared_count = 0;
    }
    if (own == 0) own = take_chain(heap, (turn + seed / kLanes) * 0x9E3779B9U);
    const u32 unit = own;
    if (unit != 0) own = link_of(heap, unit);
    return unit;
  }
  // Takes what tasks have marked by every `step`-th line from `line` on, as far as there is room for it.
  DWELL_DEVICE void take_lines(u32 line, u32 step) {
    for (; line < heap.header().lines; line += step) {
      if (own != 0 && !publish(heap, own, seed * 0x9E3779B9U, 16)) return;
      own = take_line(heap, line);
    }
  }
  // Takes every `step`-th of the rests of an earlier part from `at` on, as far as there is room for them.
  DWELL_DEVICE void take_rests(u32 at, u32 step) {
    const HeapHeader& header = heap.header();
    u32* const rests = heap.table<u32>(header.chain_table) + header.chains;
    for (; at < header.rests; at += step) {
      if (load<Order::relaxed, Scope::device>(rests + at) == 0) continue;
      if (own != 0 && !publish(heap, own, seed * 0x9E3779B9U, 16)) return;
      own = exchange<Order::acq_rel>(rests + at, 0U);
      if (own != 0) add<Order::relaxed>(&heap.header().rested, ~0U);
    }
  }
  // Visits every `step`-th of its elements from `first` on.
  DWELL_DEVICE void visit(const TypeRecord& record, u32 unit, u32 first, u32 elements, u32 step) {
    const u8* const object = heap.at_unit(unit);
    for (u32 element = first; element < elements; element += step)
      for (u32 i = 0; i < record.count; ++i)
        found(load<Order::relaxed, Scope::device>(
            reinterpret_cast<const u32*>(object + record.at[i] + static_cast<u64>(element) * record.stride)));
  }
  // Leaves all that is left to a later part. What there is no room for goes to the lines of those who work.
  DWELL_DEVICE void end() {
    HeapHeader& header = heap.header();
    let_go(4);
    if (own != 0) {
      u32* const rest = heap.table<u32>(header.chain_table) + header.chains + seed % header.rests;
      // Releases the links; pairs with take_rests.
      if (compare_exchange<Order::acq_rel>(rest, 0U, own) == 0) {
        add<Order::relaxed>(&header.rested, 1U);
      } else if (!publish(heap, own, seed, header.chains)) {
        while (own != 0) {
          const u32 unit = own;
          own = link_of(heap, unit);
          to_be_visited(heap, seed, unit);
        }
      }
    }
    if (marked != 0) fetch_add<Order::relaxed>(&header.marked, marked);
  }
};

DWELL_DEVICE u32 thread_of(const Collect& what) { return what.group * kGroupThreads + thread_rank(); }

// Called by all lanes together.
template <class Unused = void>
DWELL_DEVICE_COLD void visit_for_a_while(const Heap& heap, Context* context, const Collect& what) {
  const u32 since = broadcast(now_ticks());
  Visitor visitor(heap, context->heap_pages, thread_of(what));
  const u32 visitors = what.groups * kGroupThreads;
  visitor.take_rests(thread_of(what), visitors);
  visitor.take_lines(thread_of(what), visitors);
  u32 idle = 0;
  for (u32 turn = since;; ++turn) {
    const u32 unit = visitor.next(turn);
    const TypeRecord* const record = unit == 0 ? nullptr : record_of(heap, unit);
    const u32 elements = record == nullptr ? 0 : elements_of(heap, *record, unit);
    if (elements != 0 && elements <= kAlone) visitor.visit(*record, unit, 0, elements, 1);
    // All lanes share the elements of a long array.
    for (u32 arrays = ballot(elements > kAlone); arrays != 0; arrays &= arrays - 1) {
      const u32 array = broadcast(unit, trailing_zeros(arrays));
      visitor.visit(*record_of(heap, array), array, lane(), broadcast(elements, trailing_zeros(arrays)), kLanes);
    }
    const bool over = turn % kVisitsAtOnce == 0 && now_ticks() - since >= what.ticks;
    if (ballot(over) != 0) break;
    if (ballot(unit != 0) != 0) {
      idle = 0;
      continue;
    }
    // Others may still find some.
    if (++idle == kIdleLooks) break;
    visitor.take_lines(thread_of(what), visitors);
    pause_briefly(idle);
  }
  visitor.end();
}

// Objects that still are to be visited, about: at least 1 if there are some and no group visits any. Called by a group together.
DWELL_DEVICE u64 left_to_visit(const Heap& heap) {
  const HeapHeader& header = heap.header();
  bool some = false;
  for (u32 line = thread_rank(); line < header.lines; line += kGroupThreads)
    some = some || load<Order::acquire, Scope::device>(&heap.table<MarkLine>(header.line_table)[line].first) != 0;
  return (any_in_group(some) ? 1 : 0) + load<Order::acquire, Scope::device>(&header.published) +
         load<Order::acquire, Scope::device>(&header.rested);
}

// ---- Roots ----

// Marks what a word names, which may be any number; while objects move, makes it stay. Returns whether it is to be visited.
DWELL_DEVICE bool mark_word(const Heap& heap, Context* context, const Collect& what, const u32* word) {
  const u32 unit = load<Order::relaxed, Scope::device>(word);
  if (unit >> kPageUnitsShift < heap.header().first_page) return false;
  if (load<Order::relaxed, Scope::device>(&heap.header().phase) == phase::moving) {
    keep_in_place(heap, unit, context->heap_pages);
    return false;
  }
  if (!mark_any(heap, unit, context->heap_pages)) return false;
  to_be_visited(heap, thread_of(what), unit);
  return true;
}
DWELL_DEVICE void mark_words(const Heap& heap, Context* context, const Collect& what, const u32* words, u64 count) {
  const u64 step = static_cast<u64>(what.groups) * kGroupThreads;
  u64 marked = 0;
  for (u64 i = thread_of(what); i < count; i += step) {
    if (mark_word(heap, context, what, words + i)) ++marked;
  }
  if (marked != 0) fetch_add<Order::relaxed>(&heap.header().marked, marked);
}

// Marks what tasks name that operators have made, and what gangs have kept that yielded.
DWELL_DEVICE u64 mark_in_arena(const Heap& heap, Context* context, const Collect& what) {
  if (context->arena == 0) return 0;
  const u8* const base = pointer_to_global<const u8>(context->arena);
  const ArenaHeader& layout = *reinterpret_cast<const ArenaHeader*>(base);
  const Control& control = *reinterpret_cast<const Control*>(base + layout.control);
  const Spawned* const records = reinterpret_cast<const Spawned*>(base + layout.spawned);
  const GangState* const gangs = reinterpret_cast<const GangState*>(base + layout.gang_states);
  const u32 step = what.groups * kGroupThreads;
  u64 marked = 0;
  const u32 used = load<Order::relaxed, Scope::device>(&control.lists.fresh);
  for (u32 i = thread_of(what); i < used && i < layout.spawned_records; i += step) {
    if (load<Order::relaxed, Scope::device>(&records[i].parent) == Spawned::kNobody) continue;
    const u32* const words = reinterpret_cast<const u32*>(&records[i].task);
    for (u32 word = 0; word < sizeof(Slot) / 4; ++word)
      if (mark_word(heap, context, what, words + word)) ++marked;
  }
  for (u32 i = thread_of(what); i >> layout.ring_shift == 0; i += step) {
    if (load<Order::relaxed, Scope::device>(&gangs[i].resumed) == 0) continue;
    for (u32 word = 0; word < kGangStateWords; ++word)
      if (mark_word(heap, context, what, gangs[i].word + word)) ++marked;
  }
  return marked;
}

template <class Unused = void>
DWELL_DEVICE_COLD void mark_roots(const Heap& heap, Context* context, const Collect& what) {
  mark_words(heap, context, what, what.units, what.unit_count);
  mark_words(heap, context, what, heap.table<u32>(heap.header().handle_table) + what.first, what.end - what.first);
  const u64 marked = mark_in_arena(heap, context, what);
  if (marked != 0) fetch_add<Order::relaxed>(&heap.header().marked, marked);
}

// ---- Slabs ----

// Frees a word's objects without a mark; returns them.
DWELL_DEVICE u32 sweep_word(const Heap& heap, const Class& of, u32 slab, u32 word) {
  const u32 dead = objects_without_mark(heap, of, slab, word);
  if (dead == 0) return 0;
  fetch_and<Order::relaxed>(heap.objects(slab, of) + word, ~dead);
  fence<Scope::device>();
  slabs::give_back(heap, {slab, word, dead});
  return dead;
}

template <class Unused = void>
DWELL_DEVICE_COLD void walk(const Heap& heap, const Collect& what) {
  HeapHeader& header = heap.header();
  const bool sweeps = what.verb == verb::sweep;
  const u32 warps = kGroupThreads / kLanes;
  const u32 step = what.groups * warps;
  u64 freed = 0;
  u64 bytes = 0;
  for (u32 page = static_cast<u32>(what.first) + what.group * warps + thread_rank() / kLanes; page < what.end; page += step) {
    const u32 kind = load<Order::acquire, Scope::device>(&heap.page(page).kind);
    const u32 number = (kind & kind::mask) - 1;
    if ((kind & kind::mask) == kind::run && lane() == 0) {
      u32* const object = &heap.page(page).object;
      if (!sweeps) {
        fetch_and<Order::relaxed>(object, ~object::marked);
      } else if (load<Order::relaxed, Scope::device>(object) == object::is && give_run(heap, page, object::is)) {
        freed += 1;
        bytes += static_cast<u64>(kind >> kind::shift) * kPageBytes;
      }
    }
    if (number >= kClasses || kind >> kind::shift != 0) continue;
    const Class of = header.classes[number];
    u32 swept = 0;
    if (!sweeps) clear_marks(heap, of, page);
    for (u32 word = lane(); word < of.words && sweeps; word += kLanes) swept += ones(sweep_word(heap, of, page, word));
    if (swept == 0) continue;
    fetch_add<Order::relaxed>(&slabs::counts_of(heap, number).swept, static_cast<u64>(swept));
    freed += swept;
    bytes += static_cast<u64>(swept) * of.units * kUnit;
  }
  if (freed == 0) return;
  fetch_add<Order::relaxed>(&header.freed, freed);
  fetch_add<Order::relaxed>(&header.freed_bytes, bytes);
}

// Removes what is to be visited.
DWELL_DEVICE void forget_visits(const Heap& heap, const Collect& what) {
  HeapHeader& header = heap.header();
  const u32 step = what.groups * kGroupThreads;
  for (u32 i = thread_of(what); i < header.chains + header.rests; i += step)
    store<Order::relaxed, Scope::device>(heap.table<u32>(header.chain_table) + i, 0U);
  for (u32 i = thread_of(what); i < header.lines; i += step)
    store<Order::relaxed, Scope::device>(&heap.table<MarkLine>(header.line_table)[i].first, 0U);
  if (thread_of(what) != 0) return;
  store<Order::relaxed, Scope::device>(&header.published, 0U);
  store<Order::relaxed, Scope::device>(&header.rested, 0U);
  store<Order::relaxed, Scope::device>(&header.marked, u64{0});
  store<Order::relaxed, Scope::device>(&header.freed, u64{0});
  store<Order::relaxed, Scope::device>(&header.freed_bytes, u64{0});
  store<Order::relaxed, Scope::device>(&header.leaving, u64{0});
  store<Order::relaxed, Scope::device>(&header.moved, u64{0});
  store<Order::relaxed, Scope::device>(&header.moved_bytes, u64{0});
}

// Does a part of a collection. Called by a group together; phase, hold, threshold by one group alone.
template <class Unused = void>
DWELL_DEVICE_COLD void collect(Context* context, const Collect& what) {
  if (context->heap == 0) return;
  if (context->heap_state == 0) enter(context);
  const Heap heap{pointer_to_global<u8>(context->heap)};
  HeapHeader& header = heap.header();
  switch (what.verb) {
    case verb::phase:
      if (thread_rank() == 0) store<Order::release, Scope::device>(&header.phase, static_cast<u32>(what.first));
      break;
    case verb::clear:
      forget_visits(heap, what);
      walk(heap, what);
      break;
    case verb::threshold:
      if (thread_rank() == 0) store<Order::relaxed, Scope::device>(&header.threshold, static_cast<u32>(what.first));
      break;
    case verb::roots: mark_roots(heap, context, what); break;
    case verb::visit: visit_for_a_while(heap, context, what); break;
    case verb::sweep: walk(heap, what); break;
    case verb::hold:
      for (u64 i = thread_rank(); i < what.unit_count; i += kGroupThreads)
        store<Order::relaxed, Scope::device>(heap.table<u32>(header.handle_table) + what.first + i, what.units[i]);
      break;
    case verb::scan:
      mark_words(heap, context, what, pointer_to_global<const u32>(context->arena + what.first), (what.end - what.first) / 4);
      break;
    default: break;
  }
  if (what.result == nullptr || what.group != 0) return;
  const u64 left = left_to_visit(heap);
  if (thread_rank() == 0) tell(heap, left, what.result);
}

}  // namespace dwell::device::heap
