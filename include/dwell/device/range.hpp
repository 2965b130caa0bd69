// The indices that one thread of a group works on, for a range-based for.
#pragma once

#include <dwell/device/platform.hpp>

namespace dwell {
namespace device {

// The integers first, first + step, ... below `end`.
class StridedRange {
 public:
  class Iterator {
   public:
    DWELL_DEVICE Iterator(u64 at, u64 step) : at_(at), step_(step) {}
    DWELL_DEVICE u64 operator*() const { return at_; }
    DWELL_DEVICE Iterator& operator++() {
      at_ += step_;
      return *this;
    }
    // A range ends past its end: steps may jump over it.
    DWELL_DEVICE bool operator!=(const Iterator& end) const { return at_ < end.at_; }

   private:
    u64 at_;
    u64 step_;
  };

  DWELL_DEVICE StridedRange(u64 first, u64 end, u64 step) : first_(first), end_(end), step_(step) {}
  DWELL_DEVICE Iterator begin() const { return Iterator(first_, step_); }
  DWELL_DEVICE Iterator end() const { return Iterator(end_, step_); }

 private:
  u64 first_;
  u64 end_;
  u64 step_;
};

// The integers first, first + 1, ... below `end`, which is not below `first`.
class Block {
 public:
  class Iterator {
   public:
    DWELL_DEVICE explicit Iterator(u64 at) : at_(at) {}
    DWELL_DEVICE u64 operator*() const { return at_; }
    DWELL_DEVICE Iterator& operator++() {
      ++at_;
      return *this;
    }
    DWELL_DEVICE bool operator!=(const Iterator& end) const { return at_ != end.at_; }

   private:
    u64 at_;
  };

  DWELL_DEVICE Block(u64 first, u64 end) : first_(first), end_(end) {}
  DWELL_DEVICE Iterator begin() const { return Iterator(first_); }
  DWELL_DEVICE Iterator end() const { return Iterator(end_); }
  DWELL_DEVICE u64 first() const { return first_; }
  DWELL_DEVICE u64 size() const { return end_ - first_; }

 private:
  u64 first_;
  u64 end_;
};

// Blocks that cannot all be equal begin at multiples of this many elements: then blocks of a span are aligned to 16 bytes where the span
// is.
DWELL_CONSTANT u64 kBlockUnit = 16;

// The `index`-th of `count` blocks that 0 .. n - 1 is cut into: equal ones where `count` divides n, else their sizes differ by kBlockUnit
// at most, and by one where kBlockUnit is more than a sixteenth of a block.
DWELL_DEVICE Block block_of(u64 n, u32 index, u32 count) {
  if (count == 1) return Block(0, n);
  const u64 unit = n % count != 0 && n / count >= 16 * kBlockUnit ? kBlockUnit : 1;
  const u64 units = n / unit;
  const u64 size = units / count;
  const u64 larger = units % count;  // blocks of one unit more
  const u64 first = (index * size + (index < larger ? index : larger)) * unit;
  return Block(first, index + 1 == count ? n : first + (size + (index < larger ? 1 : 0)) * unit);
}

// The elements that Group::range gives each thread. On a CPU, whose worker is one thread that prefetches cache lines, a block. On CUDA
// neighbouring threads get neighbouring indices, so a warp's accesses coalesce.
#if DWELL_PARALLEL_GROUP
using Range = StridedRange;
#else
using Range = Block;
#endif
DWELL_DEVICE Range range_of(u64 n, u32 index, u32 count, u32 rank) {
#if DWELL_PARALLEL_GROUP
  return StridedRange(static_cast<u64>(index) * kGroupThreads + rank, n, static_cast<u64>(count) * kGroupThreads);
#else
  (void)rank;
  return block_of(n, index, count);
#endif
}

}  // namespace device
}  // namespace dwell
