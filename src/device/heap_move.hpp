// Objects that move: slabs of which little is used are emptied into others, beside the work, so that their pages serve all classes again.
//
// Only objects of types that DWELL_MOVABLE declares move, and only those that nobody has loaded a reference to meanwhile. The host leads:
//
//   clearing   handshake, then all marks are removed, so that an object with one was made while objects move. Slabs are chosen of which few
//              slots are used, all by such objects. Their free slots are taken, the links of their objects (ObjectHeader::link) become 0
//   moving     handshake: from now on, who loads a reference to an object of a chosen slab makes its link `stays`. Then what handles of the
//              host and arguments of tasks name is made to stay too. The other objects are copied, one after the other; a copy counts when
//              the link has changed from 0 to its place. Who loads a reference later gets the new place. Then all references in objects
//              without a mark are changed; the others have been made with new ones
//   rest       behind a handshake, since a worker may load a reference and then read the phase. What objects have left is given back
//
// A task has no address of an object but of those whose references it has loaded, made, or got as arguments. So nobody has the address of
// an object without `stays` that is copied, once the tasks have ended that knew nothing of the move. No worker waits for another: an object
// is left where it is rather than held back from a task. The model tests/model/heap_move.pml shows what is lost without each of these.
#pragma once

#include <dwell/device/heap.hpp>

#include "device/heap_objects.hpp"
#include "device/heap_parts.hpp"

