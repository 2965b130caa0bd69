// Calls that fit no signature: replaces nanobind's list of types by one line that says why.
#pragma once

#include <nanobind/nanobind.h>

namespace dwell::python {

// Wraps the functions and classes of the module. Call it last: functions that are bound afterwards keep nanobind's messages.
void explain_calls(nanobind::module_& module);

}  // namespace dwell::python
