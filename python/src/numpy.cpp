#include "numpy.hpp"

#include <nanobind/stl/string.h>

#include "element_type.hpp"

namespace dwell::python {

nb::object numpy() {
  try {
    return nb::module_::import_("numpy");
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_ImportError)) throw;
    throw Error(errc::unsupported, "NumPy is not installed: pip install numpy, or use tobytes(), readinto() and memoryview");
  }
}

nb::object numpy_dtype(ElementType type) {
  if (type == ElementType::bf16) {
    try {
      return nb::module_::import_("ml_dtypes").attr("bfloat16");
    } catch (nb::python_error& error) {
      if (!error.matches(PyExc_ImportError)) throw;
      return numpy().attr("uint16");
    }
  }
  return numpy().attr(numpy_name(type) == "bool" ? "bool_" : numpy_name(type).c_str());
}

}  // namespace dwell::python