namespace dwell::device::heap {

// ObjectHeader::link of an object in a chosen slab; more: the unit that it has moved to.
namespace link {
inline constexpr u32 none = 0;
inline constexpr u32 stays = 1;  // a unit of the heap's tables
}  // namespace link

// ---- Where an object is ----

DWELL_DEVICE bool is_left(const Heap& heap, u32 unit, u32 most_pages) {
  if (unit == 0 || unit >> kPageUnitsShift >= most_pages) return false;
  const Place place = find_slab(heap, unit);
  return place.number < kClasses && (load<Order::relaxed, Scope::device>(&heap.page(place.slab).object) & object::leaving) != 0;
}

// Where an object of a chosen slab is, which stays there.
DWELL_DEVICE u32 settle(const Heap& heap, u32 unit) {
  u32* const at = &header_at(heap, unit).link;
  // Acquires the copy; pairs with move_object.
  u32 seen = load<Order::acquire, Scope::device>(at);
  if (seen == link::none) seen = compare_exchange<Order::acq_rel>(at, link::none, link::stays);
  return seen > link::stays ? seen : unit;
}

// Where the object is that a reference names which a worker has loaded. Called by any lanes of a warp.
template <class Unused = void>
DWELL_DEVICE_COLD u32 resolve(Context* context, u32 unit) {
  if (context->heap == 0) return unit;
  if (context->heap_state == 0) enter(context);
  if (context->heap_state != 1 + phase::moving) return unit;
  const Heap heap{pointer_to_global<u8>(context->heap)};
  // The reference may be a new one, whose object this multiprocessor has not seen yet. Pairs with renew.
  fence<Scope::device>();
  return is_left(heap, unit, context->heap_pages) ? settle(heap, unit) : unit;
}

// Makes an object stay, if one begins at any unit. Returns whether it does.
template <class Unused = void>
DWELL_DEVICE_COLD bool keep_in_place(const Heap& heap, u32 unit, u32 most_pages) {
  if (!is_left(heap, unit, most_pages)) return false;
  const Bits bits = find_object(heap, unit, most_pages);
  if (bits.objects == nullptr || (load<Order::relaxed, Scope::device>(bits.objects) & bits.object) == 0) return false;
  return settle(heap, unit) == unit;
}

// ---- Choosing ----

inline constexpr u32 kMostWords = 128;  // of a map
inline constexpr u32 kWordsOfLane = kMostWords / kLanes;

DWELL_DEVICE u32 sum_of_lanes(u32 value) {
  u32 sum = 0;
  for (u32 i = 0; i < kLanes; ++i) sum += broadcast(value, i);
  return sum;
}

DWELL_DEVICE bool moves(const Heap& heap, u32 unit) {
  const TypeRecord* const record = record_of(heap, unit);
  return record != nullptr && load<Order::relaxed, Scope::device>(&record->moves) != 0;
}

// Whether a slab has objects, at most `most`, all of types that move. Called by all lanes together.
DWELL_DEVICE bool may_be_left(const Heap& heap, const Class& of, u32 slab, u32 most) {
  u32 count = 0;
  for (u32 word = lane(); word < of.words; word += kLanes)
    count += ones(load<Order::acquire, Scope::device>(heap.objects(slab, of) + word));
  count = sum_of_lanes(count);
  if (count == 0 || count > most) return false;
  bool move = true;
  for (u32 word = lane(); word < of.words && move; word += kLanes)
    for (u32 objects = load<Order::acquire, Scope::device>(heap.objects(slab, of) + word); objects != 0 && move; objects &= objects - 1)
      move = moves(heap, unit_of(of, slab, (word << of.word_shift) + trailing_zeros(objects)));
  return ballot(!move) == 0;
}

// Takes all free slots of a slab. False if its other slots are not all objects' that are there; then it is as before. Called by all lanes
// together.
DWELL_DEVICE bool close(const Heap& heap, u32 number, const Class& of, u32 slab) {
  Page& page = heap.page(slab);
  u32 had[4] = {};  // words with room
  if (lane() == 0)
    for (u32 half = 0; half < 2; ++half) {
      const u64 summary = exchange<Order::acq_rel>(&page.summary[half], 0ULL);
      had[2 * half] = static_cast<u32>(summary);
      had[2 * half + 1] = static_cast<u32>(summary >> 32U);
    }
  for (u32& each : had) each = broadcast(each);
  // The slab keeps its class while one of its words is taken.
  bool whole = (had[0] | had[1] | had[2] | had[3]) != 0 && slabs::class_at_page(heap, slab) == number;
  u32 mine[kWordsOfLane] = {};
  DWELL_UNROLL
  for (u32 i = 0; i < kWordsOfLane; ++i) {
    const u32 word = lane() + i * kLanes;
    if (word >= kMostWords) break;
    if ((had[word / 32] >> (word & 31U) & 1U) != 0) mine[i] = ~fetch_or<Order::acq_rel>(heap.taken(slab) + word, kFullWord);
    // A slot may be in a cache, or have plain memory, or an object that is not there yet.
    if (word < of.words && (~mine[i] & ~no_slots(of, word)) != load<Order::acquire, Scope::device>(heap.objects(slab, of) + word))
      whole = false;
  }
  if (ballot(!whole) == 0) return true;
  DWELL_UNROLL
  for (u32 i = 0; i < kWordsOfLane; ++i)
    if (mine[i] != 0) slabs::give_back(heap, {slab, lane() + i * kLanes, mine[i]});
  return false;
}

// Chooses a slab if `hundredths` of its slots at most are used, by objects that may move. Called by all lanes together.
template <class Unused = void>
DWELL_DEVICE_COLD void choose_slab(const Heap& heap, u32 number, const Class& of, u32 slab, u32 hundredths) {
  if (load<Order::relaxed, Scope::device>(&slabs::counts_of(heap, number).slabs) < 2) return;
  if (!may_be_left(heap, of, slab, of.slots * hundredths / 100) || !close(heap, number, of, slab)) return;
  for (u32 word = lane(); word < of.words; word += kLanes)
    for (u32 objects = load<Order::relaxed, Scope::device>(heap.objects(slab, of) + word); objects != 0; objects &= objects - 1)
      set_link(heap, unit_of(of, slab, (word << of.word_shift) + trailing_zeros(objects)), link::none);
  if (lane() != 0) return;
  fetch_or<Order::acq_rel>(&heap.page(slab).object, object::leaving);
  fetch_add<Order::relaxed>(&heap.header().leaving, u64{1});
}

// ---- Copying ----

// Slots at hand of a warp that copies, of one class.
struct Room {
  slabs::Word word{};
  u32 number = kClasses;

