// The platform CUDA: device code that NVRTC compiles. A worker is a thread block: a control warp, and the warps of the group.
#pragma once

#include <dwell/device/platform/types.hpp>

// ---- The language, as platform.hpp says ----

#define DWELL_DEVICE __device__ __forceinline__
#define DWELL_DEVICE_COLD __device__ __noinline__
#define DWELL_DEVICE_HELPER __device__ __forceinline__
#define DWELL_HOST_DEVICE __host__ __device__ __forceinline__ constexpr
#define DWELL_CONSTEVAL __host__ __device__ consteval
#define DWELL_DEVICE_FUNCTION __device__
#define DWELL_EXPORT_FUNCTION extern "C" __device__
#define DWELL_EXPORT_CONSTANT(type, name) extern "C" __device__ const type name

// The compiler's own word for it: NVRTC has neither offsetof nor the builtin of others.
#define DWELL_OFFSET_OF(type, member) __INTADDR__(&(static_cast<type*>(nullptr)->member))
#define DWELL_RACY
#define DWELL_UNROLL _Pragma("unroll")
#define DWELL_UNROLL_BY_4 _Pragma("unroll 4")
#define DWELL_UNROLL_NOT _Pragma("unroll 1")
#define DWELL_UNROLL_AT_MOST(count, most) DWELL_UNROLL_PRAGMA(unroll((count) <= (most) ? (count) : 4))
#define DWELL_UNROLL_PRAGMA(text) _Pragma(#text)
#define DWELL_INDEPENDENT_STEPS

// ---- Capabilities ----

#define DWELL_PARALLEL_GROUP 1
#define DWELL_CONTROL_WARP 1
#define DWELL_SHARED_MEMORY 1
#define DWELL_LINKED_OPERATORS 1
#define DWELL_FENCES 1
#define DWELL_ATOMIC_ARITHMETIC 1
#define DWELL_DEQUES 0
#define DWELL_EXCEPTIONS 0
#define DWELL_HAS_MATH 1
#define DWELL_CRC32C 0
#define DWELL_NAMES_MISTAKES 0
// Nothing is left out of code to be debugged.
#if defined(__CUDACC_DEBUG__)
#define DWELL_REFUSES_MISTAKES 0
#else
#define DWELL_REFUSES_MISTAKES 1
#endif

// NVRTC's first pass is none for a device.
#if defined(__CUDA_ARCH__)
#define DWELL_ASYNC_COPIES (__CUDA_ARCH__ >= 800)
#define DWELL_CONVERTS_BFLOAT16 (__CUDA_ARCH__ >= 800)
#define DWELL_HAS_MMA (__CUDA_ARCH__ >= 800)
#else
#define DWELL_ASYNC_COPIES 0
#define DWELL_CONVERTS_BFLOAT16 0
#define DWELL_HAS_MMA 0
#endif

namespace dwell {

DWELL_CONSTANT u32 kGroupThreads = 128;
DWELL_CONSTANT u32 kLanes = 32;

namespace device {

// ---- Threads ----

DWELL_DEVICE u32 thread_rank() {
  u32 rank;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(rank));
  return rank;
}
DWELL_DEVICE u32 lane() { return threadIdx.x & 31U; }
DWELL_DEVICE u32 ballot(bool predicate) { return __ballot_sync(~0U, predicate); }
DWELL_DEVICE bool all_lanes(bool predicate) { return __all_sync(~0U, predicate); }
DWELL_DEVICE u32 broadcast(u32 value, u32 from = 0) { return __shfl_sync(~0U, value, static_cast<int>(from)); }
DWELL_DEVICE void sync_lanes() { __syncwarp(); }
DWELL_DEVICE u32 active_lanes() { return __activemask(); }
DWELL_DEVICE u32 lanes_with(u32 lanes, u32 value) { return __match_any_sync(lanes, value); }
DWELL_DEVICE u32 broadcast_in(u32 lanes, u32 value, u32 from) { return __shfl_sync(lanes, value, static_cast<int>(from)); }
DWELL_DEVICE void sync_in(u32 lanes) { __syncwarp(lanes); }
DWELL_DEVICE u32 or_in(u32 lanes, u32 bits) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  return __reduce_or_sync(lanes, bits);
#else
  u32 all = 0;
  for (u32 left = lanes; left != 0; left &= left - 1) all |= __shfl_sync(lanes, bits, __ffs(static_cast<int>(left)) - 1);
  return all;
#endif
}
// Atomics of a word in shared memory.
DWELL_DEVICE u32 fetch_or_in_group(u32* at, u32 bits) { return atomicOr(at, bits); }
DWELL_DEVICE u32 fetch_and_in_group(u32* at, u32 bits) { return atomicAnd(at, bits); }
// Holds back the compiler alone: the accesses of one warp reach the L1 cache in the order in which they are issued.
DWELL_DEVICE void fence_warp() { asm volatile("" ::: "memory"); }

