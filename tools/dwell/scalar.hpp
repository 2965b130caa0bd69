// Converts a number in a job to an operator's argument.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <dwell/device/signature.hpp>

#include "job.hpp"

namespace dwell::tool {

// Returns the bytes of `number` as a `parameter`. Integers must fit and have no fraction; floating point takes the nearest value, up to its
// largest. A real number converts to complex. Throws std::invalid_argument with the reason.
std::vector<std::byte> to_scalar(const Number& number, const Parameter& parameter);

// Returns the number as in a job: "2.5", "true", "[2.5, -1]".
std::string text_of(const Number& number);

}  // namespace dwell::tool
