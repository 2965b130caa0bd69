// The benchmarks that `dwell bench` runs.
#pragma once

#include <string>
#include <vector>

namespace dwell::bench {

struct Options {
  std::vector<std::string> names;  // empty: all
  std::string device = "auto";
  std::string json;  // file for the results; empty: none
};

// Runs the benchmarks one after the other and prints a table for each. Rewrites the JSON file after each, so that results survive a later
// one that hangs. DWELL_BENCH=short makes them quick and their figures meaningless. Returns the process's exit status: 0; 1 if an effect
// was wrong or a benchmark failed (a missed goal is no failure); 2 if the device or the file cannot be used.
int run(const Options& options);

}  // namespace dwell::bench
