// Pages of the heap: which are in use.
//
// A bit a page, 64 to a word. A run of at most 64 pages lies within one word, aligned to its length rounded up to a power of two, and is
// taken and given back by one atomic operation on the word. A longer run begins with a word and takes it and the next ones, one after the
// other; whoever finds one of them taken gives the others back.
#pragma once

#include <dwell/device/atomic.hpp>

#include "device/heap_layout.hpp"

namespace dwell::device::heap {

// A heap, as its users on the device see it.
struct Heap {
  u8* base;

  DWELL_DEVICE HeapHeader& header() const { return *reinterpret_cast<HeapHeader*>(base); }
  template <class T>
  DWELL_DEVICE T* table(u64 offset) const {
    return reinterpret_cast<T*>(base + offset);
  }
  DWELL_DEVICE u64* page_map() const { return table<u64>(header().page_map); }
  DWELL_DEVICE Page& page(u32 number) const { return table<Page>(header().page_table)[number]; }
  DWELL_DEVICE u8* at_page(u32 number) const { return base + static_cast<u64>(number) * kPageBytes; }
  DWELL_DEVICE u8* at_unit(u32 unit) const { return base + static_cast<u64>(unit) * kUnit; }
  // The maps of a slab: words of slots that are taken (1: by an allocation or a cache), of allocations, of objects, and of those that the
  // collection under way has reached.
  DWELL_DEVICE u32* taken(u32 slab) const { return reinterpret_cast<u32*>(at_page(slab)); }
  DWELL_DEVICE u32* live(u32 slab, const Class& of) const { return taken(slab) + of.words; }
  DWELL_DEVICE u32* objects(u32 slab, const Class& of) const { return taken(slab) + 2U * of.words; }
  DWELL_DEVICE u32* marks(u32 slab, const Class& of) const { return taken(slab) + 3U * of.words; }
};

namespace pages {

inline constexpr u32 kInWord = 64;

DWELL_DEVICE u64 bits_of(u32 count) { return count >= kInWord ? ~0ULL : (1ULL << count) - 1; }

DWELL_DEVICE u32 trailing_zeros_of(u64 bits) {
  const u32 low = static_cast<u32>(bits);
  return low != 0 ? trailing_zeros(low) : 32 + trailing_zeros(static_cast<u32>(bits >> 32U));
}

// The first of `count` zeros of a word, 1 to 64, at a multiple of 2^shift; kInWord for none.
DWELL_DEVICE u32 find_gap(u64 word, u32 count, u32 shift) {
  u64 starts = ~word;  // a bit for each place at which the zeros, as far as they are checked, begin
  for (u32 left = count; left > 1;) {
    const u32 half = left >> 1U;
    starts &= starts >> half;
    left -= half;
  }
  u64 aligned = 1;
  for (u32 i = shift; i < 6; ++i) aligned |= aligned << (1U << i);
  starts &= aligned;
  return starts == 0 ? kInWord : trailing_zeros_of(starts);
}

// The word as it limits what lies within the mapped pages: ones beyond.
DWELL_DEVICE u64 beyond(u32 word, u32 mapped) {
  const u32 from = word * kInWord;
  return mapped >= from + kInWord ? 0 : mapped <= from ? ~0ULL : ~bits_of(mapped - from);
}

DWELL_DEVICE u32 take_in_word(const Heap& heap, u32 number, u32 count, u32 shift, u32 mapped) {
  u64* const at = heap.page_map() + number;
  const u64 limit = beyond(number, mapped);
  u64 word = load<Order::relaxed, Scope::device>(at);
  for (;;) {
    const u32 gap = find_gap(word | limit, count, shift);
    if (gap == kInWord) return 0;
    // Acquires what the last user has done with the pages. Pairs with give_back.
    const u64 seen = compare_exchange<Order::acq_rel>(at, word, word | bits_of(count) << gap);
    if (seen == word) return number * kInWord + gap;
    word = seen;
  }
}

DWELL_DEVICE void give_back(const Heap& heap, u32 first, u32 count) {
  HeapHeader& header = heap.header();
  const u32 number = first / kInWord;
  add<Order::relaxed>(&header.used, 0U - count);
  for (u32 left = count, word = number, from = first % kInWord; left != 0; ++word, from = 0) {
    const u32 here = left < kInWord - from ? left : kInWord - from;
    fetch_and<Order::acq_rel>(heap.page_map() + word, ~(bits_of(here) << from));
    left -= here;
  }
  if (number < load<Order::relaxed, Scope::device>(&header.hint)) store<Order::relaxed, Scope::device>(&header.hint, number);
}

// Takes words from `number` on for a run longer than one; false if one of them is taken.
DWELL_DEVICE bool take_words(const Heap& heap, u32 number, u32 count) {
  for (u32 left = count, word = number; left != 0; ++word) {
    const u32 here = left < kInWord ? left : kInWord;
    const u64 bits = bits_of(here);
    const u64 before = fetch_or<Order::acq_rel>(heap.page_map() + word, bits);
    if ((before & bits) != 0) {
      fetch_and<Order::acq_rel>(heap.page_map() + word, ~bits | before);
      for (u32 back = number; back < word; ++back) fetch_and<Order::acq_rel>(heap.page_map() + back, 0ULL);
      return false;
    }
    left -= here;
  }
  return true;
}

// Takes `count` pages; returns the first, or 0 if no run of them is free. Called by one thread.
template <class Unused = void>
DWELL_DEVICE_COLD u32 take(const Heap& heap, u32 count) {
  HeapHeader& header = heap.header();
  const u32 mapped = load<Order::acquire, Scope::device>(&header.pages);
  const u32 words = (mapped + kInWord - 1) / kInWord;
  u32 first = 0;
  if (count <= kInWord) {
    const u32 shift = count == 1 ? 0 : log2_of(count - 1) + 1;
    const u32 hint = load<Order::relaxed, Scope::device>(&header.hint);
    u32 number = hint < words ? hint : 0;
    for (u32 i = 0; i < words && first == 0; ++i) {
      first = take_in_word(heap, number, count, shift, mapped);
      if (first != 0 && number != hint) store<Order::relaxed, Scope::device>(&header.hint, number);
      number = number + 1 == words ? 0 : number + 1;
    }
  } else {
    const u32 long_words = (count + kInWord - 1) / kInWord;
    for (u32 number = 0; number + long_words <= words && first == 0;) {
      u32 free = 0;
      while (free < long_words && load<Order::relaxed, Scope::device>(heap.page_map() + number + free) == 0) ++free;
      if (free == long_words && number * kInWord + count <= mapped && take_words(heap, number, count)) first = number * kInWord;
      number += free == long_words ? 1 : free + 1;
    }
  }
  if (first == 0) return 0;
  add<Order::relaxed>(&header.used, count);
  if (first + count > load<Order::relaxed, Scope::device>(&header.top))
    maximize<Order::relaxed>(&header.top, static_cast<u64>(first) + count);
  return first;
}

inline constexpr u32 kGrowthTicks = 2'000'000;  // about 2 s: how long a caller waits for the host

// Asks the host for room for `count` pages more, and waits a while for it. `mapped`: HeapHeader::pages before the caller found none. Called
// by one thread. False when none has come. Modelled in tests/model/heap_growth.pml.
template <class Unused = void>
DWELL_DEVICE_COLD bool await_growth(const Heap& heap, u32 count, u32 mapped) {
  HeapHeader& header = heap.header();
  if (header.report == 0) return false;
  HeapReport* const report = pointer_to_global<HeapReport>(header.report);
  const u32 since = now_ticks();
  for (u32 round = 0;; ++round) {
    // The host lowers it when it has no more memory.
    const u32 most = load<Order::relaxed, Scope::device>(&header.most_pages);
    if (load<Order::acquire, Scope::device>(&header.pages) != mapped) return true;
    if (mapped >= most || now_ticks() - since > kGrowthTicks) return false;
    // Requests of several threads may lower each other's, so they are made again and again.
    const u32 wanted = mapped + count + kInWord < most ? mapped + count + kInWord : most;
    if ((round & 63U) == 0) store<Order::relaxed, Scope::system>(&report->wanted, wanted);
    pause_briefly(round);
  }
}

}  // namespace pages
}  // namespace dwell::device::heap
