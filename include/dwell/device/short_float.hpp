// Floating-point numbers of 16 bits, which the language does not have.
#pragma once

#include <dwell/device/platform.hpp>

namespace dwell {
namespace device {

// A number in one of the formats (half.hpp, bfloat16.hpp). Arithmetic is float's: an operator's operands become floats, which hold every
// value exactly, and so is its result; an assignment rounds to the nearest value, ties to even, beyond the largest to infinity.
//   y[i] = a * x[i] + y[i];  // one rounding
//   half h(0.1F);            // a conversion that rounds is spelled out, or an assignment
// The default is uninitialised, as that of float is.
template <class Format>
class ShortFloat {
 public:
  ShortFloat() = default;
  DWELL_DEVICE explicit ShortFloat(float value) : bits_(Format::bits_of(value)) {}
  static DWELL_HOST_DEVICE ShortFloat from_bits(u16 bits) { return ShortFloat(Bits{bits}); }

  DWELL_DEVICE operator float() const { return Format::value_of(bits_); }
  DWELL_HOST_DEVICE u16 bits() const { return bits_; }

  DWELL_DEVICE ShortFloat& operator=(float value) {
    bits_ = Format::bits_of(value);
    return *this;
  }
  DWELL_DEVICE ShortFloat& operator+=(float value) { return *this = static_cast<float>(*this) + value; }
  DWELL_DEVICE ShortFloat& operator-=(float value) { return *this = static_cast<float>(*this) - value; }
  DWELL_DEVICE ShortFloat& operator*=(float value) { return *this = static_cast<float>(*this) * value; }
  DWELL_DEVICE ShortFloat& operator/=(float value) { return *this = static_cast<float>(*this) / value; }

  // As std::numeric_limits has them.
  static DWELL_HOST_DEVICE ShortFloat max() { return from_bits(Format::infinity - 1); }
  static DWELL_HOST_DEVICE ShortFloat lowest() { return from_bits(0x8000U | (Format::infinity - 1)); }
  static DWELL_HOST_DEVICE ShortFloat min() { return from_bits(1U << Format::digits); }  // the least above 0 of full precision
  static DWELL_HOST_DEVICE ShortFloat denorm_min() { return from_bits(1); }
  static DWELL_HOST_DEVICE ShortFloat epsilon() { return from_bits(Format::epsilon); }
  static DWELL_HOST_DEVICE ShortFloat infinity() { return from_bits(Format::infinity); }
  static DWELL_HOST_DEVICE ShortFloat quiet_nan() { return from_bits(Format::infinity | (1U << (Format::digits - 1))); }

 private:
  struct Bits {
    u16 value;
  };
  DWELL_HOST_DEVICE explicit ShortFloat(Bits bits) : bits_(bits.value) {}

  u16 bits_;
};

}  // namespace device
}  // namespace dwell
