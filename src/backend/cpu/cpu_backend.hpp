// The CPU as a device: one thread per worker.
#pragma once

#include <memory>

#include "backend/backend.hpp"

namespace dwell::backend {

// Opens the CPU. Throws errc::out_of_memory when its threads cannot be started.
std::unique_ptr<Backend> open_cpu();

}  // namespace dwell::backend
