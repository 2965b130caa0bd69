// dwell run: user operators over user arrays.
#pragma once

#include <filesystem>
#include <iosfwd>
#include <string>

#include "failure.hpp"

namespace dwell::tool {

struct RunOptions {
  std::filesystem::path job;
  std::string device = "auto";
  unsigned workers = 0;  // the device's own choice
  bool json = false;
  bool critical_path = true;    // of a job with `after`, which then runs a second time
  std::filesystem::path trace;  // a file for the timeline of the job's tasks (dwell::trace_file); empty: none is taken
};

// Runs the job, writes its outputs, and prints what was measured to `out`. Throws Failure.
void run_command(const RunOptions& options, std::ostream& out);

}  // namespace dwell::tool
