// Accesses beyond the elements of spans, as checked operators record them for the host (bounds.hpp).
#pragma once

#include <dwell/device/atomic.hpp>
#include <dwell/device/bounds.hpp>
#include <dwell/device/platform.hpp>

namespace dwell {
namespace device {

// One access. Read and written in words. `line` is 0 until it is completely written.
struct alignas(8) Overrun {
  u64 first;      // the element, or the first of several
  u64 size;       // of the span
  u64 when;       // now_ns()
  u32 count;      // of elements, or the largest number
  u32 task[3];    // the words of the task ahead of its arguments (src/device/header.hpp)
  char file[20];  // the last characters of the source's name; ends with 0
  u32 line;       // where in the source
};
DWELL_CONSTANT u32 kOverrunWords = sizeof(Overrun) / 4;
static_assert(sizeof(Overrun) == 64, "the host reads it");
// The last ones of a worker, which alone writes them.
DWELL_CONSTANT u32 kOverrunsKept = 4;
struct Overruns {
  u32 last[kOverrunsKept][kOverrunWords];
};

// Notes an access by the task whose arguments begin there; `number` counts those of the worker. Called by one thread.
DWELL_DEVICE void write_overrun(Overruns* overruns, u32 number, const u32* arguments, u64 first, u64 count, u64 size, SourceLine at) {
  union {
    Overrun overrun;
    u32 word[kOverrunWords];
  } both;
  Overrun& overrun = both.overrun;
  overrun.first = first;
  overrun.size = size;
  overrun.when = now_ns();
  overrun.count = count < ~0U ? static_cast<u32>(count) : ~0U;
  for (u32 i = 0; i < 3; ++i) overrun.task[i] = arguments[static_cast<i32>(i) - 3];
  u32 length = 0;
  while (at.file[length] != 0) ++length;
  constexpr u32 kMost = sizeof(overrun.file) - 1;
  const char* const from = at.file + (length > kMost ? length - kMost : 0);
  for (u32 i = 0; i <= kMost; ++i) overrun.file[i] = i < length && i < kMost ? from[i] : '\0';
  overrun.line = at.line;
  u32* const to = overruns->last[number % kOverrunsKept];
  store<Order::relaxed, Scope::system>(to + kOverrunWords - 1, 0U);
  // Release, each: orders the words after the 0, and the line after the words. Pairs with LoopMemory::overrun.
  for (u32 i = 0; i < kOverrunWords; ++i) store<Order::release, Scope::system>(to + i, both.word[i]);
}

}  // namespace device
}  // namespace dwell
