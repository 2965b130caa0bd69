// The heap's layout in its range of memory, shared by host and device.
//
// The range is divided into pages of 64 KiB. The first pages hold the heap's own tables: HeapHeader, then those that it names. A slab is a
// run of pages, aligned to its size, of which all slots have the size of one class. Allocations larger than the largest class are runs of
// pages. All references are numbers: a page's, or a unit's of 16 bytes from the start of the range, so the range may lie at any address.
#pragma once

#include <dwell/device/object.hpp>

namespace dwell::device::heap {

inline constexpr u32 kUnit = 16;         // bytes
inline constexpr u32 kPageUnits = 4096;  // units of a page
inline constexpr u32 kPageUnitsShift = 12;
inline constexpr u32 kPageBytes = kPageUnits * kUnit;  // 64 KiB
inline constexpr u32 kMostPages = 1U << 20U;           // 64 GiB: a reference has 32 bits
inline constexpr u32 kClasses = 32;
inline constexpr u32 kLargestClass = 8192;  // bytes
inline constexpr u32 kMostShards = 64;      // of a class
inline constexpr u32 kMaps = 4;             // of a slab: a bit a slot in each
inline constexpr u32 kMostTypes = 1024;     // of objects
inline constexpr u32 kFullWord = ~0U;

DWELL_HOST_DEVICE u32 log2_of(u32 number) {
  u32 log = 0;
  for (u32 step = 16; step != 0; step /= 2) {
    if (number >> step == 0) continue;
    log += step;
    number >>= step;
  }
  return log;
}

// Bytes of a class's slots: 16 to 128 in steps of 16, then four sizes an octave.
DWELL_HOST_DEVICE u32 size_of_class(u32 number) {
  return number < 8 ? kUnit * (number + 1) : (32U << ((number - 8) / 4)) * (5 + (number - 8) % 4);
}
// The class of the smallest slots that hold 1 to kLargestClass bytes.
DWELL_HOST_DEVICE u32 class_of_size(u32 bytes) {
  if (bytes <= 128) return bytes == 0 ? 0 : (bytes - 1) / kUnit;
  const u32 octave = log2_of(bytes - 1) - 7;
  return 8 + octave * 4 + ((bytes - 1) >> (octave + 5) & 3U);
}

// What all slabs of a class have in common.
struct Class {
  u32 reciprocal;  // of the slots' units, rounded up: see slot_at
  u16 units;       // of a slot
  u16 slots;       // of a slab
  u16 first;       // unit of the first slot, from the slab's start. Slots end with the slab, so they are as aligned as their size
  u8 words;        // of each map
  u8 word_shift;   // slots of a word, as a power of two; its other bits are always set
  u8 page_shift;   // pages of a slab, as a power of two
  u8 kept;         // slots that a cache keeps
  u16 reserved;
};
static_assert(sizeof(Class) == 16);

DWELL_HOST_DEVICE u32 words_of(u32 slots, u32 word_shift) { return (slots + (1U << word_shift) - 1) >> word_shift; }

// `cache`: most slots of any class that a cache keeps, `cache_bytes` most bytes, but one slot at least.
DWELL_HOST_DEVICE Class class_at(u32 number, u32 cache, u32 cache_bytes) {
  const u32 size = size_of_class(number);
  u32 page_shift = 0;
  while ((kPageBytes << page_shift) < 128 * size) ++page_shift;
  const u32 word_shift = size <= 1024 ? 5 : 4;
  const u32 bytes = kPageBytes << page_shift;
  u32 slots = bytes / size;
  while (slots * size + kMaps * 4 * words_of(slots, word_shift) > bytes) --slots;
  const u32 by_bytes = cache_bytes / size;
  const u32 kept = by_bytes < 1 ? 1 : by_bytes;
  Class one{};
  one.units = static_cast<u16>(size / kUnit);
  one.reciprocal = static_cast<u32>(((1ULL << 32U) + one.units - 1) / one.units);
  if (one.units == 1) one.reciprocal = 0;  // 2^32 does not fit
  one.slots = static_cast<u16>(slots);
  one.first = static_cast<u16>((bytes - slots * size) / kUnit);
  one.words = static_cast<u8>(words_of(slots, word_shift));
  one.word_shift = static_cast<u8>(word_shift);
  one.page_shift = static_cast<u8>(page_shift);
  one.kept = static_cast<u8>(kept < cache ? kept : cache);
  return one;
}

// The slot that a unit of a slab is in; beyond the last one for units of its maps.
DWELL_HOST_DEVICE u32 slot_at(const Class& of, u32 unit) {
  const u32 from_first = unit - of.first;
  return of.reciprocal == 0 ? from_first : static_cast<u32>(static_cast<u64>(from_first) * of.reciprocal >> 32U);
}
// The bits of a word that stand for no slot.
DWELL_HOST_DEVICE u32 no_slots(const Class& of, u32 word) {
  const u32 from = word << of.word_shift;
  const u32 left = of.slots - from;
  const u32 count = left < (1U << of.word_shift) ? left : 1U << of.word_shift;
  return count == 32 ? 0 : kFullWord << count;
}
// A bit for each word of a half of a slab.
DWELL_HOST_DEVICE u64 all_words(const Class& of, u32 half) {
  const u32 words = of.words <= 64 * half ? 0 : of.words - 64 * half;
  return words >= 64 ? ~0ULL : (1ULL << words) - 1;
}

// Page::kind.
namespace kind {
inline constexpr u32 none = 0;        // free, or of the heap's tables
inline constexpr u32 mask = 0xFFU;    // 1 to kClasses: a page of a slab of this class, less 1; which one, in the bits from `shift` on
inline constexpr u32 inside = 0xFEU;  // a page behind the first of a run
inline constexpr u32 run = 0xFFU;     // the first page of a run; the number of its pages in the bits from `shift` on
inline constexpr u32 shift = 8;
}  // namespace kind

// Page::object.
namespace object {
inline constexpr u32 is = 1;       // the run is an object
inline constexpr u32 marked = 2;   // which the collection under way has reached
inline constexpr u32 leaving = 4;  // of the first page of a slab: its objects are to move (heap_move.hpp)
}  // namespace object

// Phases of a collection (heap_collect.hpp). A worker sees one for a whole lease at least.
namespace phase {
inline constexpr u32 rest = 0;      // none is under way
inline constexpr u32 clearing = 1;  // marks are removed
inline constexpr u32 guarding = 2;  // references that are overwritten are marked
inline constexpr u32 marking = 3;   // also, new objects are born marked
inline constexpr u32 sweeping = 4;  // new objects are born marked
inline constexpr u32 moving = 5;    // an object stays where it is from the first load of a reference to it on
}  // namespace phase
static_assert(phase::rest + 1 == kHeapAtRest && phase::moving + 1 == kHeapMoves);

// What the heap knows of a page.
struct alignas(32) Page {
  u32 kind;
  u32 next;        // of a slab in a list: number of the next one's first page, or 0
  u32 listed;      // 1: the slab is in a list of slabs that may have room, or about to be
  u32 object;      // of a run, or a slab
  u64 summary[2];  // of a slab: a bit for each word that has room; who clears it has taken the word
};
static_assert(sizeof(Page) == 32);

// Slabs of a class that some of the callers look in first.
struct alignas(128) Shard {
  u64 list;     // slabs that may have room: first page of the first one (32) | count of changes (32)
  u32 opening;  // 1: a caller opens a slab
  u32 reserved[29];
};
static_assert(sizeof(Shard) == 128);

// What is known of a class.
struct alignas(128) ClassCounts {
  u32 slabs;                                 // that it has
  u32 failures;                              // allocations without room
  u64 swept;                                 // slots that collections have freed
  alignas(64) u64 listed[kMostShards / 64];  // a bit a shard: its list may have slabs
};
static_assert(sizeof(ClassCounts) == 128);

// The slots at hand of a warp, of one class. Used by the holder of the class's lock (Context::heap_locks), and passed on with the seat.
struct alignas(32) CacheOfClass {
  u64 taken;  // slots that operators have got
  u64 given;  // slots that they have given back
  u32 count;  // slots at hand
  u32 reserved[3];
};
static_assert(sizeof(CacheOfClass) == 32);

// Slots that a cache has room for.
inline constexpr u32 kCacheOnGpu = 32;
inline constexpr u32 kCacheOnCpu = 128;

struct alignas(128) HeapHeader {
  u32 magic;
  u32 pages;         // of the range as it is mapped; the host raises it
  u32 first_page;    // behind the tables
  u32 shards;        // of a class, a power of two
  u32 warps;         // of a worker
  u32 cache;         // slots that a cache has room for
  u32 checks;        // HeapChecks
  u32 words;         // of page_map, for as many pages as the range may have
  u64 page_map;      // offsets from the start of the range: u64 each 64 pages, a bit a page in use
  u64 page_table;    // Page each page
  u64 shard_table;   // Shard, by class and shard
  u64 count_table;   // ClassCounts, by class
  u64 cache_table;   // CacheOfClass, by worker, warp and class
  u64 cache_slots;   // u32, by worker, warp and class
  u64 bytes;         // of the tables
  u64 report;        // address of the HeapReport, in host memory
  u64 type_table;    // TypeRecord, by number less 1; a type is in the first free place from its key on
  u64 handle_table;  // u32 each: references that the host holds
  u64 chain_table;   // u32 each: an object that leads to others by their links, which are to be visited; 0: none. `chains`, then `rests`
  u64 line_table;    // MarkLine, by worker and warp
  u32 most_pages;    // that the range may have
  u32 handles;       // entries of the tables
  u32 chains;        // that visitors leave to each other; a power of two
  u32 rests;         // what visitors have left of their own when time was over
  u32 lines;
  u32 reserved;
  Class classes[kClasses];
  alignas(128) u32 used;  // pages in use, the tables' included
  u32 runs;               // allocations larger than the largest class
  u32 walks;              // through all pages for empty slabs: twice those that are over, plus 1 while there is one
  u32 fruitful;           // `walks` behind the last one that has found some
  alignas(128) u32 hint;  // word of page_map to look in first
  // Changed by the collector, and by those who mark during a collection.
  alignas(128) u32 phase;
  u32 types;      // that were declared
  u32 threshold;  // pages in use beyond which a collection is wanted
  u32 published;  // the first `chains` entries of chain_table in use, about
  u64 top;        // page behind the last one that was ever in use
  u64 marked;     // objects that the collection under way has reached
  u64 freed;      // and freed
  u64 freed_bytes;
  // Changed by the collector while objects move.
  u64 leaving;      // slabs that were chosen
  u64 moved;        // objects
  u64 moved_bytes;  // of their slots
  u32 movable;      // 1: a type of objects that move was declared
  u32 rested;       // of the entries of chain_table behind the first `chains`, those in use
  // Of allocations that have found no room, for the host's message.
  u64 failed_bytes;  // the last one: what it asked for, or its class's size; 0: there was none
  u32 failed_runs;   // those larger than the largest class
};
inline constexpr u32 kMagic = 0x50484C44;  // "DLHP"
static_assert(sizeof(HeapHeader) == 256 + 512 + 256 + 128);

// Objects to be visited that a warp's tasks have marked, linked to each other. A line each, as they are pushed from all sides.
struct alignas(32) MarkLine {
  u32 first;
  u32 reserved[7];
};
static_assert(sizeof(MarkLine) == 32);

// What the device asks of the host. In host memory.
struct alignas(128) HeapReport {
  u32 wanted;   // pages that the range should have
  u32 collect;  // 1: more pages are in use than HeapHeader::threshold
  u32 reserved[30];
};

// What a heap is laid out for.
struct Extent {
  u32 pages;    // that it may have
  u32 workers;  // that use it
  u32 warps;    // of each
  u32 cache;    // slots that a cache has room for
};

DWELL_HOST_DEVICE u64 rounded(u64 bytes) { return (bytes + 127) & ~127ULL; }

// The header of a heap: all but `pages` and `report`.
DWELL_HOST_DEVICE HeapHeader lay_out(const Extent& extent) {
  HeapHeader header{};
  header.magic = kMagic;
  header.warps = extent.warps;
  header.cache = extent.cache;
  header.shards = 1;
  while (header.shards < kMostShards && header.shards * 4 < extent.workers * extent.warps) header.shards *= 2;
  header.most_pages = extent.pages;
  header.words = (extent.pages + 63) / 64;
  const u64 caches = static_cast<u64>(extent.workers) * extent.warps;
  u64 at = sizeof(HeapHeader);
  header.page_map = at;
  at = rounded(at + static_cast<u64>(header.words) * 8);
  header.shard_table = at;
  at += static_cast<u64>(kClasses) * header.shards * sizeof(Shard);
  header.count_table = at;
  at += kClasses * sizeof(ClassCounts);
  header.cache_table = at;
  at += caches * kClasses * sizeof(CacheOfClass);
  header.cache_slots = at;
  at = rounded(at + caches * kClasses * extent.cache * 4);
  header.page_table = at;
  at = rounded(at + static_cast<u64>(extent.pages) * sizeof(Page));
  header.type_table = at;
  at = rounded(at + kMostTypes * sizeof(TypeRecord));
  header.handles = extent.pages < 4096 ? 4096 : extent.pages;
  header.handle_table = at;
  at = rounded(at + header.handles * 4ULL);
  // A warp looks at a fourth of them at once (heap_collect.hpp).
  header.chains = 256;
  while (header.chains < 8192 && header.chains < caches * 4U) header.chains *= 2;
  header.rests = extent.warps == 1 ? 64 : 32768;
  header.chain_table = at;
  at = rounded(at + (header.chains + header.rests) * 4ULL);
  header.lines = static_cast<u32>(caches);
  header.line_table = at;
  at = rounded(at + caches * sizeof(MarkLine));
  header.threshold = extent.pages;
  header.bytes = at;
  header.first_page = static_cast<u32>((at + kPageBytes - 1) / kPageBytes);
  for (u32 number = 0; number < kClasses; ++number)
    header.classes[number] = class_at(number, extent.cache, extent.cache == kCacheOnGpu ? 4096 : 16384);
  header.used = header.first_page;
  header.hint = header.first_page / 64;
  return header;
}

}  // namespace dwell::device::heap
