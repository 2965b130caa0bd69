#include "runtime/observe/observation.hpp"

#include <algorithm>
#include <thread>
#include <utility>

#include "runtime/caught.hpp"

namespace dwell::runtime {

namespace {

// ns: the largest clock error of recorded waits of tasks. A reading launches a kernel; once the drift is known, one lasts for a minute.
constexpr double kMostWaitError = 5000;

// Time for running leases to adopt a new setting. A longer task keeps the old one.
constexpr std::chrono::seconds kTellLeases{1};

// Returns the node whose record was at `offset` at this time. Another exec may have been there before.
NodeName node_of(Graphs& graphs, std::uint64_t offset, std::chrono::steady_clock::time_point at) {
  Graphs::Place place = graphs.place_of(offset);
  if (place.exec == nullptr || (place.lease && at < place.since)) return {};
  NodeName known{place.exec->called_at(place.cell(offset)), place.exec->name()};
  // The exec must not be destroyed under the log reader's locks: the next launch releases it.
  Graphs::Flight flight;
  flight.emplace_back(0, std::move(place.exec));
  graphs.launched(0, std::move(flight));
  return known;
}

}  // namespace

Observation::Observation(const Parts& parts)
    : device_(parts.device),
      meters_(parts.backend, device_.keeper(), device_.samples(), device_.arena()),
      clock_(parts.read_clock),
      log_(LogDrain::Parts{parts.backend, device_.keeper(), parts.name_of, [this](std::uint32_t low) { return device_.position_of(low); },
                           [this](std::uint64_t device_ns) {
                             return std::chrono::steady_clock::time_point(std::chrono::nanoseconds(clock_.to_host(device_ns)));
                           },
                           [this, &graphs = parts.graphs](std::uint64_t offset, std::uint64_t device_ns) {
                             return node_of(graphs, offset,
                                            std::chrono::steady_clock::time_point(std::chrono::nanoseconds(clock_.to_host(device_ns))));
                           },
                           device_.workers(), parts.warn, parts.runtime},
           parts.options.log),
      timeline_(std::make_unique<Timeline>(Timeline::Parts{parts.backend, device_.arena(), device_.keeper(), device_.queue(), clock_,
                                                           events_, parts.graphs, device_.workers(), parts.backend.info().device,
                                                           parts.runtime, parts.name_of})) {
  meters_.set(parts.options.metrics);
}

void Observation::align_for_waits() {
  if (meters_.metering() != Metering::times || device_.keeper().parked()) return;
  // Without a reading only waits are not recorded.
  device_.queue().set_sampling(!failure_of(errc::device_lost, [this] { clock_.align(kMostWaitError); }).has_value());
}

void Observation::set_metering(Metering metering) {
  if (metering != Metering::times) device_.queue().set_sampling(false);
  meters_.set(metering);
  align_for_waits();
  device_.keeper().outlast_tasks(kTellLeases);
}

void Observation::read(Metrics& metrics) {
  align_for_waits();
  meters_.read(metrics);
  if (metrics.metering == Metering::times) metrics.clock_error_ns = clock_.error_ns();
  log_.read(metrics);
  counts_.read(metrics);
}

void Observation::set_log_level(level from) {
  log_.set_level(from);
  device_.keeper().outlast_tasks(kTellLeases);
}

void Observation::start_trace(std::shared_ptr<TraceWriter> writer) {
  const Lock lock(trace_mutex_);
  timeline_->start([writer](const Trace& piece) { writer->write(piece); });
  trace_ = std::move(writer);
}

void Observation::stop_trace() {
  const Lock lock(trace_mutex_);
  if (trace_ == nullptr) return;
  const auto writer = std::exchange(trace_, nullptr);
  timeline_->stop();
  writer->finish();
}

void Observation::trace(std::chrono::nanoseconds duration, std::shared_ptr<TraceWriter> writer) {
  start_trace(std::move(writer));
  const auto until = std::chrono::steady_clock::now() + duration;
  while (!timeline_->over() && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_until(std::min(until, std::chrono::steady_clock::now() + std::chrono::milliseconds(20)));
  stop_trace();
}

}  // namespace dwell::runtime
