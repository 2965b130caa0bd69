// dwell::Error in Python: an instance of the class of its code, dwell/_errors.py.
#pragma once

#include <nanobind/nanobind.h>

#include <exception>
#include <optional>
#include <stdexcept>

#include <dwell/error.hpp>

#include "state.hpp"

namespace dwell::python {

// Registers the translation of C++ exceptions to those classes. Throws if a code has no class, or a class no code.
void bind_errors(nanobind::module_& module);

// An exception of a Python callback on its way through the library (Error::cause). Its text is "ValueError: ...".
class Raised : public std::runtime_error {
 public:
  // Takes the exception that is set. The caller holds the GIL.
  Raised();
  // The exception with its traceback, borrowed. Null after 64 newer ones, since frames hold much memory, and once the interpreter has
  // ended.
  PyObject* get() const { return exception_.get(); }

 private:
  explicit Raised(const nanobind::object& raised);
  Shared exception_;
};

// The Python exception for `error`, which is no nb::python_error. `status`: of the task that has failed.
nanobind::object exception_for(const Error& error, std::optional<int> status = {});
nanobind::object exception_for(const std::exception_ptr& error);

// Raises it: as nb::python_error.
[[noreturn]] void raise(const Error& error, std::optional<int> status = {});

}  // namespace dwell::python
