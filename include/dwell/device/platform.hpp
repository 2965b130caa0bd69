// All differences between the compilers and machines of device code. Nothing else in device code may test for a compiler.
//
// Device code is compiled three ways: by NVRTC for a GPU (a worker is a thread block), and by g++ and clang++ for the CPU (a worker
// is one thread). NVRTC has no standard library headers, so the fixed-width types are named here. The headers of this folder are C++14,
// because an operator may ask for that (CompileOptions::standard).
#pragma once

// DWELL_DEVICE marks a function that becomes part of its caller: left to itself, g++ calls some of the loop's out of line, which costs a
// node of a graph a fifth of its time on the CPU. DWELL_DEVICE_COLD marks one that is off every fast path: kept out of line, so that its
// registers do not count there. In the text of an operator DWELL_DEVICE is a plain inline on the CPU (jit/source), so that its helpers may
// call themselves.
// DWELL_CONSTEVAL marks one that the compiler alone calls, from C++20 on.
#if defined(__CUDACC__)
#define DWELL_ON_CUDA 1
#define DWELL_DEVICE __device__ __forceinline__
#define DWELL_DEVICE_COLD __device__ __noinline__
#define DWELL_HOST_DEVICE __host__ __device__ __forceinline__ constexpr
#define DWELL_CONSTEVAL __host__ __device__ consteval
#else
#include <sched.h>
#include <time.h>
#define DWELL_ON_CUDA 0
#define DWELL_DEVICE __attribute__((always_inline)) inline
#define DWELL_DEVICE_COLD __attribute__((noinline)) inline
#define DWELL_HOST_DEVICE inline constexpr
#define DWELL_CONSTEVAL consteval
#endif

// Whether the target rounds a float to a bfloat16 by itself.
#if DWELL_ON_CUDA && defined(__CUDA_ARCH__)
#define DWELL_CONVERTS_BFLOAT16 (__CUDA_ARCH__ >= 800)
#else
#define DWELL_CONVERTS_BFLOAT16 0
#endif

// Whether the warps of the target multiply matrices of 16-bit numbers by themselves, in tiles of 16 x 8 x 16.
#if DWELL_ON_CUDA && defined(__CUDA_ARCH__)
#define DWELL_HAS_MMA (__CUDA_ARCH__ >= 800)
#else
#define DWELL_HAS_MMA 0
#endif

// A constant of these headers. In an image it is a variable too: one for all operators where the language can say so, and in C++14 one for
// each, which loading the image has to pay for.
#if __cplusplus >= 201703L
#define DWELL_CONSTANT inline constexpr
#else
#define DWELL_CONSTANT constexpr
#endif

// Stand before a loop that CUDA's compiler is to unroll: all of it, some steps at a time, nothing. Others decide for themselves.
#if DWELL_ON_CUDA
#define DWELL_UNROLL _Pragma("unroll")
#define DWELL_UNROLL_BY_4 _Pragma("unroll 4")
#define DWELL_UNROLL_NOT _Pragma("unroll 1")
#else
#define DWELL_UNROLL
#define DWELL_UNROLL_BY_4
#define DWELL_UNROLL_NOT
#endif

// Stands before a loop whose steps do not depend on each other through memory, even where its pointers might alias.
#if defined(__GNUC__) && !defined(__clang__) && !DWELL_ON_CUDA
#define DWELL_INDEPENDENT_STEPS _Pragma("GCC ivdep")
#elif defined(__clang__) && !DWELL_ON_CUDA
#define DWELL_INDEPENDENT_STEPS _Pragma("clang loop vectorize(assume_safety)")
#endif

namespace dwell {

using i8 = signed char;
using i16 = short;
using i32 = int;
using i64 = long long;
using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
static_assert(sizeof(u16) == 2 && sizeof(u32) == 4 && sizeof(u64) == 8, "dwell needs 16, 32 and 64-bit integers");

// Threads that run an operator together (a group), and lanes that run the control code together.
#if DWELL_ON_CUDA
DWELL_CONSTANT u32 kGroupThreads = 128;
DWELL_CONSTANT u32 kLanes = 32;
#else
DWELL_CONSTANT u32 kGroupThreads = 1;
DWELL_CONSTANT u32 kLanes = 1;
#endif

namespace device {

// Whether two types are the same: std::is_same, which NVRTC does not have.
template <class A, class B>
DWELL_CONSTANT bool kSame = false;
template <class A>
DWELL_CONSTANT bool kSame<A, A> = true;

template <class T>
struct RemoveConst {
  using type = T;
  static constexpr bool was_const = false;
};
template <class T>
struct RemoveConst<const T> {
  using type = T;
  static constexpr bool was_const = true;
};

// The same bits as another type: std::bit_cast.
template <class To, class From>
DWELL_DEVICE To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From) && __is_trivially_copyable(To) && __is_trivially_copyable(From), "bits are kept");
  To to;