  // Provides a slot at least; false: there is none. Called by all lanes together.
  DWELL_DEVICE bool provide(const Heap& heap, u32 of_class, const Class& of, u32 caller) {
    if (number != of_class) drop(heap);
    number = of_class;
    if (word.slots != 0) return true;
    if (lane() == 0) word = slabs::take(heap, number, of, caller);
    word = {broadcast(word.slab), broadcast(word.index), broadcast(word.slots)};
    return word.slots != 0;
  }
  DWELL_DEVICE void drop(const Heap& heap) {
    if (word.slots != 0 && lane() == 0) slabs::give_back(heap, word);
    word.slots = 0;
  }
};

// Copies a slot. The object may be changed meanwhile by a task that has made it stay: then the copy is dropped. Out of line, where the
// thread sanitizer leaves it out.
template <class Unused = void>
DWELL_RACY DWELL_DEVICE_COLD void copy_slot(const Heap& heap, const Class& of, u32 from, u32 to) {
  const volatile u64* const source = reinterpret_cast<const volatile u64*>(heap.at_unit(from));
  u64* const target = reinterpret_cast<u64*>(heap.at_unit(to));
  for (u32 i = 0; i < of.units * (kUnit / 8U); ++i) target[i] = source[i];
}

// Moves an object to a slot that the caller has; false if it stays.
DWELL_DEVICE bool move_object(const Heap& heap, const Class& of, u32 from, const Place& to) {
  u32* const at = &header_at(heap, from).link;
  // An object that was made while slabs were chosen shows its type for sure behind the handshake alone.
  if (load<Order::relaxed, Scope::device>(at) != link::none || !moves(heap, from)) return false;
  const u32 unit = unit_of(of, to.slab, to.slot);
  copy_slot(heap, of, from, unit);
  u32* const objects = word_of(heap.objects(to.slab, of), of, to.slot);
  fetch_or<Order::acq_rel>(objects, bit_of(of, to.slot));
  fence<Scope::device>();
  // Releases the copy; pairs with settle.
  if (compare_exchange<Order::acq_rel>(at, link::none, unit) == link::none) return true;
  fetch_and<Order::acq_rel>(objects, ~bit_of(of, to.slot));
  return false;
}

// Moves the objects of a chosen slab, as far as there is room. Called by all lanes together.
template <class Unused = void>
DWELL_DEVICE_COLD u32 leave_slab(const Heap& heap, u32 number, const Class& of, u32 slab, u32 caller, Room* room) {
  u32 moved = 0;
  for (u32 word = 0; word < of.words; ++word)
    for (u32 rest = broadcast(load<Order::relaxed, Scope::device>(heap.objects(slab, of) + word)); rest != 0;) {
      if (!room->provide(heap, number, of, caller)) return moved;
      const slabs::Word target = room->word;
      const u32 possible = ones(target.slots) < kLanes ? ones(target.slots) : kLanes;
      const u32 now = lowest(rest, possible);
      rest &= ~now;
      room->word.slots &= ~lowest(target.slots, ones(now));
      if (lane() >= ones(now)) continue;
      const u32 slot = (target.index << of.word_shift) + nth_set(target.slots, lane());
      if (move_object(heap, of, unit_of(of, slab, (word << of.word_shift) + nth_set(now, lane())), {target.slab, number, slot}))
        ++moved;
      else
        slabs::give_back(heap, {target.slab, target.index, bit_of(of, slot)});
    }
  return moved;
}

// ---- References ----

// Changes a reference to an object that has moved.
DWELL_DEVICE void renew(const Heap& heap, u32* field, u32 most_pages) {
  const u32 before = load<Order::relaxed, Scope::device>(field);
  if (!is_left(heap, before, most_pages)) return;
  const u32 now = load<Order::acquire, Scope::device>(&header_at(heap, before).link);
  // Who loads the new reference sees the copy: releases it. Pairs with resolve. A store of a task is not overwritten: it has never stored
  // the old one.
  if (now > link::stays) compare_exchange<Order::acq_rel>(field, before, now);
}

// Changes every `step`-th reference of an object from `first` on.
template <class Unused = void>
DWELL_DEVICE_COLD void renew_object(const Heap& heap, u32 unit, u32 first, u32 step, u32 most_pages) {
  const TypeRecord* const record = record_of(heap, unit);
  if (record == nullptr || record->count == 0) return;
  const u32 elements = elements_of(heap, *record, unit);
  for (u32 element = first; element < elements; element += step)
    for (u32 i = 0; i < record->count; ++i)
      renew(heap, reinterpret_cast<u32*>(heap.at_unit(unit) + record->at[i] + static_cast<u64>(element) * record->stride), most_pages);
}

template <class Unused = void>
DWELL_DEVICE_COLD void renew_slab(const Heap& heap, const Class& of, u32 slab, u32 most_pages) {
  const bool left = (load<Order::relaxed, Scope::device>(&heap.page(slab).object) & object::leaving) != 0;
  for (u32 word = lane(); word < of.words; word += kLanes)
    for (u32 objects = objects_without_mark(heap, of, slab, word); objects != 0; objects &= objects - 1) {
      const u32 unit = unit_of(of, slab, (word << of.word_shift) + trailing_zeros(objects));
      if (left && link_of(heap, unit) > link::stays) continue;
      renew_object(heap, unit, 0, 1, most_pages);
    }
}

// ---- The end ----

// Gives back what the objects of a chosen slab have left. Called by all lanes together.
template <class Unused = void>
DWELL_DEVICE_COLD u32 release_slab(const Heap& heap, const Class& of, u32 slab) {
  if (lane() == 0) fetch_and<Order::acq_rel>(&heap.page(slab).object, ~object::leaving);
  sync_lanes();
  u32 moved = 0;
  for (u32 word = lane(); word < of.words; word += kLanes) {
    const u32 objects = load<Order::acquire, Scope::device>(heap.objects(slab, of) + word);
    u32 stay = 0;
    for (u32 rest = objects; rest != 0; rest &= rest - 1) {
      const u32 bit = rest & (0U - rest);
      if (link_of(heap, unit_of(of, slab, (word << of.word_shift) + trailing_zeros(bit))) <= link::stays) stay |= bit;
    }
    moved += ones(objects & ~stay);
    if (objects != stay) fetch_and<Order::acq_rel>(heap.objects(slab, of) + word, stay);
    fence<Scope::device>();
    const u32 slots = ~no_slots(of, word) & ~stay;
    if (slots != 0) slabs::give_back(heap, {slab, word, slots});
  }
  return moved;
}

// ---- Parts ----

// Does the part that Collect::verb names on the slabs and runs in pages [first, end). Called by a group together.
DWELL_DEVICE void move_in_pages(const Heap& heap, const Context* context, const Collect& what) {
  HeapHeader& header = heap.header();
  const u32 warps = kGroupThreads / kLanes;
  const u32 warp = what.group * warps + thread_rank() / kLanes;
  Room room;
  u64 moved = 0;
  u64 bytes = 0;
  for (u32 page = static_cast<u32>(what.first) + warp; page < what.end; page += what.groups * warps) {
    const u32 kind = load<Order::acquire, Scope::device>(&heap.page(page).kind);
    const u32 is = load<Order::relaxed, Scope::device>(&heap.page(page).object);
    const u32 number = (kind & kind::mask) - 1;
    if ((kind & kind::mask) == kind::run && what.verb == verb::choose && lane() == 0)
      fetch_and<Order::relaxed>(&heap.page(page).object, ~object::marked);
    if ((kind & kind::mask) == kind::run && what.verb == verb::renew && (is & (object::is | object::marked)) == object::is)
      renew_object(heap, page << kPageUnitsShift, lane(), kLanes, context->heap_pages);
    if (number >= kClasses || kind >> kind::shift != 0) continue;
    const Class& of = header.classes[number];
    const bool left = (is & object::leaving) != 0;
    if (what.verb == verb::choose) {
      clear_marks(heap, of, page);
      if (!left && (page >> of.page_shift) % what.units[1] == 0) choose_slab(heap, number, of, page, what.units[0]);
    }
    if (what.verb == verb::move && left) leave_slab(heap, number, of, page, warp, &room);
    if (what.verb == verb::renew) renew_slab(heap, of, page, context->heap_pages);
    if (what.verb != verb::release || !left) continue;
    const u32 here = release_slab(heap, of, page);
    moved += here;
    bytes += static_cast<u64>(here) * of.units * kUnit;
  }
  room.drop(heap);
  if (moved == 0) return;
  fetch_add<Order::relaxed>(&header.moved, moved);
  fetch_add<Order::relaxed>(&header.moved_bytes, bytes);
}

// Does a part of a move. Called by a group together; trim by one group alone.
template <class Unused = void>
DWELL_DEVICE_COLD void move_objects(Context* context, const Collect& what) {
  if (context->heap == 0) return;
  if (context->heap_state == 0) enter(context);
  const Heap heap{pointer_to_global<u8>(context->heap)};
  if (what.verb == verb::trim)
    slabs::trim_all(heap);
  else
    move_in_pages(heap, context, what);
  if (what.result != nullptr && what.group == 0 && thread_rank() == 0) tell(heap, 0, what.result);
}

}  // namespace dwell::device::heap
