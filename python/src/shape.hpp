// Shapes of arrays.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <dwell/element_type.hpp>

namespace dwell::python {

namespace nb = nanobind;

// "(480, 640)", "(3,)"
std::string shape_text(const std::vector<std::size_t>& shape);
nb::tuple shape_tuple(const std::vector<std::size_t>& shape);
// A count or a sequence of them. Throws errc::invalid_argument for negative ones.
std::vector<std::size_t> shape_from(nb::handle object);

// How many elements, and in how many bytes: below 2^63. Nothing where these are more, or would be if sizes of 0 were left out.
struct ShapeSize {
  std::size_t count;
  std::size_t bytes;
};
std::optional<ShapeSize> size_of(const std::vector<std::size_t>& shape, std::size_t element);
// The same of an array that somebody asks for. Throws errc::out_of_memory where there is none.
ShapeSize size_in_memory(const std::vector<std::size_t>& shape, ElementType type);

}  // namespace dwell::python
