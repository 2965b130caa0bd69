// Group::transform: each element of a result from the input elements with the same index.
#pragma once

#include <dwell/device/group.hpp>
#include <dwell/device/indices.hpp>
#include <dwell/device/overlap.hpp>
#include <dwell/device/pack.hpp>

namespace dwell {
namespace device {

#if DWELL_PARALLEL_GROUP

// The conversion of elements to their own type.
struct Same {};

// One input, and what a thread has loaded of it.
template <u32 Index, class T, u32 Count, u32 Packs>
struct Input {
  using P = Pack<T, Count>;
  const P* from;
  PackRoom<T, Count, Packs> room;
};

template <u32 Count, u32 Packs, class Numbers, class... In>
struct Inputs;
// Computes `Packs` packs of `Count` elements at a time. All loads of a thread stand before its first store: the compiler may not move a
// load over a store to memory that might be the same.
template <u32 Count, u32 Packs, u32... Index, class... In>
struct Inputs<Count, Packs, Indices<Index...>, In...> : Input<Index, In, Count, Packs>... {
  // Elements from these on.
  DWELL_DEVICE explicit Inputs(const In*... from) {
    (void)Ignored{0, (Input<Index, In, Count, Packs>::from = reinterpret_cast<const Pack<In, Count>*>(from), 0)...};
  }
  // Loads pack `at` of each input.
  DWELL_DEVICE void load(u32 i, i64 at) {
    (void)Ignored{0, (Input<Index, In, Count, Packs>::room.pack[i] = Input<Index, In, Count, Packs>::from[at], 0)...};
  }
  DWELL_DEVICE void clear() { (void)Ignored{0, (device::clear(&Input<Index, In, Count, Packs>::room.pack[0]), 0)...}; }
  // Stores the results as pack `at`.
  template <class T, class F>
  DWELL_DEVICE void store(u32 i, Pack<T, Count>* to, i64 at, F& f) {
    PackRoom<T, Count, 1> made;
#pragma unroll
    for (u32 k = 0; k < Count; ++k) made.pack[0].at[k] = static_cast<T>(f(Input<Index, In, Count, Packs>::room.pack[i].at[k]...));
    to[at] = made.pack[0];
  }
  template <class T>
  DWELL_DEVICE void store(u32 i, Pack<T, Count>* to, i64 at, Same&) {
    to[at] = Input<0, T, Count, Packs>::room.pack[i];
  }

  // The threads of all groups of the task together: packs 0 .. packs - 1. Numbers of 32 bits (up to 2^31) take fewer instructions and
  // registers. Instead of a pack beyond the last, a thread loads one twice: a conditional load would preserve the pack's old value.
  template <class Number, class T, class F>
  DWELL_DEVICE void each(const Group& g, T* result, Number packs, F& f) {
    Pack<T, Count>* const to = reinterpret_cast<Pack<T, Count>*>(result);
    constexpr u32 kTile = Packs * kGroupThreads;
#pragma unroll 1
    for (Number at = static_cast<Number>(g.index()) * kTile + g.rank(); at < packs; at += static_cast<Number>(g.count()) * kTile) {
#pragma unroll
      for (u32 i = 0; i < Packs; ++i) load(i, static_cast<i64>(at + i * kGroupThreads < packs ? at + i * kGroupThreads : at));
#pragma unroll
      for (u32 i = 0; i < Packs; ++i)
        if (at + i * kGroupThreads < packs) store(i, to, static_cast<i64>(at) + i * kGroupThreads, f);
    }
  }

 private:
  using Ignored = int[sizeof...(In) + 1];
};

// `kCount` is the number of elements a pack.
template <u32 kCount, class T, class... In>
class Transform {
 public:
  template <class F>
  static DWELL_DEVICE void run(const Group& g, T* to, u64 count, F& f, const In*... from) {
    bool partial = false;
    (void)Ignored{0, (partial = partial | Overlap(address_of(to), sizeof(T), count).is_partial(address_of(from), sizeof(In)), 0)...};
    if (__builtin_expect(partial, false)) {
      ordered(g, to, count, f, from...);
      return;
    }
    // Elements before the first aligned pack of the result.
    const u32 before = (0U - static_cast<u32>(address_of(to))) % pack_alignment<T>(kCount) / sizeof(T);
    u32 unaligned = pack_misalignment<kCount>(to + before);
    (void)Ignored{0, (unaligned |= pack_misalignment<kCount>(from + before), 0)...};
    if (kCount > 1 && unaligned == 0 && count >= before && count <= 1U << 31U)
      by_packs(g, to + before, before, static_cast<u32>(count) - before, f, (from + before)...);
    else
      Loads<1, kSingles>(from...).template each<u64>(g, to, count, f);
  }

