// The CPU as a device: one thread a worker.
#pragma once

#include <memory>

#include "backend/backend.hpp"

namespace dwell::backend {

// Never fails for want of a device; throws errc::out_of_memory when its threads cannot be made.
std::unique_ptr<Backend> open_cpu();

}  // namespace dwell::backend
