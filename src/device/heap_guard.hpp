// What HeapChecks::full adds to plain memory: a guard behind its bytes, which its free checks, and a pattern in freed slots, which their
// next allocation checks.
#pragma once

#include "device/heap_pages.hpp"

namespace dwell::device::heap {

// HeapHeader::checks.
inline constexpr u32 kChecksFrees = 1;
inline constexpr u32 kChecksWrites = 2;

namespace guard {

inline constexpr u64 kFreed = 0xDDDDDDDDDDDDDDDDULL;  // freed memory
inline constexpr u8 kUnused = 0xFD;                   // between the bytes that were asked for and the guard

// The last 8 bytes of a slot or a run.
struct Guard {
  u32 unused;
  u32 check;
};

DWELL_DEVICE u32 check_of(u32 unit, u32 unused) { return (unit * 0x9E3779B9U ^ unused) + 0x85EBCA6BU; }

// Bytes with room for a guard, as aligned as `bytes`: to their lowest bit, from 16 to 4096.
DWELL_DEVICE u64 with_guard(u64 bytes) {
  const u64 lowest = bytes & (~bytes + 1);
  return bytes + (lowest < kUnit ? u64{kUnit} : lowest < 4096 ? lowest : 4096);
}

// Whether a freed slot is as it was left. One that has never been freed begins with another word.
DWELL_DEVICE bool is_untouched(const Heap& heap, u32 unit, u64 whole) {
  const u64* const words = reinterpret_cast<const u64*>(heap.at_unit(unit));
  if (words[0] != kFreed) return true;
  for (u64 i = 1; i < whole / 8; ++i)
    if (words[i] != kFreed) return false;
  return true;
}

// Puts the guard behind `bytes` of `whole`.
DWELL_DEVICE void put(const Heap& heap, u32 unit, u64 whole, u64 bytes) {
  u8* const at = heap.at_unit(unit);
  const u32 unused = static_cast<u32>(whole - sizeof(Guard) - bytes);
  for (u32 i = 0; i < unused; ++i) at[bytes + i] = kUnused;
  *reinterpret_cast<Guard*>(at + whole - sizeof(Guard)) = {unused, check_of(unit, unused)};
}

// Whether nothing was written behind the end of an allocation.
DWELL_DEVICE bool is_whole(const Heap& heap, u32 unit, u64 whole) {
  const u8* const end = heap.at_unit(unit) + whole - sizeof(Guard);
  const Guard guard = *reinterpret_cast<const Guard*>(end);
  if (guard.check != check_of(unit, guard.unused) || guard.unused > whole - sizeof(Guard)) return false;
  for (u32 i = 1; i <= guard.unused; ++i)
    if (*(end - i) != kUnused) return false;
  return true;
}

DWELL_DEVICE void fill(const Heap& heap, u32 unit, u64 whole) {
  u64* const words = reinterpret_cast<u64*>(heap.at_unit(unit));
  for (u64 i = 0; i < whole / 8; ++i) words[i] = kFreed;
}

// Makes the slots of a slab look as if they had never been freed.
DWELL_DEVICE void begin_slab(const Heap& heap, const Class& of, u32 slab) {
  for (u32 slot = 0; slot < of.slots; ++slot)
    *reinterpret_cast<u64*>(heap.at_unit((slab << kPageUnitsShift) + of.first + slot * of.units)) = 0;
}

}  // namespace guard
}  // namespace dwell::device::heap
