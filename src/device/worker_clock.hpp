// The clock of a CPU worker: device::now_ns at a third of its cost.
//
// A read of the system's clock waits for all earlier instructions, which takes a worker as long as half an empty task. The processor's
// counter does not wait. A worker reads the counter, and scales it to nanoseconds by reads of the system's clock, one a millisecond. In
// between the error is some ten nanoseconds, rarely a hundred. The clock is monotonic except for corrections. The clocks of two workers may
// show an effect before its cause.
#pragma once

#include <dwell/device/platform.hpp>

#if !DWELL_CONTROL_WARP

namespace dwell::device {

// Belongs to one thread.
struct WorkerClock {
  // Whether the counters of all processors are synchronous, at one rate: the system's own clock uses them. Otherwise this clock is now_ns.
  bool counts = false;

  u64 counted = 0;  // the counter at the last synchronisation
  u64 ns = 0;       // the system's clock then
  u64 scale = 0;    // ns a count, times 2^32; 0: unknown
  u64 span = 0;     // counts until the next synchronisation
  u64 last = 0;     // the last result, in ns
};

namespace worker_clock {

inline constexpr u64 kSpan = 1'000'000;          // ns between two synchronisations
inline constexpr u64 kLeast = 100'000;           // the same, at least, to compute the rate
inline constexpr u64 kMost = 4'000'000'000;      // so that it fits 32 bits
inline constexpr u64 kMostCounts = 1ULL << 40U;  // in that time: more means that the counter went back
inline constexpr u64 kAhead = 10'000;            // ns by which it may have run ahead of the system's clock
inline constexpr u64 kLook = 1024;               // most counts for a synchronisation; more: the thread was preempted in it
inline constexpr int kAttempts = 3;
inline constexpr int kSmooth = 8;  // synchronisations over which the rate is averaged

// Reads the system's clock and the counter at one moment; false if the thread was preempted at each attempt.
DWELL_DEVICE bool look_at_both(u64* ns, u64* counted) {
  for (int i = 0; i < kAttempts; ++i) {
    const u64 before = cycle_counter();
    *ns = now_ns();
    const u64 took = cycle_counter() - before;
    *counted = before + took / 2;
    if (took < kLook) return true;
  }
  return false;
}

// Returns the time by the system's clock, and synchronises the counter with it.
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
  const u64 counts = cycle_counter() - clock->counted;
  const u64 ns = counts < clock->span ? clock->ns + (counts * clock->scale >> 32U) : look(clock);
  if (ns > clock->last || clock->last - ns > kAhead) clock->last = ns;
  return clock->last;
}

}  // namespace worker_clock

}  // namespace dwell::device

#endif
