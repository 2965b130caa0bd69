// Half precision, IEEE 754's binary16: NumPy's float16, CUDA's __half.
#pragma once

#include <dwell/device/short_float.hpp>

namespace dwell {

namespace device {

struct HalfFormat {
  static constexpr u32 digits = 10;        // bits of the significand that are stored
  static constexpr u16 infinity = 0x7C00;  // bits
  static constexpr u16 epsilon = 0x1400;   // 2^-10

#if DWELL_ON_CUDA
  static DWELL_DEVICE float value_of(u16 bits) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
  }
  static DWELL_DEVICE u16 bits_of(float value) {
    u16 bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
  }
#else
  // Without branches, so that loops over them can use vector instructions. After Fabian Giesen, "Float->half variants".
  static float value_of(u16 bits) {
    const u32 shifted = (bits & 0x7FFFU) << 13U;
    const u32 exponent = shifted & 0x0F800000U;
    const u32 normal = shifted + ((127U - 15U) << 23U);
    const u32 special = normal + ((128U - 16U) << 23U);                           // infinity and NaN
    const float small = bits_as<float>(normal + (1U << 23U)) - 6.103515625e-05F;  // 2^-14: subnormal, without a leading one
    const u32 finite = exponent == 0 ? bits_as<u32>(small) : normal;
    return bits_as<float>((exponent == 0x0F800000U ? special : finite) | (bits & 0x8000U) << 16U);
  }
  static u16 bits_of(float value) {
    const u32 all = bits_as<u32>(value);
    const u32 magnitude = all & 0x7FFFFFFFU;
    const u32 special = magnitude > 0x7F800000U ? 0x7E00U : 0x7C00U;                 // NaN; or rounds to infinity
    const u32 small = bits_as<u32>(bits_as<float>(magnitude) + 0.5F) - 0x3F000000U;  // the addition rounds
    const u32 normal = (magnitude - ((127U - 15U) << 23U) + 0xFFFU + (magnitude >> 13U & 1U)) >> 13U;
    const u32 finite = magnitude < (113U << 23U) ? small : normal;
    return static_cast<u16>((magnitude >= 0x47800000U ? special : finite) | (all >> 16U & 0x8000U));
  }
#endif
};

}  // namespace device

using half = device::ShortFloat<device::HalfFormat>;
static_assert(sizeof(half) == 2, "a half has 16 bits");

}  // namespace dwell
