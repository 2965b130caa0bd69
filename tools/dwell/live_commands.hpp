// dwell trace, logs, metrics, inspect, stuck: examine a running process.
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
  std::size_t lines = 0;        // the most existing lines; 0: all
  std::string level = "trace";  // the lowest level
};

struct MetricsOptions {
  LookOptions look = {};
  std::string format = "openmetrics";  // or "json"
};

// Each prints its result to `out`. Throws Failure for mistakes of the user, dwell::Error for errors of the process or if it is gone.

// Traces the process into a file, which is removed on failure.
Exit trace_command(const TraceOptions& options, std::ostream& out);
// Prints the log. With `follow`, returns when the process has closed the runtime, or ended.
Exit logs_command(const LogsOptions& options, std::ostream& out);
// Prints one snapshot, as to_openmetrics or to_json in the process would.
Exit metrics_command(const MetricsOptions& options, std::ostream& out);
// Describes a variable, an operator or a structure of the runtime.
Exit inspect_command(const LookOptions& look, const std::string& name, std::ostream& out);
// Prints which tasks wait for which, in all runtimes or in one. Returns Exit::failed if a wait never ends by itself.
Exit stuck_command(const LookOptions& look, std::ostream& out);

}  // namespace dwell::tool
