// From a number in a job to the argument that an operator declares.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <dwell/device/signature.hpp>

#include "job.hpp"

namespace dwell::tool {

// The bytes of `number` as `parameter` has it. Integer parameters refuse what has a fraction or does not fit; floating ones take the
// nearest value, and refuse what is beyond their largest. A real number is complex too. Throws std::invalid_argument, which says why.
std::vector<std::byte> to_scalar(const Number& number, const Parameter& parameter);

// As the job would write it: "2.5", "true", "[2.5, -1]".
std::string text_of(const Number& number);

}  // namespace dwell::tool
