// Slabs of the heap: where slots of a class are taken from and given back to.
//
// A word of a slab's first map has a bit a slot. A caller takes a word by clearing its bit in Page::summary, and with it all slots that are
// free there; slots are given back one by one, whoever took them. The bit is set again by the caller that gives back a slot of a word
// without free ones, so a word has one taker at a time.
//
// Callers of a class are spread over shards, each with a list of slabs. They take words from the first slab of their list while it has any,
// and remove it when it has none. Invariant: a slab with a bit in its summary is in a list, or in the hands of a caller that will put it
// there. The caller that sets the first bit lists the slab, unless it is listed. A caller that removes a slab from a list first clears
// Page::listed, then looks at the summary again, so either it sees the bit or the caller that sets it sees the cleared mark. A caller may
// rest between setting a bit and listing the slab, which others list, empty and give back meanwhile. So pages keep their mark when a slab
// ends: only a slab that is in no list, and therefore stays one, is without it. Modelled in tests/model/heap_slabs.pml.
#pragma once

#include "device/heap_guard.hpp"
#include "device/heap_pages.hpp"

namespace dwell::device::heap::slabs {

// Slots of one word, taken by the caller.
struct Word {
  u32 slab;   // its first page; 0: none
  u32 index;  // of the word
  u32 slots;  // a bit each
};

DWELL_DEVICE u32 class_at_page(const Heap& heap, u32 page) {
  return (load<Order::relaxed, Scope::device>(&heap.page(page).kind) & kind::mask) - 1;
}

DWELL_DEVICE Shard& shard_at(const Heap& heap, u32 number, u32 shard) {
  return heap.table<Shard>(heap.header().shard_table)[number * heap.header().shards + shard];
}
DWELL_DEVICE ClassCounts& counts_of(const Heap& heap, u32 number) { return heap.table<ClassCounts>(heap.header().count_table)[number]; }

// ---- Lists ----

// Puts a slab into the list of a shard. ClassCounts::listed leads others there; it is a hint, as it is set behind the list.
DWELL_DEVICE void push(const Heap& heap, u32 number, u32 at, u32 slab) {
  Shard* const shard = &shard_at(heap, number, at);
  u64 head = load<Order::relaxed, Scope::device>(&shard->list);
  for (;;) {
    store<Order::relaxed, Scope::device>(&heap.page(slab).next, static_cast<u32>(head));
    // Releases `next`; pairs with pop.
    const u64 seen = compare_exchange<Order::acq_rel>(&shard->list, head, ((head >> 32U) + 1) << 32U | slab);
    if (seen == head) break;
    head = seen;
  }
  if (static_cast<u32>(head) == 0) fetch_or<Order::acq_rel>(&counts_of(heap, number).listed[at / 64], 1ULL << (at % 64));
}

// The shards that a class uses: few while it has few slabs, so that it opens no more slabs than it fills.
DWELL_DEVICE u32 shards_of(const Heap& heap, const ClassCounts& counts) {
  const u32 slabs = load<Order::relaxed, Scope::device>(&counts.slabs);
  u32 used = 1;
  while (used * 16 < slabs && used < heap.header().shards) used *= 2;
  return used;
}

// Puts a slab with room into a list, unless it is in one.
DWELL_DEVICE void list(const Heap& heap, u32 slab) {
  // Acquires the slab's class, with the cleared mark. Pairs with remove.
  if (exchange<Order::acq_rel>(&heap.page(slab).listed, 1U) != 0) return;
  const u32 number = class_at_page(heap, slab);  // which may have changed since the caller gave words back
  const u32 used = shards_of(heap, counts_of(heap, number));
  push(heap, number, (slab >> heap.header().classes[number].page_shift) & (used - 1), slab);
}

// ---- Words ----

DWELL_DEVICE bool has_room(const Heap& heap, u32 slab) {
  const Page& page = heap.page(slab);
  return (load<Order::acquire, Scope::device>(&page.summary[0]) | load<Order::acquire, Scope::device>(&page.summary[1])) != 0;
}

// Removes the first slab of a list, `head` as it was loaded, because it has no room; back into a list if that has changed meanwhile.
DWELL_DEVICE void remove(const Heap& heap, u32 number, u32 at, u64 head) {
  Shard* const shard = &shard_at(heap, number, at);
  const u32 slab = static_cast<u32>(head);
  const u32 next = load<Order::relaxed, Scope::device>(&heap.page(slab).next);
  // The count of changes shows that `next` is still the one behind it.
  if (compare_exchange<Order::acq_rel>(&shard->list, head, ((head >> 32U) + 1) << 32U | next) != head) return;
  if (next == 0) {
    u64* const listed = &counts_of(heap, number).listed[at / 64];
    fetch_and<Order::acq_rel>(listed, ~(1ULL << (at % 64)));
    if (static_cast<u32>(load<Order::acquire, Scope::device>(&shard->list)) != 0) fetch_or<Order::acq_rel>(listed, 1ULL << (at % 64));
  }
  exchange<Order::acq_rel>(&heap.page(slab).listed, 0U);  // before the look at its summary, see above
  if (has_room(heap, slab)) list(heap, slab);
}

// Gives words back to the summary of a slab.
DWELL_DEVICE void give_words(const Heap& heap, u32 slab, u32 half, u64 words) {
  if (words == 0) return;
  if (fetch_or<Order::acq_rel>(&heap.page(slab).summary[half], words) == 0) list(heap, slab);
}

// The first set bit from bit `from` modulo 64 on, and around.
DWELL_DEVICE u32 first_from(u64 bits, u32 from) {
  const u32 turn = from & 63U;
  const u64 turned = turn == 0 ? bits : bits >> turn | bits << (64 - turn);
  return (pages::trailing_zeros_of(turned) + turn) & 63U;
}

// Takes a word of a slab with all its free slots. `seed` spreads callers over the words. None if the slab has no room, or is of another
// class by now.
DWELL_DEVICE Word take_word(const Heap& heap, u32 number, const Class& of, u32 slab, u32 seed) {
  Page& page = heap.page(slab);
  for (u32 half = 0; half < (of.words > 64 ? 2U : 1U); ++half) {
    u64 summary = load<Order::relaxed, Scope::device>(&page.summary[half]);
    while (summary != 0) {
      const u32 at = first_from(summary, seed);
      const u64 bit = 1ULL << at;
      // Acquires the initialisation of the maps by the slab's opener.
      const u64 before = fetch_and<Order::acq_rel>(&page.summary[half], ~bit);
      summary = before & ~bit;
      if ((before & bit) == 0) continue;
      // The slab keeps its class while one of its words is taken.
      if (class_at_page(heap, slab) != number) {
        give_words(heap, slab, half, bit);
        return {};
      }
      const u32 index = half * 64 + at;
      // Acquires what the last users of the slots have done. Pairs with give_back.
      const u32 taken = fetch_or<Order::acq_rel>(heap.taken(slab) + index, kFullWord);
      return {slab, index, ~taken};
    }
  }
  return {};
}

// Gives back slots of one word; the caller's group has ordered its use of them before. Returns those of them that were not taken: an error
// of the user.
DWELL_DEVICE u32 give_back(const Heap& heap, const Word& word) {
  const u32 before = fetch_and<Order::acq_rel>(heap.taken(word.slab) + word.index, ~word.slots);
  if (before == kFullWord) give_words(heap, word.slab, word.index / 64, 1ULL << (word.index & 63U));
  return word.slots & ~before;
}

// ---- Slabs ----

// Makes a slab out of its pages, which nobody else uses, and returns it with room in all words.
DWELL_DEVICE void begin(const Heap& heap, u32 number, const Class& of, u32 slab) {
  u32* const taken = heap.taken(slab);
  for (u32 i = 0; i < of.words; ++i) {
    store<Order::relaxed, Scope::device>(taken + i, no_slots(of, i));
    for (u32 map = 1; map < kMaps; ++map) store<Order::relaxed, Scope::device>(taken + map * of.words + i, 0U);
  }
  for (u32 i = 0; i < 1U << of.page_shift; ++i)
    store<Order::relaxed, Scope::device>(&heap.page(slab + i).kind, (number + 1) | i << kind::shift);
  Page& page = heap.page(slab);
  store<Order::relaxed, Scope::device>(&page.object, 0U);
  if (heap.header().checks > kChecksFrees) guard::begin_slab(heap, of, slab);
  // Release all of this to take_word. A late caller with the page's number may still try: it finds no bit until here.
  fence<Scope::device>();
  fetch_or<Order::acq_rel>(&page.summary[1], all_words(of, 1));
  fetch_or<Order::acq_rel>(&page.summary[0], all_words(of, 0));
}

// Gives back the pages of a slab without allocations, which the caller has taken out of its list. False if it has some, or not all its
// words are there; then it stays a slab. A late caller may still know its page: take_word checks summary and class.
DWELL_DEVICE bool end(const Heap& heap, u32 number, const Class& of, u32 slab) {
  Page& page = heap.page(slab);
  const u64 all0 = all_words(of, 0);
  const u64 all1 = all_words(of, 1);
  if (load<Order::relaxed, Scope::device>(&page.summary[0]) != all0 || load<Order::relaxed, Scope::device>(&page.summary[1]) != all1)
    return false;
  // Whoever has all words has the slab: no other caller takes slots, and none gives any back but those that it has.
  const u64 had0 = exchange<Order::acq_rel>(&page.summary[0], 0ULL);
  const u64 had1 = exchange<Order::acq_rel>(&page.summary[1], 0ULL);
  bool empty = had0 == all0 && had1 == all1 && class_at_page(heap, slab) == number;
  for (u32 i = 0; i < of.words && empty; ++i) empty = load<Order::acquire, Scope::device>(heap.taken(slab) + i) == no_slots(of, i);
  if (!empty) {
    give_words(heap, slab, 0, had0);
    give_words(heap, slab, 1, had1);
    return false;
  }
  // Page::listed stays, see above.
  for (u32 i = 0; i < 1U << of.page_shift; ++i) store<Order::relaxed, Scope::device>(&heap.page(slab + i).kind, kind::none);
  add<Order::relaxed>(&counts_of(heap, number).slabs, ~0U);
  pages::give_back(heap, slab, 1U << of.page_shift);
  return true;
}

// Gives back the pages of empty slabs in a list, which it takes and puts back. Returns whether there were any.
DWELL_DEVICE bool trim_list(const Heap& heap, u32 number, u32 at) {
  Shard* const shard = &shard_at(heap, number, at);
  u64 head = load<Order::acquire, Scope::device>(&shard->list);
  for (;;) {
    if (static_cast<u32>(head) == 0) return false;
    const u64 seen = compare_exchange<Order::acq_rel>(&shard->list, head, ((head >> 32U) + 1) << 32U);
    if (seen == head) break;
    head = seen;
  }
  const Class of = heap.header().classes[number];
  bool any = false;
  for (u32 slab = static_cast<u32>(head); slab != 0;) {
    const u32 next = load<Order::relaxed, Scope::device>(&heap.page(slab).next);
    if (end(heap, number, of, slab))
      any = true;
    else
      push(heap, number, at, slab);  // marked as listed all the time: nobody else has put it into a list
    slab = next;
  }
  return any;
}

// Begins a walk if none is under way, `now` being HeapHeader::walks as it was loaded.
DWELL_DEVICE bool begin_walk(const Heap& heap, u32 now) {
  return (now & 1U) == 0 && compare_exchange<Order::acq_rel>(&heap.header().walks, now, now + 1) == now;
}
// Ends it. `any`: it has given slabs back.
DWELL_DEVICE void end_walk(const Heap& heap, bool any) {
  HeapHeader& header = heap.header();
  const u32 number = load<Order::relaxed, Scope::device>(&header.walks) + 1;
  // Released with `walks`.
  if (any) store<Order::relaxed, Scope::device>(&header.fruitful, number);
  fetch_add<Order::acq_rel>(&header.walks, 1U);
}

// Gives back the pages of all empty slabs. Called when pages are short. One caller walks at a time; whoever comes meanwhile waits for a
// walk that begins after its call, at most two. Returns whether slabs have been given back since HeapHeader::walks was `before`.
template <class Unused = void>
DWELL_DEVICE_COLD bool trim(const Heap& heap, u32 before) {
  HeapHeader& header = heap.header();
  // A collection walks through the slabs, which stay meanwhile. Its sweep ends without this caller; before that it may wait for the
  // caller's task.
  const u32 since = now_ticks();
  for (u32 round = 0; load<Order::acquire, Scope::device>(&header.phase) == phase::sweeping && now_ticks() - since < pages::kGrowthTicks;
       ++round)
    pause_briefly(round);
  if (load<Order::acquire, Scope::device>(&header.phase) != phase::rest) return false;
  const u32 seen = load<Order::acquire, Scope::device>(&header.walks);
  const u32 enough = seen + 2 + (seen & 1U);
  for (u32 round = 0;; ++round) {
    const u32 now = load<Order::acquire, Scope::device>(&header.walks);
    if (static_cast<i32>(now - enough) >= 0) return static_cast<i32>(load<Order::relaxed, Scope::device>(&header.fruitful) - before) > 0;
    if (begin_walk(heap, now)) break;
    pause_briefly(round);
  }
  bool any = false;
  for (u32 i = 0; i < kClasses * header.shards; ++i)
    if (trim_list(heap, i / header.shards, i % header.shards)) any = true;
  end_walk(heap, any);
  return any || static_cast<i32>(load<Order::relaxed, Scope::device>(&header.fruitful) - before) > 0;
}

// The same by a group together, which nobody waits for.
template <class Unused = void>
DWELL_DEVICE_COLD void trim_all(const Heap& heap) {
  const HeapHeader& header = heap.header();
  if (thread_rank() == 0)
    for (u32 round = 0; !begin_walk(heap, load<Order::acquire, Scope::device>(&header.walks)); ++round) pause_briefly(round);
  sync_group();
  bool any = false;
  for (u32 i = thread_rank(); i < kClasses * header.shards; i += kGroupThreads)
    if (trim_list(heap, i / header.shards, i % header.shards)) any = true;
  any = any_in_group(any);
  if (thread_rank() == 0) end_walk(heap, any);
}

// Takes pages, for which it may have to wait for the host. 0: there are none.
DWELL_DEVICE u32 take_pages(const Heap& heap, u32 count) {
  const HeapHeader& header = heap.header();
  for (;;) {
    // Before the search: what others map or give back beside it is a reason to search again.
    const u32 mapped = load<Order::acquire, Scope::device>(&header.pages);
    const u32 walks = load<Order::acquire, Scope::device>(&header.walks);
    const u32 first = pages::take(heap, count);
    if (first != 0) {
      if (load<Order::relaxed, Scope::device>(&header.used) > load<Order::relaxed, Scope::device>(&header.threshold) && header.report != 0)
        store<Order::relaxed, Scope::system>(&pointer_to_global<HeapReport>(header.report)->collect, 1U);
      return first;
    }
    if (!pages::await_growth(heap, count, mapped) && !trim(heap, walks)) return 0;
  }
}

inline constexpr u32 kPace = 64;           // ticks that a page takes when as many are left as were taken since callers are slowed down
inline constexpr u32 kPacedLines = 32;     // so many workers' warps take as much longer
inline constexpr u32 kLongestPace = 4096;  // ticks

// Slows callers down while a collection runs, the more the fewer pages are left, so that it ends before these do. In the first half of
// those between the threshold and the most there may be it does not. A collection waits for the caller's task, so the pause is short.
// Called before the caller takes a lock.
template <class Unused = void>
DWELL_DEVICE_COLD void pace(const Heap& heap) {
  const HeapHeader& header = heap.header();
  if (load<Order::relaxed, Scope::device>(&header.phase) == phase::rest) return;
  const u32 most = load<Order::relaxed, Scope::device>(&header.most_pages);
  const u32 threshold = load<Order::relaxed, Scope::device>(&header.threshold);
  const u32 since = now_ticks();
  for (u32 round = 0;; ++round) {
    const u32 used = load<Order::relaxed, Scope::device>(&header.used);
    const u32 half = threshold + (most - threshold) / 2;
    if (threshold >= most || used <= half) return;
    const u64 ticks = static_cast<u64>(kPace) * (1 + header.lines / kPacedLines) * (used - half) / (used < most ? most - used : 1);
    if (now_ticks() - since >= (ticks < kLongestPace ? ticks : kLongestPace)) return;
    if (load<Order::relaxed, Scope::device>(&header.phase) == phase::rest) return;
    pause_briefly(round);
  }
}

// Makes a slab out of new pages and lists it in a shard. False: there is no room.
template <class Unused = void>
DWELL_DEVICE_COLD bool open(const Heap& heap, u32 number, u32 at) {
  const HeapHeader& header = heap.header();
  const Class of = header.classes[number];
  const u32 slab = take_pages(heap, 1U << of.page_shift);
  if (slab == 0) return false;
  add<Order::relaxed>(&counts_of(heap, number).slabs, 1U);
  store<Order::relaxed, Scope::device>(&heap.page(slab).listed, 1U);  // before it has room: nobody else lists it
  begin(heap, number, of, slab);
  push(heap, number, at, slab);
  return true;
}

// Takes a word from the first slabs of a list. None: the list is empty.
DWELL_DEVICE Word take_listed(const Heap& heap, u32 number, const Class& of, u32 at, u32 caller) {
  const Shard& shard = shard_at(heap, number, at);
  for (;;) {
    const u64 head = load<Order::acquire, Scope::device>(&shard.list);
    const u32 slab = static_cast<u32>(head);
    if (slab == 0) return {};
    const Word word = take_word(heap, number, of, slab, caller);
    if (word.slots != 0) return word;
    if (!has_room(heap, slab)) remove(heap, number, at, head);
  }
}

// Takes a word of a class with at least one slot. None: there is no room. Called by one thread of a warp.
DWELL_DEVICE Word take(const Heap& heap, u32 number, const Class& of, u32 caller) {
  ClassCounts& counts = counts_of(heap, number);
  const u32 at = caller & (shards_of(heap, counts) - 1);
  Shard& shard = shard_at(heap, number, at);
  const u32 words = (heap.header().shards + 63) / 64;
  u32 attempts = 0;  // that found neither a slab nor pages
  for (u32 round = 0;; ++round) {
    Word word = take_listed(heap, number, of, at, caller + round);
    if (word.slots != 0) return word;
    // The others' lists.
    for (u32 i = 0; i < words; ++i)
      for (u64 listed = load<Order::relaxed, Scope::device>(&counts.listed[i]); listed != 0;) {
        const u32 other = first_from(listed, caller);
        listed &= ~(1ULL << other);
        word = take_listed(heap, number, of, i * 64 + other, caller + round);
        if (word.slots != 0) return word;
      }
    pace(heap);
    // One caller of a shard opens a slab; the others look again.
    if (exchange<Order::acq_rel>(&shard.opening, 1U) != 0) {
      pause_briefly(round);
      continue;
    }
    const bool there = static_cast<u32>(load<Order::acquire, Scope::device>(&shard.list)) != 0 || open(heap, number, at);
    exchange<Order::acq_rel>(&shard.opening, 0U);
    // Looks once more: the lists were empty for a moment if somebody trimmed them.
    if (!there && attempts++ != 0) {
      add<Order::relaxed>(&counts.failures, 1U);
      store<Order::relaxed, Scope::device>(&heap.header().failed_bytes, static_cast<u64>(of.units) * kUnit);
      return {};
    }
  }
}

}  // namespace dwell::device::heap::slabs
