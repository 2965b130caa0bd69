// Brain floating point: a float without its lower 16 bits. ml_dtypes' bfloat16, CUDA's __nv_bfloat16.
#pragma once

#include <dwell/device/short_float.hpp>

namespace dwell {

namespace device {

struct Bfloat16Format {
  static constexpr u32 digits = 7;         // bits of the significand that are stored
  static constexpr u16 infinity = 0x7F80;  // bits
  static constexpr u16 epsilon = 0x3C00;   // 2^-7

  static DWELL_DEVICE float value_of(u16 bits) { return bits_as<float>(static_cast<u32>(bits) << 16U); }
  static DWELL_DEVICE u16 bits_of(float value) {
#if DWELL_CONVERTS_BFLOAT16
    u16 bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
#else
    const u32 all = bits_as<u32>(value);
    const u32 rounded = (all + 0x7FFFU + (all >> 16U & 1U)) >> 16U;
    return static_cast<u16>((all & 0x7FFFFFFFU) > 0x7F800000U ? all >> 16U | 0x40U : rounded);  // a NaN stays one
#endif
  }
};

}  // namespace device

using bfloat16 = device::ShortFloat<device::Bfloat16Format>;
static_assert(sizeof(bfloat16) == 2, "a bfloat16 has 16 bits");

}  // namespace dwell
