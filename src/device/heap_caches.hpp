// The heap's callers: caches of slots between operators and slabs.
//
// A warp (on the CPU a worker) keeps a stack of slots for each class. Lanes that call together share one access to it. Lanes of one warp in
// different branches may call at the same time, so each class has a lock, a bit in Context::heap_locks; its holder is never stopped by
// another lane, as lanes make progress independently.
#pragma once

#include <dwell/device/group.hpp>

#include "device/heap_slabs.hpp"

namespace dwell::device::heap {

// Lanes of a warp that call together.
struct Lanes {
  u32 mask;
  u32 rank;  // of the caller among them
  u32 count;
  u32 first;  // lane

  DWELL_DEVICE explicit Lanes(u32 lanes)
      : mask(lanes), rank(ones(lanes & ((1U << lane()) - 1))), count(ones(lanes)), first(trailing_zeros(lanes)) {}
  DWELL_DEVICE u32 broadcast(u32 value) const { return broadcast_in(mask, value, first); }
};

// The calling warp's cache of a class.
struct Cache {
  CacheOfClass* of;
  u32* slots;  // units

  DWELL_DEVICE Cache(const Context& context, u32 number) {
    const u32 at = thread_rank() / kLanes * kClasses + number;
    of = pointer_to_global<CacheOfClass>(context.heap_caches) + at;
    slots = pointer_to_global<u32>(context.heap_slots) + at * context.heap_room;
  }
};

// Changes a count of a cache. By the holder of the class's lock; the host may read it meanwhile.
template <class T>
DWELL_DEVICE void set_count(T* count, T value) {
  store<Order::relaxed, Scope::device>(count, value);
}

// Finds the worker's caches. Threads that do so at the same time store the same values.
template <class Unused = void>
DWELL_DEVICE_COLD void enter(Context* context) {
  const u64 at = context->heap;
  const Heap heap{pointer_to_global<u8>(at)};
  const HeapHeader& header = heap.header();
  context->heap_caller = context->heap_worker * header.warps;
  context->heap_room = header.cache;
  context->heap_checks = header.checks;
  context->heap_pages = header.most_pages;
  context->heap_caches = at + header.cache_table + static_cast<u64>(context->heap_caller) * kClasses * sizeof(CacheOfClass);
  context->heap_slots = at + header.cache_slots + static_cast<u64>(context->heap_caller) * kClasses * header.cache * 4;
  fence_warp();
  context->heap_state = 1 + load<Order::acquire, Scope::device>(&header.phase);
}

DWELL_DEVICE void lock(Context* context, const Lanes& lanes, u32 number) {
  if (lanes.rank == 0) {
    u32* const word = &context->heap_locks[thread_rank() / kLanes];
    while ((fetch_or_in_group(word, 1U << number) >> number & 1U) != 0) {}
  }
  sync_in(lanes.mask);
  fence_warp();
}
DWELL_DEVICE void unlock(Context* context, const Lanes& lanes, u32 number) {
  fence_warp();
  sync_in(lanes.mask);
  if (lanes.rank == 0) fetch_and_in_group(&context->heap_locks[thread_rank() / kLanes], ~(1U << number));
}

// The unit at which a slot begins.
DWELL_DEVICE u32 unit_of(const Class& of, u32 slab, u32 index) { return (slab << kPageUnitsShift) + of.first + index * of.units; }
DWELL_DEVICE u32 nth_set(u32 bits, u32 n) {
  for (; n != 0; --n) bits &= bits - 1;
  return trailing_zeros(bits);
}
DWELL_DEVICE u32 lowest(u32 bits, u32 n) {
  u32 rest = bits;
  for (; n != 0 && rest != 0; --n) rest &= rest - 1;
  return bits & ~rest;
}

// Takes slots out of slabs for the lanes that have none of the stack, those from `served` on; the stack is empty. Called with the lock.
template <class Unused = void>
DWELL_DEVICE_COLD u32 take_from_slabs(const Heap& heap, Context* context, const Lanes& lanes, const Cache& cache, u32 number, u32 served) {
  const Class of = heap.header().classes[number];
  u32 unit = 0;
  while (served < lanes.count) {
    slabs::Word word{};
    // A task that has failed for want of memory gets none any more: its next attempts may each wait for the host and for a collection.
    if (lanes.rank == 0 && *const_cast<const volatile i32*>(&context->status) != status::out_of_memory)
      word = slabs::take(heap, number, of, context->heap_caller + thread_rank() / kLanes);
    word = {lanes.broadcast(word.slab), lanes.broadcast(word.index), lanes.broadcast(word.slots)};
    if (word.slots == 0) break;
    const u32 free = ones(word.slots);
    const u32 turn = lanes.rank - served;
    const u32 first = word.index << of.word_shift;
    if (lanes.rank >= served && turn < free) unit = unit_of(of, word.slab, first + nth_set(word.slots, turn));
    const u32 used = free < lanes.count - served ? free : lanes.count - served;
    served += used;
    if (lanes.rank == 0) set_count(&cache.of->taken, cache.of->taken + used);
    // What is left of the word goes to the stack, as far as it is kept.
    const u32 left = word.slots & ~lowest(word.slots, used);
    if (left == 0) continue;
    const u32 kept = lowest(left, of.kept);
    for (u32 i = lanes.rank; i < ones(kept); i += lanes.count) cache.slots[i] = unit_of(of, word.slab, first + nth_set(kept, i));
    sync_in(lanes.mask);
    if (lanes.rank == 0) {
      set_count(&cache.of->count, ones(kept));
      if (kept != left) slabs::give_back(heap, {word.slab, word.index, left & ~kept});
    }
  }
  return unit;
}

// Takes a slot for each of the lanes, which all want the same class. Returns its unit; 0: there is no room.
DWELL_DEVICE u32 take_slots(const Heap& heap, Context* context, const Lanes& lanes, u32 number) {
  const Cache cache(*context, number);
  lock(context, lanes, number);
  const u32 have = cache.of->count;
  const u32 served = have < lanes.count ? have : lanes.count;
  u32 unit = lanes.rank < served ? cache.slots[have - 1 - lanes.rank] : 0;
  sync_in(lanes.mask);
  if (lanes.rank == 0) {
    set_count(&cache.of->count, have - served);
    set_count(&cache.of->taken, cache.of->taken + served);
  }
  if (served < lanes.count) {
    const u32 other = take_from_slabs(heap, context, lanes, cache, number, served);
    if (lanes.rank >= served) unit = other;
  }
  unlock(context, lanes, number);
  return unit;
}

// A slot as its reference names it.
struct Place {
  u32 slab;
  u32 number;  // of its class; kClasses: it is a run; more: there is none
  u32 slot;
};

// Finds the slab of a unit, or the run that begins there. Who has a reference by right has acquired what its page has become.
DWELL_DEVICE Place find_slab(const Heap& heap, u32 unit) {
  const u32 page = unit >> kPageUnitsShift;
  const u32 what = load_settled(&heap.page(page).kind);
  const u32 number = (what & kind::mask) - 1;
  if (number < kClasses) return {page - (what >> kind::shift), number, 0};
  return {page, (what & kind::mask) == kind::run ? kClasses : kClasses + 1, 0};
}

// Finds what begins at a unit, anywhere in the range that the heap may have. Out of line: NVRTC 13.0 does not come to an end with its paths
// in the callers.
template <class Unused = void>
DWELL_DEVICE_COLD Place find_place(const Heap& heap, u32 unit, u32 most_pages) {
  if (unit >> kPageUnitsShift >= most_pages) return {0, kClasses + 1, 0};
  Place place = find_slab(heap, unit);
  const u32 in = unit - (place.slab << kPageUnitsShift);
  if (place.number >= kClasses) {
    if (in != 0) place.number = kClasses + 1;
    return place;
  }
  const Class& of = heap.header().classes[place.number];
  place.slot = slot_at(of, in);
  if (in < of.first || of.first + place.slot * of.units != in) place.number = kClasses + 1;
  return place;
}

DWELL_DEVICE u32* word_of(u32* map, const Class& of, u32 slot) { return map + (slot >> of.word_shift); }
DWELL_DEVICE u32 bit_of(const Class& of, u32 slot) { return 1U << (slot & ((1U << of.word_shift) - 1)); }

// Gives slots of the lanes, which are all of one class, back to their slabs; those of one word together.
template <class Unused = void>
DWELL_DEVICE_COLD void give_to_slabs(const Heap& heap, u32 number, u32 slab, u32 slot) {
  const Class of = heap.header().classes[number];
  const u32 word = slot >> of.word_shift;
  const Lanes alike(lanes_with(active_lanes(), slab << 7U | word));
  const u32 slots = or_in(alike.mask, bit_of(of, slot));
  // The group's accesses to the slots come before those of their next users.
  fence<Scope::device>();
  if (alike.rank == 0) slabs::give_back(heap, {slab, word, slots});
}

// Gives back a slot of each of the lanes, which are all of class `number`. False for those that the cache has no room for.
DWELL_DEVICE bool give_to_cache(Context* context, const Lanes& lanes, u32 number, u32 most, u32 unit) {
  const Cache cache(*context, number);
  lock(context, lanes, number);
  const u32 have = cache.of->count;
  // Many lanes that come together are likely to take so again.
  const u32 limit = lanes.count > 8 ? context->heap_room : most;
  const u32 room = have < limit ? limit - have : 0;
  const u32 kept = room < lanes.count ? room : lanes.count;
  if (lanes.rank < kept) cache.slots[have + lanes.rank] = unit;
  sync_in(lanes.mask);
  if (lanes.rank == 0) {
    set_count(&cache.of->count, have + kept);
    set_count(&cache.of->given, cache.of->given + lanes.count);
  }
  unlock(context, lanes, number);
  return lanes.rank < kept;
}

}  // namespace dwell::device::heap
