// A runtime's counts, times, traces and log.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include <dwell/log.hpp>
#include <dwell/metrics.hpp>
#include <dwell/options.hpp>
#include <dwell/trace.hpp>

#include "backend/backend.hpp"
#include "base/mutex.hpp"
#include "runtime/device/device.hpp"
#include "runtime/graphs.hpp"
#include "runtime/observe/device_clock.hpp"
#include "runtime/observe/host_counts.hpp"
#include "runtime/observe/host_events.hpp"
#include "runtime/observe/log_drain.hpp"
#include "runtime/observe/meters.hpp"
#include "runtime/observe/timeline.hpp"

namespace dwell::runtime {

// All observers of one device. Members may be called from any thread unless they say otherwise.
class Observation {
 public:
  struct Parts {
    backend::Backend& backend;
    Device& device;  // outlives it, as do the backend and the graphs
    Graphs& graphs;
    const Options& options;  // read by the constructor alone
    std::uint64_t runtime;   // as of Callback
    std::function<void(std::string_view)> warn;
    std::function<std::string(std::uint32_t opcode)> name_of;
    DeviceClock::Read read_clock;
  };
  // Throws errc::out_of_memory, and errc::invalid_argument for a log's file that cannot be opened.
  explicit Observation(const Parts& parts);
  Observation(const Observation&) = delete;
  Observation& operator=(const Observation&) = delete;

  HostCounts& counts() { return counts_; }
  HostEvents& events() { return events_; }
  Meters& meters() { return meters_; }
  LogDrain& log() { return log_; }
  DeviceClock& clock() { return clock_; }

  // Sets what the device records from now on; running tasks keep their setting. Metering::times needs a loop with part::times.
  void set_metering(Metering metering);
  // Aligns the clocks of host and device if waits of tasks are recorded and the last reading is too old.
  void align_for_waits();
  // Fills in the counts of this part. Throws errc::device_lost, errc::out_of_memory.
  void read(Metrics& metrics);

  // As Runtime::set_log_level.
  void set_log_level(level from);

  // As Runtime::start_trace, stop_trace and trace. Need a loop with part::times.
  void start_trace(std::shared_ptr<TraceWriter> writer);
  void stop_trace();
  void trace(std::chrono::nanoseconds duration, std::shared_ptr<TraceWriter> writer);
  // Ends a current trace; none can be started any more. Called before the destruction of the registry, which names operators.
  void end_timeline() noexcept { timeline_.reset(); }

 private:
  Device& device_;
  HostCounts counts_;
  HostEvents events_;
  Meters meters_;
  DeviceClock clock_;
  LogDrain log_;
  std::unique_ptr<Timeline> timeline_;
  Mutex trace_mutex_;  // held by start_trace and stop_trace
  std::shared_ptr<TraceWriter> trace_ DWELL_GUARDED_BY(trace_mutex_);
};

}  // namespace dwell::runtime
