// Calls that fit no signature: one line that says why, instead of nanobind's list of types.
#pragma once

#include <nanobind/nanobind.h>

namespace dwell::python {

// Has the functions and classes of the module say it. The last step of the module's definition: functions that are bound behind this keep
// nanobind's words.
void explain_calls(nanobind::module_& module);

}  // namespace dwell::python
