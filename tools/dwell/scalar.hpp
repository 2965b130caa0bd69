// From a number in a job to the argument that an operator declares.
#pragma once

#include <cstdint>
#include <variant>

#include <dwell/device/signature.hpp>

#include "job.hpp"

namespace dwell::tool {

using Scalar = std::variant<bool, std::int8_t, std::int16_t, std::int32_t, std::int64_t, std::uint8_t, std::uint16_t, std::uint32_t,
                            std::uint64_t, half, bfloat16, float, double, complex<float>, complex<double>>;

// `number` as `parameter` has it. Integer parameters refuse what has a fraction or does not fit; floating ones take the nearest value, and
// refuse what is beyond their largest. A real number is complex too.
// Throws std::invalid_argument, which says why.
Scalar to_scalar(const Number& number, const Parameter& parameter);

// As the job would write it: "2.5", "true", "[2.5, -1]".
std::string text_of(const Number& number);

}  // namespace dwell::tool
