// Converts between the device's clock (device::now_ns) and the host's.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

#include "base/mutex.hpp"

namespace dwell::runtime {

// The offset of the device's clock from std::chrono::steady_clock at one moment.
struct ClockReading {
  std::int64_t host_ns = 0;    // the moment
  std::int64_t offset_ns = 0;  // host minus device
  double error_ns = 0;         // at most
};

// Computes the offset from readings, and the drift from two of them. Members may be called from any thread.
class DeviceClock {
 public:
  using Read = std::function<ClockReading()>;
  // `read` is null if both are the same clock, as on the CPU.
  explicit DeviceClock(Read read);

  // Takes a reading unless the error is at most `most_ns`, or not much more than that of the last reading, which a new one could not
  // improve. Throws as `read`.
  void align(double most_ns);
  // Converts device time to host time, in ns of steady_clock. Before the first reading, to within milliseconds.
  std::int64_t to_host(std::uint64_t device_ns) const;
  // Converts host time to device time.
  std::uint64_t to_device(std::int64_t host_ns) const;
  // Returns the bound on the error for the present: the last reading's error, plus the possible drift since.
  double error_ns() const;

 private:
  static constexpr double kUnknownDrift = 1e-4;  // crystals, and the slewing of the host's clock, are better than this
  double error() const DWELL_REQUIRES(mutex_);

  const Read read_;
  Mutex reading_mutex_;  // held during a reading; locked before mutex_
  mutable Mutex mutex_;
  bool known_ DWELL_GUARDED_BY(mutex_) = false;
  ClockReading last_ DWELL_GUARDED_BY(mutex_);
  ClockReading base_ DWELL_GUARDED_BY(mutex_);                   // an earlier one, from which the drift is taken
  double drift_ DWELL_GUARDED_BY(mutex_) = 0;                    // ns of offset per ns of the host
  double drift_error_ DWELL_GUARDED_BY(mutex_) = kUnknownDrift;  // of drift_
};

}  // namespace dwell::runtime
