// Atomics of the platform CUDA, as atomic.hpp says.
#pragma once

#include <dwell/device/order.hpp>
#include <dwell/device/platform.hpp>
#include <dwell/device/quad.hpp>

namespace dwell {
namespace device {

#define DWELL_ATOMIC_LOAD(order, scope, type, suffix, constraint)                                                                       \
  if (O == Order::order && S == Scope::scope && sizeof(T) == sizeof(type)) {                                                            \
    type value;                                                                                                                         \
    asm volatile("ld." DWELL_PTX_##order "." DWELL_PTX_##scope "." suffix " %0, [%1];" : "=" constraint(value) : "l"(from) : "memory"); \
    return static_cast<T>(value);                                                                                                       \
  }
#define DWELL_PTX_relaxed "relaxed"
#define DWELL_PTX_acquire "acquire"
#define DWELL_PTX_release "release"
#define DWELL_PTX_acq_rel "acq_rel"
#define DWELL_PTX_device "gpu"
#define DWELL_PTX_system "sys"

template <Order O, Scope S, class T>
DWELL_DEVICE T load(const T* from) {
  static_assert(O == Order::relaxed || O == Order::acquire, "a load acquires or nothing");
  DWELL_ATOMIC_LOAD(relaxed, device, u32, "u32", "r")
  DWELL_ATOMIC_LOAD(relaxed, system, u32, "u32", "r")
  DWELL_ATOMIC_LOAD(acquire, device, u32, "u32", "r")
  DWELL_ATOMIC_LOAD(acquire, system, u32, "u32", "r")
  DWELL_ATOMIC_LOAD(relaxed, device, u64, "u64", "l")
  DWELL_ATOMIC_LOAD(relaxed, system, u64, "u64", "l")
  DWELL_ATOMIC_LOAD(acquire, device, u64, "u64", "l")
  DWELL_ATOMIC_LOAD(acquire, system, u64, "u64", "l")
}

#define DWELL_ATOMIC_STORE(order, scope, type, suffix, constraint)                                                                     \
  if (O == Order::order && S == Scope::scope && sizeof(T) == sizeof(type)) {                                                           \
    asm volatile("st." DWELL_PTX_##order "." DWELL_PTX_##scope "." suffix " [%0], %1;" ::"l"(to), constraint(static_cast<type>(value)) \
                 : "memory");                                                                                                          \
  }
template <Order O, Scope S, class T>
DWELL_DEVICE void store(T* to, T value) {
  static_assert(O == Order::relaxed || O == Order::release, "a store releases or nothing");
  DWELL_ATOMIC_STORE(relaxed, device, u32, "u32", "r")
  DWELL_ATOMIC_STORE(relaxed, system, u32, "u32", "r")
  DWELL_ATOMIC_STORE(release, device, u32, "u32", "r")
  DWELL_ATOMIC_STORE(release, system, u32, "u32", "r")
  DWELL_ATOMIC_STORE(relaxed, device, u64, "u64", "l")
  DWELL_ATOMIC_STORE(relaxed, system, u64, "u64", "l")
  DWELL_ATOMIC_STORE(release, device, u64, "u64", "l")
  DWELL_ATOMIC_STORE(release, system, u64, "u64", "l")
}

// ---- Read-modify-write operations, at device scope ----

#define DWELL_ATOMIC_RMW(order, operation, type, suffix, constraint)                            \
  if (O == Order::order && sizeof(T) == sizeof(type)) {                                         \
    type before;                                                                                \
    asm volatile("atom." DWELL_PTX_##order ".gpu.global." operation "." suffix " %0, [%1], %2;" \
                 : "=" constraint(before)                                                       \
                 : "l"(at), constraint(static_cast<type>(value))                                \
                 : "memory");                                                                   \
    return static_cast<T>(before);                                                              \
  }
template <Order O, class T>
DWELL_DEVICE T fetch_add(T* at, T value) {
  DWELL_ATOMIC_RMW(relaxed, "add", u32, "u32", "r")
  DWELL_ATOMIC_RMW(acq_rel, "add", u32, "u32", "r")
  DWELL_ATOMIC_RMW(acquire, "add", u32, "u32", "r")
  DWELL_ATOMIC_RMW(release, "add", u32, "u32", "r")
  DWELL_ATOMIC_RMW(relaxed, "add", u64, "u64", "l")
  DWELL_ATOMIC_RMW(acq_rel, "add", u64, "u64", "l")
  DWELL_ATOMIC_RMW(acquire, "add", u64, "u64", "l")
}
template <Order O, class T>
DWELL_DEVICE T fetch_or(T* at, T value) {
  DWELL_ATOMIC_RMW(relaxed, "or", u32, "b32", "r")
  DWELL_ATOMIC_RMW(acq_rel, "or", u32, "b32", "r")
  DWELL_ATOMIC_RMW(relaxed, "or", u64, "b64", "l")
  DWELL_ATOMIC_RMW(acq_rel, "or", u64, "b64", "l")
}
template <Order O, class T>
DWELL_DEVICE T fetch_and(T* at, T value) {
  DWELL_ATOMIC_RMW(relaxed, "and", u32, "b32", "r")
  DWELL_ATOMIC_RMW(acq_rel, "and", u32, "b32", "r")
  DWELL_ATOMIC_RMW(relaxed, "and", u64, "b64", "l")
  DWELL_ATOMIC_RMW(acq_rel, "and", u64, "b64", "l")
}
template <Order O, class T>
DWELL_DEVICE T exchange(T* at, T value) {
  DWELL_ATOMIC_RMW(relaxed, "exch", u32, "b32", "r")
  DWELL_ATOMIC_RMW(acq_rel, "exch", u32, "b32", "r")
  DWELL_ATOMIC_RMW(relaxed, "exch", u64, "b64", "l")
  DWELL_ATOMIC_RMW(acquire, "exch", u64, "b64", "l")
  DWELL_ATOMIC_RMW(acq_rel, "exch", u64, "b64", "l")
}
#define DWELL_ATOMIC_CAS(order, type, suffix, constraint)                                                 \
  if (O == Order::order && sizeof(T) == sizeof(type)) {                                                   \
    type before;                                                                                          \
    asm volatile("atom." DWELL_PTX_##order ".gpu.global.cas." suffix " %0, [%1], %2, %3;"                 \
                 : "=" constraint(before)                                                                 \
                 : "l"(at), constraint(static_cast<type>(expected)), constraint(static_cast<type>(value)) \
                 : "memory");                                                                             \
    return static_cast<T>(before);                                                                        \
  }
template <Order O, class T>
DWELL_DEVICE T compare_exchange(T* at, T expected, T value) {
  DWELL_ATOMIC_CAS(relaxed, u32, "b32", "r")
  DWELL_ATOMIC_CAS(acq_rel, u32, "b32", "r")
  DWELL_ATOMIC_CAS(relaxed, u64, "b64", "l")
  DWELL_ATOMIC_CAS(acq_rel, u64, "b64", "l")
}

template <Order O>
DWELL_DEVICE void add(u32* at, u32 value) {
  asm volatile("red.relaxed.gpu.global.add.u32 [%0], %1;" ::"l"(at), "r"(value) : "memory");
}
template <Order O>
DWELL_DEVICE void add(u64* at, u64 value) {
  asm volatile("red.relaxed.gpu.global.add.u64 [%0], %1;" ::"l"(at), "l"(value) : "memory");
}
template <Order O>
DWELL_DEVICE void maximize(u64* at, u64 value) {
  asm volatile("red.relaxed.gpu.global.max.u64 [%0], %1;" ::"l"(at), "l"(value) : "memory");
}

template <Scope S>
DWELL_DEVICE void fence() {
  if (S == Scope::device) asm volatile("fence.acq_rel.gpu;" ::: "memory");
  if (S == Scope::system) asm volatile("fence.acq_rel.sys;" ::: "memory");
}

template <Scope S>
DWELL_DEVICE Quad load_quad(const Quad* from) {
  Quad quad;
  u64 low;
  u64 high;
  if (S == Scope::device)
    asm volatile("{ .reg .b128 q; ld.relaxed.gpu.global.b128 q, [%2]; mov.b128 {%0,%1}, q; }"
                 : "=l"(low), "=l"(high)
                 : "l"(from)
                 : "memory");
  else
    asm volatile("{ .reg .b128 q; ld.relaxed.sys.global.b128 q, [%2]; mov.b128 {%0,%1}, q; }"
                 : "=l"(low), "=l"(high)
                 : "l"(from)
                 : "memory");
  quad.lap = static_cast<u32>(low);
  quad.word[0] = static_cast<u32>(low >> 32U);
  quad.word[1] = static_cast<u32>(high);
  quad.word[2] = static_cast<u32>(high >> 32U);
  return quad;
}

DWELL_DEVICE Quad acquire_quad(const Quad* from) {
  u64 low;
  u64 high;
  asm volatile("{ .reg .b128 q; ld.acquire.sys.global.b128 q, [%2]; mov.b128 {%0,%1}, q; }" : "=l"(low), "=l"(high) : "l"(from) : "memory");
  return Quad{static_cast<u32>(low), {static_cast<u32>(low >> 32U), static_cast<u32>(high), static_cast<u32>(high >> 32U)}};
}

template <Scope S>
DWELL_DEVICE void store_quad(Quad* to, const Quad& quad) {
  const u64 low = (static_cast<u64>(quad.word[0]) << 32U) | quad.lap;
  const u64 high = (static_cast<u64>(quad.word[2]) << 32U) | quad.word[1];
  if (S == Scope::device)
    asm volatile("{ .reg .b128 q; mov.b128 q, {%1,%2}; st.relaxed.gpu.global.b128 [%0], q; }" ::"l"(to), "l"(low), "l"(high) : "memory");
  else
    asm volatile("{ .reg .b128 q; mov.b128 q, {%1,%2}; st.relaxed.sys.global.b128 [%0], q; }" ::"l"(to), "l"(low), "l"(high) : "memory");
}

// ---- Elements of spans ----

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

}  // namespace device
}  // namespace dwell
