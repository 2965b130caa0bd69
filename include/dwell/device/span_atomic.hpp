// Atomic operations on the elements of spans. Order and scope are constants where these are called, so each becomes one instruction.
#pragma once

#include <dwell/device/atomic.hpp>
#include <dwell/device/order.hpp>
#include <dwell/device/span.hpp>

namespace dwell {
namespace device {

// Elements of type T as the instructions see them: words of 4 or 8 bytes, and for arithmetic one of six types. Done without
// <type_traits>.
template <u32 Bytes>
struct Words {
  static_assert(Bytes == 4 || Bytes == 8, "atomic operations take elements of 4 or 8 bytes");
};
template <>
struct Words<4> {
  using bits = u32;
  using signed_integer = i32;
  using floating = float;
};
template <>
struct Words<8> {
  using bits = u64;
  using signed_integer = i64;
  using floating = double;
};
template <class T>
using Bits = typename Words<sizeof(T)>::bits;
template <class T, bool Floating = static_cast<T>(0.5) != static_cast<T>(0), bool Signed = static_cast<T>(-1) < static_cast<T>(0)>
struct NumberOf {
  using type = typename Words<sizeof(T)>::floating;
};
template <class T>
struct NumberOf<T, false, true> {
  using type = typename Words<sizeof(T)>::signed_integer;
};
template <class T>
struct NumberOf<T, false, false> {
  using type = Bits<T>;
};
template <class T>
using Number = typename NumberOf<T>::type;

// Atomically sets *at = change(*at), for operations without an instruction. Returns the old value.
template <class T, class Change>
DWELL_DEVICE T change_word(T* at, Change change, Order o, Scope s) {
  Bits<T>* const bits = reinterpret_cast<Bits<T>*>(at);
  Bits<T> before = load_word(bits, Order::relaxed, s);
  for (;;) {
    const Bits<T> seen = compare_exchange_word(bits, before, bits_as<Bits<T>>(static_cast<T>(change(bits_as<T>(before)))), o, s);
    if (seen == before) return bits_as<T>(before);
    before = seen;
  }
}
template <class T>
DWELL_DEVICE T least_word(T* at, T value, Order o, Scope s) {
  return change_word(
      at, [value](T before) { return value < before ? value : before; }, o, s);
}
template <class T>
DWELL_DEVICE T greatest_word(T* at, T value, Order o, Scope s) {
  return change_word(
      at, [value](T before) { return before < value ? value : before; }, o, s);
}
#if DWELL_ATOMIC_ARITHMETIC
DWELL_DEVICE float min_word(float* at, float value, Order o, Scope s) { return least_word(at, value, o, s); }
DWELL_DEVICE double min_word(double* at, double value, Order o, Scope s) { return least_word(at, value, o, s); }
DWELL_DEVICE float max_word(float* at, float value, Order o, Scope s) { return greatest_word(at, value, o, s); }
DWELL_DEVICE double max_word(double* at, double value, Order o, Scope s) { return greatest_word(at, value, o, s); }
#else
inline float add_word(float* at, float value, Order o, Scope s) {
  return change_word(
      at, [value](float before) { return before + value; }, o, s);
}
inline double add_word(double* at, double value, Order o, Scope s) {
  return change_word(
      at, [value](double before) { return before + value; }, o, s);
}
template <class T>
inline T min_word(T* at, T value, Order o, Scope s) {
  return least_word(at, value, o, s);
}
template <class T>
inline T max_word(T* at, T value, Order o, Scope s) {
  return greatest_word(at, value, o, s);
}
#endif

}  // namespace device

template <class T>
DWELL_DEVICE T Span<T>::atomic_load(device::Index index, order o, scope s) const {
  using Word = device::Bits<T>;
  return device::bits_as<typename device::RemoveConst<T>::type>(device::load_word(reinterpret_cast<const Word*>(at(index)), o, s));
}
template <class T>
DWELL_DEVICE void Span<T>::atomic_store(device::Index index, T value, order o, scope s) const {
  using Word = device::Bits<T>;
  device::store_word(reinterpret_cast<Word*>(at(index)), device::bits_as<Word>(value), o, s);
}
template <class T>
DWELL_DEVICE T Span<T>::atomic_exchange(device::Index index, T value, order o, scope s) const {
  using Word = device::Bits<T>;
  return device::bits_as<T>(device::exchange_word(reinterpret_cast<Word*>(at(index)), device::bits_as<Word>(value), o, s));
}
template <class T>
DWELL_DEVICE bool Span<T>::atomic_compare_exchange(device::Index index, T& expected, T value, order o, scope s) const {
  using Word = device::Bits<T>;
  const Word wanted = device::bits_as<Word>(expected);
  const Word before = device::compare_exchange_word(reinterpret_cast<Word*>(at(index)), wanted, device::bits_as<Word>(value), o, s);
  if (before == wanted) return true;
  expected = device::bits_as<T>(before);
  return false;
}
template <class T>
DWELL_DEVICE T Span<T>::atomic_add(device::Index index, T value, order o, scope s) const {
  using Word = device::Number<T>;
  return static_cast<T>(device::add_word(reinterpret_cast<Word*>(at(index)), static_cast<Word>(value), o, s));
}
template <class T>
DWELL_DEVICE T Span<T>::atomic_min(device::Index index, T value, order o, scope s) const {
  using Word = device::Number<T>;
  return static_cast<T>(device::min_word(reinterpret_cast<Word*>(at(index)), static_cast<Word>(value), o, s));
}
template <class T>
DWELL_DEVICE T Span<T>::atomic_max(device::Index index, T value, order o, scope s) const {
  using Word = device::Number<T>;
  return static_cast<T>(device::max_word(reinterpret_cast<Word*>(at(index)), static_cast<Word>(value), o, s));
}

}  // namespace dwell
