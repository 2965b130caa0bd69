// Allowed errors of results, compared with double precision.
#pragma once

#include <dwell/element_type.hpp>

namespace dwell::test {

// At most the tolerance of torch.testing.assert_close. `size` is the magnitude of the expected result; for sums with cancellation, the root
// of the sum of the elements' squares.
constexpr double allowed_error(ElementType type, double size) {
  switch (type) {
    case ElementType::f16: return 1e-5 + 1e-3 * size;
    case ElementType::bf16: return 1e-5 + 8e-3 * size;
    case ElementType::f32: return 1e-5 + 1.3e-6 * size;
    default: return 1e-14 + 1e-14 * size;
  }
}

}  // namespace dwell::test