#if DWELL_ON_CUDA
  memcpy(&to, &from, sizeof(To));
#else
  __builtin_memcpy(&to, &from, sizeof(To));
#endif
  return to;
}

// Rank of the calling thread in its worker: those of the group come first. Read anew each time: a loop that inlines operators would else
// keep it across all of them, in local memory, from where it takes longer.
DWELL_DEVICE u32 thread_rank() {
#if DWELL_ON_CUDA
  u32 rank;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(rank));
  return rank;
#else
  return 0;
#endif
}

// Rank of the calling thread among the lanes of its control code.
DWELL_DEVICE u32 lane() {
#if DWELL_ON_CUDA
  return threadIdx.x & 31U;
#else
  return 0;
#endif
}

// One bit a lane: the lanes for which `predicate` holds. Called by all lanes together.
DWELL_DEVICE u32 ballot(bool predicate) {
#if DWELL_ON_CUDA
  return __ballot_sync(~0U, predicate);
#else
  return predicate ? 1U : 0U;
#endif
}

// The value that lane `from` passed. Called by all lanes together.
DWELL_DEVICE u32 broadcast(u32 value, u32 from = 0) {
#if DWELL_ON_CUDA
  return __shfl_sync(~0U, value, static_cast<int>(from));
#else
  (void)from;
  return value;
#endif
}

// Orders shared memory between the lanes. Called by all lanes together.
DWELL_DEVICE void sync_lanes() {
#if DWELL_ON_CUDA
  __syncwarp();
#endif
}

// A pointer to an address that the host has named. That is in global memory, which the compiler cannot know: it would have to load and
// store as if it might be the group's shared memory.
template <class T>
DWELL_DEVICE T* pointer_to_global(u64 address) {
#if DWELL_ON_CUDA
  return static_cast<T*>(__cvta_global_to_generic(address));
#else
  return reinterpret_cast<T*>(address);
#endif
}

// The other way.
template <class T>
DWELL_DEVICE u64 address_in_global(T* pointer) {
#if DWELL_ON_CUDA
  return __cvta_generic_to_global(pointer);
#else
  return reinterpret_cast<u64>(pointer);
#endif
}

#if DWELL_ON_CUDA
// The same in shared memory.
template <class T>
DWELL_DEVICE T* pointer_to_shared(u32 address) {
  return static_cast<T*>(__cvta_shared_to_generic(address));
}
DWELL_DEVICE u32 address_in_shared(const void* pointer) { return static_cast<u32>(__cvta_generic_to_shared(pointer)); }
#endif

// Nanoseconds of a clock that all workers of a device share; only differences mean anything.
DWELL_DEVICE u64 now_ns() {
#if DWELL_ON_CUDA
  u64 time;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
  return time;
#else
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<u64>(time.tv_sec) * 1'000'000'000ULL + static_cast<u64>(time.tv_nsec);
#endif
}

// The same clock in ticks of 1024 ns, in 32 bits: differences of up to 73 minutes mean something.
DWELL_CONSTANT u32 kTickShift = 10;
DWELL_DEVICE u32 now_ticks() { return static_cast<u32>(now_ns() >> kTickShift); }

// Tells the processor that the caller polls for the `round`-th time. A CPU worker lets other threads run now and then: the one it waits
// for may need its processor.
DWELL_DEVICE void relax(u32 round) {
#if DWELL_ON_CUDA
  (void)round;
#else
  if (round % 128 == 127) sched_yield();
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
#endif
}

// The same between looks at something that takes microseconds or longer.
DWELL_DEVICE void pause_briefly(u32 round) {
#if DWELL_ON_CUDA
  (void)round;
  __nanosleep(100);
#else
  relax(round);
#endif
}

}  // namespace device
}  // namespace dwell
