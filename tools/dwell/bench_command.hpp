// dwell bench: the benchmarks, where they were built.
#pragma once

#include <string>
#include <vector>

#include "failure.hpp"

namespace dwell::tool {

struct BenchOptions {
  std::vector<std::string> names;  // empty: all
  std::string device = "auto";
  std::string json;   // a file to write too; empty: none
  bool list = false;  // print their names and the seconds that each may take on a GPU, and run none
};

// Throws Failure for a name that is no benchmark.
Exit bench_command(const BenchOptions& options);

// Their names; empty when there are none.
std::vector<std::string> bench_names();

}  // namespace dwell::tool
