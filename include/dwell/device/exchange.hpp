// Combines values of a group's threads: within a warp through registers, between warps through the worker's memory.
#pragma once

#include <dwell/device/group.hpp>

namespace dwell {
namespace device {

#if DWELL_PARALLEL_GROUP

// Values of one type. Members are called by all threads of the group.
template <class T>
class Exchange {
  static_assert(sizeof(T) <= 16 && __is_trivially_copyable(T), "groups combine trivially copyable values of at most 16 bytes");

 public:
  static constexpr u32 kWarps = kGroupThreads / 32;

  // Memory for one value a warp. There are two such places, so one may be written while the other is still read.
  static DWELL_DEVICE T* slots(const Group& g, u32 place) { return reinterpret_cast<T*>(g.context_->exchange + place * 4 * kWarps); }

  // The value of the lane `distance` above, or below; the caller's own where there is none.
  static DWELL_DEVICE T from_above(T value, u32 distance) {
    return by_words(value, [distance](u32 word) { return __shfl_down_sync(~0U, word, distance); });
  }
  static DWELL_DEVICE T from_below(T value, u32 distance) {
    return by_words(value, [distance](u32 word) { return __shfl_up_sync(~0U, word, distance); });
  }
  // The value of the lane whose rank differs in the bit `distance`.
  static DWELL_DEVICE T across(T value, u32 distance) {
    return by_words(value, [distance](u32 word) { return __shfl_xor_sync(~0U, word, distance); });
  }

  // `combine` over the values of threads 0 to active - 1 (at least one), the same result in all.
  template <class Combine>
  static DWELL_DEVICE T all(const Group& g, T value, u32 active, Combine& combine) {
    for (u32 distance = 16; distance > 0; distance /= 2) {
      const T other = from_above(value, distance);
      if (g.rank() + distance < active) value = static_cast<T>(combine(value, other));
    }
    T* const slot = slots(g, 0);
    g.sync();
    if (lane() == 0) slot[g.rank() / 32] = value;
    g.sync();
    value = slot[0];
    for (u32 warp = 1; warp < kWarps; ++warp)
      if (warp * 32 < active) value = static_cast<T>(combine(value, slot[warp]));
    return value;
  }

 private:
  union Words {
    T value;
    u32 word[(sizeof(T) + 3) / 4];
    DWELL_DEVICE Words() {}
  };
  template <class Move>
  static DWELL_DEVICE T by_words(const T& value, Move move) {
    Words words;
    words.value = value;
    for (u32 i = 0; i < (sizeof(T) + 3) / 4; ++i) words.word[i] = move(words.word[i]);
    return words.value;
  }
};

#endif

}  // namespace device
}  // namespace dwell
