// The probes of costs on a CUDA device.
#pragma once

#include <dwell/runtime.hpp>

#include "tensor/gang/cost_model.hpp"
#include "tensor/gang/plan.hpp"

namespace dwell::tensor::gang {

// Measures the times of the runtime's device, which has these limits; defines the operator dwell_probe in the runtime. Waits for compilers,
// and then takes less than a second. Throws as measure_times of cost_probes.hpp, as Runtime::compile, and as Ticket::wait.
CostTimes measure_times(Runtime& runtime, const Limits& limits);

}  // namespace dwell::tensor::gang
