// The platform of host compilers, g++ and clang++: a worker is one thread, and so is its group. Host code that shares headers with device
// code is compiled for it too.
#pragma once

#include <sched.h>
#include <time.h>

#include <dwell/device/platform/types.hpp>

// ---- The language, as platform.hpp says ----

// Left to itself, g++ calls some of the loop's functions out of line, which costs a node of a graph a fifth of its time.
#define DWELL_DEVICE __attribute__((always_inline)) inline
#define DWELL_DEVICE_COLD __attribute__((noinline)) inline
#define DWELL_DEVICE_HELPER inline
#define DWELL_HOST_DEVICE inline constexpr
#define DWELL_CONSTEVAL consteval
#define DWELL_DEVICE_FUNCTION
#define DWELL_EXPORT_FUNCTION extern "C" __attribute__((visibility("default")))
#define DWELL_EXPORT_CONSTANT(type, name)                            \
  extern "C" __attribute__((visibility("default"))) const type name; \
  const type name

#define DWELL_OFFSET_OF(type, member) __builtin_offsetof(type, member)
#define DWELL_RACY __attribute__((no_sanitize("thread")))
#define DWELL_UNROLL
#define DWELL_UNROLL_BY_4
#define DWELL_UNROLL_NOT
#define DWELL_UNROLL_AT_MOST(count, most)
#if defined(__clang__)
#define DWELL_INDEPENDENT_STEPS _Pragma("clang loop vectorize(assume_safety)")
#else
#define DWELL_INDEPENDENT_STEPS _Pragma("GCC ivdep")
#endif

// ---- Capabilities ----

#define DWELL_PARALLEL_GROUP 0
#define DWELL_CONTROL_WARP 0
#define DWELL_SHARED_MEMORY 0
#define DWELL_LINKED_OPERATORS 0
#define DWELL_FENCES 0
#define DWELL_ATOMIC_ARITHMETIC 0
#define DWELL_DEQUES 1
#define DWELL_EXCEPTIONS 1
#define DWELL_HAS_MATH 0
#define DWELL_NAMES_MISTAKES 1
#define DWELL_REFUSES_MISTAKES 0
#define DWELL_ASYNC_COPIES 0
#define DWELL_CONVERTS_BFLOAT16 0
#define DWELL_HAS_MMA 0
#if defined(__x86_64__)
#define DWELL_CRC32C 1
#else
#define DWELL_CRC32C 0
#endif

namespace dwell {

DWELL_CONSTANT u32 kGroupThreads = 1;
DWELL_CONSTANT u32 kLanes = 1;

namespace device {

// ---- Threads ----

DWELL_DEVICE u32 thread_rank() { return 0; }
DWELL_DEVICE u32 lane() { return 0; }
DWELL_DEVICE u32 ballot(bool predicate) { return predicate ? 1U : 0U; }
DWELL_DEVICE bool all_lanes(bool predicate) { return predicate; }
DWELL_DEVICE u32 broadcast(u32 value, u32 = 0) { return value; }
DWELL_DEVICE void sync_lanes() {}
DWELL_DEVICE u32 active_lanes() { return 1; }
DWELL_DEVICE u32 lanes_with(u32, u32) { return 1; }
DWELL_DEVICE u32 broadcast_in(u32, u32 value, u32) { return value; }
DWELL_DEVICE void sync_in(u32) {}
DWELL_DEVICE u32 or_in(u32, u32 bits) { return bits; }
DWELL_DEVICE u32 fetch_or_in_group(u32* at, u32 bits) {
  const u32 before = *at;
  *at = before | bits;
  return before;
}
DWELL_DEVICE u32 fetch_and_in_group(u32* at, u32 bits) {
  const u32 before = *at;
  *at = before & bits;
  return before;
}
DWELL_DEVICE void fence_warp() {}
DWELL_DEVICE void sync_group() {}
DWELL_DEVICE bool any_in_group(bool predicate) { return predicate; }
DWELL_DEVICE void replace_in_group(i32* at, i32 from, i32 to) {
  if (*at == from) *at = to;
}

// ---- Memory ----

DWELL_DEVICE void copy_bytes(void* to, const void* from, u64 bytes) { __builtin_memcpy(to, from, bytes); }
template <class To, class From>
DWELL_DEVICE To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From) && __is_trivially_copyable(To) && __is_trivially_copyable(From), "bits are kept");
  To to;
  __builtin_memcpy(&to, &from, sizeof(To));
  return to;
}
template <class T>
DWELL_DEVICE T* pointer_to_global(u64 address) {
  return reinterpret_cast<T*>(address);
}
template <class T>
DWELL_DEVICE u64 address_in_global(T* pointer) {
  return reinterpret_cast<u64>(pointer);
}
DWELL_DEVICE void prefetch(const void* at) { __builtin_prefetch(at); }
DWELL_DEVICE void prefetch_to_write(const void* at) { __builtin_prefetch(at, 1); }

