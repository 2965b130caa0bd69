// Bounds of spans. Operators compiled with CompileOptions::debug check them: DWELL_CHECKED is 1 in those.
#pragma once

#include <dwell/device/platform.hpp>

#ifndef DWELL_CHECKED
#define DWELL_CHECKED 0
#endif

namespace dwell {
namespace device {

// A place in the source.
struct SourceLine {
  u32 line;
  const char* file;
};

// Thrown where operators can throw; elsewhere the operator continues.
#if DWELL_EXCEPTIONS
struct __attribute__((visibility("default"))) OutOfBounds {
  u64 first;
  u64 count;
  u64 size;
  SourceLine at;
};
#endif

// The index of an element of a span; in operators that check bounds, with its place in the source. A negative value becomes a large one.
#if DWELL_CHECKED
struct Index {
  template <class I>
  DWELL_HOST_DEVICE Index(const I& index, u32 line = __builtin_LINE(), const char* file = __builtin_FILE())  // NOLINT: stands for it
      : value(static_cast<u64>(index)), at{line, file} {}
  u64 value;
  SourceLine at;
};
DWELL_HOST_DEVICE u64 value_of(const Index& index) { return index.value; }

#if !DWELL_EXCEPTIONS

// The context of the worker that runs the operator, an address in shared memory. Spans are values and cannot hold it.
static __shared__ u32 checked_context;
// Each thread sees what it has stored itself, so no barrier is needed.
DWELL_DEVICE void begin_checks(u32 context) { checked_context = context; }

// Fails the task, unless it had failed before. Defined in group.hpp, after Context.
static DWELL_DEVICE_COLD void refuse(const Index& first, u64 count, u64 size);

// Bytes of the memory to which accesses beyond a span are redirected.
DWELL_CONSTANT u32 kMostCheckedBytes = 4096;
static __device__ __align__(16) u8 no_element[kMostCheckedBytes];

template <class T>
DWELL_DEVICE T* refuse_element(const Index& index, u64 size) {
  static_assert(sizeof(T) <= kMostCheckedBytes, "elements of spans are at most 4 KiB large in an operator that is compiled with debug");
  refuse(index, 1, size);
  return reinterpret_cast<T*>(no_element);
}

#else

[[noreturn]] inline void refuse(const Index& first, u64 count, u64 size) { throw OutOfBounds{first.value, count, size, first.at}; }
template <class T>
[[noreturn]] T* refuse_element(const Index& index, u64 size) {
  refuse(index, 1, size);
}

#endif
#else
using Index = u64;
DWELL_HOST_DEVICE u64 value_of(Index index) { return index; }
#endif

}  // namespace device
}  // namespace dwell
