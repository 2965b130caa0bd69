// A walk over a heap that nobody uses meanwhile, or over a copy of one: what it holds, and whether its tables agree with each other.
#pragma once

#include "device/heap.hpp"

namespace dwell::device::heap {

// Sums of a class, or of the whole heap.
struct Sums {
  u64 slots;    // of its slabs
  u64 taken;    // slots that are taken: by allocations or caches
  u64 cached;   // slots in caches
  u64 objects;  // slots of objects
  u64 slabs;
  u64 pages;
};

struct Census {
  Sums classes[kClasses];
  u64 runs;  // allocations larger than the largest class
  u64 run_pages;
  u64 used;      // pages in use, by the map; without the tables
  u64 mistakes;  // places at which tables contradict each other
  u32 mistake;   // page of the first of these
};

// Objects of a type, and the bytes of their slots or pages.
struct TypeSums {
  u64 objects;
  u64 bytes;
};

struct TypeCensus {
  TypeSums types[kMostTypes + 1];  // by number; 0: of no type
  u64 runs;                        // objects larger than the largest class
  u64 run_pages;
};

DWELL_DEVICE void note_mistake(Census* census, u32 page) {
  if (census->mistakes++ == 0) census->mistake = page;
}

// Counts a slab, and checks its summary and its maps.
DWELL_DEVICE void count_slab(const Heap& heap, u32 number, u32 slab, Census* census) {
  const Class& of = heap.header().classes[number];
  Sums& sums = census->classes[number];
  u64 summary[2] = {};
  for (u32 i = 0; i < of.words; ++i) {
    const u32 word = heap.taken(slab)[i];
    const u32 none = no_slots(of, i);
    if ((word & none) != none) note_mistake(census, slab);
    if (word != kFullWord) summary[i / 64] |= 1ULL << (i & 63U);
    sums.taken += ones(word & ~none);
    const u32 live = heap.live(slab, of)[i];
    const u32 objects = heap.objects(slab, of)[i];
    if (((live | objects) & ~word) != 0 || ((live | objects) & none) != 0 || (live & objects) != 0) note_mistake(census, slab);
    sums.objects += ones(objects);
  }
  const Page& page = heap.page(slab);
  if (page.summary[0] != summary[0] || page.summary[1] != summary[1]) note_mistake(census, slab);
  for (u32 i = 0; i < 1U << of.page_shift; ++i)
    if (heap.page(slab + i).kind != ((number + 1) | i << kind::shift)) note_mistake(census, slab);
  sums.slots += of.slots;
  sums.slabs += 1;
  sums.pages += 1U << of.page_shift;
}

DWELL_DEVICE void count_cache(const Heap& heap, u64 cache, Census* census) {
  const HeapHeader& header = heap.header();
  for (u32 number = 0; number < kClasses; ++number) {
    const CacheOfClass& of = heap.table<CacheOfClass>(header.cache_table)[cache * kClasses + number];
    const u32* const slots = heap.table<u32>(header.cache_slots) + (cache * kClasses + number) * header.cache;
    census->classes[number].cached += of.count;
    for (u32 i = 0; i < of.count; ++i) {
      const Place place = find_place(heap, slots[i], header.most_pages);
      const Class& its = header.classes[number];
      const bool taken = place.number == number && (*word_of(heap.taken(place.slab), its, place.slot) & bit_of(its, place.slot)) != 0;
      const bool live =
          taken && ((*word_of(heap.live(place.slab, its), its, place.slot) | *word_of(heap.objects(place.slab, its), its, place.slot)) &
                    bit_of(its, place.slot)) != 0;
      if (!taken || live) note_mistake(census, slots[i] >> kPageUnitsShift);
    }
  }
}

// `caches`: as many as the heap was laid out for.
DWELL_DEVICE Census take_census(const Heap& heap, u64 caches) {
  Census census{};
  const HeapHeader& header = heap.header();
  u64 in_kinds = 0;
  for (u32 page = header.first_page; page < header.pages;) {
    const u32 what = heap.page(page).kind;
    const u32 of = what & kind::mask;
    u32 length = 1;
    if (of >= 1 && of <= kClasses) {
      length = 1U << header.classes[of - 1].page_shift;
      count_slab(heap, of - 1, page, &census);
    } else if (of == kind::run) {
      length = what >> kind::shift;
      census.runs += 1;
      census.run_pages += length;
    } else if (of != kind::none) {
      note_mistake(&census, page);
    }
    if (of != kind::none) in_kinds += length;
    for (u32 i = 0; i < length; ++i) {
      const bool used = (heap.page_map()[(page + i) / 64] >> ((page + i) % 64) & 1U) != 0;
      census.used += used ? 1 : 0;
      if (used != (of != kind::none)) note_mistake(&census, page + i);
    }
    page += length;
  }
  if (census.used != in_kinds || header.used != census.used + header.first_page || header.runs != census.runs) note_mistake(&census, 0);
  for (u64 cache = 0; cache < caches; ++cache) count_cache(heap, cache, &census);
  return census;
}

// ---- By type ----

DWELL_DEVICE void count_object(const ObjectHeader& header, u64 bytes, TypeCensus* census) {
  TypeSums& sums = census->types[header.type <= kMostTypes ? header.type : 0];
  sums.objects += 1;
  sums.bytes += bytes;
}

// Counts the objects of a slab. `at`: where it begins, in the heap or in a copy of it.
DWELL_DEVICE void count_objects(const Class& of, const u8* at, TypeCensus* census) {
  const u32* const objects = reinterpret_cast<const u32*>(at) + 2U * of.words;
  const u64 bytes = static_cast<u64>(of.units) * kUnit;
  for (u32 word = 0; word < of.words; ++word)
    for (u32 left = objects[word]; left != 0; left &= left - 1) {
      const u32 slot = (word << of.word_shift) + trailing_zeros(left);
      count_object(*reinterpret_cast<const ObjectHeader*>(at + of.first * u64{kUnit} + slot * bytes), bytes, census);
    }
}

}  // namespace dwell::device::heap
