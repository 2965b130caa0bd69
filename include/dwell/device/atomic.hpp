// The atomics of the loop; operators have those of Span (span_atomic.hpp). Every access names its order and its scope; the caller says what
// it pairs with.
//
// On the CPU every scope is the system. Sixteen-byte accesses are
// single-copy atomic: a reader sees all of a quad or none of it.
#pragma once

#include <dwell/device/order.hpp>
#include <dwell/device/platform.hpp>

#if !DWELL_ON_CUDA && defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define DWELL_PORTABLE_QUADS 1
#endif
#endif
#ifndef DWELL_PORTABLE_QUADS
#define DWELL_PORTABLE_QUADS 0
#include <emmintrin.h>
#endif
#else
#define DWELL_PORTABLE_QUADS 1
#endif

namespace dwell {
namespace device {

// Four words that are loaded and stored as one. The first is the lap by which a reader knows that the quad is the one it waits for.
struct alignas(16) Quad {
  u32 lap;
  u32 word[3];
};
static_assert(sizeof(Quad) == 16, "a quad is loaded and stored as one 16-byte access");

#if DWELL_ON_CUDA

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

// Read-modify-write operations at device scope, which is where all shared counters live. Each returns the value before.
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
// Stores `value` if `*at` is `expected`; returns what was there.
template <Order O, class T>
DWELL_DEVICE T compare_exchange(T* at, T expected, T value) {
  DWELL_ATOMIC_CAS(relaxed, u32, "b32", "r")
  DWELL_ATOMIC_CAS(acq_rel, u32, "b32", "r")
  DWELL_ATOMIC_CAS(relaxed, u64, "b64", "l")
  DWELL_ATOMIC_CAS(acq_rel, u64, "b64", "l")
}

// Adds without asking for the value before, which on CUDA needs no answer from memory. A release at device scope relies on a
// fence of the caller where it has effects to order.
template <Order O>
DWELL_DEVICE void add(u32* at, u32 value) {
  asm volatile("red.relaxed.gpu.global.add.u32 [%0], %1;" ::"l"(at), "r"(value) : "memory");
}
template <Order O>
DWELL_DEVICE void add(u64* at, u64 value) {
  asm volatile("red.relaxed.gpu.global.add.u64 [%0], %1;" ::"l"(at), "l"(value) : "memory");
}
// Makes it at least `value`, the same way.
template <Order O>
DWELL_DEVICE void maximize(u64* at, u64 value) {
  asm volatile("red.relaxed.gpu.global.max.u64 [%0], %1;" ::"l"(at), "l"(value) : "memory");
}

// Orders everything the calling thread has seen (its group's writes included, after Group::sync) before its next relaxed store.
// This is the release half of a fence-store pair: the store that follows is what the reader acquires.
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

// The same, and an acquire at system scope: the loads that follow see all that was stored before the quad.
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

#else  // the CPU, device and host code alike

constexpr int builtin_order(Order order) {
  switch (order) {
    case Order::relaxed: return __ATOMIC_RELAXED;
    case Order::acquire: return __ATOMIC_ACQUIRE;
    case Order::release: return __ATOMIC_RELEASE;
    default: return __ATOMIC_ACQ_REL;
  }
}

template <Order O, Scope S, class T>
inline T load(const T* from) {
  static_assert(O == Order::relaxed || O == Order::acquire, "a load acquires or nothing");
  return __atomic_load_n(from, builtin_order(O));
}
template <Order O, Scope S, class T>
inline void store(T* to, T value) {
  static_assert(O == Order::relaxed || O == Order::release, "a store releases or nothing");
  __atomic_store_n(to, value, builtin_order(O));
}
template <Order O, class T>
inline T fetch_add(T* at, T value) {
  return __atomic_fetch_add(at, value, builtin_order(O));
}
template <Order O>
inline void add(u32* at, u32 value) {
  __atomic_fetch_add(at, value, builtin_order(O));
}
template <Order O>
inline void add(u64* at, u64 value) {
  __atomic_fetch_add(at, value, builtin_order(O));
}
template <Order O>
inline void maximize(u64* at, u64 value) {
  u64 now = __atomic_load_n(at, __ATOMIC_RELAXED);
  while (now < value && !__atomic_compare_exchange_n(at, &now, value, true, builtin_order(O), __ATOMIC_RELAXED)) {}
}
template <Order O, class T>
inline T exchange(T* at, T value) {
  return __atomic_exchange_n(at, value, builtin_order(O));
}
template <Order O, class T>
inline T compare_exchange(T* at, T expected, T value) {
  __atomic_compare_exchange_n(at, &expected, value, false, builtin_order(O), O == Order::relaxed ? __ATOMIC_RELAXED : __ATOMIC_ACQUIRE);
  return expected;
}

// On the CPU the stores that follow a fence are themselves releases where they publish anything (see publish), so this orders
// only what the compiler may move.
template <Scope S>
inline void fence() {
  __atomic_signal_fence(__ATOMIC_ACQ_REL);
}

#if DWELL_PORTABLE_QUADS
// Without 16-byte atomics the lap is what publishes and acquires the words behind it. A quad is written only after its reader of the
// lap before has given it back, so the words cannot change under a reader that has seen the lap.
template <Scope S>
inline Quad load_quad(const Quad* from) {
  Quad quad;
  quad.lap = __atomic_load_n(&from->lap, __ATOMIC_ACQUIRE);
  for (u32 i = 0; i < 3; ++i) quad.word[i] = __atomic_load_n(&from->word[i], __ATOMIC_RELAXED);
  return quad;
}
template <Scope S>
inline void store_quad(Quad* to, const Quad& quad) {
  // The last word before the one in the middle: who changes that only as long as the last is the old one (src/device/cancels.hpp) changes
  // no new one.
  __atomic_store_n(&to->word[2], quad.word[2], __ATOMIC_RELAXED);
  __atomic_store_n(&to->word[1], quad.word[1], __ATOMIC_RELEASE);
  __atomic_store_n(&to->word[0], quad.word[0], __ATOMIC_RELAXED);
  __atomic_store_n(&to->lap, quad.lap, __ATOMIC_RELEASE);
}
// Loads a quad that is there, and puts its three words to `to`, where there is room for four.
template <Scope S>
inline void load_words(const Quad* from, u32* to) {
  for (u32 i = 0; i < 3; ++i) to[i] = __atomic_load_n(&from->word[i], __ATOMIC_RELAXED);
}
#else
// Aligned 16-byte vector accesses are single-copy atomic on every x86-64 processor with AVX (Intel SDM vol. 3, 9.1.1; AMD APM vol. 2,
// 7.3.2), loads acquire and stores release.
template <Scope S>
inline Quad load_quad(const Quad* from) {
  Quad quad;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  _mm_store_si128(reinterpret_cast<__m128i*>(&quad), *reinterpret_cast<const volatile __m128i*>(from));
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  return quad;
}
template <Scope S>
inline void store_quad(Quad* to, const Quad& quad) {
  // Built from the words in registers: a 16-byte load of what was just stored in four pieces would stall.
  const __m128i value = _mm_set_epi32(static_cast<int>(quad.word[2]), static_cast<int>(quad.word[1]), static_cast<int>(quad.word[0]),
                                      static_cast<int>(quad.lap));
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  *reinterpret_cast<volatile __m128i*>(to) = value;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
}
template <Scope S>
inline void load_words(const Quad* from, u32* to) {
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  const __m128i quad = *reinterpret_cast<const volatile __m128i*>(from);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm_shuffle_epi32(quad, _MM_SHUFFLE(0, 3, 2, 1)));
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
}
#endif

// Stores a quad that is in a register, as the two halves of a vector: lap and first word, the other two words.
template <Scope S, class Halves>
inline void store_halves(Quad* to, Halves quad) {
  static_assert(sizeof(Halves) == sizeof(Quad) && sizeof(quad[0]) == 8, "two halves of 8 bytes");
#if DWELL_PORTABLE_QUADS
  store_quad<S>(
      to, Quad{static_cast<u32>(quad[0]), {static_cast<u32>(quad[0] >> 32U), static_cast<u32>(quad[1]), static_cast<u32>(quad[1] >> 32U)}});
#else
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  *reinterpret_cast<volatile __m128i*>(to) = reinterpret_cast<__m128i>(quad);
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
#endif
}

#endif

}  // namespace device
}  // namespace dwell
