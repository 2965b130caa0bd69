// dwell::Error in Python: an instance of the class of its code, dwell/_errors.py.
#pragma once

#include <nanobind/nanobind.h>

#include <exception>
#include <optional>

#include <dwell/error.hpp>

namespace dwell::python {

// Has C++ exceptions turned into those classes. Throws when a code has no class, or a class no code.
void bind_errors(nanobind::module_& module);

// The Python exception for `error`, which is no nb::python_error. `status`: of the task that has failed.
nanobind::object exception_for(const Error& error, std::optional<int> status = {});
nanobind::object exception_for(const std::exception_ptr& error);

// Raises it: as nb::python_error.
[[noreturn]] void raise(const Error& error, std::optional<int> status = {});

}  // namespace dwell::python
