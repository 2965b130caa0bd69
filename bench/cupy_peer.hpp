// CuPy's time from a source to the first result, where it is installed: a peer that starts from Python.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace dwell::bench {

// Nanoseconds of each new cupy.RawModule, from its source to a kernel that has run and been waited for.
struct CupyTimes {
  std::vector<double> cold;  // compiled
  std::vector<double> warm;  // the same ones once more, from CuPy's cache on disk
};

// Lets `python` (a file, or a name on PATH) time `count` modules on device `ordinal`, with a cache folder of its own, and look at what each
// kernel has left. Nothing, and why, without CuPy or when something is wrong. `environment` as for run_process.
std::optional<CupyTimes> time_cupy(int ordinal, std::size_t count, std::string* why, const std::string& python = "python3",
                                   const std::vector<std::string>& environment = {});

}  // namespace dwell::bench
