// The Python type of resident steps.
#pragma once

#if __has_include(<Python.h>)
#include <Python.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "collector.hpp"
#include "recording.hpp"

namespace dwell::pytorch {

// The recording of a number, and its collector. Throws std::out_of_range.
using FindRecording = std::pair<Collector*, std::shared_ptr<Recording>> (*)(std::int64_t number);

// Returns a type derived from `base`, a class without members: a new reference; null with an exception. An object is called with the inputs
// of a step, and `out`.
//
//   type(number, device, inputs, outputs, members, lease_ns, idle_ns, empty, dtypes, as_input)
//
// `inputs`, `outputs`: tuples of tensors. `empty(shape, dtype)` makes an array of NumPy's; `dtypes` are those of the outputs, None where
// NumPy has none, and `empty` is None without NumPy. `as_input(object, number, tensor)` returns a contiguous array or tensor for an object
// that is neither, or raises.
PyObject* step_type(FindRecording find, PyObject* base);

}  // namespace dwell::pytorch
#endif
