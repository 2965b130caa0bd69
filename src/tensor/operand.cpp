#include <dwell/operand.hpp>

#include <dwell/device/bfloat16.hpp>
#include <dwell/device/half.hpp>

namespace dwell {

Number rounded(const Number& number, ElementType type) {
  const float value = number.as_float();
  return type == ElementType::f16 ? static_cast<float>(half(value)) : static_cast<float>(bfloat16(value));
}

}  // namespace dwell
