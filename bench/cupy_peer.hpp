// CuPy's time from a source to the first result, if it is installed: a peer in Python.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace dwell::bench {

// Nanoseconds of each new cupy.RawModule, from its source to a completed kernel.
struct CupyTimes {
  std::vector<double> cold;  // compiled
  std::vector<double> warm;  // the same modules again, from CuPy's cache on disk
};

// Lets `python` (a file, or a name on PATH) time `count` modules on device `ordinal`, with its own cache folder, and check each kernel's
// result. Nothing, with the reason in `why`, without CuPy or on a failure. `environment`: as for run_process.
std::optional<CupyTimes> time_cupy(int ordinal, std::size_t count, std::string* why, const std::string& python = "python3",
                                   const std::vector<std::string>& environment = {});

}  // namespace dwell::bench
