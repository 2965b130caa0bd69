// Half precision on the host: C++20 has no type for it, so arrays and scalars carry its bits.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include <dwell/device/signature.hpp>

namespace dwell::tool {

struct Half {
  std::uint16_t bits = 0;
  bool operator==(const Half&) const = default;
};

// The nearest half, ties to even; beyond the largest (65504) infinity.
inline Half to_half(double value) {
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(value);
  const auto sign = static_cast<std::uint16_t>(bits >> 48U & 0x8000U);
  const double magnitude = std::fabs(value);
  if (std::isnan(value)) return {static_cast<std::uint16_t>(sign | 0x7E00U)};
  if (magnitude >= 65520.0) return {static_cast<std::uint16_t>(sign | 0x7C00U)};
  // What one step in the last place is worth: fixed below the smallest normal number, 2^-14.
  const int exponent = magnitude < 0x1p-14 ? -14 : std::ilogb(magnitude);
  const auto steps = static_cast<std::uint32_t>(std::nearbyint(std::ldexp(magnitude, 10 - exponent)));
  // A normal number has 1024 to 2048 steps; adding them to the exponent carries into it where rounding reached the next power of two.
  const std::uint32_t biased = static_cast<std::uint32_t>(exponent + 14) << 10U;
  return {static_cast<std::uint16_t>(sign | (biased + steps))};
}

}  // namespace dwell::tool

template <>
struct dwell::device::ElementKind<dwell::tool::Half> {
  static constexpr Kind value = Kind::floating;
};
