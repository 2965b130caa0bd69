// Iterates over the elements of a tensor.
#pragma once

#include <cstdint>
#include <vector>

#include <dwell/tensor.hpp>

namespace dwell::test {

// Calls f with the coordinates of each element of a shape, in row-major order.
template <class F>
void for_each(const Dims& shape, F f) {
  std::vector<std::int64_t> at(shape.size());
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  for (std::int64_t i = 0; i < count; ++i) {
    f(at);
    for (std::size_t dim = shape.size(); dim-- > 0;) {
      if (++at[dim] < shape[dim]) break;
      at[dim] = 0;
    }
  }
}

}  // namespace dwell::test