// Barrier 2 belongs to the executing threads alone: the control warp takes no part.
DWELL_DEVICE void sync_group() { asm volatile("barrier.sync 2, 128;" ::: "memory"); }
DWELL_DEVICE bool any_in_group(bool predicate) {
  u32 any;
  __syncwarp();  // the form for warps that are together: the other takes all barriers before sm_90
  asm volatile("{ .reg .pred p, q; setp.ne.u32 p, %1, 0; bar.red.or.pred q, 2, 128, p; selp.u32 %0, 1, 0, q; }"
               : "=r"(any)
               : "r"(predicate ? 1U : 0U)
               : "memory");
  return any != 0;
}
DWELL_DEVICE void replace_in_group(i32* at, i32 from, i32 to) { atomicCAS(at, from, to); }

// ---- Memory ----

DWELL_DEVICE void copy_bytes(void* to, const void* from, u64 bytes) { memcpy(to, from, bytes); }
// By memcpy itself: through copy_bytes NVRTC arranges the branches around it differently.
template <class To, class From>
DWELL_DEVICE To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From) && __is_trivially_copyable(To) && __is_trivially_copyable(From), "bits are kept");
  To to;
  memcpy(&to, &from, sizeof(To));
  return to;
}
template <class T>
DWELL_DEVICE T* pointer_to_global(u64 address) {
  return static_cast<T*>(__cvta_global_to_generic(address));
}
template <class T>
DWELL_DEVICE u64 address_in_global(T* pointer) {
  return __cvta_generic_to_global(pointer);
}
template <class T>
DWELL_DEVICE T* pointer_to_shared(u32 address) {
  return static_cast<T*>(__cvta_shared_to_generic(address));
}
DWELL_DEVICE u32 address_in_shared(const void* pointer) { return static_cast<u32>(__cvta_generic_to_shared(pointer)); }
DWELL_DEVICE void prefetch(const void*) {}
DWELL_DEVICE void prefetch_to_write(const void*) {}

// From the L1 cache, where it may be old: all changes that the caller has acquired are there.
DWELL_DEVICE u32 load_settled(const u32* at) { return *at; }

// ---- Bits and numbers ----

DWELL_DEVICE u32 leading_zeros(u32 bits) { return static_cast<u32>(__clz(static_cast<int>(bits))); }
DWELL_DEVICE u32 ones(u32 bits) { return static_cast<u32>(__popc(bits)); }
DWELL_DEVICE u32 trailing_zeros(u32 bits) { return static_cast<u32>(__ffs(static_cast<int>(bits))) - 1; }

DWELL_DEVICE float float_of_half(u16 bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}
DWELL_DEVICE u16 half_of_float(float value) {
  u16 bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}

DWELL_DEVICE void convert_toward_zero(float number, i32* to) { asm("cvt.rzi.s32.f32 %0, %1;" : "=r"(*to) : "f"(number)); }
DWELL_DEVICE void convert_toward_zero(float number, i64* to) { asm("cvt.rzi.s64.f32 %0, %1;" : "=l"(*to) : "f"(number)); }
DWELL_DEVICE void convert_toward_zero(double number, i32* to) { asm("cvt.rzi.s32.f64 %0, %1;" : "=r"(*to) : "d"(number)); }
DWELL_DEVICE void convert_toward_zero(double number, i64* to) { asm("cvt.rzi.s64.f64 %0, %1;" : "=l"(*to) : "d"(number)); }
template <class I, class F>
DWELL_DEVICE I truncated(F number) {
  constexpr I kLeast = static_cast<I>(u64{1} << (sizeof(I) * 8 - 1));
  I whole;
  convert_toward_zero(number, &whole);
  return number == number ? whole : kLeast;
}

// ---- Time ----

DWELL_DEVICE u64 now_ns() {
  u64 time;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
  return time;
}
DWELL_DEVICE void relax(u32) {}
DWELL_DEVICE void pause_briefly(u32) { __nanosleep(100); }

}  // namespace device
}  // namespace dwell
