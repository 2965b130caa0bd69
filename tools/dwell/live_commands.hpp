// dwell trace, logs, metrics, inspect, stuck: look at a process that runs.
#pragma once

#include <cstddef>
#include <iosfwd>
#include <string>

#include "failure.hpp"
#include "look.hpp"

namespace dwell::tool {

struct TraceOptions {
  LookOptions look = {};
  double seconds = 2;
  std::string format = "perfetto";  // or "chrome"
  std::string output;               // a file; empty: dwell-PID.perfetto-trace or dwell-PID.json; "-": `out`
};

struct LogsOptions {
  LookOptions look = {};
  bool follow = false;
  std::size_t lines = 0;        // at most so many that are there already; 0: all
  std::string level = "trace";  // the least
};

struct MetricsOptions {
  LookOptions look = {};
  std::string format = "openmetrics";  // or "json"
};

// Each prints what it was asked for to `out`. They throw Failure for what the user can correct, dwell::Error for what the process answers,
// or when it is gone.

// Traces the process, and writes the trace into a file, which is removed again when that fails.
Exit trace_command(const TraceOptions& options, std::ostream& out);
// With `follow`, returns when the process has closed the runtime, or ended.
Exit logs_command(const LogsOptions& options, std::ostream& out);
// One snapshot, as the process's own to_openmetrics or to_json would write it.
Exit metrics_command(const MetricsOptions& options, std::ostream& out);
// What is known of a variable, an operator or a structure of the runtime.
Exit inspect_command(const LookOptions& look, const std::string& name, std::ostream& out);
// Who waits for whom, in all runtimes or in one. Exit::failed when something waits that never ends by itself.
Exit stuck_command(const LookOptions& look, std::ostream& out);

}  // namespace dwell::tool
