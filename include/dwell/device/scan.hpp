// Group::inclusive_scan and Group::exclusive_scan: for each element, the combination of all up to it.
#pragma once

#include <dwell/device/exchange.hpp>
#include <dwell/device/group.hpp>
#include <dwell/device/overlap.hpp>
#include <dwell/device/pack.hpp>

namespace dwell {
namespace device {

template <bool kInclusive, class Out, class In, class T, class Combine>
class Scan {
 public:
  static DWELL_DEVICE T run(const Group& g, Out* to, const In* from, u64 count, T init, Combine& combine) {
    Overlap overlap(address_of(to), sizeof(Out), count);
    overlap.add(address_of(from), sizeof(In));
    if (!overlap.ascending()) {
      g.fail(status::overlap);
      return init;
    }
#if DWELL_PARALLEL_GROUP
    return (pack_misalignment<kCount>(to) | pack_misalignment<kCount>(from)) == 0 ? by_tiles<true>(g, to, from, count, init, combine)
                                                                                  : by_tiles<false>(g, to, from, count, init, combine);
#else
    T all = init;
    for (u64 i = 0; i < count; ++i) {
      const T before = all;
      all = static_cast<T>(combine(all, static_cast<T>(from[i])));
      to[i] = static_cast<Out>(kInclusive ? all : before);
    }
    return all;
#endif
  }

#if DWELL_PARALLEL_GROUP
 private:
  // Neighbouring elements that a thread takes of each tile.
  static constexpr u32 kCount = elements_at_once<In, Out, T>(4);
  static constexpr u32 kTile = kCount * kGroupThreads;
  using Loaded = PackRoom<In, kCount, 1>;

  // `left` elements follow from `from` on, or none.
  template <bool kAligned>
  static DWELL_DEVICE void load(Loaded* to, const In* from, i64 left) {
    if (kAligned && left >= kCount) {
      to->pack[0] = *reinterpret_cast<const Pack<In, kCount>*>(from);
    } else {
      clear(&to->pack[0]);
#pragma unroll
      for (u32 k = 0; k < kCount; ++k)
        if (k < left) to->pack[0].at[k] = from[k];
    }
  }

  // Tile after tile; the next one loads while one is computed.
  template <bool kAligned>
  static DWELL_DEVICE T by_tiles(const Group& g, Out* to, const In* from, u64 count, T carry, Combine& combine) {
    const i64 first = static_cast<i64>(g.rank() * kCount);
    to += static_cast<i64>(count) + first;
    from += static_cast<i64>(count) + first;
    Loaded loaded;
    load<kAligned>(&loaded, from - static_cast<i64>(count), static_cast<i64>(count) - first);
    g.sync();  // no thread still reads the slots of an earlier exchange
    u32 place = 0;
#pragma unroll 1
    for (i64 behind = static_cast<i64>(count); behind > 0; behind -= kTile) {
      const i64 left = behind - first;
      const u32 mine = left <= 0 ? 0 : left < kCount ? static_cast<u32>(left) : kCount;
      // Sums within the thread. Threads without elements have a valid value, which is not used.
      PackRoom<T, kCount, 1> room;
      T* const sums = room.pack[0].at;
      T all = carry;
#pragma unroll
      for (u32 k = 0; k < kCount; ++k) {
        if (k < mine)
          all = k == 0 ? static_cast<T>(loaded.pack[0].at[0]) : static_cast<T>(combine(all, static_cast<T>(loaded.pack[0].at[k])));
        sums[k] = all;
      }
      load<kAligned>(&loaded, from - (behind - kTile), left - kTile);
      // Within the warp: those with elements come first.
      for (u32 distance = 1; distance < 32; distance *= 2) {
        const T other = Exchange<T>::from_below(all, distance);
        if (lane() >= distance) all = static_cast<T>(combine(other, all));
      }
      const T below = Exchange<T>::from_below(all, 1);
      T* const slots = Exchange<T>::slots(g, place);
      place ^= 1U;
      if (mine != 0 && (lane() == 31 || left == mine)) slots[g.rank() / 32] = all;
      g.sync();
      // Between warps.
      T before = carry;
#pragma unroll
      for (u32 warp = 0; warp < Exchange<T>::kWarps; ++warp) {
        if (warp == g.rank() / 32) before = carry;
        if (behind > warp * 32 * kCount) carry = static_cast<T>(combine(carry, slots[warp]));
      }
      if (lane() != 0) before = static_cast<T>(combine(before, below));
      store<kAligned>(to - behind, mine, before, sums, combine);
    }
    return carry;
  }

  template <bool kAligned>
  static DWELL_DEVICE void store(Out* to, u32 count, T before, const T* sums, Combine& combine) {
    PackRoom<Out, kCount, 1> made;
#pragma unroll
    for (u32 k = 0; k < kCount; ++k) {
      if (k >= count) break;
      if (kInclusive)
        made.pack[0].at[k] = static_cast<Out>(static_cast<T>(combine(before, sums[k])));
      else
        made.pack[0].at[k] = static_cast<Out>(k == 0 ? before : static_cast<T>(combine(before, sums[k == 0 ? 0 : k - 1])));
    }
    if (kAligned && count == kCount) {
      *reinterpret_cast<Pack<Out, kCount>*>(to) = made.pack[0];
    } else {
#pragma unroll
      for (u32 k = 0; k < kCount; ++k)
        if (k < count) to[k] = made.pack[0].at[k];
    }
  }
#endif
};

}  // namespace device

template <class Out, class In, class T, class Combine>
DWELL_DEVICE T Group::inclusive_scan(Span<Out> out, Span<In> in, T init, Combine combine) const {
  using From = typename device::RemoveConst<In>::type;
  return device::Scan<true, Out, From, T, Combine>::run(*this, out.data(), in.data(), out.size(), init, combine);
}

template <class Out, class In, class T, class Combine>
DWELL_DEVICE T Group::exclusive_scan(Span<Out> out, Span<In> in, T init, Combine combine) const {
  using From = typename device::RemoveConst<In>::type;
  return device::Scan<false, Out, From, T, Combine>::run(*this, out.data(), in.data(), out.size(), init, combine);
}

}  // namespace dwell
