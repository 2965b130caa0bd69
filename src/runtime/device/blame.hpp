// Describes the suspects of a device failure.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/device/in_flight.hpp"

namespace dwell::runtime {

// Returns a clause to append to the failure's message: the operators that workers ran, and the kernels beside the loop. `running`: the
// tasks have not ended. `kernels`: a list of names, or empty. `title_of`: names the launch of a graph at a position.
std::string blame(const std::vector<InFlightTasks::Holder>& holders, bool running, const std::string& kernels,
                  const std::function<std::string(std::uint32_t opcode)>& name_of,
                  const std::function<std::string(std::uint64_t position)>& title_of);

}  // namespace dwell::runtime
