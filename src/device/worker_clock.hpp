// The clock of a CPU worker: device::now_ns for half of its price.
//
// A look at the system's clock waits for everything before it, which takes a worker as long as half of an empty task. The processor's
// counter does not wait. A worker reads that one, and turns it into nanoseconds by what two looks at the system's clock have told: as it
// looks again after a millisecond, it is off by what the clocks drift apart until then, some ten nanoseconds. It never goes back.
#pragma once

#include <dwell/device/platform.hpp>

#if !DWELL_ON_CUDA

namespace dwell::device {

// Belongs to one thread.
struct WorkerClock {
  // Whether the counters of all processors run alike, at one rate: the system takes the time from them itself. Otherwise this is now_ns.
  bool counts = false;

  u64 counted = 0;  // at the last look
  u64 ns = 0;       // then
  u64 scale = 0;    // ns a count, times 2^32; 0: not known
  u64 span = 0;     // counts until the next look
};

namespace worker_clock {

inline constexpr u64 kSpan = 1'000'000;      // ns
inline constexpr u64 kLeast = 100'000;       // ns between two looks that tell the rate
inline constexpr u64 kMost = 4'000'000'000;  // the same: in 32 bits
inline constexpr u64 kAhead = 10'000;        // ns by which the counter may have run ahead of the system's clock

#if defined(__x86_64__)
inline constexpr bool kHasCounter = true;
DWELL_DEVICE u64 counter() { return __builtin_ia32_rdtsc(); }
#else
inline constexpr bool kHasCounter = false;
DWELL_DEVICE u64 counter() { return 0; }
#endif

// The time by the system's clock, with which the counter is compared.
DWELL_DEVICE_COLD u64 look(WorkerClock* clock) {
  u64 ns = now_ns();
  if (!clock->counts) return ns;
  const u64 counted = counter();
  const u64 counts = counted - clock->counted;
  const u64 took = ns - clock->ns;
  if (clock->scale != 0 && counts >> 32U == 0) {
    const u64 expected = clock->ns + (counts * clock->scale >> 32U);
    if (expected > ns && expected - ns < kAhead) ns = expected;
  }
  if (took >= kLeast && took < kMost && counts != 0) {
    clock->scale = (took << 32U) / counts;
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
  if (counts < clock->span) return clock->ns + (counts * clock->scale >> 32U);
  return look(clock);
}

}  // namespace worker_clock

}  // namespace dwell::device

#endif
