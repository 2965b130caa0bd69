// The heap, as operators call it: allocations of any size.
#pragma once

#include "device/heap_caches.hpp"
#include "device/heap_guard.hpp"

namespace dwell::device::heap {

// Takes a run of pages. Returns its first unit; 0: there is no room. Called by one thread.
template <class Unused = void>
DWELL_DEVICE_COLD u32 take_run(const Heap& heap, u64 bytes) {
  const u64 count = (bytes + kPageBytes - 1) / kPageBytes;
  u32 first = 0;
  if (count <= heap.header().most_pages) {
    slabs::pace(heap);
    first = slabs::take_pages(heap, static_cast<u32>(count));
  }
  if (first == 0) {
    store<Order::relaxed, Scope::device>(&heap.header().failed_bytes, bytes);
    add<Order::relaxed>(&heap.header().failed_runs, 1U);
    return 0;
  }
  for (u32 i = 1; i < count; ++i) store<Order::relaxed, Scope::device>(&heap.page(first + i).kind, kind::inside);
  store<Order::relaxed, Scope::device>(&heap.page(first).object, 0U);
  store<Order::relaxed, Scope::device>(&heap.page(first).kind, kind::run | static_cast<u32>(count) << kind::shift);
  add<Order::relaxed>(&heap.header().runs, 1U);
  return first << kPageUnitsShift;
}

// Gives a run back; false if it is none, or another caller gives it back. `object`: Page::object of the runs that it gives back.
template <class Unused = void>
DWELL_DEVICE_COLD bool give_run(const Heap& heap, u32 first, u32 object = 0) {
  u32* const at = &heap.page(first).kind;
  const u32 what = load<Order::relaxed, Scope::device>(at);
  if (load<Order::relaxed, Scope::device>(&heap.page(first).object) != object) return false;
  if ((what & kind::mask) != kind::run || compare_exchange<Order::acq_rel>(at, what, kind::none) != what) return false;
  const u32 count = what >> kind::shift;
  for (u32 i = 1; i < count; ++i) store<Order::relaxed, Scope::device>(&heap.page(first + i).kind, kind::none);
  add<Order::relaxed>(&heap.header().runs, ~0U);
  fence<Scope::device>();  // the group's accesses come before those of the pages' next users
  pages::give_back(heap, first, count);
  return true;
}

// Notes a slot that an operator gets, or gives back. False if it was so already: a slot given back twice.
template <bool is_live>
DWELL_DEVICE bool note_live(const Heap& heap, const Class& of, u32 slab, u32 slot) {
  u32* const word = word_of(heap.live(slab, of), of, slot);
  const u32 bit = bit_of(of, slot);
  const u32 before = is_live ? fetch_or<Order::relaxed>(word, bit) : fetch_and<Order::relaxed>(word, ~bit);
  return ((before & bit) != 0) != is_live;
}

// Takes a run for a task, unless that has failed for want of memory (take_from_slabs).
DWELL_DEVICE u32 take_run(const Heap& heap, const Context* context, u64 bytes) {
  return *const_cast<const volatile i32*>(&context->status) == status::out_of_memory ? 0 : take_run(heap, bytes);
}

// Takes a slot of a class; 0: there is no room. Called by any lanes of a warp, each with its own class.
DWELL_DEVICE u32 take_slot(const Heap& heap, Context* context, u32 number) {
  return take_slots(heap, context, Lanes(lanes_with(active_lanes(), number)), number);
}
DWELL_DEVICE Place place_in(const Class& of, u32 number, u32 unit) {
  const u32 slab = unit >> kPageUnitsShift & ~((1U << of.page_shift) - 1);
  return {slab, number, slot_at(of, unit - (slab << kPageUnitsShift))};
}

// Fails a task of which it shows that somebody has written where nothing was his. Called by any lanes of a warp.
DWELL_DEVICE void note_bad_write(Context* context) { replace_in_group(&context->status, i32{status::ok}, i32{status::bad_write}); }

// Allocates with a guard, of HeapChecks::full.
template <class Unused = void>
DWELL_DEVICE_COLD u32 allocate_guarded(const Heap& heap, Context* context, u64 bytes) {
  const u64 more = guard::with_guard(bytes);
  if (more > kLargestClass) {
    const u32 unit = take_run(heap, context, more);
    if (unit != 0) guard::put(heap, unit, static_cast<u64>((more + kPageBytes - 1) / kPageBytes) * kPageBytes, bytes);
    return unit;
  }
  const u32 number = class_of_size(static_cast<u32>(more));
  const u32 unit = take_slot(heap, context, number);
  if (unit == 0) return 0;
  const Class& of = heap.header().classes[number];
  const u64 whole = u64{of.units} * kUnit;
  if (!guard::is_untouched(heap, unit, whole)) note_bad_write(context);
  guard::put(heap, unit, whole, bytes);
  const Place place = place_in(of, number, unit);
  note_live<true>(heap, of, place.slab, place.slot);
  return unit;
}
// Looks at the guard of what is freed.
template <class Unused = void>
DWELL_DEVICE_COLD void check_guard(const Heap& heap, Context* context, const Place& place, u32 unit) {
  const bool is_run = place.number == kClasses;
  const u64 whole = is_run ? static_cast<u64>(load<Order::relaxed, Scope::device>(&heap.page(place.slab).kind) >> kind::shift) * kPageBytes
                           : u64{heap.header().classes[place.number].units} * kUnit;
  if (!guard::is_whole(heap, unit, whole)) note_bad_write(context);
  if (!is_run) guard::fill(heap, unit, whole);
}

// Allocates `bytes`; returns the first unit, or 0 when there is no room. Called by any lanes of a warp, each with its own size.
DWELL_DEVICE u32 allocate(Context* context, u64 bytes) {
  if (context->heap == 0) return 0;
  if (context->heap_state == 0) enter(context);
  const Heap heap{pointer_to_global<u8>(context->heap)};
  if (context->heap_checks > kChecksFrees) return allocate_guarded(heap, context, bytes);
  if (bytes > kLargestClass) return take_run(heap, context, bytes);
  const u32 number = class_of_size(static_cast<u32>(bytes));
  const u32 unit = take_slot(heap, context, number);
  if (context->heap_checks != 0 && unit != 0) {
    const Class& of = heap.header().classes[number];
    const Place place = place_in(of, number, unit);
    note_live<true>(heap, of, place.slab, place.slot);
  }
  return unit;
}

// Frees what begins at this unit; 0: nothing. Returns a status: with checks, bad_free if nothing allocated begins there, or an
// object. Called by any lanes of a warp.
DWELL_DEVICE i32 free(Context* context, u32 unit) {
  if (unit == 0) return status::ok;
  if (context->heap == 0) return status::bad_free;
  if (context->heap_state == 0) enter(context);
  const Heap heap{pointer_to_global<u8>(context->heap)};
  const bool checks = context->heap_checks != 0;
  Place place = checks ? find_place(heap, unit, context->heap_pages) : find_slab(heap, unit);
  if (place.number == kClasses) {
    if (context->heap_checks > kChecksFrees && load<Order::relaxed, Scope::device>(&heap.page(place.slab).object) == 0)
      check_guard(heap, context, place, unit);
    return give_run(heap, place.slab) ? status::ok : status::bad_free;
  }
  if (place.number > kClasses) return status::bad_free;
  const Class& of = heap.header().classes[place.number];
  if (checks && !note_live<false>(heap, of, place.slab, place.slot)) return status::bad_free;
  if (context->heap_checks > kChecksFrees) check_guard(heap, context, place, unit);
  if (give_to_cache(context, Lanes(lanes_with(active_lanes(), place.number)), place.number, of.kept, unit)) return status::ok;
  if (!checks) place.slot = slot_at(of, unit - (place.slab << kPageUnitsShift));
  give_to_slabs(heap, place.number, place.slab, place.slot);
  return status::ok;
}

}  // namespace dwell::device::heap
