// The costs of a device, as dwell doctor prints them.
#pragma once

#include <iosfwd>

#include <dwell/costs.hpp>
#include <nlohmann/json.hpp>

namespace dwell::tool {

// Prints a head line, and a line for each figure.
void print_text(std::ostream& out, const DeviceCosts& costs);
nlohmann::ordered_json json_of(const DeviceCosts& costs);

}  // namespace dwell::tool
