// The benchmarks that `dwell bench` runs.
#pragma once

#include <string>
#include <vector>

namespace dwell::bench {

struct Options {
  std::vector<std::string> names;  // which; empty: all
  std::string device = "auto";
  std::string json;  // a file to write the results to; empty: none
};

// Runs them one after the other, prints a table for each, and writes the JSON file anew after each, so that what was measured is kept when
// a later one hangs. DWELL_BENCH=short makes all of them quick and their figures worthless. Returns what the process should: 0, 1 when an
// effect was wrong or a benchmark failed (a goal that was missed is no failure), 2 when the device or the file cannot be used.
int run(const Options& options);

}  // namespace dwell::bench
