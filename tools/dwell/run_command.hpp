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
  bool json = false;
};

// Runs the job, writes its outputs, and prints what was measured to `out`. Throws Failure.
void run_command(const RunOptions& options, std::ostream& out);

}  // namespace dwell::tool
