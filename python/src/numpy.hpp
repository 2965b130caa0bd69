// NumPy, where it is installed: imported when it is first needed.
#pragma once

#include <nanobind/nanobind.h>

#include <dwell/dwell.hpp>

namespace dwell::python {

namespace nb = nanobind;

// The module. Throws errc::unsupported without it.
nb::object numpy();

// Its dtype for a type; of bfloat16 that of ml_dtypes when that is there, else that of its bits.
nb::object numpy_dtype(ElementType type);

}  // namespace dwell::python
