// Who may be to blame for a failure of the device, in words.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/device/in_flight.hpp"

namespace dwell::runtime {

// A clause behind the failure's own words: the operators that workers ran, and the kernels beside the loop. `running`: the tasks have not
// ended. `kernels`: a list of names, or empty. `title_of`: how the launch of a graph at a position is called.
std::string blame(const std::vector<InFlightTasks::Holder>& holders, bool running, const std::string& kernels,
                  const std::function<std::string(std::uint32_t opcode)>& name_of,
                  const std::function<std::string(std::uint64_t position)>& title_of);

}  // namespace dwell::runtime
