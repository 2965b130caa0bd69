// The clock of a CPU worker: device::now_ns for a third of its price.
//
// A look at the system's clock waits for everything before it, which takes a worker as long as half of an empty task. The processor's
// counter does not wait. A worker reads that one, and turns it into nanoseconds by what looks at the system's clock have told. It looks
// again after a millisecond, and is off by some ten nanoseconds until then, hardly ever by a hundred. It does not go back unless it was
// wrong, and those of two workers may show a cause behind its effect.
#pragma once

#include <dwell/device/platform.hpp>

#if !DWELL_CONTROL_WARP

namespace dwell::device {

// Belongs to one thread.
struct WorkerClock {
  // Whether the counters of all processors run alike, at one rate: the system takes the time from them itself. Otherwise this is now_ns.
  bool counts = false;

  u64 counted = 0;  // at the last look
  u64 ns = 0;       // then
  u64 scale = 0;    // ns a count, times 2^32; 0: not known
  u64 span = 0;     // counts until the next look
  u64 last = 0;     // what it has told last, in ns
};

namespace worker_clock {

inline constexpr u64 kSpan = 1'000'000;          // ns between two looks
inline constexpr u64 kLeast = 100'000;           // the same, of two that tell the rate
inline constexpr u64 kMost = 4'000'000'000;      // so that it fits 32 bits
inline constexpr u64 kMostCounts = 1ULL << 40U;  // in that time: more have only passed when the counter has gone back
inline constexpr u64 kAhead = 10'000;            // ns by which it may have run ahead of the system's clock
inline constexpr u64 kLook = 1024;               // counts that a look takes at most, unless the thread was stopped amid it
inline constexpr int kAttempts = 3;
inline constexpr int kSmooth = 8;  // looks over which the rate is the mean

#if defined(__x86_64__)
inline constexpr bool kHasCounter = true;
DWELL_DEVICE u64 counter() { return __builtin_ia32_rdtsc(); }
#else
inline constexpr bool kHasCounter = false;
DWELL_DEVICE u64 counter() { return 0; }
#endif

// Where the system's clock and the counter stand at one moment; false if that cannot be told.
DWELL_DEVICE bool look_at_both(u64* ns, u64* counted) {
  for (int i = 0; i < kAttempts; ++i) {
    const u64 before = counter();
    *ns = now_ns();
    const u64 took = counter() - before;
    *counted = before + took / 2;
    if (took < kLook) return true;
  }
  return false;
}

// The time by the system's clock, with which the counter is compared.
DWELL_DEVICE_COLD u64 look(WorkerClock* clock) {
  if (!clock->counts) return now_ns();
  u64 ns = 0;
  u64 counted = 0;
  if (!look_at_both(&ns, &counted)) return ns;
  const u64 counts = counted - clock->counted;
  const u64 took = ns - clock->ns;
  if (took >= kLeast && took < kMost && counts != 0 && counts < kMostCounts) {
    const u64 scale = (took << 32U) / counts;
    const bool known = clock->scale != 0 && scale / 2 < clock->scale && clock->scale / 2 < scale;
    clock->scale = known ? (clock->scale * (kSmooth - 1) + scale) / kSmooth : scale;
    clock->span = (kSpan << 32U) / clock->scale;
  } else if (clock->scale == 0 && took < kLeast) {
    return ns;
  }
  clock->counted = counted;
  clock->ns = ns;
  return ns;
}

DWELL_DEVICE u64 now(WorkerClock* clock) {
  const u64 counts = counter() - clock->counted;
  const u64 ns = counts < clock->span ? clock->ns + (counts * clock->scale >> 32U) : look(clock);
  if (ns > clock->last || clock->last - ns > kAhead) clock->last = ns;
  return clock->last;
}

}  // namespace worker_clock

}  // namespace dwell::device

#endif