 private:
  using Ignored = int[sizeof...(In) + 1];
  // Packs that a thread loads before it stores: of 1024 floats each has two packs an input.
  static constexpr u32 kPacks = packs_ahead<In...>(kCount);
  // The same for elements that are loaded one by one, each from an address of its own.
  static constexpr u32 kSingles = packs_ahead<In...>(1, 8, 8);
  template <u32 Count, u32 Packs>
  using Loads = Inputs<Count, Packs, MakeIndices<sizeof...(In)>, In...>;

  // `to` and `from` begin `before` elements into the spans; `count` elements follow. The few elements before and after the packs are stored
  // last, so their loads are pending together with those of the packs.
  template <class F>
  static DWELL_DEVICE void by_packs(const Group& g, T* to, u32 before, u32 count, F& f, const In*... from) {
    const u32 packs = count / kCount;
    Loads<1, 1> ends(from...);
    const bool has_end = g.index() == 0 && g.rank() < before + count % kCount;
    const i32 end = static_cast<i32>(g.rank() - before + (g.rank() < before ? 0 : packs * kCount));
    ends.clear();
    if (has_end) ends.load(0, end);
    Loads<kCount, kPacks>(from...).template each<u32>(g, to, packs, f);
    if (has_end) ends.store(0, reinterpret_cast<Pack<T, 1>*>(to), end, f);
  }

  // The result overlaps inputs in part: tile after tile, in an order in which none overwrites unread input of another.
  template <class F>
  static DWELL_DEVICE void ordered(const Group& g, T* to, u64 count, F& f, const In*... from) {
    Overlap overlap(address_of(to), sizeof(T), count);
    (void)Ignored{0, (overlap.add(address_of(from), sizeof(In)), 0)...};
    if (g.count() != 1 || !(overlap.ascending() || overlap.descending())) {
      g.fail(status::overlap);
      return;
    }
    Loads<1, 1> loads(from...);
    const u64 tiles = (count + g.size() - 1) / g.size();
#pragma unroll 1
    for (u64 tile = 0; tile < tiles; ++tile) {
      const i64 at = static_cast<i64>((overlap.ascending() ? tile : tiles - 1 - tile) * g.size() + g.rank());
      loads.clear();
      if (at < static_cast<i64>(count)) loads.load(0, at);
      g.sync();
      if (at < static_cast<i64>(count)) loads.store(0, reinterpret_cast<Pack<T, 1>*>(to), at, f);
      g.sync();
    }
  }
};

#else

template <u32 kCount, class T, class... In>
class Transform {
 public:
  template <class F>
  static void run(const Group& g, T* to, u64 count, F& f, const In*... from) {
    Overlap overlap(address_of(to), sizeof(T), count);
    (void)Ignored{0, (overlap.add(address_of(from), sizeof(In)), 0)...};
    const Block block = block_of(count, g.index(), g.count());
    const u64 first = block.first();
    const u64 end = first + block.size();
    if (!overlap.partial()) {
      DWELL_INDEPENDENT_STEPS
      for (u64 i = first; i < end; ++i) to[i] = static_cast<T>(f(from[i]...));
    } else if (g.count() != 1 || !(overlap.ascending() || overlap.descending())) {
      g.fail(status::overlap);
    } else if (overlap.ascending()) {
      for (u64 i = 0; i < count; ++i) to[i] = static_cast<T>(f(from[i]...));
    } else {
      for (u64 i = count; i-- > 0;) to[i] = static_cast<T>(f(from[i]...));
    }
  }

 private:
  using Ignored = int[sizeof...(In) + 1];
};

#endif

}  // namespace device

template <class T, class F, class... In>
DWELL_DEVICE void Group::transform(Span<T> out, F f, Span<In>... in) const {
  constexpr u32 kCount = device::elements_at_once<T, In...>();
  device::Transform<kCount, T, typename device::RemoveConst<In>::type...>::run(*this, out.data(), out.size(), f, in.data()...);
}

}  // namespace dwell
