// Atomic operations on the elements of spans. Order and scope are constants where these are called, so each becomes one instruction.
#pragma once

#include <dwell/device/atomic.hpp>
#include <dwell/device/order.hpp>
#include <dwell/device/span.hpp>

namespace dwell {
namespace device {

DWELL_HOST_DEVICE bool acquires(Order o) { return o == Order::acquire || o == Order::acq_rel; }
DWELL_HOST_DEVICE bool releases(Order o) { return o == Order::release || o == Order::acq_rel; }

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

#if DWELL_ON_CUDA

#define DWELL_ATOMIC_IF(order, scope, operation, constraint)                                    \
  if (o == Order::order && s == Scope::scope)                                                   \
    asm volatile("atom." DWELL_PTX_##order "." DWELL_PTX_##scope "." operation " %0, [%1], %2;" \
                 : "=" constraint(before)                                                       \
                 : "l"(at), constraint(value)                                                   \
                 : "memory");
#define DWELL_ATOMIC_CAS_IF(order, scope, operation, constraint)                                    \
  if (o == Order::order && s == Scope::scope)                                                       \
    asm volatile("atom." DWELL_PTX_##order "." DWELL_PTX_##scope "." operation " %0, [%1], %2, %3;" \
                 : "=" constraint(before)                                                           \
                 : "l"(at), constraint(expected), constraint(value)                                 \
                 : "memory");
#define DWELL_ATOMIC_EACH(IF, ...) \
  IF(relaxed, system, __VA_ARGS__) \
  IF(acquire, device, __VA_ARGS__) \
  IF(acquire, system, __VA_ARGS__) \
  IF(release, device, __VA_ARGS__) \
  IF(release, system, __VA_ARGS__) \
  IF(acq_rel, device, __VA_ARGS__) \
  IF(acq_rel, system, __VA_ARGS__)
// Elements lie in global memory or in shared memory (Group::shared), so addresses are generic. Of relaxed operations at device scope the
// compiler knows more when they are its own functions: which memory it is, and whether the result is wanted.
#define DWELL_ATOMIC(name, type, own, own_type, operation, constraint)                              \
  DWELL_DEVICE type name(type* at, type value, Order o, Scope s) {                                  \
    if (o == Order::relaxed && s == Scope::device)                                                  \
      return static_cast<type>(own(reinterpret_cast<own_type*>(at), static_cast<own_type>(value))); \
    type before{};                                                                                  \
    DWELL_ATOMIC_EACH(DWELL_ATOMIC_IF, operation, constraint)                                       \
    return before;                                                                                  \
  }
DWELL_ATOMIC(exchange_word, u32, atomicExch, u32, "exch.b32", "r")
DWELL_ATOMIC(exchange_word, u64, atomicExch, u64, "exch.b64", "l")
DWELL_ATOMIC(add_word, i32, atomicAdd, i32, "add.s32", "r")
DWELL_ATOMIC(add_word, u32, atomicAdd, u32, "add.u32", "r")
DWELL_ATOMIC(add_word, i64, atomicAdd, u64, "add.u64", "l")
DWELL_ATOMIC(add_word, u64, atomicAdd, u64, "add.u64", "l")
DWELL_ATOMIC(add_word, float, atomicAdd, float, "add.f32", "f")
DWELL_ATOMIC(add_word, double, atomicAdd, double, "add.f64", "d")
DWELL_ATOMIC(min_word, i32, atomicMin, i32, "min.s32", "r")
DWELL_ATOMIC(min_word, u32, atomicMin, u32, "min.u32", "r")
DWELL_ATOMIC(min_word, i64, atomicMin, i64, "min.s64", "l")
DWELL_ATOMIC(min_word, u64, atomicMin, u64, "min.u64", "l")
DWELL_ATOMIC(max_word, i32, atomicMax, i32, "max.s32", "r")
DWELL_ATOMIC(max_word, u32, atomicMax, u32, "max.u32", "r")
DWELL_ATOMIC(max_word, i64, atomicMax, i64, "max.s64", "l")
DWELL_ATOMIC(max_word, u64, atomicMax, u64, "max.u64", "l")
DWELL_DEVICE u32 compare_exchange_word(u32* at, u32 expected, u32 value, Order o, Scope s) {
  if (o == Order::relaxed && s == Scope::device) return atomicCAS(at, expected, value);
  u32 before{};
  DWELL_ATOMIC_EACH(DWELL_ATOMIC_CAS_IF, "cas.b32", "r")
  return before;
}
DWELL_DEVICE u64 compare_exchange_word(u64* at, u64 expected, u64 value, Order o, Scope s) {
  if (o == Order::relaxed && s == Scope::device) return atomicCAS(at, expected, value);
  u64 before{};
  DWELL_ATOMIC_EACH(DWELL_ATOMIC_CAS_IF, "cas.b64", "l")
  return before;
}
template <class Word>
DWELL_DEVICE Word load_word(const Word* at, Order o, Scope s) {
  if (s == Scope::device) return acquires(o) ? load<Order::acquire, Scope::device>(at) : load<Order::relaxed, Scope::device>(at);
  return acquires(o) ? load<Order::acquire, Scope::system>(at) : load<Order::relaxed, Scope::system>(at);
}
template <class Word>
DWELL_DEVICE void store_word(Word* at, Word value, Order o, Scope s) {
  if (s == Scope::device && releases(o)) store<Order::release, Scope::device>(at, value);
  if (s == Scope::device && !releases(o)) store<Order::relaxed, Scope::device>(at, value);
  if (s == Scope::system && releases(o)) store<Order::release, Scope::system>(at, value);
  if (s == Scope::system && !releases(o)) store<Order::relaxed, Scope::system>(at, value);
}

#else

template <class Word>
inline Word load_word(const Word* at, Order o, Scope) {
  return acquires(o) ? __atomic_load_n(at, __ATOMIC_ACQUIRE) : __atomic_load_n(at, __ATOMIC_RELAXED);
}
template <class Word>
inline void store_word(Word* at, Word value, Order o, Scope) {
  if (releases(o))
    __atomic_store_n(at, value, __ATOMIC_RELEASE);
  else
    __atomic_store_n(at, value, __ATOMIC_RELAXED);
}
template <class Word>
inline Word exchange_word(Word* at, Word value, Order o, Scope) {
  return __atomic_exchange_n(at, value, builtin_order(o));
}
template <class Word>
inline Word compare_exchange_word(Word* at, Word expected, Word value, Order o, Scope) {
  __atomic_compare_exchange_n(at, &expected, value, false, builtin_order(o), acquires(o) ? __ATOMIC_ACQUIRE : __ATOMIC_RELAXED);
  return expected;
}
template <class Word>
inline Word add_word(Word* at, Word value, Order o, Scope) {
  return __atomic_fetch_add(at, value, builtin_order(o));
}

#endif

// *at = change(*at), for what no instruction does. Returns what it was before.
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
#if DWELL_ON_CUDA
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
  using Number = device::Number<T>;
  return static_cast<T>(device::add_word(reinterpret_cast<Number*>(at(index)), static_cast<Number>(value), o, s));
}
template <class T>
DWELL_DEVICE T Span<T>::atomic_min(device::Index index, T value, order o, scope s) const {
  using Number = device::Number<T>;
  return static_cast<T>(device::min_word(reinterpret_cast<Number*>(at(index)), static_cast<Number>(value), o, s));
}
template <class T>
DWELL_DEVICE T Span<T>::atomic_max(device::Index index, T value, order o, scope s) const {
  using Number = device::Number<T>;
  return static_cast<T>(device::max_word(reinterpret_cast<Number*>(at(index)), static_cast<Number>(value), o, s));
}

}  // namespace dwell
