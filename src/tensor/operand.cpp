#include <dwell/operand.hpp>

#include <dwell/device/bfloat16.hpp>
#include <dwell/device/half.hpp>

namespace dwell {

Number rounded(const Number& number, ElementType type) {
  if (type == ElementType::f16) return static_cast<float>(half(number.as_float()));
  if (type == ElementType::bf16) return static_cast<float>(bfloat16(number.as_float()));
  return number;
}

}  // namespace dwell
