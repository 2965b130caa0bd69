// Who may be to blame for a failure of the device, in words.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/lease/in_flight.hpp"

namespace dwell::runtime {

// A clause behind the failure's own words: the operators that workers ran, and the kernels beside the loop. `running`: the tasks have not
// ended. `kernels`: a list of names, or empty.
std::string blame(const std::vector<InFlightTasks::Holder>& holders, bool running, const std::string& kernels,
                  const std::function<std::string(std::uint32_t opcode)>& name_of);

}  // namespace dwell::runtime
