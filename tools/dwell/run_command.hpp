// dwell run: runs the user's operators over the user's arrays.
#pragma once

#include <filesystem>
#include <iosfwd>
#include <string>

#include "failure.hpp"

namespace dwell::tool {

struct RunOptions {
  std::filesystem::path job;
  std::string device = "auto";
  unsigned workers = 0;  // 0: the device's default
  bool json = false;
  bool critical_path = true;    // measure it for a job with `after`, which then runs a second time
  std::filesystem::path trace;  // file for the timeline of the job's tasks (dwell::trace_file); empty: none
};

// Runs the job, writes its outputs, and prints the measurements to `out`. Throws Failure.
void run_command(const RunOptions& options, std::ostream& out);

}  // namespace dwell::tool
