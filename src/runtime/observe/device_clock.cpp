#include "runtime/observe/device_clock.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "runtime/observe/host_events.hpp"

namespace dwell::runtime {

namespace {

constexpr double kBaseAge = 2e9;  // ns
constexpr double kWorse = 1.5;    // factor by which the error must grow before another reading

}  // namespace

DeviceClock::DeviceClock(Read read) : read_(std::move(read)) {
  if (read_ == nullptr) return;
  // A GPU's timer counts from the epoch of the system clock, as set by the driver.
  const auto system = std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch());
  last_.offset_ns = HostEvents::now() - system.count();
}

void DeviceClock::align(double most_ns) {
  if (read_ == nullptr) return;
  const Lock reading(reading_mutex_);
  {
    const Lock lock(mutex_);
    if (known_ && error() <= std::max(most_ns, kWorse * last_.error_ns)) return;
  }
  const ClockReading now = read_();
  const Lock lock(mutex_);
  if (!known_) base_ = now;
  const auto apart = static_cast<double>(now.host_ns - base_.host_ns);
  // Readings further apart give a more exact drift, but it changes with the temperature.
  const double drift_error = (now.error_ns + base_.error_ns) / apart;
  if (apart > 0 && (drift_error < kUnknownDrift)) {
    drift_ = static_cast<double>(now.offset_ns - base_.offset_ns) / apart;
    drift_error_ = drift_error;
    if (apart > kBaseAge) base_ = last_;
  }
  last_ = now;
  known_ = true;
}

std::int64_t DeviceClock::to_host(std::uint64_t device_ns) const {
  const Lock lock(mutex_);
  const std::int64_t host = static_cast<std::int64_t>(device_ns) + last_.offset_ns;
  if (!known_) return host;
  return host + std::llround(drift_ * static_cast<double>(host - last_.host_ns));
}

std::uint64_t DeviceClock::to_device(std::int64_t host_ns) const {
  const Lock lock(mutex_);
  const double drifted = known_ ? drift_ * static_cast<double>(host_ns - last_.host_ns) : 0;
  return static_cast<std::uint64_t>(host_ns - last_.offset_ns - std::llround(drifted));
}

double DeviceClock::error_ns() const {
  if (read_ == nullptr) return 0;
  const Lock lock(mutex_);
  return error();
}

double DeviceClock::error() const {
  return last_.error_ns + drift_error_ * std::abs(static_cast<double>(HostEvents::now() - last_.host_ns));
}

}  // namespace dwell::runtime
