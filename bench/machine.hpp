// Where and when figures were taken.
#pragma once

#include <nlohmann/json.hpp>

#include "bench/benchmarks.hpp"

namespace dwell::bench {

// Date, commit ($DWELL_COMMIT, else what git says of the folder that the program lies in), processor, load, device, driver, compiler.
nlohmann::ordered_json describe_run(const Context& context);

}  // namespace dwell::bench
