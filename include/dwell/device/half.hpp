// Half precision, IEEE 754's binary16: NumPy's float16, CUDA's __half.
#pragma once

#include <dwell/device/short_float.hpp>

namespace dwell {

namespace device {

struct HalfFormat {
  static constexpr u32 digits = 10;        // bits of the significand that are stored
  static constexpr u16 infinity = 0x7C00;  // bits
  static constexpr u16 epsilon = 0x1400;   // 2^-10

  static DWELL_DEVICE float value_of(u16 bits) { return float_of_half(bits); }
  static DWELL_DEVICE u16 bits_of(float value) { return half_of_float(value); }
};

}  // namespace device

using half = device::ShortFloat<device::HalfFormat>;
static_assert(sizeof(half) == 2, "a half has 16 bits");

}  // namespace dwell
