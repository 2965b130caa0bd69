// Group::copy: elements from one span to another.
#pragma once

#include <dwell/device/transform.hpp>

namespace dwell {
namespace device {

#if DWELL_PARALLEL_GROUP
// The type as which elements are copied: their own, or, where no single access is as wide, the widest words to which they are aligned.
template <u32 Bytes>
struct WordOf;
template <>
struct WordOf<1> {
  using type = u8;
};
template <>
struct WordOf<2> {
  using type = u16;
};
template <>
struct WordOf<4> {
  using type = u32;
};
template <>
struct WordOf<8> {
  using type = u64;
};
template <class T, bool = is_power_of_two(sizeof(T)) && sizeof(T) <= kWidestAccess>
struct MovedAs {
  using type = T;
};
template <class T>
struct MovedAs<T, false> {
  using type = typename WordOf<(alignof(T) < 8 ? alignof(T) : 8)>::type;
};

template <class T>
DWELL_DEVICE void copy(const Group& g, T* to, const T* from, u64 count) {
  using Word = typename MovedAs<T>::type;
  Same same;
  Transform<kWidestAccess / sizeof(Word), Word, Word>::run(g, reinterpret_cast<Word*>(to), count * (sizeof(T) / sizeof(Word)), same,
                                                           reinterpret_cast<const Word*>(from));
}
#else
template <class T>
void copy(const Group& g, T* to, const T* from, u64 count) {
  if (g.count() != 1 && Overlap(address_of(to), sizeof(T), count).is_partial(address_of(from), sizeof(T))) {
    g.fail(status::overlap);
    return;
  }
  const Block block = block_of(count, g.index(), g.count());
  if (block.size() != 0) __builtin_memmove(to + block.first(), from + block.first(), block.size() * sizeof(T));
}
#endif

}  // namespace device

template <class T, class In>
DWELL_DEVICE void Group::copy(Span<T> out, Span<In> in) const {
  static_assert(device::kSame<typename device::RemoveConst<In>::type, T>,
                "a copy keeps the type of the elements: convert them with transform");
  static_assert(__is_trivially_copyable(T), "elements are copied as bytes");
  device::copy<T>(*this, out.data(), in.data(), out.size());
}

}  // namespace dwell
