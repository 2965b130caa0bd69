// The log of operators, from Python's options to Python's callbacks.
#pragma once

#include <nanobind/nanobind.h>

#include <string_view>

#include <dwell/log.hpp>

#include "state.hpp"

namespace dwell::python {

// "trace", "debug", "info", "warning", "error", "off". Throws errc::invalid_argument.
level level_from(std::string_view text);

// What Runtime(log=...) says (dwell/_logging.py), and the callable that its lines go to, which is empty when they go to a file or to
// stderr. Throws errc::invalid_argument, and what Python raises.
struct LogTarget {
  Logging logging;
  Shared called;
};
LogTarget log_target_from(nb::handle log);

// An iterator over the lines of a runtime, which waits so many seconds for each.
nb::object logs_of(Runtime& runtime, double wait);

void bind_log(nb::module_& module);

}  // namespace dwell::python
