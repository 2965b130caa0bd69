// dwell bench: the benchmarks, if they were built.
#pragma once

#include <string>
#include <vector>

#include "failure.hpp"

namespace dwell::tool {

struct BenchOptions {
  std::vector<std::string> names;  // empty: all
  std::string device = "auto";
  std::string json;   // file for the results; empty: none
  bool list = false;  // only print names and the limit of each on a GPU in seconds
};

// Throws Failure for an unknown name.
Exit bench_command(const BenchOptions& options);

// Returns the benchmarks' names; empty if none were built.
std::vector<std::string> bench_names();

}  // namespace dwell::tool
