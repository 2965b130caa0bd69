// The start-up time of CUDA itself. Needs none of CUDA's headers.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "bench/timing.hpp"

namespace dwell::bench {

// Opens the device's primary context, current in the calling thread while the handle lives. Null, with the reason in `why`, if CUDA cannot
// be used.
std::shared_ptr<void> open_cuda_context(int ordinal, std::string* why);

// Times of the steps of a minimal CUDA process.
struct CudaStart {
  Clock::time_point context;
  Clock::time_point loaded;
  Clock::time_point done;
};
// Opens the device, loads `cubin`, and launches a kernel that stores a value. Throws std::runtime_error, also if the value is wrong.
CudaStart start_cuda(int ordinal, std::span<const std::byte> cubin);

}  // namespace dwell::bench
