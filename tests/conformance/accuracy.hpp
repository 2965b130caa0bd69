// How far results may be from what double precision gives.
#pragma once

#include <dwell/element_type.hpp>

namespace dwell::test {

// As far as torch.testing.assert_close lets results of a type be from expected ones, or less far. `size` is that of the expected result; of
// a sum whose elements cancel each other, that of the elements: the root of the sum of their squares.
constexpr double allowed_error(ElementType type, double size) {
  switch (type) {
    case ElementType::f16: return 1e-5 + 1e-3 * size;
    case ElementType::bf16: return 1e-5 + 8e-3 * size;
    case ElementType::f32: return 1e-5 + 1.3e-6 * size;
    default: return 1e-14 + 1e-14 * size;
  }
}

}  // namespace dwell::test
