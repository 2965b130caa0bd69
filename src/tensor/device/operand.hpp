// Copies an operand of a product into memory that a group of 128 threads shares. Compiles for a CPU too, which has no such group, so tests
// can play all its threads.
#pragma once

#include <dwell/device/pack.hpp>
#include <dwell/device/platform.hpp>

#include "tensor/device/product.hpp"

namespace dwell {
namespace device {

// Thirty-two lines of an operand: rows of a or columns of b. Each step of a product takes 64 bytes of a line: 16 floats, 8 doubles or 32
// numbers of 16 bits. Each thread loads 16 bytes of a step into registers during the computation of the step before. Numbers beyond the
// operand are 0.
template <class C, class Elements>
class Operand {
 public:
  static constexpr u32 kPack = 16 / sizeof(C);   // numbers that a thread loads
  static constexpr u32 kDepth = 64 / sizeof(C);  // numbers of a line that a step takes

  // Lines from `first` on, of `lines`; each has `depth` numbers.
  DWELL_DEVICE Operand(const Elements& elements, i32 line_stride, i32 depth_stride, u32 lines, u32 depth, u32 first, u32 rank)
      : elements_(elements), line_stride_(line_stride), depth_stride_(depth_stride), depth_(depth) {
    // A pack holds neighbours of one step in several lines, or of one line, whichever lie closer in memory.
    across_ = is_closer(line_stride, depth_stride);
    constexpr u32 kAcross = kTile / kPack;
    line_ = across_ ? rank % kAcross * kPack : rank / 4;
    place_ = across_ ? rank / kAcross : rank % 4 * kPack;
    lines_ = first + line_ < lines ? lines - first - line_ : 0;
    offset_ = static_cast<i32>(first + line_) * (lines_ != 0 ? line_stride : 0);
    const u32 other = static_cast<u32>(across_ ? depth_stride : line_stride);
    packed_ = Elements::kAreNumbers && (across_ ? line_stride : depth_stride) == 1 && other % kPack == 0 &&
              address_of(elements.pointer(0)) % 16 == 0;
  }

  // This thread's pack of the step that begins at `first`.
  DWELL_DEVICE void fetch(u32 first) {
    const u32 place = first + place_;
    const u32 left = lines_ != 0 && place < depth_ ? depth_ - place : 0;
    const u32 count = left == 0 ? 0 : across_ ? lines_ : left;
    const i32 at = offset_ + static_cast<i32>(left != 0 ? place : 0) * depth_stride_;
    if (packed_ && count >= kPack) {
      pack_ = *reinterpret_cast<const Pack<C, kPack>*>(elements_.pointer(at));
      return;
    }
    const i32 step = across_ ? line_stride_ : depth_stride_;
    DWELL_UNROLL
    for (u32 i = 0; i < kPack; ++i) pack_.at[i] = i < count ? elements_.load(at + static_cast<i32>(i) * step) : C();
  }

  // Stores it into `to`, which all lines share: line l's number d is at to[d * pitch + l], or with `by_line` at to[l * pitch + d]. The
  // pitch is a multiple of kPack.
  template <bool by_line>
  DWELL_DEVICE void put(C* to, u32 pitch) const {
    if (across_ != by_line) {
      *reinterpret_cast<Pack<C, kPack>*>(to + (by_line ? line_ * pitch + place_ : place_ * pitch + line_)) = pack_;
      return;
    }
    DWELL_UNROLL
    for (u32 i = 0; i < kPack; ++i) to[by_line ? (line_ + i) * pitch + place_ : (place_ + i) * pitch + line_] = pack_.at[i];
  }

 private:
  const Elements elements_;
  const i32 line_stride_;
  const i32 depth_stride_;
  const u32 depth_;
  bool across_;
  bool packed_;
  u32 line_;   // of this thread's pack, in the tile
  u32 place_;  // and its place in the step
  u32 lines_;  // from there to the last one
  i32 offset_;
  Pack<C, kPack> pack_;
};

}  // namespace device
}  // namespace dwell
