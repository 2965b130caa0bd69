// dwell.Runtime.
#pragma once

#include <nanobind/nanobind.h>

#include "state.hpp"

namespace dwell::python {

struct PyRuntime {
  State state;
};

// Opened, and what was posted is done. Throws errc::closed in a forked child.
Runtime& runtime_of(const PyRuntime& self);

// The runtime of a dwell.Runtime, and the other way round.
const State& state_of(nb::handle runtime);
nb::object runtime_object(const State& runtime);

// What has been collected of arrays' operations is submitted: it may write to memory of others.
void submit_arrays(const PyRuntime& self);

// The parts of the binding.
void bind_runtime_opening(nb::class_<PyRuntime>& type);
void bind_runtime_code(nb::class_<PyRuntime>& type);
void bind_runtime_tasks(nb::class_<PyRuntime>& type);
void bind_runtime_memory(nb::class_<PyRuntime>& type);
void bind_runtime_observation(nb::class_<PyRuntime>& type);
void bind_runtime_inspection(nb::class_<PyRuntime>& type);

}  // namespace dwell::python
