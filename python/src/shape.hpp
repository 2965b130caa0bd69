// Shapes of arrays.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <string>
#include <vector>

namespace dwell::python {

namespace nb = nanobind;

// "(480, 640)", "(3,)"
std::string shape_text(const std::vector<std::size_t>& shape);
nb::tuple shape_tuple(const std::vector<std::size_t>& shape);
// A count or a sequence of them. Throws errc::invalid_argument for negative ones.
std::vector<std::size_t> shape_from(nb::handle object);

}  // namespace dwell::python
