// From a number in a job to the argument that an operator declares.
#pragma once

#include <cstdint>
#include <variant>

#include <dwell/device/signature.hpp>

#include "half.hpp"
#include "job.hpp"

namespace dwell::tool {

using Scalar = std::variant<bool, std::int8_t, std::int16_t, std::int32_t, std::int64_t, std::uint8_t, std::uint16_t, std::uint32_t,
                            std::uint64_t, Half, float, double>;

// `number` as `parameter` has it. Numbers that have a fraction or do not fit are refused; a floating parameter takes the nearest value.
// Throws std::invalid_argument, which says why.
Scalar to_scalar(const Number& number, const Parameter& parameter);

// As the job would write it: "2.5", "true".
std::string text_of(const Number& number);

}  // namespace dwell::tool