DWELL_DEVICE u32 load_settled(const u32* at) { return __atomic_load_n(at, __ATOMIC_RELAXED); }

// ---- Bits and numbers ----

DWELL_DEVICE u32 leading_zeros(u32 bits) { return static_cast<u32>(__builtin_clz(bits)); }
DWELL_DEVICE u32 ones(u32 bits) { return static_cast<u32>(__builtin_popcount(bits)); }
DWELL_DEVICE u32 trailing_zeros(u32 bits) { return static_cast<u32>(__builtin_ctz(bits)); }

// Without branches, so that loops over them can use vector instructions. After Fabian Giesen, "Float->half variants".
inline float float_of_half(u16 bits) {
  const u32 shifted = (bits & 0x7FFFU) << 13U;
  const u32 exponent = shifted & 0x0F800000U;
  const u32 normal = shifted + ((127U - 15U) << 23U);
  const u32 special = normal + ((128U - 16U) << 23U);                           // infinity and NaN
  const float small = bits_as<float>(normal + (1U << 23U)) - 6.103515625e-05F;  // 2^-14: subnormal, without a leading one
  const u32 finite = exponent == 0 ? bits_as<u32>(small) : normal;
  return bits_as<float>((exponent == 0x0F800000U ? special : finite) | (bits & 0x8000U) << 16U);
}
inline u16 half_of_float(float value) {
  const u32 all = bits_as<u32>(value);
  const u32 magnitude = all & 0x7FFFFFFFU;
  const u32 special = magnitude > 0x7F800000U ? 0x7E00U : 0x7C00U;                 // NaN; or rounds to infinity
  const u32 small = bits_as<u32>(bits_as<float>(magnitude) + 0.5F) - 0x3F000000U;  // the addition rounds
  const u32 normal = (magnitude - ((127U - 15U) << 23U) + 0xFFFU + (magnitude >> 13U & 1U)) >> 13U;
  const u32 finite = magnitude < (113U << 23U) ? small : normal;
  return static_cast<u16>((magnitude >= 0x47800000U ? special : finite) | (all >> 16U & 0x8000U));
}

// Without branches, so that loops over it can use vector instructions.
template <class I, class F>
DWELL_DEVICE I truncated(F number) {
  constexpr I kLeast = static_cast<I>(u64{1} << (sizeof(I) * 8 - 1));
  constexpr F kEnd = -static_cast<F>(kLeast);
  const bool fits = number >= -kEnd && number < kEnd;
  const I whole = static_cast<I>(fits ? number : F(0));
  const I nearest = number >= kEnd ? ~kLeast : kLeast;
  return fits ? whole : nearest;
}

#if DWELL_CRC32C
inline bool has_crc32c() { return __builtin_cpu_supports("sse4.2") != 0; }
__attribute__((target("sse4.2"))) inline u32 crc32c_by_instruction(u32 crc, const u32* words, u32 count) {
  u64 rest = crc;
  u32 i = 0;
  for (; i + 2 <= count; i += 2) {
    u64 two;
    __builtin_memcpy(&two, words + i, sizeof(two));
    rest = __builtin_ia32_crc32di(rest, two);
  }
  return i < count ? __builtin_ia32_crc32si(static_cast<u32>(rest), words[i]) : static_cast<u32>(rest);
}
#endif

// ---- Time ----

DWELL_DEVICE u64 now_ns() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<u64>(time.tv_sec) * 1'000'000'000ULL + static_cast<u64>(time.tv_nsec);
}
#if defined(__x86_64__)
DWELL_CONSTANT bool kHasCycleCounter = true;
DWELL_DEVICE u64 cycle_counter() { return __builtin_ia32_rdtsc(); }
#else
DWELL_CONSTANT bool kHasCycleCounter = false;
DWELL_DEVICE u64 cycle_counter() { return 0; }
#endif
// Lets other threads run now and then: the one that the caller waits for may need its processor.
DWELL_DEVICE void relax(u32 round) {
  if (round % 128 == 127) sched_yield();
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}
DWELL_DEVICE void pause_briefly(u32 round) { relax(round); }

}  // namespace device
}  // namespace dwell
