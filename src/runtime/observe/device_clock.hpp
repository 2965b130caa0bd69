// The device's clock (device::now_ns) on the host's.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

#include "base/mutex.hpp"

namespace dwell::runtime {

// Where the device's clock stood against std::chrono::steady_clock at one moment.
struct ClockReading {
  std::int64_t host_ns = 0;    // the moment
  std::int64_t offset_ns = 0;  // host less device
  double error_ns = 0;         // at most
};

// Knows the offset from readings, and the drift from two of them. Members may be called from any thread.
class DeviceClock {
 public:
  using Read = std::function<ClockReading()>;
  // `read` is null where the two are one clock, as on the CPU.
  explicit DeviceClock(Read read);

  // Takes a reading unless the error is known to be `most_ns` at most, or not much more than that of the last reading, which is what
  // another one would have. Throws what taking one throws.
  void align(double most_ns);
  // The host's time, in ns of steady_clock, of a moment on the device. Before the first reading, to within milliseconds.
  std::int64_t to_host(std::uint64_t device_ns) const;
  // The other way round.
  std::uint64_t to_device(std::int64_t host_ns) const;
  // How far that may be off for a moment about now: the last reading's error, and what the clocks may have drifted apart since.
  double error_ns() const;

 private:
  static constexpr double kUnknownDrift = 1e-4;  // crystals, and the slewing of the host's clock, are better than this
  double error() const DWELL_REQUIRES(mutex_);

  const Read read_;
  Mutex reading_mutex_;  // of who takes a reading; before mutex_
  mutable Mutex mutex_;
  bool known_ DWELL_GUARDED_BY(mutex_) = false;
  ClockReading last_ DWELL_GUARDED_BY(mutex_);
  ClockReading base_ DWELL_GUARDED_BY(mutex_);                   // an earlier one, from which the drift is taken
  double drift_ DWELL_GUARDED_BY(mutex_) = 0;                    // ns of the offset a ns of the host
  double drift_error_ DWELL_GUARDED_BY(mutex_) = kUnknownDrift;  // of that
};

}  // namespace dwell::runtime
