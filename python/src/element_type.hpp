// The types of elements, as Python, NumPy and the protocols of arrays name them.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <optional>
#include <string>

#include <dwell/dwell.hpp>

namespace dwell::python {

namespace nb = nanobind;

struct TypeName {
  ElementType type;
  const char* numpy;
  const char* cai;  // of __cuda_array_interface__; null where it has none
};
const TypeName& named(ElementType type);

// As NumPy and PyTorch call it: "float32".
std::string numpy_name(ElementType type);

// A type by its kind (as __array_interface__ writes it: f i u b c) and its bytes.
std::optional<ElementType> type_of(char kind, std::size_t bytes);

// "float32", numpy.float32, torch.float32, dwell.ElementType.f32, float: an element type. Throws errc::invalid_argument.
ElementType element_type_from(nb::handle object);

}  // namespace dwell::python
