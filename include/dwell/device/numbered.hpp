// Vectors that the groups of a gang exchange in steps without barriers.
//
//   DWELL_OPERATOR(relax)(dwell::Group g, dwell::Span<dwell::u64> words, dwell::u32 steps) {
//     const dwell::Gang gang = g.gang();
//     const dwell::Numbered<float> vector(words);
//     for (dwell::u32 step = 1; step <= steps; ++step) {
//       for (dwell::u32 i : g.range(mine)) vector.put(first + i, step, ...);
//       const float theirs = vector.get(other, step);  // there as soon as its group has put it
//     }
//   }
//
// Each word of 8 bytes carries the number of its step beside its value, so it is complete when it is visible: readers poll the data itself,
// and need neither a fence nor a flag. Source: the LL protocol of NCCL.
#pragma once

#include <dwell/device/group.hpp>
#include <dwell/device/span.hpp>

namespace dwell {

// `words.size() / 2` elements of a type of 4 bytes. Even and odd steps have a half of the words each, so an element is overwritten two
// steps later. That is safe if a group puts nothing of step n + 2 before it has got an element of step n + 1 from each group that reads its
// elements, as with neighbours that exchange elements in each step. No other code may write the words. Before the first use they hold 0 (as
// a new buffer does), or numbers of other steps: steps count from 1 on, across tasks.
//
// A small value that does not own the words, which must outlive the task. Any thread of any group of a gang may call all members. Groups of
// other tasks may not run at once, and would wait forever. So would a reader of an element that is never put: a group that fails must still
// put its elements. Indices are not checked.
template <class T>
class Numbered {
  static_assert(sizeof(T) == 4, "an element has 4 bytes beside its number");

 public:
  DWELL_DEVICE explicit Numbered(Span<u64> words) : words_(words) {}

  // Elements of a step.
  DWELL_DEVICE u64 size() const { return words_.size() / 2; }

  // Puts element `i` of a step. Called once an element and step.
  DWELL_DEVICE void put(u64 i, u32 step, T value) const {
    Bits bits;
    bits.value = value;
    // Relaxed: nothing but the word itself is published. Pairs with get.
    device::store<device::Order::relaxed, device::Scope::device>(at(i, step), static_cast<u64>(step) << 32U | bits.word);
  }
  // Waits until element `i` of a step has been put, and returns it.
  DWELL_DEVICE T get(u64 i, u32 step) const {
    u64 word = 0;
    for (u32 round = 0;; ++round) {
      word = device::load<device::Order::relaxed, device::Scope::device>(at(i, step));
      if (static_cast<u32>(word >> 32U) == step) break;
      device::relax(round);
    }
    Bits bits;
    bits.word = static_cast<u32>(word);
    return bits.value;
  }

 private:
  union Bits {
    DWELL_DEVICE Bits() : word(0) {}
    u32 word;
    T value;
  };
  DWELL_DEVICE u64* at(u64 i, u32 step) const { return &words_[i + (step & 1U) * size()]; }

  Span<u64> words_;
};

}  // namespace dwell
