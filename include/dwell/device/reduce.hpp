// Group::reduce: one value of the threads' values, or of the elements of a span.
#pragma once

#include <dwell/device/exchange.hpp>
#include <dwell/device/group.hpp>
#include <dwell/device/pack.hpp>

namespace dwell {
namespace device {

// Combines elements of type In as values of type T.
template <class In, class T, class Combine>
class Reduction {
 public:
#if DWELL_PARALLEL_GROUP
  static DWELL_DEVICE T run(const Group& g, const In* from, u64 count, T init, Combine& combine) {
    if (count == 0) return init;
    const T mine = pack_misalignment<kCount>(from) == 0 ? of_thread<true>(g, from, count, init, combine)
                                                        : of_thread<false>(g, from, count, init, combine);
    const u64 packs = (count + kCount - 1) / kCount;
    const u32 active = packs < kGroupThreads ? static_cast<u32>(packs) : kGroupThreads;
    return static_cast<T>(combine(init, Exchange<T>::all(g, mine, active, combine)));
  }

 private:
  // Elements a pack, and packs that a thread loads before it combines them.
  static constexpr u32 kCount = elements_at_once<In>();
  static constexpr u32 kPacks = packs_ahead<In>(kCount);
  using Room = PackRoom<In, kCount, kPacks>;

  static constexpr u32 kStep = kGroupThreads * kCount;  // elements between packs of a thread

  // The result over every kGroupThreads-th pack, the calling thread's share; `none` when there is no such pack.
  template <bool kAligned>
  static DWELL_DEVICE T of_thread(const Group& g, const In* from, u64 count, T none, Combine& combine) {
    T all = none;
    bool first = true;
    Room room;
    from += g.rank() * kCount;
    i64 behind = static_cast<i64>(count) - g.rank() * kCount;
    if (kAligned) {
      // Whole packs without a condition between them, so all their loads are pending at once. Unrolled, so the loads of the next round are
      // issued while this one is combined.
#pragma unroll 4
      for (; behind >= (kPacks - 1) * kStep + kCount; behind -= kPacks * kStep, from += kPacks * kStep) {
#pragma unroll
        for (u32 i = 0; i < kPacks; ++i) room.pack[i] = *reinterpret_cast<const Pack<In, kCount>*>(from + i * kStep);
        const T value = Packs<kPacks>::combined(room.pack, combine);
        all = first ? value : static_cast<T>(combine(all, value));
        first = false;
      }
    }
#pragma unroll 1
    for (; behind > 0; behind -= kPacks * kStep, from += kPacks * kStep) {
      const u32 left = behind < kPacks * kStep ? static_cast<u32>(behind) : kPacks * kStep;
#pragma unroll
      for (u32 i = 0; i < kPacks; ++i) load<kAligned>(&room.pack[i], from + i * kStep, left, i * kStep);
#pragma unroll
      for (u32 i = 0; i < kPacks; ++i) {
        if (i * kStep >= left) break;
        const T value =
            i * kStep + kCount <= left ? of_pack<kCount>(room.pack[i].at, combine) : of_some(room.pack[i].at, left - i * kStep, combine);
        all = first ? value : static_cast<T>(combine(all, value));
        first = false;
      }
    }
    return all;
  }

  // The pack that is `before` elements behind the first of `left`.
  template <bool kAligned>
  static DWELL_DEVICE void load(Pack<In, kCount>* to, const In* from, u32 left, u32 before) {
    if (kAligned && before + kCount <= left) {
      *to = *reinterpret_cast<const Pack<In, kCount>*>(from);
    } else {
      clear(to);
#pragma unroll
      for (u32 k = 0; k < kCount; ++k)
        if (before + k < left) to->at[k] = from[k];
    }
  }

  // Pairs of pairs, which are independent.
  template <u32 Count>
  static DWELL_DEVICE T of_pack(const In* at, Combine& combine) {
    return Halves<Count>::combined(at, combine);
  }
  template <u32 Count, bool = Count == 1>
  struct Halves {
    static DWELL_DEVICE T combined(const In* at, Combine& combine) {
      return static_cast<T>(
          combine(Halves<Count / 2>::combined(at, combine), Halves<Count - Count / 2>::combined(at + Count / 2, combine)));
    }
  };
  template <u32 Count>
  struct Halves<Count, true> {
    static DWELL_DEVICE T combined(const In* at, Combine&) { return static_cast<T>(*at); }
  };

  // The same of packs.
  template <u32 Count, bool = Count == 1>
  struct Packs {
    static DWELL_DEVICE T combined(const Pack<In, kCount>* pack, Combine& combine) {
      return static_cast<T>(
          combine(Packs<Count / 2>::combined(pack, combine), Packs<Count - Count / 2>::combined(pack + Count / 2, combine)));
    }
  };
  template <u32 Count>
  struct Packs<Count, true> {
    static DWELL_DEVICE T combined(const Pack<In, kCount>* pack, Combine& combine) { return of_pack<kCount>(pack->at, combine); }
  };

  static DWELL_DEVICE T of_some(const In* at, u32 count, Combine& combine) {
    T all = static_cast<T>(at[0]);
#pragma unroll
    for (u32 k = 1; k < kCount; ++k)
      if (k < count) all = static_cast<T>(combine(all, static_cast<T>(at[k])));
    return all;
  }
#else
  static T run(const Group&, const In* from, u64 count, T init, Combine& combine) {
    u64 i = 0;
    if (count >= 2 * kLanesOfSum) {
      // Several independent sums, which fit vector instructions.
      PackRoom<T, kLanesOfSum, 1> room;
      T* const sums = room.pack[0].at;
      for (u32 k = 0; k < kLanesOfSum; ++k) sums[k] = static_cast<T>(from[k]);
      for (i = kLanesOfSum; i + kLanesOfSum <= count; i += kLanesOfSum)
        for (u32 k = 0; k < kLanesOfSum; ++k) sums[k] = static_cast<T>(combine(sums[k], static_cast<T>(from[i + k])));
      for (u32 half = kLanesOfSum / 2; half > 0; half /= 2)
        for (u32 k = 0; k < half; ++k) sums[k] = static_cast<T>(combine(sums[k], sums[k + half]));
      init = static_cast<T>(combine(init, sums[0]));
    }
    for (; i < count; ++i) init = static_cast<T>(combine(init, static_cast<T>(from[i])));
    return init;
  }

 private:
  static constexpr u32 kLanesOfSum = sizeof(T) <= 4 ? 16 : 8;
#endif
};

}  // namespace device

template <class T, class Combine>
DWELL_DEVICE T Group::reduce(T value, Combine combine) const {
#if DWELL_PARALLEL_GROUP
  return device::Exchange<T>::all(*this, value, kGroupThreads, combine);
#else
  static_assert(sizeof(T) <= 16 && __is_trivially_copyable(T), "groups combine trivially copyable values of at most 16 bytes");
  (void)combine;
  return value;
#endif
}

template <class In, class T, class Combine>
DWELL_DEVICE T Group::reduce(Span<In> in, T init, Combine combine) const {
  static_assert(sizeof(T) <= 16 && __is_trivially_copyable(T), "groups combine trivially copyable values of at most 16 bytes");
  return device::Reduction<typename device::RemoveConst<In>::type, T, Combine>::run(*this, in.data(), in.size(), init, combine);
}

}  // namespace dwell
