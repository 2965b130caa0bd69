// Atomics of the platform of host compilers, as atomic.hpp says. Every scope is the system.
#pragma once

#include <dwell/device/order.hpp>
#include <dwell/device/platform.hpp>
#include <dwell/device/quad.hpp>

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
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
template <Order O, class T>
inline T fetch_or(T* at, T value) {
  return __atomic_fetch_or(at, value, builtin_order(O));
}
template <Order O, class T>
inline T fetch_and(T* at, T value) {
  return __atomic_fetch_and(at, value, builtin_order(O));
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

inline Quad acquire_quad(const Quad* from) { return load_quad<Scope::system>(from); }

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

// ---- Elements of spans ----

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

}  // namespace device
}  // namespace dwell
