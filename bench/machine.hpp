// The machine and time of a measurement.
#pragma once

#include <nlohmann/json.hpp>

#include "bench/benchmarks.hpp"

namespace dwell::bench {

// Returns date, commit ($DWELL_COMMIT, else git's for the program's folder), processor, load, device, driver and compiler.
nlohmann::ordered_json describe_run(const Context& context);

}  // namespace dwell::bench
