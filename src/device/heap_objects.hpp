// Objects of the heap: their types, and what a collection needs to be told of them by those who work meanwhile.
//
// An object begins with ObjectHeader. Its bit in the slab's map of objects is set when it is made, and cleared by the collection that frees
// it. Its bit in the map of marks says that the collection under way has reached it. Who sets that bit makes sure that the object is
// visited: that its references are marked too. Objects to be visited are linked to each other by their headers, so marking takes no memory.
#pragma once

#include "device/heap.hpp"

namespace dwell::device::heap {

// An object's bits in the maps of objects and of marks.
struct Bits {
  u32* objects;  // null: nothing begins there
  u32* marks;
  u32 object;
  u32 mark;
};

// The bits of what begins at a unit in a slab.
DWELL_DEVICE Bits bits_in(const Heap& heap, const Class& of, const Place& place) {
  const u32 bit = bit_of(of, place.slot);
  return {word_of(heap.objects(place.slab, of), of, place.slot), word_of(heap.marks(place.slab, of), of, place.slot), bit, bit};
}
DWELL_DEVICE Bits bits_of_run(const Heap& heap, u32 first) {
  u32* const word = &heap.page(first).object;
  return {word, word, object::is, object::marked};
}
// Finds the bits of what begins at any unit, which may be no object: a reference that is out of date, or any number.
DWELL_DEVICE Bits find_object(const Heap& heap, u32 unit, u32 most_pages) {
  const Place place = find_place(heap, unit, most_pages);
  Bits bits{};
  if (place.number == kClasses)
    bits = bits_of_run(heap, place.slab);
  else if (place.number < kClasses)
    bits = bits_in(heap, heap.header().classes[place.number], place);
  else
    return bits;
  return bits;
}
// Marks an object. False if it was marked before, or there is none.
DWELL_DEVICE bool mark(const Heap& heap, u32 unit, u32 most_pages) {
  if (unit == 0) return false;
  const Bits bits = find_object(heap, unit, most_pages);
  if (bits.objects == nullptr) return false;
  // Both loads are pending together.
  const u32 objects = load<Order::relaxed, Scope::device>(bits.objects);
  const u32 marks = load<Order::relaxed, Scope::device>(bits.marks);
  if ((objects & bits.object) == 0 || (marks & bits.mark) != 0) return false;
  return (fetch_or<Order::relaxed>(bits.marks, bits.mark) & bits.mark) == 0;
}

// The same, out of line: NVRTC 13.0 does not come to an end with it behind a load of the heap's address.
template <class Unused = void>
DWELL_DEVICE_COLD bool mark_any(const Heap& heap, u32 unit, u32 most_pages) {
  return mark(heap, unit, most_pages);
}

DWELL_DEVICE u32 objects_without_mark(const Heap& heap, const Class& of, u32 slab, u32 word) {
  // Before the marks: see make_object.
  const u32 objects = load<Order::acquire, Scope::device>(heap.objects(slab, of) + word);
  return objects == 0 ? 0 : objects & ~load<Order::acquire, Scope::device>(heap.marks(slab, of) + word);
}
// Called by all lanes together, while the slab keeps its class.
DWELL_DEVICE void clear_marks(const Heap& heap, const Class& of, u32 slab) {
  for (u32 word = lane(); word < of.words; word += kLanes) store<Order::relaxed, Scope::device>(heap.marks(slab, of) + word, 0U);
}

DWELL_DEVICE ObjectHeader& header_at(const Heap& heap, u32 unit) { return *reinterpret_cast<ObjectHeader*>(heap.at_unit(unit)); }
DWELL_DEVICE u32 link_of(const Heap& heap, u32 unit) { return load<Order::relaxed, Scope::device>(&header_at(heap, unit).link); }
DWELL_DEVICE void set_link(const Heap& heap, u32 unit, u32 next) {
  store<Order::relaxed, Scope::device>(&header_at(heap, unit).link, next);
}

// ---- Types ----

DWELL_DEVICE TypeRecord* types_of(const Heap& heap) { return heap.table<TypeRecord>(heap.header().type_table); }

// The type of an object; null: it has no references, or none of the types that are known.
DWELL_DEVICE const TypeRecord* record_of(const Heap& heap, u32 unit) {
  const u32 type = load<Order::relaxed, Scope::device>(&header_at(heap, unit).type);
  return type == 0 || type > kMostTypes ? nullptr : types_of(heap) + (type - 1);
}
// An object's elements that have references: 1, unless it is an array.
DWELL_DEVICE u32 elements_of(const Heap& heap, const TypeRecord& record, u32 unit) {
  if (record.stride == 0) return 1;
  return load<Order::relaxed, Scope::device>(reinterpret_cast<const u32*>(heap.at_unit(unit) + record.at[0]) - 2);
}

// Returns the number of a type; 0: it has not been declared. Called by any lanes of a warp.
DWELL_DEVICE u32 find_type(Context* context, u64 key) {
  if (context->heap == 0) return 0;
  if (context->heap_state == 0) enter(context);
  const Heap heap{pointer_to_global<u8>(context->heap)};
  for (u32 i = 0; i < kMostTypes; ++i) {
    const u32 at = (static_cast<u32>(key) + i) & (kMostTypes - 1);
    const u64 found = load<Order::relaxed, Scope::device>(&types_of(heap)[at].key);
    if (found == key) return at + 1;
    if (found == 0) return 0;
  }
  return 0;
}

// Declares a type, unless it is declared; returns its number, or 0 when there is no room for it. Called by any lanes of a warp.
template <class Unused = void>
DWELL_DEVICE_COLD u32 declare_type(Context* context, const TypeRecord* type) {
  if (context->heap == 0) return 0;
  const Heap heap{pointer_to_global<u8>(context->heap)};
  for (u32 i = 0; i < kMostTypes; ++i) {
    const u32 at = (static_cast<u32>(type->key) + i) & (kMostTypes - 1);
    TypeRecord* const place = types_of(heap) + at;
    const u64 found = compare_exchange<Order::acq_rel>(&place->key, u64{0}, type->key);
    if (found != 0 && found != type->key) continue;
    if (found == 0) {
      // No object of the type is visited before a handshake with this worker: the collector reads the whole record.
      const u32* const from = reinterpret_cast<const u32*>(type);
      u32* const to = reinterpret_cast<u32*>(place);
      for (u32 word = 2; word < sizeof(TypeRecord) / 4; ++word) store<Order::relaxed, Scope::device>(to + word, from[word]);
      if (type->moves != 0) fetch_or<Order::relaxed>(&heap.header().movable, 1U);
      fetch_add<Order::acq_rel>(&heap.header().types, 1U);
    }
    return at + 1;
  }
  return 0;
}

// ---- Those who work during a collection ----

// Adds an object that was marked to those to be visited. Called by any lanes of a warp; those with one line do it at once.
DWELL_DEVICE void to_be_visited(const Heap& heap, u32 line, u32 unit) {
  const Lanes together(lanes_with(active_lanes(), line));
  const u32 behind = together.mask & ~((2U << lane()) - 1);
  const u32 next = broadcast_in(together.mask, unit, behind != 0 ? trailing_zeros(behind) : lane());
  const u32 newest = together.broadcast(unit);
  if (behind != 0) set_link(heap, unit, next);
  sync_in(together.mask);
  if (behind != 0) return;
  u32* const first = &heap.table<MarkLine>(heap.header().line_table)[line % heap.header().lines].first;
  u32 before = load<Order::relaxed, Scope::device>(first);
  for (;;) {
    set_link(heap, unit, before);
    // Releases the links; pairs with take_line.
    const u32 seen = compare_exchange<Order::acq_rel>(first, before, newest);
    if (seen == before) return;
    before = seen;
  }
}

// Marks what a reference names that is about to be overwritten, or that a task has got as an argument. Called by any lanes of a warp.
template <class Unused = void>
DWELL_DEVICE_COLD void before_store(Context* context, u32 unit) {
  if (context->heap == 0) return;
  if (context->heap_state == 0) enter(context);
  if (context->heap_state != 1 + phase::guarding && context->heap_state != 1 + phase::marking) return;
  const Heap heap{pointer_to_global<u8>(context->heap)};
  if (mark_any(heap, unit, context->heap_pages)) to_be_visited(heap, context->heap_caller + thread_rank() / kLanes, unit);
}

// Allocates an object of a type: `bytes` with its header. Returns its unit, or 0 when there is no room. Called by any lanes of a warp.
DWELL_DEVICE u32 make_object(Context* context, u64 bytes, u32 type) {
  const Heap heap{pointer_to_global<u8>(context->heap)};
  u32 unit = 0;
  Bits bits{};
  if (bytes > kLargestClass) {
    unit = take_run(heap, context, bytes);
    if (unit != 0) bits = bits_of_run(heap, unit >> kPageUnitsShift);
  } else {
    const u32 number = class_of_size(static_cast<u32>(bytes));
    unit = take_slot(heap, context, number);
    const Class& of = heap.header().classes[number];
    if (unit != 0) bits = bits_in(heap, of, place_in(of, number, unit));
  }
  if (unit == 0) return 0;
  store<Order::relaxed, Scope::device>(&header_at(heap, unit).type, type);
  const bool marked = context->heap_state >= 1 + phase::marking;
  if (!marked) {
    fetch_or<Order::relaxed>(bits.objects, bits.object);
    return unit;
  }
  // The mark comes first: who sees an object without it frees it. Pairs with the sweep.
  fetch_or<Order::relaxed>(bits.marks, bits.mark);
  fence<Scope::device>();
  fetch_or<Order::acq_rel>(bits.objects, bits.object);
  return unit;
}

}  // namespace dwell::device::heap
